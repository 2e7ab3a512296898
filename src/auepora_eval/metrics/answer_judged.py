"""Correctness, relevance and refusal of answers by a judge; sufficiency of documents, with the answers that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from ..core.conventions import RankCutOff, SignatureOption
from ..core.metric_hooks import base_name, is_paired
from ..core.metrics_base import BatchMetric, declare
from ..core.reduce import Clusters
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..judge.ratings import critic_signature
from ..options import Ge, Lt
from ..stats.intervals import Bools, Floats, interval_ends, mean_interval
from .judged_base import RatingMetric
from .rated_inputs import JudgedInput, RatedInputs, input_skips

_EMPTY_QUERY = {"empty_query": "the query has no text"}
_ANY_REFERENCE = (
    "If there are several reference answers, each of them is acceptable by itself: grade the answer by the one that it "
    "matches best."
)
_ALL_REFERENCES = (
    "If there are several reference answers, they are parts of one answer: a correct answer gives all of them, and one "
    "that gives some of them is partly correct."
)
_EXACT_NUMBERS = (
    "A number must be that of the reference; other units, other notations and rounding to the precision of the "
    "reference do not matter."
)


@dataclass(frozen=True)
class _JudgedAnswer(RatingMetric):
    """A metric in which a judge is shown the question and the answer, perhaps with more."""

    _fixed_inputs: ClassVar[tuple[str, ...]] = ("question", "answer")
    metadata = declare(
        skip_reasons=input_skips("question", "answer"),
    )

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """An empty answer scores 0, and no judge is called."""
        return None if response_text(output).strip() else Score(0.0)


@register("llm_correctness")
@dataclass(frozen=True)
class LLMCorrectness(_JudgedAnswer):
    r"""Correctness of the answer by its reference, in one judgement: correct, partly correct or incorrect.

    .. math:: 1 \text{ if correct}, \; 1/2 \text{ if partly}, \; 0 \text{ if incorrect}

    The judge is shown the question, the reference answers and the answer. Further details that the reference does not
    mention do not matter. With `references: any` each of several references is acceptable by itself; with `all` they
    are parts of one answer, and a correct answer gives all of them. Numbers must be those of the reference, apart from
    units and notation; `tolerance` accepts quantities that differ by a proportion of it, such as 0.02. An answer that
    declines is incorrect if the reference answers the question. An empty answer scores 0, and no judge is called. The
    judge may return probabilities: then the score is an expected value. `claim_f1` compares claim by claim.
    """

    # Not an option: the prompt explains these classes.
    scale: Any = field(
        default_factory=lambda: {"incorrect": 0.0, "partly": 0.5, "correct": 1.0}, init=False, hash=False
    )
    references: Literal["any", "all"] = field(default="any", kw_only=True)
    """Whether one reference suffices, or the answer must give all of them."""
    tolerance: Annotated[float, Ge(0), Lt(1)] = field(default=0.0, kw_only=True)
    """The accepted difference of a quantity, as a proportion of that in the reference."""

    target = TargetCategory.GENERATION_CORRECTNESS
    _fixed_inputs: ClassVar[tuple[str, ...]] = ("question", "reference", "answer")
    metadata = declare(
        skip_reasons=input_skips("question", "reference", "answer"),
        prompt_names=("correctness",),
        signature={"references": "references", "tolerance": SignatureOption("tolerance", unless=0)},
    )

    def _words(self) -> Mapping[str, str]:
        """How references count, and when numbers are equal."""
        within = (
            f"A quantity may differ by at most {100 * self.tolerance:g} % of that in the reference, whatever its unit; "
            "dates, years, identifiers and small counts must be those of the reference."
        )
        return {
            "references": _ANY_REFERENCE if self.references == "any" else _ALL_REFERENCES,
            "numbers": within if self.tolerance else _EXACT_NUMBERS,
        }


@register("llm_answer_relevance")
@dataclass(frozen=True)
class LLMAnswerRelevance(_JudgedAnswer):
    r"""How far the answer addresses the question, whether or not it is true, as a language model judges it.

    .. math:: (x - \text{lowest}) / (\text{highest} - \text{lowest})

    The judge is shown the question and the answer, and gives a number x on the `scale`. An answer that declines or
    evades gets the lowest. An empty answer scores 0, and no judge is called. `reverse_question_relevance` measures the
    same with embeddings, `answer_relevance` by words, and `llm_answer_quality` grades several dimensions at once.
    """

    scale: Any = field(default="1-5", kw_only=True, hash=False)

    target = TargetCategory.GENERATION_RELEVANCE
    metadata = declare(
        skip_reasons={**_EMPTY_QUERY, **input_skips("question", "answer")},
        prompt_names=("answer_relevance",),
    )


@register("llm_refusal")
@dataclass(frozen=True)
class LLMRefusal(_JudgedAnswer):
    r"""Whether the answer declines to answer the question, as a language model judges it: 1 or 0.

    .. math:: [\text{the answer declines}]

    Where the output has `refused`, that decides, and an empty answer is a refusal; no judge is called for either, as in
    the metrics of refusals by phrases (`negative_rejection_rate`, `over_refusal_rate`). A failed output is no refusal
    and is left out. Lower counts as better, which is right only for questions that have an answer: with `sliced` or a
    slice over `labels.answerable` the mean over the others is the proportion that was rightly declined.
    """

    scale: Any = field(default="yes-no", init=False, hash=False)

    target = TargetCategory.NEGATIVE_REJECTION
    metadata = declare(
        controls={"refusal": False, "reference": True},
        higher_is_better=False,
        counts_system_failures=False,
        prompt_names=("refusal",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "needs_response", False)  # ``refused`` suffices

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The decision of the output itself, and empty answers."""
        if output.refused is not None:
            known = isinstance(output.refused, (bool, np.bool_))
            return Score(float(output.refused)) if known else Score.fail("bad_refused")
        if output.response is None:
            return Score.skip("no_response")
        return None if output.response.text.strip() else Score(1.0)


