"""The evaluation engine: one pass of all metrics over batches, executors, slices and repeats."""
