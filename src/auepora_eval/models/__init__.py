"""Local models and embedding endpoints for semantic metrics.

* ``loading``: models by path or hub name, loaded once; device, precision, layers
* ``encoding``: tokenising, batches sorted by length, token vectors
* ``embedders``: embedding functions, models and endpoints, the cache of their vectors; scores of text pairs
"""
