"""Base classes of metrics over refusals: detection, skips and failures."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, join_items, quote_text
from ..core.errors import BadTypeError, BadValueError
from ..core.metrics_base import snake_case
from ..core.scores import Score, Scores, to_reason
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.refusals import RefusalDetector, RefusalJudge, Refusals, is_unanswerable, refusals, unanswerable
from ..text.refusal import REFUSAL_PATTERNS, built_in_patterns, contains_phrase, normalize_patterns
from .base import ConfiguredMetric

__all__ = ["RefusalDetectionMetric", "RefusalMetric", "require_judge"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def require_judge(judge: object) -> None:
    """Raise unless ``judge`` is a synchronous function or ``None``."""
    if judge is not None and (not callable(judge) or inspect.iscoroutinefunction(judge)):
        raise BadTypeError(f"judge must be a synchronous function of a sample and its output, not {judge!r:.80}")


@dataclass(frozen=True)
class RefusalDetectionMetric(ConfiguredMetric):
    """A metric that detects refusals, with the options of the detector."""

    refusal_patterns: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable
    detector: RefusalDetector = field(init=False, repr=False, compare=False)
    """The refusal detector."""

    def __post_init__(self) -> None:
        options_set = [name for name in ("refusal_patterns", "languages", "judge") if getattr(self, name) is not None]
        if len(options_set) > 1:
            raise BadValueError(f"{' and '.join(options_set)} were given; give only one of them")
        if self.refusal_patterns is not None:
            object.__setattr__(self, "refusal_patterns", _check_phrases("refusal_patterns", self.refusal_patterns))
        if self.languages is not None:
            object.__setattr__(self, "languages", _check_languages(self.languages))
        require_judge(self.judge)
        if self.refusal_patterns is not None:
            patterns = normalize_patterns(self.refusal_patterns)
        else:
            patterns = () if self.judge is not None else built_in_patterns(self.languages)
        object.__setattr__(self, "detector", RefusalDetector(patterns, self.judge))
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """The refusal detector."""
        if self.judge is not None:
            return {"refusal": f"judge-{self.detector.judge_name}"}
        if self.refusal_patterns is not None:
            text = json.dumps(self.detector.patterns)
            return {"refusal": f"patterns-{hashlib.sha256(text.encode()).hexdigest()[:12]}"}
        return {"refusal": "built-in" if self.languages is None else f"built-in[{','.join(self.languages)}]"}

    def add_refusal_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Add the steps of the refusal detection; return whether the system refused."""
        refused = self.detector.refused(sample, output) is True
        if output.refused is not None:
            steps.add_step(f"The output says so itself: refused is {'true' if refused else 'false'}")
            return refused
        answer = "" if output.response is None else output.response.text
        steps.add_step(f"The answer: {quote_text(answer)}")
        if not answer.strip():
            steps.add_step("It is empty, which is a refusal")
        elif self.judge is not None:
            steps.add_step(f"The judge {self.detector.judge_name} calls it {'a refusal' if refused else 'an answer'}")
        else:
            found = [phrase for phrase in self.detector.patterns if contains_phrase(answer, phrase)]
            steps.add_step(
                f"Of {len(self.detector.patterns)} "
                f"phrases to decline with it has: {join_items(map(quote_text, found))}; "
                f"so it is {'a refusal' if refused else 'an answer'}"
            )
        return refused


