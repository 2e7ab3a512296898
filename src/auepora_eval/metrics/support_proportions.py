"""Measures over verdicts on citations and nuggets, as plain functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "VARIANTS",
    "SentenceSupport",
    "citation_f1",
    "citation_precision",
    "citation_recall",
    "nugget_scores",
    "weighted_precision",
    "weighted_recall",
]


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """The support of one sentence by its citations."""

    citations: int = 0
    """The number of citations."""
    supported: bool = False
    """Whether all cited documents together support the sentence."""
    redundant: int = 0
    """Redundant citations: they alone do not support the sentence, and it is supported without them."""


def citation_recall(sentences: Sequence[SentenceSupport]) -> float:
    """The proportion of sentences that their citations support."""
    return sum(one.supported for one in sentences) / len(sentences)


def citation_precision(sentences: Sequence[SentenceSupport]) -> float:
    """The proportion of citations that belong to a supported sentence and are needed; 0 without citations."""
    cited = sum(one.citations for one in sentences)
    return sum(one.citations - one.redundant for one in sentences if one.supported) / cited if cited else 0.0


def citation_f1(sentences: Sequence[SentenceSupport]) -> float:
    """The harmonic mean of citation precision and recall."""
    precision, recall = citation_precision(sentences), citation_recall(sentences)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def weighted_precision(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of the sentences with citations, each the mean weight of its citations; 0 without any."""
    means = [sum(weights) / len(weights) for weights in sentences if weights]
    return sum(means) / len(means) if means else 0.0


def weighted_recall(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of all sentences; one without citations weighs 0."""
    return sum(sum(weights) / len(weights) for weights in sentences if weights) / len(sentences)


VARIANTS = ("vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted")
"""Variants of nugget recall: only vital nuggets, all alike, or okay ones at half weight; partial support counts 0
(strict) or 1/2."""


def nugget_scores(nuggets: Sequence[tuple[str, float]]) -> dict[str, float | None]:
    """Every variant from the importance of each nugget and its support: 1, 0.5 or 0.

    ``None`` for a variant without nuggets that count.

    >>> nugget_scores([("vital", 1.0), ("vital", 0.5), ("okay", 0.0)])["vital"]
    0.75
    """
    scores: dict[str, float | None] = {}
    for variant in VARIANTS:
        kind, _, strict = variant.partition("_")
        okay = {"vital": 0.0, "all": 1.0, "weighted": 0.5}[kind]
        weights = [1.0 if importance == "vital" else okay for importance, _ in nuggets]
        levels = [float(level == 1.0) if strict else float(level) for _, level in nuggets]
        total = sum(weights)
        supported = sum(weight * level for weight, level in zip(weights, levels, strict=True))
        scores[variant] = supported / total if total else None
    return scores
