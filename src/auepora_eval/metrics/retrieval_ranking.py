"""MRR, MAP, nDCG and R-precision at their documented path (re-exports ``retrieval``)."""

from .retrieval import MeanAveragePrecision, MRRAtK, NDCGAtK, RPrecision

__all__ = ["MRRAtK", "MeanAveragePrecision", "NDCGAtK", "RPrecision"]
