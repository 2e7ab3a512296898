"""The core: data types, outcomes and the batch engine. It never imports a metric; the registry finds them by name.

types, errors, targets        data types, and how errors are reported
secrets                       detection and redaction of secrets
conventions, signature        named definitions, and the string that makes a number reproducible
scores, reduce                one outcome per sample, and the reducers that turn them into a number
batch                         aligned samples and outputs with features computed once
metrics_base, registry        what a metric is, and how it is found by name
dataset, rag_interface, plan  the user's side: samples, systems, and the selection of metrics
engine, results, runner       the pass over the data, and its results
"""
