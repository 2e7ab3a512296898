"""The core: data types, scores, conventions, the registry and the base classes of metrics. It imports no metric.

* ``types``, ``targets``, ``dataset``, ``rag_interface``, ``plan``: samples, outputs, systems and the choice of metrics
* ``scores``, ``reduce``, ``results``: one outcome per sample, reducers, and the results made of them
* ``details``, ``frames``: the stored keys of a result as typed attributes, and results as data frames
* ``conventions``: named definitions, and the signature that makes a number reproducible
* ``batch``, ``family``, ``clusters``, ``slices``: aligned samples and outputs with shared features, and their groups
* ``metrics_base``, ``registry``: what a metric is, and how it is found by name
* ``derivation``, ``general_derivation``: how one sample's score is computed, step by step
* ``errors``, ``runner``: re-exports at earlier paths
"""
