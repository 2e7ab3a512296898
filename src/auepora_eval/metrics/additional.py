"""Latency and diversity in one place; each has a module of its own."""

from .diversity import DistinctN, DistinctShare, IntraListDiversity, ResponseDiversity
from .latency import MeanLatency, QuantileLatency, Throughput

__all__ = [
    "DistinctN",
    "DistinctShare",
    "IntraListDiversity",
    "MeanLatency",
    "QuantileLatency",
    "ResponseDiversity",
    "Throughput",
]
