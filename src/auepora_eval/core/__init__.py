"""The core: data types, outcomes, the batch engine. It never imports a metric; the registry inverts that arrow.

types, errors, targets        what is judged, and how mistakes are reported
secrets                       what is neither shown nor stored
conventions, signature        named choices, and the string that makes a number repeatable
scores, reduce                one outcome per sample, and the folds that turn them into a number
batch                         aligned samples and outputs with features computed once
metrics_base, registry        what a metric is, and how it is found by name
dataset, rag_interface, plan  the user's side: rows, systems, and the choice of metrics
engine, results, runner       the pass over the data, and what comes out of it
"""
