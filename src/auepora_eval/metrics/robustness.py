"""Robustness to the question (re-exports): noisy, counterfactual and unanswerable questions."""

from .abstention import NegativeRejectionRate
from .counterfactual import CounterfactualConsistency
from .noise_robustness import NoiseRobustness

__all__ = ["CounterfactualConsistency", "NegativeRejectionRate", "NoiseRobustness"]
