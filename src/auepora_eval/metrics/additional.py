"""Latency, diversity and robustness in one place; each has a module of its own."""

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
