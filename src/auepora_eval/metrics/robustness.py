"""Robustness of the system to how it is asked, under one roof: noisy and counterfactual questions."""

from .counterfactual import CounterfactualConsistency
from .noise_robustness import NoiseRobustness

__all__ = ["CounterfactualConsistency", "NoiseRobustness"]
