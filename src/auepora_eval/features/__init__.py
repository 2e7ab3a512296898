"""Features: columns over a whole batch, computed once and read by every metric that needs them.

rankings   per query the gold ids and the returned ids, as chunks, as judged, as parent documents
bare_ids   the same from bare ids, without any object
hits       where each query's gold documents stand in its ranking
gold_match which retrieved documents are hits for which gold, by id or by span
texts      answers, references, queries and evidence, each cut into words once, and what they share
refusals   who declined to answer, and which questions have no answer
vectors    vectors of documents and texts, at length one, and how alike those of a list are
"""