@dataclass(frozen=True)
class RefusalMetric(RefusalDetectionMetric):
    """A metric over refusals."""

    target = TargetCategory.NEGATIVE_REJECTION
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_response": "no answer was asked for, and the output does not say whether the system refused"
    }
    unclear_reason: ClassVar[str] = "bad_answerable"
    """The failure reason if a sample does not say whether refusing is right."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample says if its question is answerable."""
        return "unanswerable" in sample.scenarios or sample.labels.get("answerable") is not None

    def score(self, batch: Batch) -> Scores:
        """The scores of the batch."""
        detected = refusals(batch, self.detector)
        unanswerable, unclear = self.refusal_masks(batch)
        fail: dict[str, Mask] = {self.unclear_reason: unclear}
        for name, rows in detected.unusable.items():
            reason = to_reason(snake_case(name))
            fail[reason] = fail[reason] | rows if reason in fail else rows
        return Scores.of(
            self.values(detected, unanswerable),
            # In this order: a failed output on a sample the metric does not apply to is a skip.
            skip={**self.skips(batch, detected), "no_response": detected.silent},
            fail=fail,
            stats=self.statistics(detected, unanswerable),
        )

    def refusal_masks(self, batch: Batch) -> tuple[Mask, Mask]:
        """Masks of the questions for which refusing is right, and of those for which it is unclear."""
        return unanswerable(batch)

    @abstractmethod
    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """The rows to which the metric does not apply, by skip reason."""

    def values(self, seen: Refusals, unanswerable: Mask) -> Floats:
        """The score of each row: whether the system refused."""
        return seen.refused.astype(np.float64)

    def statistics(self, seen: Refusals, unanswerable: Mask) -> Floats | None:
        """Statistics of each row, for metrics that are not means."""
        return None

    def worst_in(self, batch: Batch) -> float | Floats:
        """The worst value; NaN for a failed answer if the right decision is unclear."""
        _, unclear = self.refusal_masks(batch)
        return np.where(unclear, math.nan, super().worst_in(batch)).astype(np.float64)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one answered sample by the plain definition."""
        should_refuse, refused = self.should_refuse(sample), self.detector.reference_refused(sample, output)
        reason = self.plain_skip(sample, should_refuse, refused)
        if reason is not None:
            return Score.skip(reason)
        if refused is None:
            return Score.skip("no_response")
        if should_refuse is None or isinstance(refused, str):
            return Score.fail(self.unclear_reason if should_refuse is None else str(refused))
        return Score(self.plain_value(should_refuse, refused))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether refusing was right, and the steps of the refusal detection."""
        should_refuse = bool(self.should_refuse(sample))
        marks = [f"{key} {sample.labels[key]!r}" for key in ("scenario", "answerable") if key in sample.labels]
        if "expected_doc_ids" in sample.metadata:
            marks.append(f"expected_doc_ids {sample.metadata['expected_doc_ids']!r}")
        steps = DerivationBuilder().add_step(
            f"The sample is marked: {join_items(marks, nothing='not at all')}; declining is "
            f"{'right' if should_refuse else 'wrong'}"
        )
        refused = self.add_refusal_steps(steps, sample, output)
        value = self.plain_value(should_refuse, refused)
        return steps.finish(f"The system {'declined' if refused else 'answered'}: {value:g}", value)

    def should_refuse(self, sample: EvaluationSample) -> bool | None:
        """Whether refusing would be right; ``None`` if it is unclear."""
        return is_unanswerable(sample)

    @abstractmethod
    def plain_skip(
        self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None
    ) -> str | None:
        """The skip reason of one sample, other than a missing answer."""

    def plain_value(self, should_refuse: bool, refused: bool) -> float:
        """The score of one sample."""
        return float(refused)


def _check_phrases(option: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        example = '["en", "de"]' if option == "languages" else '["i pass", "no comment"]'
        raise BadTypeError(f"{option} must be a list of strings, such as {example}, not {value!r:.80}")
    texts = tuple(value)
    for text in texts:
        if not isinstance(text, str):
            raise BadTypeError(f"{option} holds {text!r:.80}, which is not a string")
        if option == "refusal_patterns" and any(mark in text for mark in (".*", "|", "\\", "(?")):
            raise BadValueError(f"{option} holds {text!r:.80}: phrases are plain strings, not regular expressions")
        if not text.strip():
            raise BadValueError(f"{option} contains an empty string, which every answer would contain")
    if not texts:
        raise BadValueError(f"{option} is empty; leave it out for the built-in phrases of all languages")
    return texts


def _check_languages(value: Any) -> tuple[str, ...]:
    """Unique language codes in alphabetical order: their order changes no value."""
    codes = tuple(sorted(set(_check_phrases("languages", value))))
    for code in codes:
        if code not in REFUSAL_PATTERNS:
            raise BadValueError(
                f"there are no refusal phrases for the language '{code}', only for {', '.join(REFUSAL_PATTERNS)}; "
                "give your own as refusal_patterns"
            )
    return codes
