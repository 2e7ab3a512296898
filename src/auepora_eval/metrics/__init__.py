"""The metrics. Each module registers what it holds, so adding a metric means touching one file.

ranking                  plain functions of one query, also the readable reference of the fast path
retrieval_basic          recall, precision, hit rate at k
retrieval_ranking        MRR, MAP, nDCG
retrieval_cost           AQWV, empty results
generation_overlap       ROUGE-L
additional               latency
"""
