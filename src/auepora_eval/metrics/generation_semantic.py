"""Semantic metrics at their documented path (re-exports ``semantic`` and ``bertscore``)."""

from .bertscore import BertScoreMetric
from .semantic import CrossEncoderSimilarity, EmbeddingSimilarity, SbertSimilarity

__all__ = ["BertScoreMetric", "CrossEncoderSimilarity", "EmbeddingSimilarity", "SbertSimilarity"]
