"""Robustness to the documents given to the system, under one roof: noise among them, and what is false in them."""

from .context_noise import ContextNoiseAccuracy
from .false_documents import ErrorCorrectionRate, ErrorDetectionRate
from .misleading import MisleadingRate, MistakeReappearanceRate

__all__ = [
    "ContextNoiseAccuracy",
    "ErrorCorrectionRate",
    "ErrorDetectionRate",
    "MisleadingRate",
    "MistakeReappearanceRate",
]
