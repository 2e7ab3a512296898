"""Who declined to answer, and which questions have no answer: decided once per batch, for every metric alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, checked_outputs
from ..core.signature import function_name
from ..core.types import EvaluationSample, SystemOutputs
from ..text.refusal import built_in_patterns, contains_phrase, is_refusal

__all__ = ["RefusalDetector", "RefusalJudge", "Refusals", "is_unanswerable", "refusals", "unanswerable"]

Mask = npt.NDArray[np.bool_]
RefusalJudge = Callable[[EvaluationSample, SystemOutputs], bool]
"""Whether an answer that is there, and not empty, declines to answer."""

BAD_JUDGEMENT = "bad_refusal_judgement"
BAD_REFUSED = "bad_refused"


@dataclass(frozen=True, slots=True)
class RefusalDetector:
    """How a refusal is told from an answer: by what the output says of itself, else by the answer.

    ``refused`` decides where the output has it; else an empty answer is a refusal; else the phrases decide, or the
    judge in their place. An ``error`` is never a refusal.
    """

    patterns: tuple[str, ...] = field(default_factory=built_in_patterns)
    """Folded phrases, as ``text.refusal.normalize_patterns`` gives them."""
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable

    def refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Whether an answered sample was refused; ``None`` where nothing tells, a text where that is not usable."""
        return self._decide(sample, output, lambda text: is_refusal(text, self.patterns))

    def reference_refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """The same, phrase by phrase: the plain definition."""
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
        """What the judge is called where it is written."""
        return function_name(self.judge, module=False)


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """What a batch's outputs say, row by row; a row that is neither failed, silent nor unusable is decided."""

    refused: Mask
    """Whether the system declined; false where that is not decided."""
    failed: Mask
    """The system failed, or its output is missing. That is no refusal."""
    silent: Mask
    """Nothing tells: no answer was asked for, or there is no output."""
    unusable: dict[str, Mask]
    """Why it could not be decided though it should have been: a reason, or the type of what the judge raised."""

    @property
    def decided(self) -> Mask:
        """Whether the system is known to have answered or declined."""
        undecided = self.failed | self.silent
        for rows in self.unusable.values():
            undecided = undecided | rows
        return ~undecided


def refusals(batch: Batch, detector: RefusalDetector) -> Refusals:
    """Who declined to answer, by this detector; worked out once for all metrics that share it."""
    return batch.feature(("refused", detector), lambda b: _refusals(b, detector))


def _refusals(batch: Batch, detector: RefusalDetector) -> Refusals:
    verdicts: list[bool | str | None] = []
    failed = []
    for sample, output in zip(batch.samples, checked_outputs(batch), strict=True):
        failed.append(output is None or output.error is not None)
        # What a failed system left behind is not looked at.
        verdicts.append(None if output is None or failed[-1] else _verdict(batch, detector, sample, output))
    reasons = dict.fromkeys(verdict for verdict in verdicts if isinstance(verdict, str))
    return Refusals(
        np.array([verdict is True for verdict in verdicts], dtype=np.bool_),
        np.array(failed, dtype=np.bool_),
        np.array([verdict is None for verdict in verdicts], dtype=np.bool_),
        {reason: np.array([verdict == reason for verdict in verdicts], dtype=np.bool_) for reason in reasons},
    )


def _verdict(
    batch: Batch, detector: RefusalDetector, sample: EvaluationSample, output: SystemOutputs
) -> bool | str | None:
    try:
        verdict = detector.refused(sample, output)
    except Exception as error:  # whatever a user's judge raises must not cost the other samples their scores
        if detector.judge is None:
            raise
        name = type(error).__name__
        batch.note(f"the refusal judge '{detector.judge_name}' raised {name}: {error}", sample.sample_id)
        return f"raised {name}"
    if verdict == BAD_JUDGEMENT:
        batch.note(f"the refusal judge '{detector.judge_name}' gave neither True nor False", sample.sample_id)
    return verdict


def is_unanswerable(sample: EvaluationSample) -> bool | None:
    """Whether a question is marked as having no answer; ``None`` where the mark is neither true nor false.

    ``labels["answerable"]`` decides where it is given, so that a paraphrase of an unanswerable question, whose scenario
    is another, can be marked too; else the scenario "unanswerable" does.
    """
    mark = sample.labels.get("answerable")
    if mark is None:
        return "unanswerable" in sample.scenarios
    return not mark if isinstance(mark, (bool, np.bool_)) else None


def unanswerable(batch: Batch) -> tuple[Mask, Mask]:
    """Which questions have no answer, and for which their mark does not say."""
    return batch.feature("unanswerable", _unanswerable)


def _unanswerable(batch: Batch) -> tuple[Mask, Mask]:
    marks = [is_unanswerable(sample) for sample in batch.samples]
    return (
        np.array([mark is True for mark in marks], dtype=np.bool_),
        np.array([mark is None for mark in marks], dtype=np.bool_),
    )
