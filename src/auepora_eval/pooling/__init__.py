"""No gold yet: what several runs returned is pooled, graded by a judge, corrected by people, and used as gold.

pool         for each query the union of the first documents of several runs
pool_file    a pool as JSON lines
human        grades of people: qrels, tables, JSON lines
relevance    a judge asked how relevant each pooled document is
gold         samples with such grades as their gold
beside       how much of what was returned is judged, beside every retrieval metric
"""
