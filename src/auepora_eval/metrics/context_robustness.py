"""Robustness to the retrieved documents (re-exports): noise and false documents."""

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
