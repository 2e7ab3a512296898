"""The evaluation engine: one pass of all metrics over batches of samples and outputs.

* ``evaluate``: ``evaluate``, ``evaluate_stream``, ``evaluate_sources``, ``evaluate_rankings``: one loop
* ``executors``: scoring in this process or in several, and ahead of a judge
* ``failed_batches``: failed measurements of batches that no worker could score
* ``repeats``: several outputs per sample
* ``suggest``: the metrics that the data supports
* ``data_checks``: warnings about data and scores
* ``paper_tables``: a paper's retrieval table
"""
