"""Refusals and unanswerable questions: detected once per batch, for all metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, batch_feature, checked_outputs
from ..core.conventions import function_name
from ..core.types import EvaluationSample, SystemOutputs
from ..text.refusal import built_in_patterns, contains_phrase, is_refusal

Mask = npt.NDArray[np.bool_]
RefusalJudge = Callable[[EvaluationSample, SystemOutputs], bool]
"""Whether a non-empty answer is a refusal."""

BAD_JUDGEMENT = "bad_refusal_judgement"
BAD_REFUSED = "bad_refused"


@dataclass(frozen=True, slots=True)
class RefusalDetector:
    """Detects refusals by the field ``refused`` of the output, else by the answer.

    ``refused`` decides where the output has it; else an empty answer is a refusal; else the phrases decide, or the
    judge in their place. An ``error`` is never a refusal.
    """

    patterns: tuple[str, ...] = field(default_factory=built_in_patterns)
    """Normalised phrases, as ``text.refusal.normalize_patterns`` gives them."""
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable

    def refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Whether an answered sample was refused; ``None`` where unknown, a reason where it cannot be decided."""
        return self._decide(sample, output, lambda text: is_refusal(text, self.patterns))

    def reference_refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Like ``refused``, phrase by phrase: the plain definition."""
        return self._decide(sample, output, lambda text: any(contains_phrase(text, each) for each in self.patterns))

    def _decide(
        self, sample: EvaluationSample, output: SystemOutputs, by_phrases: Callable[[str], bool]
    ) -> bool | str | None:
        if output.refused is not None:
            return bool(output.refused) if isinstance(output.refused, (bool, np.bool_)) else BAD_REFUSED
        if output.response is None:
            return None
        text = output.response.text
        if not text.strip():
            return True
        if self.judge is None:
            return by_phrases(text)
        verdict = self.judge(sample, output)
        return bool(verdict) if isinstance(verdict, (bool, np.bool_)) else BAD_JUDGEMENT

    @property
    def judge_name(self) -> str:
        """The name of the judge function."""
        return function_name(self.judge, module=False)


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Refusals of a batch, row by row."""

    verdicts: list[bool | str | None]
    """Whether the system refused; a reason where that cannot be decided, ``None`` where nothing was answered."""
    failed: Mask
    """The system failed, or its output is missing. That is not a refusal."""

    @property
    def refused(self) -> Mask:
        """Whether the system refused; false where undecided."""
        return np.array([verdict is True for verdict in self.verdicts], dtype=np.bool_)

    @property
    def decided(self) -> Mask:
        """Whether it is known that the system answered or refused."""
        return np.array([isinstance(verdict, bool) for verdict in self.verdicts], dtype=np.bool_)


@batch_feature
def refusals(batch: Batch, detector: RefusalDetector) -> Refusals:
    """The refusals of a batch by this detector, computed once for all metrics that share it."""
    verdicts: list[bool | str | None] = []
    failed = []
    for sample, output in zip(batch.samples, checked_outputs(batch), strict=True):
        failed.append(output is None or output.error is not None)
        # The content of a failed output is ignored.
        verdicts.append(None if output is None or failed[-1] else _verdict(batch, detector, sample, output))
    return Refusals(verdicts, np.array(failed, dtype=np.bool_))


def _verdict(
    batch: Batch, detector: RefusalDetector, sample: EvaluationSample, output: SystemOutputs
) -> bool | str | None:
    try:
        verdict = detector.refused(sample, output)
    except Exception as error:  # an exception of a user's judge must not affect other samples
        if detector.judge is None:
            raise
        name = type(error).__name__
        batch.note(f"the refusal judge '{detector.judge_name}' raised {name}: {error}", sample.sample_id)
        return f"raised {name}"
    if verdict == BAD_JUDGEMENT:
        batch.note(f"the refusal judge '{detector.judge_name}' gave neither True nor False", sample.sample_id)
    return verdict


def is_unanswerable(sample: EvaluationSample) -> bool | None:
    """Whether a question is labelled as unanswerable; ``None`` where the label is neither true nor false.

    ``labels["answerable"]`` decides where it is given, so that a paraphrase of an unanswerable question, whose scenario
    is another, can be labelled too; else the scenario "unanswerable" does.
    """
    mark = sample.labels.get("answerable")
    if mark is None:
        return "unanswerable" in sample.scenarios
    return not mark if isinstance(mark, (bool, np.bool_)) else None


@batch_feature
def unanswerable(batch: Batch) -> tuple[Mask, Mask]:
    """Masks of the questions without an answer, and of those with an invalid label."""
    marks = [is_unanswerable(sample) for sample in batch.samples]
    return (
        np.array([mark is True for mark in marks], dtype=np.bool_),
        np.array([mark is None for mark in marks], dtype=np.bool_),
    )
