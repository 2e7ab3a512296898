"""The overlap metrics in one place (re-exports)."""

from .answer_match import AnswerRelevance, Containment, ExactMatch, TokenF1
from .bleu_chrf import BleuScore, ChrF
from .grounding import EvidenceOverlapFaithfulness, HallucinationRate, SupportCoverage, SupportDensity
from .rouge import Rouge1, Rouge2, RougeL, RougeLAnswer, RougeLsum, RougeScores

__all__ = [
    "AnswerRelevance",
    "BleuScore",
    "ChrF",
    "Containment",
    "EvidenceOverlapFaithfulness",
    "ExactMatch",
    "HallucinationRate",
    "Rouge1",
    "Rouge2",
    "RougeL",
    "RougeLAnswer",
    "RougeLsum",
    "RougeScores",
    "SupportCoverage",
    "SupportDensity",
    "TokenF1",
]
