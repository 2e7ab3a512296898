"""The retrieval metrics of the evaluation client in one place: classes over datasets, plain functions of one query.

The client divides precision by K and average precision by all gold. The functions are shared with other conventions
and want to be told so:

>>> precision_at_k({"a", "b"}, ["a"], 5, divide_by="k"), map_at_k({"a", "b"}, ["a"], None, divide_by="gold")
(0.2, 0.5)
"""

from .ranking import aqwv_at_k, map_at_k, mrr_at_k, ndcg_at_k, precision_at_k, recall_at_k
from .retrieval_basic import PrecisionAtK, RecallAtK
from .retrieval_cost import AQWV
from .retrieval_ranking import MeanAveragePrecision, MRRAtK, NDCGAtK

__all__ = [
    "AQWV",
    "MRRAtK",
    "MeanAveragePrecision",
    "NDCGAtK",
    "PrecisionAtK",
    "RecallAtK",
    "aqwv_at_k",
    "map_at_k",
    "mrr_at_k",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
]
