"""Abstention: whether a system declines what it cannot answer, and only that."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import add_outcome, add_step, is_recording, join_items, quote_text
from ..core.metrics_base import declare, snake_case
from ..core.reduce import SumsReducer
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status, scores_with_reasons, to_reason
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadTypeError, BadValueError
from ..features.texts import RefusalDetector, RefusalJudge, is_unanswerable, refusals
from ..options import Phrases
from ..stats.intervals import Floats
from ..text.refusal import REFUSAL_PATTERNS, built_in_patterns, normalize_patterns

# --- base classes of metrics over refusals: detection, skips and failures --------------------------------------------


def require_judge(judge: object) -> None:
    """Raise if ``judge`` is a coroutine function."""
    if inspect.iscoroutinefunction(judge):
        raise BadTypeError(f"judge must be a synchronous function of a sample and its output, not {judge!r:.80}")


PhraseMatch = Literal["word", "substring"]
"""Whether phrases are found as whole words, or anywhere in a text."""


@dataclass(frozen=True)
class RefusalDetectionMetric(ConfiguredMetric):
    """A metric that detects refusals, with the options of the detector."""

    refusal_patterns: Phrases | None = None
    languages: Phrases | None = None
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable
    detector: RefusalDetector = field(init=False, repr=False, compare=False)
    """The refusal detector."""
    metadata = declare(version=2, signature={"refusal": "detection"})

    @property
    def default_match(self) -> PhraseMatch:
        """How phrases are searched by default: built-in ones as whole words, those of the user anywhere."""
        return "word" if self.refusal_patterns is None else "substring"

    def __post_init__(self) -> None:
        super().__post_init__()
        options_set = [name for name in ("refusal_patterns", "languages", "judge") if getattr(self, name) is not None]
        if len(options_set) > 1:
            raise BadValueError(f"{' and '.join(options_set)} were given; give only one of them")
        if self.refusal_patterns is not None:
            object.__setattr__(self, "refusal_patterns", _check_phrases(self.refusal_patterns))
        if self.languages is not None:
            object.__setattr__(self, "languages", _check_languages(self.languages))
        require_judge(self.judge)
        if self.refusal_patterns is not None:
            patterns = normalize_patterns(self.refusal_patterns)
        else:
            patterns = () if self.judge is not None else built_in_patterns(self.languages)
        match = getattr(self, "match", None) or self.default_match
        detector = RefusalDetector(patterns, self.judge, whole_words=match == "word")
        object.__setattr__(self, "detector", detector)

    @property
    def detection(self) -> str:
        """The refusal detector, as signatures name it."""
        if self.judge is not None:
            return f"judge-{self.detector.judge_name}"
        if self.refusal_patterns is not None:
            text = json.dumps(self.detector.patterns)
            return f"patterns-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return "built-in" if self.languages is None else f"built-in[{','.join(self.languages)}]"

    def reference_refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Whether the system refused, by the plain definition."""
        refused = self.detector.reference_refused(sample, output)
        if output.refused is not None:
            add_step(f"The output says so itself: refused is {'true' if refused is True else 'false'}")
        elif is_recording():
            answer = "" if output.response is None else output.response.text
            add_step(f"The answer: {quote_text(answer)}")
            if not answer.strip():
                by = "It is empty"
            elif self.judge is not None:
                by = f"The judge is {self.detector.judge_name}"
            else:
                phrases = join_items(map(quote_text, self.detector.found_phrases(answer)))
                by = f"Of {len(self.detector.patterns)} phrases to decline with it has: {phrases}"
            add_step(f"{by}; so it is {'a refusal' if refused is True else 'an answer'}")
        return refused