# --- sufficiency of the retrieved documents, and what the system made of it ------------------------------------------

_ROWS = ("sufficient", "insufficient")


@register("llm_context_sufficiency", at="k")
@dataclass(frozen=True)
class LLMContextSufficiency(RatingMetric):
    r"""Whether a plausible answer could be derived from the first k retrieved documents alone, as judged: 1 or 0.

    .. math:: [\text{the documents suffice for an answer}]

    The judge is shown the question and the documents, but neither a reference nor the answer of the system. Nothing
    retrieved scores 0, and no judge is called. Where the same evaluation has a metric of correctness
    (`llm_correctness`, or one of 0 and 1 such as `exact_match`) and one of refusals (`llm_refusal`,
    `over_refusal_rate`, `negative_rejection_rate`), the details have a table, `answers`: of the questions with
    sufficient and of those with insufficient documents, the proportions of answers that are correct, abstained and
    wrong, with intervals. Wrong answers to insufficient documents point to the retriever and to answers made up; those
    to sufficient ones to the generator. `answers_by` names the metrics, and says whether one judge gave both verdicts,
    so that its errors occur in both.
    """

    scale: Any = field(default="yes-no", init=False, hash=False)
    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""

    target = TargetCategory.RETRIEVAL_RELEVANCE
    _fixed_inputs: ClassVar[tuple[str, ...]] = ("question", "documents")
    metadata = declare(
        reads=frozenset({"retrieved"}),
        skip_reasons={**_EMPTY_QUERY, **input_skips("question", "documents")},
        prompt_names=("context_sufficiency",),
        reference="Joren et al. 2025 (sufficient context)",
        reads_depth="k",
    )

    @property
    def _rated(self) -> RatedInputs:
        return RatedInputs((JudgedInput("question"), JudgedInput("documents", k=self.k)), self.rating_scale)

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """Nothing retrieved does not suffice."""
        return None if output.retrieved[: self.k] else Score(0.0)

    def joint_details(
        self, own: Scores, others: Sequence[tuple[BatchMetric, Scores]], clusters: Clusters | None
    ) -> dict[str, Any]:
        """Correct, abstained and wrong answers by the sufficiency of their documents."""
        correctness = _correctness_metric(others)
        refused, refusal_names = _refused(others, len(own))
        if correctness is None or not refusal_names:
            return {}
        metric, scores = correctness
        outcomes = _outcomes(metric, scores, refused)
        known = (own.status == Status.SCORED) & ~np.isnan(refused)
        known &= (scores.status == Status.SCORED) | outcomes["abstained"]
        if not known.any():
            return {}
        cells = {}
        for row, in_row in zip(_ROWS, (own.values > 0.5, own.values <= 0.5), strict=True):
            rows = np.flatnonzero(in_row & known)
            of_row = None if clusters is None else clusters[rows]
            for name, mask in outcomes.items():
                values = mask[rows].astype(np.float64)
                interval = mean_interval(values, clusters=of_row, binary=True) if len(values) else None
                cells[f"{row}, {name}"] = {
                    "count": int(values.sum()),
                    "share": float(values.mean()) if len(values) else None,
                    "interval": interval_ends(interval),
                }
        judge = critic_signature(getattr(metric, "critic", None))
        by = {
            "correct": metric.name,
            "abstained": ", ".join(refusal_names),
            "one_judge": metric.metadata.calls_judge and judge == critic_signature(self.critic),
            "num_left_out": int((~known).sum()),
        }
        return {"answers": cells, "answers_by": by}


def _correctness_metric(others: Sequence[tuple[BatchMetric, Scores]]) -> tuple[BatchMetric, Scores] | None:
    """``llm_correctness``, else the first 0/1 metric of the correctness of answers."""
    suitable = [
        (metric, scores)
        for metric, scores in others
        if metric.target is TargetCategory.GENERATION_CORRECTNESS
        and metric.higher_is_better
        and "response" in metric.metadata.reads
        and not is_paired(metric)
        and (isinstance(metric, LLMCorrectness) or metric.metadata.binary)
    ]
    return min(suitable, key=lambda pair: not isinstance(pair[0], LLMCorrectness), default=None)


def _refused(others: Sequence[tuple[BatchMetric, Scores]], n: int) -> tuple[Floats, tuple[str, ...]]:
    """Per sample whether the system declined, NaN where unknown, and the metrics that say so."""
    refused, names = np.full(n, np.nan), []
    for refusal in ("llm_refusal", "over_refusal_rate", "negative_rejection_rate"):
        for metric, scores in others:
            if base_name(metric) == refusal:
                names.append(metric.name)
                known = np.isnan(refused) & (scores.status == Status.SCORED)
                refused = np.where(known, scores.values, refused)
    return refused, tuple(names)


def _outcomes(metric: BatchMetric, scores: Scores, refused: Floats) -> dict[str, Bools]:
    """Masks of the answers by outcome. A mean over repeats, or an expected value, counts as the nearest class."""
    declined: Bools = refused > 0.5
    halves = 1 if metric.metadata.binary else 2
    correct: Bools = ~declined & (scores.values > 1 - 0.5 / halves)
    partly: Bools = ~declined & ~correct & (scores.values > 0.5 / halves)
    found = {"correct": correct, "abstained": declined, "wrong": ~(declined | correct | partly)}
    return found if halves == 1 else {"correct": correct, "partly": partly, **found}
