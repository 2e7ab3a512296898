"""The text metrics in one place (re-exports)."""

from .answer_match import AnswerRelevance, Containment, ExactMatch, TokenF1
from .bertscore import BertScoreMetric
from .bleu_chrf import BleuScore, ChrF
from .rouge import Rouge1, Rouge2, RougeL, RougeLAnswer, RougeLsum, RougeScores

__all__ = [
    "AnswerRelevance",
    "BertScoreMetric",
    "BleuScore",
    "ChrF",
    "Containment",
    "ExactMatch",
    "Rouge1",
    "Rouge2",
    "RougeL",
    "RougeLAnswer",
    "RougeLsum",
    "RougeScores",
    "TokenF1",
]
