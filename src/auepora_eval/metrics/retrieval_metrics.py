"""The retrieval metrics of the evaluation client: classes over datasets, plain functions of one query.

Everything here follows the ``client`` conventions: precision divides by K, average precision by all gold. The classes
are subclasses of those in the other modules, with these conventions where none are given.

>>> precision_at_k({"a", "b"}, ["a"], 5), map_at_k({"a", "b"}, ["a"], None)
(0.2, 0.5)
>>> str(MeanAveragePrecision().signature)
'map|ap:gold|empty:skip|v1'
"""

from functools import partial

from . import ranking, retrieval
from .client_base import ClientMetric
from .ranking import aqwv_at_k, mrr_at_k, ndcg_at_k, recall_at_k

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


class PrecisionAtK(ClientMetric, retrieval.PrecisionAtK):
    """Precision@k; fewer than k results count as k."""


class RecallAtK(ClientMetric, retrieval.RecallAtK):
    """Recall@k."""


class MRRAtK(ClientMetric, retrieval.MRRAtK):
    """Mean reciprocal rank, over the whole list or its first k."""


class NDCGAtK(ClientMetric, retrieval.NDCGAtK):
    """nDCG@k with binary gains."""


class MeanAveragePrecision(ClientMetric, retrieval.MeanAveragePrecision):
    """Mean average precision, divided by all gold."""


class AQWV(ClientMetric, retrieval.AQWV):
    """Average query weighted value: misses and false alarms."""


precision_at_k = partial(ranking.precision_at_k, divide_by="k")
map_at_k = partial(ranking.map_at_k, divide_by="gold")
