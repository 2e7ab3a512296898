"""Pooling: the documents that several runs retrieved are pooled, graded by a judge or by people, and used as gold.

pool             for each query the union of the top documents of several runs
pool_file        a pool as JSON lines
human_grades     human grades: qrels, tables, JSON lines
relevance        grading of pooled documents by a judge
gold             samples with such grades as their gold
judged_coverage  how many of the retrieved documents are judged, reported with every retrieval metric
sources          the runs to pool: stored runs and files
"""
