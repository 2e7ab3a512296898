"""Latency, diversity and robustness metrics in one place (re-exports)."""

from .abstention import NegativeRejectionRate
from .counterfactual import CounterfactualConsistency
from .diversity import DistinctN, DistinctShare, IntraListDiversity, ResponseDiversity
from .latency import MeanLatency, QuantileLatency, Throughput
from .noise_robustness import NoiseRobustness

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
