"""Latency, diversity and robustness metrics in one place (re-exports)."""

from .abstention import NegativeRejectionRate
from .diversity import DistinctN, DistinctShare, IntraListDiversity, ResponseDiversity
from .latency import MeanLatency, QuantileLatency, Throughput
from .robustness import CounterfactualConsistency, NoiseRobustness

__all__ = [
    "CounterfactualConsistency",
    "DistinctN",
    "DistinctShare",
    "IntraListDiversity",
    "MeanLatency",
    "NegativeRejectionRate",
    "NoiseRobustness",
    "QuantileLatency",
    "ResponseDiversity",
    "Throughput",
]
