"""Recall, precision, hit rate and the rank-aware measures at their documented path (re-exports ``retrieval``)."""

from .retrieval import (
    F1AtK,
    HitRateAtK,
    MeanAveragePrecision,
    MRRAtK,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    RecallDocAtK,
)

__all__ = [
    "F1AtK",
    "HitRateAtK",
    "MRRAtK",
    "MeanAveragePrecision",
    "NDCGAtK",
    "PrecisionAtK",
    "RecallAtK",
    "RecallDocAtK",
]
