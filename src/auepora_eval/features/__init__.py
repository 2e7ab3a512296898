"""Features: columns over a whole batch, computed once and read by every metric that needs them.

rankings          per query the gold ids and the returned ids: as chunks, as judged, as parent documents
id_only           batches from bare document ids
precomputed_hits  batches whose hits the reader has found already
hits              the positions of each query's gold documents in its ranking
gold_match        which retrieved documents are hits for which gold, by id or by span
texts             answers, references, queries and evidence, tokenised once, and their shared n-grams
refusals          refusals and unanswerable questions
model_cache       cached inference of models
embeddings        embeddings of documents and texts, and their cosine similarity
"""
