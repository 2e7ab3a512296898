"""The ROC measures against their definitions, pair by pair and threshold by threshold."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ..stats.roc import auroc, average_precision, tpr_at_fpr
from .report import CrossCheck, DeviationTally

__all__ = ["generate_scores", "roc_checks"]


def generate_scores(rng: random.Random) -> tuple[list[float], list[int]]:
    """Scores with many ties, and labels of both classes."""
    labels = [1, 0, *(rng.randint(0, 1) for _ in range(rng.randint(0, 30)))]
    rng.shuffle(labels)
    digits = rng.choice([1, 2, 6])
    return [round(rng.random(), digits) for _ in labels], labels


def roc_checks(count: int, *, seed: int) -> Iterator[CrossCheck]:
    """One check per measure."""
    deviations = {name: DeviationTally(name, "plain definition") for name in ("auroc", "auprc", "tpr_at_fpr")}
    rng = random.Random(seed)  # noqa: S311 -- test data
    for number in range(count):
        scores, both = generate_scores(rng)
        one_class = [number % 2] * len(both)
        for labels, case in ((both, f"case {number}"), (one_class, f"case {number}, one class")):
            deviations["auroc"].add(auroc(scores, labels), _auroc(scores, labels), case)
            deviations["auprc"].add(average_precision(scores, labels), _average_precision(scores, labels), case)
            for most in (0.03, 0.05, 0.1, 0.5):
                deviations["tpr_at_fpr"].add(tpr_at_fpr(scores, labels, most), _tpr_at_fpr(scores, labels, most), case)
    for deviation in deviations.values():
        yield deviation.check()


def _auroc(scores: Sequence[float], labels: Sequence[int]) -> float:
    """Proportion of (positive, negative) pairs in the right order; a tie counts half; 0.5 without pairs."""
    positive = [s for s, label in zip(scores, labels, strict=True) if label]
    negative = [s for s, label in zip(scores, labels, strict=True) if not label]
    right = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative)
    return right / (len(positive) * len(negative)) if positive and negative else 0.5


def _rates(scores: Sequence[float], labels: Sequence[int], threshold: float) -> tuple[int, int]:
    """True and false positives at a threshold."""
    called = [label for s, label in zip(scores, labels, strict=True) if s >= threshold]
    return sum(called), len(called) - sum(called)


def _average_precision(scores: Sequence[float], labels: Sequence[int]) -> float:
    """Precision at each threshold, weighted by the recall it adds; with one class the proportion of positives."""
    if len(set(labels)) == 1:
        return float(labels[0])
    total, before = 0.0, 0
    for threshold in sorted(set(scores), reverse=True):
        true, false = _rates(scores, labels, threshold)
        total += (true - before) / sum(labels) * true / (true + false)
        before = true
    return total


def _tpr_at_fpr(scores: Sequence[float], labels: Sequence[int], most: float) -> float:
    """The highest true positive rate among thresholds whose false positive rate is low enough; with one class 0."""
    best, negatives = 0.0, len(labels) - sum(labels)
    if len(set(labels)) == 1:
        return best
    for threshold in set(scores):
        true, false = _rates(scores, labels, threshold)
        if false / negatives <= most:
            best = max(best, true / sum(labels))
    return best
