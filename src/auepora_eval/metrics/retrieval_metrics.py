"""The retrieval metrics of the evaluation client: classes over datasets, plain functions of one query.

Everything here follows the ``client`` conventions: precision divides by K, average precision by all gold. The classes
are those of the other modules with these conventions bound.

>>> precision_at_k({"a", "b"}, ["a"], 5), map_at_k({"a", "b"}, ["a"], None)
(0.2, 0.5)
>>> str(MeanAveragePrecision().signature)
'map|ap:gold|empty:skip|v1'
"""

from functools import partial

from ..core.conventions import PRESETS
from . import ranking
from . import retrieval as retrieval_basic
from . import retrieval as retrieval_cost
from . import retrieval as retrieval_ranking
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

_CLIENT = PRESETS["client"]

PrecisionAtK = partial(retrieval_basic.PrecisionAtK, conventions=_CLIENT)
RecallAtK = partial(retrieval_basic.RecallAtK, conventions=_CLIENT)
MRRAtK = partial(retrieval_ranking.MRRAtK, conventions=_CLIENT)
NDCGAtK = partial(retrieval_ranking.NDCGAtK, conventions=_CLIENT)
MeanAveragePrecision = partial(retrieval_ranking.MeanAveragePrecision, conventions=_CLIENT)
AQWV = partial(retrieval_cost.AQWV, conventions=_CLIENT)

precision_at_k = partial(ranking.precision_at_k, divide_by="k")
map_at_k = partial(ranking.map_at_k, divide_by="gold")
