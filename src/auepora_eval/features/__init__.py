"""Features: columns over a whole batch, computed once and read by every metric that needs them.

* ``rankings``: per query the gold ids and the returned ids: as chunks, as judged, as parent documents
* ``hits``: the positions of each query's gold documents in its ranking, by id or by span
* ``texts``: answers, references, queries and evidence, tokenised once, and their shared n-grams; refusals
* ``embeddings``: vectors of documents and texts, their cosines, and cached inference of models
"""
