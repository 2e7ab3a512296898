"""The metrics. Each module registers what it holds, so adding a metric means touching one file.

ranking                  plain functions of one query, also the readable reference of the fast path
judged_ranking           the same for measures that look at judgements
retrieval_basic          recall, precision, hit rate, F1 at k; recall over parent documents
retrieval_ranking        MRR, MAP, nDCG, R-precision
retrieval_judged         bpref, Judged@k, accuracy over candidates, RBP, ERR
retrieval_spans          span recall, precision, IoU: characters covered, whatever the chunking
retrieval_cost           AQWV, empty results
generation_overlap       ROUGE-L
additional               latency
k_policy                 the K lists of a paper, and K_eff
retrieval_eval           evaluate_queries, dual_evaluate, paper_evaluate over rows of ids
classification           AUROC, AUPRC, TPR at FPR (NEGateMetrics)
"""
