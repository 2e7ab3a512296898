"""What metrics of refusals share: how a refusal is told from an answer, who is skipped, what fails."""

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
    """Raise unless a judge is a function that can simply be called, or there is none."""
    if judge is not None and (not callable(judge) or inspect.iscoroutinefunction(judge)):
        raise BadTypeError(f"judge must be a plain function of a sample and its output, not {judge!r:.80}")


@dataclass(frozen=True)
class RefusalDetectionMetric(ConfiguredMetric):
    """A metric that tells a refusal from an answer, by the same options as all of them."""

    refusal_patterns: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable
    detector: RefusalDetector = field(init=False, repr=False, compare=False)
    """What tells a refusal from an answer."""

    def __post_init__(self) -> None:
        given = [name for name in ("refusal_patterns", "languages", "judge") if getattr(self, name) is not None]
        if len(given) > 1:
            raise BadValueError(f"{' and '.join(given)} were given; one of them decides what a refusal is, so give one")
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
        """What tells a refusal from an answer."""
        if self.judge is not None:
            return {"refusal": f"judge-{self.detector.judge_name}"}
        if self.refusal_patterns is not None:
            text = json.dumps(self.detector.patterns)
            return {"refusal": f"patterns-{hashlib.sha256(text.encode()).hexdigest()[:12]}"}
        return {"refusal": "built-in" if self.languages is None else f"built-in[{','.join(self.languages)}]"}

    def add_refusal_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Says whether the system declined, and by what that is told."""
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
    """A metric of who declined to answer."""

    target = TargetCategory.NEGATIVE_REJECTION
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_response": "no answer was asked for, and the output does not say whether the system refused"
    }
    unclear_reason: ClassVar[str] = "bad_answerable"
    """Why the measurement failed where a sample does not say whether declining is right."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample says that its question can, or cannot, be answered."""
        return "unanswerable" in sample.scenarios or sample.labels.get("answerable") is not None

    def score(self, batch: Batch) -> Scores:
        """The values of all rows that are decided and to which the metric applies."""
        seen = refusals(batch, self.detector)
        due, unclear = self.refusal_masks(batch)
        fail: dict[str, Mask] = {self.unclear_reason: unclear}
        for name, rows in seen.unusable.items():
            reason = to_reason(snake_case(name))
            fail[reason] = fail[reason] | rows if reason in fail else rows
        return Scores.of(
            self.values(seen, due),
            # In this order: a crash on a sample the metric does not apply to is no failure of it.
            skip={**self.skips(batch, seen), "no_response": seen.silent},
            fail=fail,
            stats=self.statistics(seen, due),
        )

    def refusal_masks(self, batch: Batch) -> tuple[Mask, Mask]:
        """For which questions declining is right, and for which the sample does not say."""
        return unanswerable(batch)

    @abstractmethod
    def skips(self, batch: Batch, seen: Refusals) -> dict[str, Mask]:
        """The rows to which the metric does not apply."""

    def values(self, seen: Refusals, due: Mask) -> Floats:
        """The score of each row: whether the system declined."""
        return seen.refused.astype(np.float64)

    def statistics(self, seen: Refusals, due: Mask) -> Floats | None:
        """Wider statistics of each row, for what is not a mean."""
        return None

    def worst_in(self, batch: Batch) -> float | Floats:
        """The worst value; none for a failed answer where the sample does not say what would have been right."""
        _, unclear = self.refusal_masks(batch)
        return np.where(unclear, math.nan, super().worst_in(batch)).astype(np.float64)

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one answered sample by the plain definition."""
        should, refused = self.should_decline(sample), self.detector.reference_refused(sample, output)
        reason = self.plain_skip(sample, should, refused)
        if reason is not None:
            return Score.skip(reason)
        if refused is None:
            return Score.skip("no_response")
        if should is None or isinstance(refused, str):
            return Score.fail(self.unclear_reason if should is None else str(refused))
        return Score(self.plain_value(should, refused))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether declining was right, whether the system did, and by what that is told."""
        should = bool(self.should_decline(sample))
        marks = [f"{key} {sample.labels[key]!r}" for key in ("scenario", "answerable") if key in sample.labels]
        if "expected_doc_ids" in sample.metadata:
            marks.append(f"expected_doc_ids {sample.metadata['expected_doc_ids']!r}")
        steps = DerivationBuilder().add_step(
            f"The sample is marked: {join_items(marks, nothing='not at all')}; declining is "
            f"{'right' if should else 'wrong'}"
        )
        refused = self.add_refusal_steps(steps, sample, output)
        value = self.plain_value(should, refused)
        return steps.finish(f"The system {'declined' if refused else 'answered'}: {value:g}", value)

    def should_decline(self, sample: EvaluationSample) -> bool | None:
        """Whether declining would be right; ``None`` where the sample's mark does not say."""
        return is_unanswerable(sample)

    @abstractmethod
    def plain_skip(self, sample: EvaluationSample, should: bool | None, refused: bool | str | None) -> str | None:
        """Why one sample is skipped, but for want of an answer."""

    def plain_value(self, should: bool, refused: bool) -> float:
        """The score of one sample."""
        return float(refused)


def _check_phrases(option: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        example = '["en", "de"]' if option == "languages" else '["i pass", "no comment"]'
        raise BadTypeError(f"{option} must be a list of texts, such as {example}, not {given!r:.80}")
    texts = tuple(given)
    for text in texts:
        if not isinstance(text, str):
            raise BadTypeError(f"{option} holds {text!r:.80}, which is not a text")
        if option == "refusal_patterns" and any(mark in text for mark in (".*", "|", "\\", "(?")):
            raise BadValueError(f"{option} holds {text!r:.80}: phrases are plain texts, not regular expressions")
        if not text.strip():
            raise BadValueError(f"{option} holds an empty text, which every answer would contain")
    if not texts:
        raise BadValueError(f"{option} is empty; leave it out for the built-in phrases of all languages")
    return texts


def _check_languages(given: Any) -> tuple[str, ...]:
    """Language codes in alphabetical order, each once: their order changes no number."""
    codes = tuple(sorted(set(_check_phrases("languages", given))))
    for code in codes:
        if code not in REFUSAL_PATTERNS:
            raise BadValueError(
                f"there are no refusal phrases for the language '{code}', only for {', '.join(REFUSAL_PATTERNS)}; "
                "give your own as refusal_patterns"
            )
    return codes