@dataclass(frozen=True)
class RefusalMetric(RefusalDetectionMetric):
    """A metric over refusals."""

    match: PhraseMatch | None = field(default=None, kw_only=True)

    target = TargetCategory.NEGATIVE_REJECTION
    metadata = declare(
        reads=frozenset({"response"}),
        skip_reasons={"no_response": "no answer was asked for, and the output does not say whether the system refused"},
        signature={"phrases": SignatureOption("match", differs_from="default_match")},
    )
    unclear_reason: ClassVar[str] = "bad_answerable"
    """The failure reason if a sample does not say whether refusing is right."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample says if its question is answerable."""
        return "unanswerable" in sample.scenarios or sample.labels.get("answerable") is not None

    def score(self, batch: Batch) -> Scores:
        """The outcome of each sample."""
        verdicts = refusals(batch, self.detector).verdicts
        reasons = (*self.metadata.skip_reasons, self.unclear_reason)
        return scores_with_reasons(list(map(self.outcome, batch.samples, verdicts)), reasons)

    def outcome(self, sample: EvaluationSample, refused: bool | str | None) -> Score:
        """The outcome of a sample, given whether the system refused."""
        should_refuse = self.should_refuse(sample)
        # First: a failed output on a sample the metric does not apply to is a skip.
        reason = self.skips(sample, should_refuse, refused)
        if reason is not None:
            return Score.skip(reason)
        if refused is None:
            return Score.skip("no_response")
        if should_refuse is None:
            return Score.fail(self.unclear_reason)
        if isinstance(refused, str):
            return Score.fail(to_reason(snake_case(refused)))
        return Score(self.decision(should_refuse, refused))

    def should_refuse(self, sample: EvaluationSample) -> bool | None:
        """Whether refusing would be right; ``None`` if it is unclear."""
        return is_unanswerable(sample)

    def skips(self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None) -> str | None:
        """The skip reason of a sample, other than a missing answer."""
        return None

    def decision(self, should_refuse: bool, refused: bool) -> float:
        """The score of a sample: whether the system refused."""
        return float(refused)

    def worst_in(self, batch: Batch) -> float | Floats:
        """The worst value; NaN for a failed answer if the right decision is unclear."""
        unclear = [self.should_refuse(sample) is None for sample in batch.samples]
        worst = math.nan if self.worst is None else self.worst
        return np.where(unclear, math.nan, worst).astype(np.float64)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one answered sample by the plain definition."""
        if is_recording():
            marks = [f"{key} {sample.labels[key]!r}" for key in ("scenario", "answerable") if key in sample.labels]
            if "expected_doc_ids" in sample.metadata:
                marks.append(f"expected_doc_ids {sample.metadata['expected_doc_ids']!r}")
            right = "right" if self.should_refuse(sample) else "wrong"
            add_step(f"The sample is marked: {join_items(marks, nothing='not at all')}; declining is {right}")
        refused = self.reference_refused(sample, output)
        score = self.outcome(sample, refused)
        if score.value is not None:
            add_outcome(f"The system {'declined' if refused else 'answered'}", score.value)
        return score


def _check_phrases(phrases: Iterable[str]) -> tuple[str, ...]:
    texts = tuple(phrases)
    for text in texts:
        if any(mark in text for mark in (".*", "|", "\\", "(?")):
            raise BadValueError(
                f"refusal_patterns holds {text!r:.80}: phrases are plain strings, not regular expressions"
            )
    return texts


def _check_languages(languages: Iterable[str]) -> tuple[str, ...]:
    """Unique language codes in alphabetical order: their order changes no value."""
    codes = tuple(sorted(set(languages)))
    for code in codes:
        if code not in REFUSAL_PATTERNS:
            raise BadValueError(
                f"there are no refusal phrases for the language '{code}', only for {', '.join(REFUSAL_PATTERNS)}; "
                "give your own as refusal_patterns"
            )
    return codes


# --- abstention: whether a system declines what it cannot answer, and only that --------------------------------------

_BAD_EXPECTATION = "bad_expectation"


@register("negative_rejection_rate")
@dataclass(frozen=True)
class NegativeRejectionRate(RefusalMetric):
    r"""Proportion of unanswerable questions that the system declines to answer: the recall of its refusals.

    .. math:: |R \cap U| / |U|

    U are the questions marked unanswerable: `labels["scenario"]` is `unanswerable`, or `labels["answerable"]` is false,
    which decides where both are given. R are the refusals: `refused` where the output has it, else an empty answer,
    else a known refusal phrase, ignoring case and the kind of apostrophe. The phrases are the built-in ones of all
    languages, or of `languages`, found as whole words, or your own (`refusal_patterns`), found anywhere in the
    answer; `match` ("word" or "substring") sets either way. In Python a `judge` replaces them. The reference answer
    is not used. A label, a `refused` or a judgement that is neither true nor false is a failed measurement
    (`bad_answerable`, `bad_refused`, `bad_refusal_judgement`).
    """

    metadata = declare(
        binary=True,
        skip_reasons={
            "answerable": "the question is not marked unanswerable",
            **RefusalMetric.metadata.skip_reasons,
        },
        reference="Chen et al. 2024 (negative rejection in RGB)",
        examples=(
            "negative_rejection_rate",
            {"negative_rejection_rate": {"languages": ["en", "zh"]}},
            {"negative_rejection_rate": {"refusal_patterns": ["the mat", "cats"]}},
        ),
    )

    def skips(self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None) -> str | None:
        """A question that has an answer is skipped."""
        return "answerable" if should_refuse is False else None


@register("over_refusal_rate")
@dataclass(frozen=True)
class OverRefusalRate(RefusalMetric):
    r"""Proportion of answerable questions that the system nevertheless declines to answer.

    .. math:: |R \cap A| / |A|

    A are the questions that are not marked unanswerable, R the refusals, as defined under `negative_rejection_rate`. A
    system that declines everything is perfect there and worst here. A failed answer counts as 1: the user got none.
    """

    metadata = declare(
        binary=True,
        skip_reasons={
            "unanswerable": "the question is marked unanswerable",
            **RefusalMetric.metadata.skip_reasons,
        },
        higher_is_better=False,
        examples=(
            "over_refusal_rate",
            {"over_refusal_rate": {"refusal_patterns": ["the mat", "cats"]}},
        ),
    )

    def skips(self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None) -> str | None:
        """A question that has no answer is skipped."""
        return "unanswerable" if should_refuse else None


@register("refusal_rate")
@dataclass(frozen=True)
class RefusalRate(RefusalMetric):
    r"""Proportion of answers that decline to answer, whether the question has an answer or not.

    .. math:: |R| / n

    R are the refusals, as defined under `negative_rejection_rate`. The rate alone is neither good nor bad; it is shown
    beside metrics that leave refusals out (`over_answered`), and says which answers `conditioned` takes for refusals.
    """

    metadata = declare(
        binary=True,
        has_direction=False,
        counts_system_failures=False,
        suggested=False,
        examples=(
            "refusal_rate",
            {"refusal_rate": {"refusal_patterns": ["the mat", "cats"]}},
        ),
    )

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """True: no label is read."""
        return True

    def should_refuse(self, sample: EvaluationSample) -> bool | None:
        """False: it does not matter here."""
        return False


@register("rejection_precision")
@dataclass(frozen=True)
class RejectionPrecision(RefusalMetric):
    r"""Proportion of refusals that were right: of the questions the system declined, those that have no answer.

    .. math:: |R \cap U| / |R|

    R are the refusals, U the questions marked unanswerable, as defined under `negative_rejection_rate`. The share
    depends on how many questions are unanswerable: compare runs over the same samples.
    """

    metadata = declare(
        binary=True,
        output_skips=frozenset({"not_refused"}),
        skip_reasons={
            "not_refused": "the system answered",
            **RefusalMetric.metadata.skip_reasons,
        },
        failure_note="counts as a wrong refusal where the question has an answer, else leaves the mean",
        examples=(
            "rejection_precision",
            {"rejection_precision": {"on_system_failure": "exclude"}},
        ),
    )

    def worst_in(self, batch: Batch) -> float | Floats:
        """0 for answerable questions; a failed answer to an unanswerable one is neither refusal nor answer."""
        unanswerable = [self.should_refuse(sample) is True for sample in batch.samples]
        return np.where(unanswerable, math.nan, super().worst_in(batch)).astype(np.float64)

    def skips(self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None) -> str | None:
        """An answer is skipped."""
        return "not_refused" if refused is False else None

    def decision(self, should_refuse: bool, refused: bool) -> float:
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
    metadata = declare(
        stat_names=("rightly_refused", "refused", "unanswerable"),
        failure_note="counts as the wrong decision: as answered where the question has no answer, "
        "as refused where it has one",
        examples=(
            "rejection_f1",
            {"rejection_f1": {"refusal_patterns": ["the mat", "cats"]}},
        ),
    )

    @property
    def worst_stats(self) -> Sequence[float]:
        """Those that ``score`` gave."""
        return (math.nan,) * len(self.metadata.stat_names)

    def score(self, batch: Batch) -> Scores:
        """Whether the decision was right; statistics: in both sets, refused, unanswerable.

        A failed answer is the wrong decision.
        """
        seen, should = refusals(batch, self.detector), [self.should_refuse(sample) is True for sample in batch.samples]
        refused = np.where(seen.failed, np.logical_not(should), seen.refused)
        stats = np.column_stack([refused & np.array(should, dtype=np.bool_), refused, should]).astype(np.float64)
        return replace(super().score(batch), stats=stats)

    def decision(self, should_refuse: bool, refused: bool) -> float:
        """Whether the decision was right."""
        return float(should_refuse == refused)

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float:
        """F1 of the two sets of samples."""
        refused_rows: set[int] = set()
        unanswerable_rows: set[int] = set()
        for row, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
            should_refuse, refused = self.should_refuse(sample), self.reference_refused(sample, output)
            if should_refuse is not None and isinstance(refused, bool):
                refused_rows |= {row} if refused else set()
                unanswerable_rows |= {row} if should_refuse else set()
        sizes = len(refused_rows) + len(unanswerable_rows)
        return 2 * len(refused_rows & unanswerable_rows) / sizes if sizes else math.nan


@register("refusal_correctness")
@dataclass(frozen=True)
class RefusalCorrectness(RefusalMetric):
    r"""Proportion of the queries that should be refused, because no document is expected for them, that were refused.

    .. math:: |R \cap E| / |E|

    E are the samples whose `metadata["expected_doc_ids"]` is an empty list, as golden files write it, R the refusals,
    as defined under `negative_rejection_rate`. Anything but a list of ids is a failed measurement (`bad_expectation`).
    """

    metadata = declare(
        binary=True,
        skip_reasons={
            "expects_documents": "documents are expected for this query",
            "no_expectation": "`metadata` has no `expected_doc_ids`",
            **RefusalMetric.metadata.skip_reasons,
        },
        examples=(
            "refusal_correctness",
            {"refusal_correctness": {"languages": ["en"]}},
        ),
    )
    unclear_reason: ClassVar[str] = _BAD_EXPECTATION

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether this query should be refused."""
        return _expectation(sample) == "none"

    def should_refuse(self, sample: EvaluationSample) -> bool | None:
        """Whether no document is expected."""
        expectation = _expectation(sample)
        return None if expectation == _BAD_EXPECTATION else expectation == "none"

    def skips(self, sample: EvaluationSample, should_refuse: bool | None, refused: bool | str | None) -> str | None:
        """A query with expected documents, or without any expectation, is skipped."""
        return _expectation(sample) if should_refuse is False else None


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
