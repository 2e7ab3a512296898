"""Failure attribution: for every wrong answer the first step of the pipeline that failed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.derivation import add_outcome, add_result, format_number, record_steps
from ..core.metric_hooks import asks_models, decides_tokens
from ..core.metrics_base import (
    BatchMetric,
    RunInfo,
    apply_failure_policy,
    declare,
    is_judged,
    set_metadata,
    with_conventions,
)
from ..core.reduce import Clusters
from ..core.registry import metric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadTypeError, BadValueError
from ..features.texts import Mask, is_unanswerable, refusals, text_cuts, unanswerable
from ..options import PositiveInt
from ..stats.intervals import interval_ends, mean_interval
from .abstention import RefusalDetectionMetric
from .answer_base import TokenizedMetric
from .wrappers import (
    ComputedReducer,
    GoldHitAtK,
    as_batch_metric,
    inner_scores,
    inner_signature_options,
    is_paired_metric,
    require_in_range,
)

CAUSES = {
    "not_returned": "no relevant document was returned at all",
    "below_cut": "a relevant document was returned, but not among the first k",
    "refused": "a relevant document was in the context, and the system declined to answer",
    "contradicts_context": "a relevant document was in the context, and the answer is not borne out by it",
    "unused": "a relevant document was in the context, and the answer is wrong though its words stand there",
    "system_failed": "the system gave no answer",
}
"""Causes of a wrong answer, in the order of the pipeline; each wrong answer has exactly one."""
_RETRIEVAL_CAUSES = ("not_returned", "below_cut")
"""The causes attributed to the retriever; they come first."""


@register("failure_attribution", at="k")
@dataclass(frozen=True)
class FailureAttribution(RefusalDetectionMetric):
    r"""Proportion of the wrong answers for which the retriever is to blame; details tell the proportion of every cause.

    .. math:: |\{w : \text{no relevant document among the first } k\}| \,/\, |\{w\}|

    w are the wrong answers to answerable questions with gold documents: those whose score by `correct` (default
    `containment`) is below `correct_from` (default 1). Each has one cause, the first link that broke: no relevant
    document was returned (`not_returned`); one was, but below the cut (`below_cut`); one was in the context, and the
    system declined to answer (`refused`); it answered what the context does not bear out (`contradicts_context`); or
    its words stand in the context, and it is wrong all the same (`unused`). Where the system failed, that is the cause
    (`system_failed`), and the value leaves it out. The shares, `share_<cause>` in the details, are of all of these and
    add up to one; counts and intervals are in `causes`.

    What bears an answer out is told by `faithfulness` (default: `support_density` over the first k documents, so that
    words stand in for meaning; a judge's metric is better) with at least `faithful_from` (default 0.5). Where that
    cannot be told, for want of texts, the cause is `unused`. `attribute_failures` gives the cause of every sample. Gold
    with spans is also returned where chunks of other ids cover .45 of a gold span.
    """

    k: PositiveInt = field(default=5, kw_only=True)
    correct: Any = field(default="containment", kw_only=True)
    correct_from: float = field(default=1.0, kw_only=True)
    faithfulness: Any = field(default=None, kw_only=True)
    faithful_from: float = field(default=0.5, kw_only=True)

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        binary=True,
        counts_system_failures=False,  # the retriever's part in a system failure is unknown
        handles_failures=True,
        by_chunk_id=True,
        matches_gold=True,
        needs_all=True,
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
            "unresolved_gold": "the gold has no span, text or id by which it could be found",
            "unanswerable": "the question has no answer: see the metrics of refusals",
            "no_reference": "the sample has no reference answer",
            "no_response": "no answer was asked for",
            "answered_right": "the answer is right",
        },
        failure_note="is a cause of its own among the shares, and leaves the value",
        higher_is_better=False,
        examples=(
            "failure_attribution",
            {"failure_attribution@2": {"correct": "token_f1", "correct_from": 0.5, "languages": ["en"]}},
            {"failure_attribution": {"faithfulness": "evidence_overlap", "faithful_from": 0.2, "min_relevance": 2}},
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {"support_density": {"k": self.k}} if self.faithfulness is None else self.faithfulness
        for name, spec in (("correct", self.correct), ("faithfulness", given)):
            try:
                built = as_batch_metric(metric(spec))
            except BadTypeError as error:
                raise BadTypeError(f"{name} must be a metric: {error}") from error
            if is_paired_metric(built) or isinstance(built.reducer, ComputedReducer):
                raise BadValueError(f"{name} cannot be '{built.name}', which has no score for a single answer")
            if not built.higher_is_better:
                raise BadValueError(f"{name} cannot be '{built.name}', of which less is better")
            if name == "correct" or self.faithfulness is not None:
                object.__setattr__(self, name, built)
        correct, _, _, faithful = self._parts
        if "response" not in correct.metadata.reads:
            raise BadValueError(f"correct must be a metric of the answer, which '{correct.name}' is not")
        require_in_range("correct_from", self.correct_from, correct)
        require_in_range("faithful_from", self.faithful_from, faithful)
        set_metadata(
            self,
            skip_reasons={**as_batch_metric(self.correct).metadata.skip_reasons, **type(self).metadata.skip_reasons},
        )

    @property
    def _parts(self) -> tuple[BatchMetric, BatchMetric, BatchMetric, BatchMetric]:
        """The metrics for correctness, a hit within k, a hit at any depth, and support by the context."""
        faithfulness = metric("support_density", k=self.k) if self.faithfulness is None else self.faithfulness
        hit, returned = GoldHitAtK(self.k), GoldHitAtK(2**31)  # more than any ranking has
        return (
            with_conventions(as_batch_metric(self.correct), self.active_conventions),
            with_conventions(hit, self.active_conventions),
            with_conventions(returned, self.active_conventions),
            with_conventions(as_batch_metric(faithfulness), self.active_conventions),
        )

    def required_fields(self) -> list[str]:
        """Gold documents, and the fields that the correctness metric requires."""
        return list(dict.fromkeys(["relevant_docs", *self._parts[0].required_fields()]))

    @property
    def decides_tokens(self) -> bool:
        """Whether a metric inside it does."""
        return any(decides_tokens(part) for part in self._parts)

    def signature_options(self) -> dict[str, str]:
        """The definitions of wrong, hit, refusal and supported."""
        correct, hit, _, faithful = self._parts
        return {
            **inner_signature_options(correct, "correct"),
            "correct.from": repr(float(self.correct_from)),
            **inner_signature_options(hit, "hit"),
            **super().signature_options(),
            **inner_signature_options(faithful, "faithfulness"),
            "faithfulness.from": repr(float(self.faithful_from)),
        }

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``: a document below it could not be returned."""
        return {} if run.top_k is None else {"top_k": str(run.top_k)}

    def score(self, batch: Batch) -> Scores:
        """1 if the cause is the retriever's; the statistics are a one-hot vector of the cause."""
        correctness, hit_metric, return_metric, support_metric = self._parts
        correct, hit, returned = inner_scores(correctness, batch), hit_metric.score(batch), return_metric.score(batch)
        no_answer, unclear = unanswerable(batch)
        right = (correct.status == Status.SCORED) & (correct.values >= self.correct_from)
        failed = correct.status == Status.SYSTEM_FAILED
        in_context = (correct.status == Status.SCORED) & ~right & (hit.values == 1) & ~no_answer & ~unclear
        declined = refusals(batch, self.detector)
        undecided = in_context & ~declined.decided
        refused = in_context & declined.refused
        # Support may need a judge, so only the answers that need it are scored.
        low, unmeasured = self._unsupported(batch, support_metric, in_context & ~undecided & ~refused)
        causes = np.select(
            [failed, returned.values == 0, hit.values == 0, refused, low],
            [_CAUSE_INDEX[name] for name in ("system_failed", *_RETRIEVAL_CAUSES, "refused", "contradicts_context")],
            _CAUSE_INDEX["unused"],
        )
        # A system failure is a cause, but not one of the retriever: it has no value.
        values = np.where(correct.counted & ~failed, causes < len(_RETRIEVAL_CAUSES), math.nan)
        scores = replace(correct, values=values.astype(np.float64), stats=None)
        for rows, status, reason in (
            (unmeasured, Status.MEASURE_FAILED, "faithfulness_failed"),
            (undecided, Status.MEASURE_FAILED, "refusal_unclear"),
            (unclear & (scores.status == Status.SCORED), Status.MEASURE_FAILED, "bad_answerable"),
            (right, Status.SKIPPED, "answered_right"),
            (no_answer, Status.SKIPPED, "unanswerable"),
            *((hit.with_reason(reason), Status.SKIPPED, reason) for reason in hit.reason_names[1:]),
        ):
            scores = scores.replaced(rows, status, reason, math.nan)
        if isinstance(support_metric, TokenizedMetric) and support_metric.decides_tokens:
            scores = replace(scores, cuts=text_cuts(batch, support_metric.gold_side))
        one_of = np.equal.outer(causes, np.arange(len(CAUSES))).astype(np.float64)
        counts = self.active_conventions.on_system_failure == "worst"
        has_cause = scores.counted | ((scores.status == Status.SYSTEM_FAILED) & counts)
        keys = np.array(list(CAUSES), dtype=object)[causes]
        keys[~has_cause] = None
        return replace(scores, stats=one_of, keys=tuple(keys.tolist()))

    def _unsupported(self, batch: Batch, support: BatchMetric, mask: Mask) -> tuple[Mask, Mask]:
        """Masks of the answers that the context does not support, and of those not measured."""
        rows = np.flatnonzero(mask)
        low, unmeasured = np.zeros(len(batch), np.bool_), np.zeros(len(batch), np.bool_)
        if len(rows):
            subset = batch.take(rows)
            found = apply_failure_policy(support, subset)
            for note, (_, first) in subset.notes.items():
                batch.note(note, first)
            low[rows] = (found.status == Status.SCORED) & (found.values < self.faithful_from)
            unmeasured[rows] = found.status == Status.MEASURE_FAILED
        return low, unmeasured

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """Proportion, count and interval of every cause among the wrong answers."""
        has_cause = np.array([key is not None for key in scores.keys or ()], dtype=np.bool_)
        group_clusters = None if clusters is None else clusters[has_cause]
        proportions: dict[str, float | None] = {}
        causes: dict[str, Any] = {}
        for column, cause in enumerate(CAUSES):
            of_cause = np.zeros(0) if scores.stats is None else scores.stats[has_cause, column]
            interval = mean_interval(of_cause, clusters=group_clusters, binary=True) if len(of_cause) else None
            proportion = float(of_cause.sum() / len(of_cause)) if len(of_cause) else None
            proportions[f"share_{cause}"] = proportion
            causes[cause] = {
                "count": int(of_cause.sum()),
                "share": proportion,
                "interval": interval_ends(interval),
            }
        return {**proportions, "causes": causes}

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there are gold documents and a reference answer."""
        return sample.relevant_docs is not None and sample.reference_answer is not None

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """1 if the cause is the retriever's, by the plain definitions; ``None`` where a judge or a model decides."""
        if any(asks_models(part) or is_judged(part) for part in self._parts):
            return None
        cause = self.plain_cause(sample, output)
        if not isinstance(cause, str):
            return cause
        blamed = float(cause in _RETRIEVAL_CAUSES)
        return Score(add_outcome(f"The cause is `{cause}`, {CAUSES[cause]}; the retriever's", blamed))

    def plain_cause(self, sample: EvaluationSample, output: SystemOutputs) -> str | Score | None:
        """The cause of one answered sample, a score if it has none, ``None`` without a plain definition."""
        parts = self._parts
        with record_steps():  # the parts are named, but their own steps are left out
            correct, hit, returned, faithful = (part.reference(sample, output) for part in parts)
        if correct is None or hit is None or returned is None:
            return None
        if hit.status is not Status.SCORED:
            return hit
        no_answer = is_unanswerable(sample)
        if no_answer:
            return Score.skip("unanswerable")
        if correct.value is None:
            return correct
        if correct.value >= self.correct_from:
            return Score.skip("answered_right")
        if no_answer is None:
            return Score.fail("bad_answerable")
        add_result(f"Wrong is below {format_number(self.correct_from)}: {parts[0].name}", correct.value)
        add_result("Was any relevant document returned? hit_rate", returned.value or 0.0)
        if not returned.value:
            return "not_returned"
        add_result(f"Was one among the first {self.k}? {parts[1].name}", hit.value or 0.0)
        if not hit.value:
            return "below_cut"
        declined = self.reference_refused(sample, output)
        if not isinstance(declined, bool):
            return Score.fail("refusal_unclear")
        if declined:
            return "refused"
        if faithful is None or faithful.value is None:
            failed = faithful is not None and faithful.status is Status.MEASURE_FAILED
            return Score.fail("faithfulness_failed") if failed else "unused"
        add_result(f"Borne out is {format_number(self.faithful_from)} or more: {parts[3].name}", faithful.value)
        return "contradicts_context" if faithful.value < self.faithful_from else "unused"


_CAUSE_INDEX = {cause: number for number, cause in enumerate(CAUSES)}


def attribute_failures(
    samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None], **options: Any
) -> list[str | None]:
    """The cause of every wrong answer, in the order of the samples; ``None`` if it is correct or cannot be judged.

    Takes the options of ``failure_attribution``: ``k``, ``correct``, ``faithfulness``, ``refusal_patterns``, ...
    """
    result = FailureAttribution(**options).compute(samples, outputs)
    assert isinstance(result.scores, Scores)
    return list(result.scores.keys or ())
