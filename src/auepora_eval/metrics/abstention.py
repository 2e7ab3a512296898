"""Abstention: whether a system declines what it cannot answer, and only that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.reduce import SumsReducer
from ..core.registry import register
from ..core.scores import Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..features.refusals import Refusals
from .refusal_base import RefusalMetric

__all__ = [
    "NegativeRejectionRate",
    "OverRefusalRate",
    "RefusalCorrectness",
    "RejectionF1",
    "RejectionPrecision",
    "SetF1",
]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_BAD_EXPECTATION = "bad_expectation"


@register("negative_rejection_rate")
@dataclass(frozen=True)
class NegativeRejectionRate(RefusalMetric):
    r"""Share of unanswerable questions that the system declines to answer: the recall of its refusals.

    .. math:: |R \cap U| / |U|

    U are the questions marked unanswerable: `labels["scenario"]` is `unanswerable`, or `labels["answerable"]` is false,
    which decides where both are given. R are the refusals: `refused` where the output has it, else an empty answer,
    else a known refusal phrase, matched as whole words, ignoring case and the kind of apostrophe. The phrases are the
    built-in ones of all languages, or of `languages`, or your own (`refusal_patterns`); in Python a `judge` replaces
    them. The reference answer is not used. A label, a `refused` or a judgement that is neither true nor false is a
    failed measurement (`bad_answerable`, `bad_refused`, `bad_refusal_judgement`).
    """

    binary: ClassVar[bool] = True
    reference: ClassVar[str] = "Chen et al. 2024 (negative rejection in RGB)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "answerable": "the question is not marked unanswerable",
        **RefusalMetric.skip_reasons,
    }

    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """Answerable questions are skipped."""
        unanswerable, unclear = self.refusal_masks(batch)
        return {"answerable": ~unanswerable & ~unclear}

    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """A question that has an answer is skipped."""
        return "answerable" if should_refuse is False else None


@register("over_refusal_rate")
@dataclass(frozen=True)
class OverRefusalRate(RefusalMetric):
    r"""Share of answerable questions that the system nevertheless declines to answer.

    .. math:: |R \cap A| / |A|

    A are the questions that are not marked unanswerable, R the refusals, as defined under `negative_rejection_rate`. A
    system that declines everything is perfect there and worst here. A failed answer counts as 1: the user got none.
    """

    higher_is_better = False
    binary: ClassVar[bool] = True
    skip_reasons: ClassVar[dict[str, str]] = {
        "unanswerable": "the question is marked unanswerable",
        **RefusalMetric.skip_reasons,
    }

    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """Unanswerable questions are skipped."""
        return {"unanswerable": self.refusal_masks(batch)[0]}

    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """A question that has no answer is skipped."""
        return "unanswerable" if should_refuse else None


@register("rejection_precision")
@dataclass(frozen=True)
class RejectionPrecision(RefusalMetric):
    r"""Share of refusals that were right: of the questions the system declined, those that have no answer.

    .. math:: |R \cap U| / |R|

    R are the refusals, U the questions marked unanswerable, as defined under `negative_rejection_rate`. The share
    depends on how many questions are unanswerable: compare runs over the same samples.
    """

    binary: ClassVar[bool] = True
    output_skips: ClassVar[frozenset[str]] = frozenset({"not_refused"})
    failure_note: ClassVar[str] = "counts as a wrong refusal where the question has an answer, else leaves the mean"
    skip_reasons: ClassVar[dict[str, str]] = {
        "not_refused": "the system answered",
        **RefusalMetric.skip_reasons,
    }

    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """Answers are skipped."""
        return {"not_refused": seen.decided & ~seen.refused}

    def values(self, seen: Refusals, unanswerable: Mask) -> Floats:
        """Whether a refusal was right."""
        return unanswerable.astype(np.float64)

    def worst_in(self, batch: Batch) -> float | Floats:
        """0 for answerable questions; a failed answer to an unanswerable one is neither refusal nor answer."""
        unanswerable, _ = self.refusal_masks(batch)
        return np.where(unanswerable, math.nan, super().worst_in(batch)).astype(np.float64)

    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """An answer is skipped."""
        return "not_refused" if refused is False else None

    def plain_value(self, should_refuse: bool, refused: bool) -> float:
        """Whether the refusal was right."""
        return float(should_refuse)


class SetF1(SumsReducer):
    """F1 of two sets of samples, from the sizes of the intersection and of each set."""

    name = "set_f1"

    def from_sums(self, sums: Sequence[float]) -> float:
        """Twice the intersection over the sum of both sizes; NaN if both are empty."""
        shared, first, second = sums
        return 2 * shared / (first + second) if first + second else math.nan

    def bounds(self, scores: Scores, low: float, high: float) -> tuple[float, float] | None:
        """F1 if every unmeasured decision had been wrong, and if it had been right."""
        failed = scores.status == Status.MEASURE_FAILED
        unclear = RefusalMetric.unclear_reason in {scores.reason_names[code] for code in scores.reason_codes[failed]}
        if scores.stats is None or unclear:
            return None
        shared, first, second = (math.fsum(column) for column in scores.stats[scores.counted].T.tolist())
        unanswerable = float(scores.stats[failed, 2].sum())
        wrong = self.from_sums([shared, first + failed.sum() - unanswerable, second + unanswerable])
        right = self.from_sums([shared + unanswerable, first + unanswerable, second + unanswerable])
        return None if math.isnan(wrong) or math.isnan(right) else (wrong, right)


@register("rejection_f1")
@dataclass(frozen=True)
class RejectionF1(RefusalMetric):
    r"""F1 of refusals and unanswerable questions: high only where the system declines these and no others.

    .. math:: \frac{2 |R \cap U|}{|R| + |U|}

    R are the refusals, U the questions marked unanswerable, as defined under `negative_rejection_rate`. It is the
    harmonic mean of that one (the recall) and of `rejection_precision`. The score of a sample is 1 where declining, or
    answering, was right; the value is not their mean, and its interval is a bootstrap over samples. The details contain
    the shares of samples that were `refused`, that are `unanswerable`, and that are both (`rightly_refused`). Undefined
    if nothing was refused and nothing is unanswerable.
    """

    reducer = SetF1()
    stat_names: ClassVar[tuple[str, ...]] = ("rightly_refused", "refused", "unanswerable")
    failure_note: ClassVar[str] = (
        "counts as the wrong decision: as answered where the question has no answer, as refused where it has one"
    )

    @property
    def worst_stats(self) -> Sequence[float]:
        """Those that ``statistics`` gave."""
        return (math.nan,) * len(self.stat_names)

    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """None: every question counts."""
        return {}

    def values(self, seen: Refusals, unanswerable: Mask) -> Floats:
        """Whether the decision was right."""
        right: Mask = seen.refused == unanswerable
        return right.astype(np.float64)

    def statistics(self, seen: Refusals, unanswerable: Mask) -> Floats:
        """Whether a row is in both sets, refused, unanswerable; a failed answer is the wrong decision."""
        refused = np.where(seen.failed, ~unanswerable, seen.refused)
        return np.column_stack([refused & unanswerable, refused, unanswerable]).astype(np.float64)

    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """Every question counts."""
        return None

    def plain_value(self, should_refuse: bool, refused: bool) -> float:
        """Whether the decision was right."""
        return float(should_refuse == refused)

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float:
        """F1 of the two sets of samples."""
        refused_rows: set[int] = set()
        unanswerable_rows: set[int] = set()
        for row, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
            should_refuse, refused = self.should_refuse(sample), self.detector.reference_refused(sample, output)
            if should_refuse is not None and isinstance(refused, bool):
                refused_rows |= {row} if refused else set()
                unanswerable_rows |= {row} if should_refuse else set()
        sizes = len(refused_rows) + len(unanswerable_rows)
        return 2 * len(refused_rows & unanswerable_rows) / sizes if sizes else math.nan


@register("refusal_correctness")
@dataclass(frozen=True)
class RefusalCorrectness(RefusalMetric):
    r"""Share of the queries that should be refused, because no document is expected for them, that were refused.

    .. math:: |R \cap E| / |E|

    E are the samples whose `metadata["expected_doc_ids"]` is an empty list, as golden files write it, R the refusals,
    as defined under `negative_rejection_rate`. Anything but a list of ids is a failed measurement (`bad_expectation`).
    """

    binary: ClassVar[bool] = True
    unclear_reason: ClassVar[str] = _BAD_EXPECTATION
    skip_reasons: ClassVar[dict[str, str]] = {
        "expects_documents": "documents are expected for this query",
        "no_expectation": "`metadata` has no `expected_doc_ids`",
        **RefusalMetric.skip_reasons,
    }

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether this query should be refused."""
        return _expectation(sample) == "none"

    def refusal_masks(self, batch: Batch) -> tuple[Mask, Mask]:
        """Masks of queries without expected documents, and of unreadable expectations."""
        return _expectation_mask(batch, "none"), _expectation_mask(batch, _BAD_EXPECTATION)

    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """Queries with expected documents, or without any expectation."""
        return {reason: _expectation_mask(batch, reason) for reason in ("expects_documents", "no_expectation")}

    def should_refuse(self, sample: EvaluationSample) -> bool | None:
        """Whether no document is expected."""
        expectation = _expectation(sample)
        return None if expectation == _BAD_EXPECTATION else expectation == "none"

    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """A query with expected documents, or without any expectation, is skipped."""
        return _expectation(sample) if should_refuse is False else None


def _expectation_mask(batch: Batch, what: str) -> Mask:
    every = batch.feature("document_expectation", lambda b: [_expectation(sample) for sample in b.samples])
    return np.array([one == what for one in every], dtype=np.bool_)


def _expectation(sample: EvaluationSample) -> str:
    """The expectation of a golden sample: ``none`` if no document is expected, else the reason it does not apply."""
    if not isinstance(sample.metadata, Mapping):
        return _BAD_EXPECTATION
    expected = sample.metadata.get("expected_doc_ids")
    if expected is None:
        return "no_expectation"
    if not isinstance(expected, (list, tuple)) or not all(isinstance(doc_id, str) for doc_id in expected):
        return _BAD_EXPECTATION
    return "expects_documents" if expected else "none"
