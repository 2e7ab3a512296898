"""What follows from verdicts on citations and nuggets: shares, as plain arithmetic over plain values."""

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
    """What was found out about the citations of one sentence."""

    citations: int = 0
    """How many there are."""
    supported: bool = False
    """Whether all that is cited, taken together, supports the sentence."""
    needless: int = 0
    """Citations that do not support a supported sentence by themselves, and without which it is supported as well."""


def citation_recall(sentences: Sequence[SentenceSupport]) -> float:
    """The share of sentences that what they cite supports."""
    return sum(one.supported for one in sentences) / len(sentences)


def citation_precision(sentences: Sequence[SentenceSupport]) -> float:
    """The share of citations that belong to a supported sentence and are needed there; 0 where nothing is cited."""
    cited = sum(one.citations for one in sentences)
    return sum(one.citations - one.needless for one in sentences if one.supported) / cited if cited else 0.0


def citation_f1(sentences: Sequence[SentenceSupport]) -> float:
    """The harmonic mean of both."""
    precision, recall = citation_precision(sentences), citation_recall(sentences)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def weighted_precision(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of the sentences that cite, each with the mean weight of its citations; 0 where none does."""
    means = [sum(weights) / len(weights) for weights in sentences if weights]
    return sum(means) / len(means) if means else 0.0


def weighted_recall(sentences: Sequence[Sequence[float]]) -> float:
    """The mean weight of all sentences; one that does not cite weighs nothing."""
    return sum(sum(weights) / len(weights) for weights in sentences if weights) / len(sentences)


VARIANTS = ("vital_strict", "vital", "all_strict", "all", "weighted_strict", "weighted")
"""Ways to count nuggets: the vital ones, all alike, or an okay one as half a vital one; and in part as nothing (strict)
or as half."""


def nugget_scores(nuggets: Sequence[tuple[str, float]]) -> dict[str, float | None]:
    """Every variant from the importance of each nugget, and how far the answer has it: 1, 0.5 or 0.

    ``None`` where there is nothing to divide by: no nugget at all, or no vital one for those that count only these.

    >>> nugget_scores([("vital", 1.0), ("vital", 0.5), ("okay", 0.0)])["vital"]
    0.75
    """
    found: dict[str, float | None] = {}
    for variant in VARIANTS:
        kind, _, strict = variant.partition("_")
        okay = {"vital": 0.0, "all": 1.0, "weighted": 0.5}[kind]
        weights = [1.0 if importance == "vital" else okay for importance, _ in nuggets]
        levels = [float(level == 1.0) if strict else float(level) for _, level in nuggets]
        whole = sum(weights)
        has = sum(weight * level for weight, level in zip(weights, levels, strict=True))
        found[variant] = has / whole if whole else None
    return found
