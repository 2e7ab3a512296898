"""Base classes of judged metrics: verdicts on statements, ratings, repeats, shared requests, and derivations."""

from __future__ import annotations

import asyncio
import copy
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import (
    NO_CONTEXT,
    Cell,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    SampleJudgement,
    format_number,
    quote_text,
)
from ..core.metrics_base import add_judgements, declare
from ..core.registry import ConfiguredMetric, Use, parse_use, resolve
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadValueError, JudgeError
from ..judge.cache import request_key
from ..judge.critic import Critic, JudgeClient, Judgement, JudgeRequest, StructuredCritic
from ..judge.metric import JudgedMetric
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import (
    Rating,
    RatingPrompt,
    RatingSet,
    Scale,
    critic_signature,
    parse_rating,
    request_ratings,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..judge.session import SharedJudgeClient
from ..judge.support import SupportVerdict, check_support, parse_verifier, resolve_verifier, verifier_name
from ..runtime.loop_thread import LoopThread
from .semantic import note_truncation

if TYPE_CHECKING:
    from ..judge.critic import JudgeClient

# --- measures over verdicts on claims: exact, plain functions of one answer ------------------------------------------
# A verdict is true where the evidence supports all of a claim. A table has a row per document and a column per claim.

Verdicts = Sequence[bool]


def proportion(verdicts: Verdicts) -> Fraction:
    """The proportion of true verdicts: precision, recall or faithfulness, depending on the evidence."""
    return Fraction(sum(verdicts), len(verdicts))


def exact_fraction(value: float) -> Fraction:
    """The fraction that a float represents, for fewer than a million claims."""
    return Fraction(value).limit_denominator(1_000_000)


def supported_by_any(table: Sequence[Verdicts], claims: int) -> list[bool]:
    """Which claims at least one document supports."""
    return [any(row[claim] for row in table) for claim in range(claims)]


def relevant_documents(table: Sequence[Verdicts]) -> list[bool]:
    """Which documents support at least one claim of the reference."""
    return [any(row) for row in table]


def claim_f_beta(precision: Fraction, recall: Fraction, beta: Fraction = Fraction(1)) -> Fraction:
    """The weighted harmonic mean; above 1 ``beta`` favours recall. Two zeros give 0."""
    weight = beta * beta
    below = weight * precision + recall
    return (1 + weight) * precision * recall / below if below else Fraction(0)


def context_utilisation(in_context: Verdicts, in_answer: Verdicts) -> Fraction | None:
    """The proportion of the reference's claims in the documents that the answer has; ``None`` if there are none."""
    used = [answered for in_documents, answered in zip(in_context, in_answer, strict=True) if in_documents]
    return proportion(used) if used else None


def unsupported_proportion(correct: Verdicts, in_context: Verdicts, *, is_correct: bool) -> Fraction:
    """The proportion of the answer's claims without support by documents that are correct, or are not."""
    return proportion(
        [
            supported == is_correct and not in_documents
            for supported, in_documents in zip(correct, in_context, strict=True)
        ]
    )


def noise_sensitivity(correct: Verdicts, table: Sequence[Verdicts], relevant: Verdicts) -> tuple[Fraction, Fraction]:
    """The proportions of wrong claims from a relevant document, and from irrelevant ones alone."""
    claims = len(correct)
    from_relevant = supported_by_any([row for row, useful in zip(table, relevant, strict=True) if useful], claims)
    from_any = supported_by_any(table, claims)
    wrong = [not one for one in correct]
    relevant_noise = [bad and useful for bad, useful in zip(wrong, from_relevant, strict=True)]
    irrelevant_noise = [
        bad and in_documents and not useful
        for bad, in_documents, useful in zip(wrong, from_any, from_relevant, strict=True)
    ]
    return proportion(relevant_noise), proportion(irrelevant_noise)


def average_precision(useful: Verdicts) -> Fraction:
    """The mean precision at the useful documents; 0 if none is useful."""
    total, found = Fraction(0), 0
    for rank, one in enumerate(useful, start=1):
        if one:
            found += 1
            total += Fraction(found, rank)
    return total / found if found else Fraction(0)


# --- base class of metrics whose scores are means over repeated judgements, and statistics of the judge --------------

_COLUMNS = ("asked", "came", "squares", "weighted", "unweighted", "masses", "mass")
"""Statistics of each sample, before the means of its dimensions and its counts."""


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with the statistics of its judgements."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True)
class RepeatedJudgementMetric(ConfiguredMetric, JudgedMetric):
    """A metric whose score of a sample is the mean over its judgements."""

    metadata = declare(
        needs_all=True,  # for the spread of the judge; the memory is small
    )

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The names of the dimensions, if there are several."""
        return ()

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the counts, such as ``num_claims``."""
        return ()

    def combine(self, values: Sequence[float]) -> float:
        """The score of one judgement from its values."""
        (value,) = values
        return value

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        outcomes = await asyncio.gather(
            *(
                self._ascore_checked(batch, sample, output, judge, answered=answered)
                for sample, output, answered in self.rows(batch)
            )
        )
        return self.to_scores(outcomes)

    def to_scores(self, outcomes: Sequence[Score]) -> Scores:
        """The scores of all samples, with the statistics of their judgements."""
        empty = [0.0] * (len(_COLUMNS) + len(self.dimension_names) + len(self.count_names))
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else empty for outcome in outcomes]
        table = np.array(stats, dtype=np.float64).reshape(len(outcomes), len(empty))
        return replace(Scores.from_list(list(outcomes)), stats=table)

    def score_ratings(self, ratings: RatingSet) -> Score:
        """The mean over the judgements of one sample."""
        ratings_list = ratings.ratings
        values = [self.combine(rating.values) for rating in ratings_list]
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        masses = [mass for rating in ratings_list for mass in rating.masses]
        weighted, unweighted = (
            sum(one.num_weighted for one in ratings_list),
            sum(one.num_unweighted for one in ratings_list),
        )
        statistics = [
            ratings.num_requested,
            len(ratings_list),
            squares,
            weighted,
            unweighted,
            len(masses),
            math.fsum(masses),
        ]
        dimensions = [rating.values if self.dimension_names else () for rating in ratings_list]
        columns = [
            (*values_by_dimension, *rating.counts)
            for values_by_dimension, rating in zip(dimensions, ratings_list, strict=True)
        ]
        means = [math.fsum(column) / len(ratings_list) for column in zip(*columns, strict=True)]
        return _JudgedScore(mean, stats=(*statistics, *means))

    def score_without_judge(self, rating: Rating) -> Score:
        """A score that needs no judge."""
        dimensions = rating.values if self.dimension_names else ()
        return _JudgedScore(self.combine(rating.values), stats=(*[0.0] * len(_COLUMNS), *dimensions, *rating.counts))

    def count_column(self, scores: Scores, name: str) -> npt.NDArray[np.float64]:
        """The counts with this name, per sample; 0 if nothing was judged."""
        assert scores.stats is not None
        place = len(_COLUMNS) + len(self.dimension_names) + self.count_names.index(name)
        column: npt.NDArray[np.float64] = scores.stats[:, place]
        return column

    def judgements_requested(self, scores: Scores) -> npt.NDArray[np.float64]:
        """The number of requested judgements of each sample; 0 if no judge was needed."""
        assert scores.stats is not None
        column: npt.NDArray[np.float64] = scores.stats[:, _COLUMNS.index("asked")]
        return column

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer has the worst value in every dimension, and no judgements."""
        worst = 0.0 if self.higher_is_better else 1.0
        return [math.nan] * len(_COLUMNS) + [worst] * len(self.dimension_names) + [0.0] * len(self.count_names)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, the counts, and statistics of the judge."""
        details: dict[str, Any] = {}
        names = self.dimension_names
        width = len(_COLUMNS) + len(names) + len(self.count_names)
        stats = (np.zeros((0, width)) if scores.stats is None else scores.stats)[scores.counted]
        columns = list(stats.T[len(_COLUMNS) :])
        if names:
            details["dimensions"] = {
                name: math.fsum(column) / len(column) if len(column) else None
                for name, column in zip(names, columns, strict=False)
            }
        for name, column in zip(self.count_names, columns[len(names) :], strict=True):
            total = math.fsum(column)
            details[name] = int(total) if total.is_integer() else total
        judge = _judge_summary(scores.values[scores.counted], stats)
        return {**details, "judge": judge} if judge else details


def _judge_summary(values: npt.NDArray[np.float64], stats: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Statistics of the judge: number of judgements, agreement with itself, probability mass."""
    table = dict(zip(_COLUMNS, stats.T, strict=False))
    summary = repeat_summary(values, table["asked"], table["came"], table["squares"])
    weighted, unweighted = int(table["weighted"].sum()), int(table["unweighted"].sum())
    if weighted or unweighted:
        summary |= {"num_weighted": weighted, "num_unweighted": unweighted}
        masses = int(table["masses"].sum())
        summary["mean_mass"] = math.fsum(table["mass"]) / masses if masses else None
    return summary


def repeat_summary(
    values: npt.NDArray[np.float64],
    requested: npt.NDArray[np.float64],
    received: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> dict[str, Any]:
    """Number and spread of the judgements; empty if each sample was judged once.

    Per sample: its score, the numbers of requested and of received judgements, and the sum of their squared deviations.
    """
    if not (requested > 1).any():
        return {}
    return {
        "repeats": int(requested.max()),
        "num_judgements": int(received.sum()),
        "num_failed": int((requested - received).sum()),
        **_spread(values, received, squares),
    }


def _spread(
    values: npt.NDArray[np.float64], received: npt.NDArray[np.float64], squares: npt.NDArray[np.float64]
) -> dict[str, float | None]:
    r"""The spread of judgements of the same answer, and the proportion of the variance of the scores that it explains.

    With :math:`s^2` the variance within samples, pooled, and :math:`n_i` judgements of sample i, the judge adds
    :math:`s^2 / n_i` to the variance of its score: a proportion of the variance of all scores, and :math:`\sqrt{\sum_i
    s^2 / n_i} / N` to the error of their mean.
    """
    degrees_of_freedom = float((received[received > 0] - 1).sum())
    if degrees_of_freedom <= 0:  # no sample was judged twice
        return {"sd_within_samples": None, "share_of_variance": None, "error_of_mean": None}
    variance = math.fsum(squares) / degrees_of_freedom
    added = [variance / n for n in received.tolist() if n]
    total, proportion = len(values), None
    if total > 1:
        mean = math.fsum(values) / total
        spread = math.fsum((value - mean) ** 2 for value in values.tolist()) / (total - 1)
        proportion = min(1.0, math.fsum(added) / total / spread) if spread > 0 else None
    return {
        "sd_within_samples": math.sqrt(variance),
        "share_of_variance": proportion,
        "error_of_mean": math.sqrt(math.fsum(added)) / total,
    }


# --- mixin for metrics that share judge requests within a batch ------------------------------------------------------


@dataclass(frozen=True)
class SharedJudgementMixin(RepeatedJudgementMetric):
    """A metric that shares its judge requests with other metrics of the batch."""

    @abstractmethod
    def require_judges(self) -> None:
        """Raise unless the judges are configured."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; a request that another metric of the batch made is not repeated."""
        self.require_judges()  # raise once, not for every sample
        scores = await super().ascore(batch, SharedJudgeClient(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_truncation(batch, self.name, self.count_column(scores, "num_truncated"))
        return scores


# --- texts that statements are extracted from or compared with, each with a display name -----------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """One or several texts with a name."""

    name: str
    """Such as ``the answer``, or the id of a document."""
    texts: tuple[str, ...]

    @property
    def has_text(self) -> bool:
        """Whether any text is not blank."""
        return any(text.strip() for text in self.texts)


@dataclass(slots=True)
class CheckedStatements:
    """Statements verified against a source."""

    statements: Sequence[str]
    against: Source
    verdicts: list[SupportVerdict] = field(default_factory=list)
    """One per statement, once they are available."""


def document_sources(retrieved: Iterable[RetrievedDocument]) -> list[Source]:
    """One source per document, named by its id."""
    return [Source(item.doc.doc_id, (item.doc.text or "",)) for item in retrieved]


def merge_sources(sources: Iterable[Source], name: str = "") -> Source:
    """Merge several sources into one, with a name or all their names."""
    parts = list(sources)
    return Source(name or ", ".join(one.name for one in parts), tuple(text for one in parts for text in one.texts))


# --- replay of stored judgements in place of a judge, for derivations ------------------------------------------------

T = TypeVar("T")
_UNKNOWN = "not_recorded"


@dataclass
class ReplayCritic(StructuredCritic):
    """A critic that is never called: it only sets the form of the requests."""

    one_number: bool = False
    logprobs: bool = False

    async def judge(self, request: object) -> Judgement:
        """Never called."""
        raise NotImplementedError


def make_replay_critic(judgements: Iterable[SampleJudgement], prompt_id: str) -> ReplayCritic:
    """A critic of the kind that answered this prompt."""
    matching = [one for one in judgements if one.prompt_id == prompt_id]
    return ReplayCritic(any(one.one_number for one in matching), any(one.logprobs for one in matching))


class _ReplaySession:
    """A judging session that returns stored judgements."""

    def __init__(self, judgements: Iterable[SampleJudgement]) -> None:
        stored = list(judgements)
        self._judgements = {one.request: one for one in stored}
        self.repeats = 1 + max((one.judge_repeat for one in stored), default=0)

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The stored judgement; ``JudgeError`` if there is none for this request."""
        one = self._judgements.get(request_key(request))
        if one is None or one.error is not None:
            raise JudgeError(_UNKNOWN if one is None else one.error or "")
        return Judgement(one.answer, weighted=one.weighted)


def replay_repeats(
    judgements: Iterable[SampleJudgement], once: Callable[[_ReplaySession, int], Awaitable[T]]
) -> list[tuple[int, T]] | None:
    """The results of ``once`` per repeat, without the repeats in which the judge failed.

    ``None`` if a request is not stored, or if every repeat failed.
    """
    judge = _ReplaySession(judgements)

    async def run_all() -> list[tuple[int, T]] | None:
        results = []
        for repeat in range(judge.repeats):
            try:
                results.append((repeat, await once(judge, repeat)))
            except JudgeError as error:
                if error.reason == _UNKNOWN:
                    return None
        return results or None

    with LoopThread() as loop:
        return loop.run(run_all())


# --- derivations of metrics over verdicts on statements: input, verdicts and counts ----------------------------------


def verdict_steps(
    metric: VerdictMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
    if output.response is not None:
        steps.add_step(f"The answer: {quote_text(output.response.text)}")
    metric.add_input_steps(steps, sample, output)
    known = metric.known_outcome(sample, output)
    if known is not None:
        return (
            None
            if known.value is None
            else steps.finish(f"Nobody had to be asked: {format_number(known.value)}", known.value)
        )
    uses_nli = isinstance(metric.known_critic, (EntailmentFunction, NliModel))
    if uses_nli and not around.may_call_models:
        return None
    verifier = metric.checker() if uses_nli else make_replay_critic(around.judgements, metric.prompt_used.id)

    async def once(judge: JudgeClient, repeat: int) -> tuple[VerdictResult, list[CheckedStatements]]:
        return await metric.judge_once(sample, output, judge, verifier, repeat)

    repeats = replay_repeats(around.judgements, once)
    if repeats is None:
        return None
    for repeat, (result, checked) in repeats:
        suffix = f", judged for the {repeat + 1}. time" if len(repeats) > 1 else ""
        _add_verdict_table(steps, checked, suffix)
        counts = zip(metric.own_count_names, result.counts, strict=True)
        if metric.own_count_names:
            steps.table("What was counted", ("what", "number"), [(name, value) for name, value in counts])
        fraction, value = str(exact_fraction(result.value)), format_number(result.value)
        shown = fraction if fraction == value else f"{fraction} = {value}"
        steps.add_step(f"{metric.formula_text[0].upper()}{metric.formula_text[1:]}: {shown}", result.value)
    return add_mean_step(steps, metric.name, [result.value for _, (result, _) in repeats])


def _add_verdict_table(steps: DerivationBuilder, checked: Sequence[CheckedStatements], suffix: str) -> None:
    rows = [
        (statement, one.against.name, verdict.level.label, verdict.rationale)
        for one in checked
        for statement, verdict in zip(one.statements, one.verdicts, strict=True)
    ]
    steps.table(f"How far each is supported{suffix}", ("statement", "by", "verdict", "why"), rows)


def add_mean_step(steps: DerivationBuilder, name: str, values: Sequence[float]) -> Derivation:
    """Add the last step: the only value, or the mean over the repeats."""
    if len(values) == 1:
        return steps.finish_with_value(name, values[0])
    shown = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({shown}) / {len(values)}", math.fsum(values) / len(values)
    )


# --- base class of metrics over verdicts on statements, by a critic or an NLI function -------------------------------

Verify = Callable[[Sequence[Source], Sequence[str]], Awaitable[list[SupportVerdict]]]
"""Takes evidence (all together) and statements; returns a verdict per statement."""


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """The value and counts of one judgement of a sample."""

    value: float
    counts: tuple[float, ...] = ()
    """The counts, in the order of ``own_count_names``."""


@dataclass(frozen=True)
class VerdictMetric(SharedJudgementMixin):
    """A metric over verdicts whether texts support statements."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The verifier: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True)
    """A custom prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """The custom prompt, loaded."""

    metadata = declare(
        reads=frozenset({"response"}),
        python_options=frozenset({"critic"}),  # on the command line --judge-model names it
        skip_reasons={"no_response": "no answer was asked for"},
        prompt_names=("support",),
    )
    own_count_names: ClassVar[tuple[str, ...]] = ()
    """The names of the metric's own counts."""
    formula_text: ClassVar[str]
    """The formula of the score, as text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_verifier(self.critic, what="critic"))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise="support"))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """The prompt in use."""
        return self.own_prompt or resolve_prompt(None, otherwise="support")

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the counts; with an NLI model also ``num_truncated``."""
        return (
            (*self.own_count_names, "num_truncated")
            if isinstance(self.known_critic, NliModel)
            else self.own_count_names
        )

    @property
    def known_critic(self) -> Any:
        """The verifier, as far as it is resolved."""
        return parse_verifier(self.critic.thing) if isinstance(self.critic, Use) else self.critic

    @abstractmethod
    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
        """The outcome that needs no judge; ``None`` if a judge is needed."""

    @abstractmethod
    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """The result of one judgement of a sample."""

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """The resolved verifier."""
        verifier = resolve(self.critic, what=f"the critic of metric '{self.name}'")
        if verifier is None:
            raise BadValueError(
                f"metric '{self.name}' needs a critic: pass critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for "
                "an NLI model, or on the command line --judge-model NAME"
            )
        return resolve_verifier(verifier, what=f"the critic of metric '{self.name}'")

    def require_judges(self) -> None:
        """Raise unless a verifier is configured."""
        self.checker()

    def require_ready(self) -> None:
        """Raise unless a verifier is configured."""
        verifier = self.checker()
        if isinstance(verifier, NliModel):
            verifier.require_ready()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; failed measurements are noted."""
        scores = await super().ascore(batch, judge)
        for row in np.flatnonzero(scores.status == Status.MEASURE_FAILED).tolist():
            sample, output = batch.samples[row], batch.outputs[row]
            message = "" if output is None else self.failure_message(sample, output)
            if message:
                batch.note(f"metric '{self.name}': {message}", sample.sample_id)
        return scores

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        outcome = self.known_outcome(sample, output)
        if isinstance(outcome, Score):
            return outcome
        if outcome is not None:
            return self.score_without_judge(self._rating(outcome, 0))
        verifier = self.checker()

        async def once(repeat: int) -> Rating:
            result, checked = await self.judge_once(sample, output, judge, verifier, repeat)
            return self._rating(result, sum(verdict.cut for one in checked for verdict in one.verdicts))

        if isinstance(verifier, (EntailmentFunction, NliModel)):  # deterministic: no repeats
            return self.score_ratings(RatingSet((await once(0),), 1))
        ratings, requested = await run_repeats(judge, once)
        return self.score_ratings(RatingSet(tuple(ratings), requested))

    async def judge_once(
        self,
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        verifier: Critic | EntailmentFunction | NliModel,
        repeat: int,
    ) -> tuple[VerdictResult, list[CheckedStatements]]:
        """The result of one judgement of a sample, and its verdicts in the order of requests."""
        checked: list[CheckedStatements] = []

        async def verify(evidence: Sequence[Source], statements: Sequence[str]) -> list[SupportVerdict]:
            statements_checked = CheckedStatements(statements, merge_sources(evidence))
            checked.append(statements_checked)
            statements_checked.verdicts = await check_support(
                judge,
                verifier,
                statements_checked.against.texts,
                statements,
                metric=self.name,
                sample_id=sample.sample_id,
                repeat=repeat,
                prompt=self.own_prompt,
                source_name=statements_checked.against.name,
            )
            return statements_checked.verdicts

        return await self.count(sample, output, verify), checked

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The input, the verdicts and the counts, from the stored judgements."""
        derivation = verdict_steps(self, sample, output, around)
        return super().explain(sample, output, around) if derivation is None else derivation

    @abstractmethod
    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """Add the judged input of a sample to its derivation."""

    def _rating(self, result: VerdictResult, cut: int) -> Rating:
        counts = (*result.counts, float(cut))[: len(self.count_names)]
        return Rating((result.value,), counts=counts)

    def signature_options(self) -> dict[str, str]:
        """The verifier and the prompt."""
        uses_nli = isinstance(self.known_critic, (EntailmentFunction, NliModel))
        return {"critic": verifier_name(self.critic), **({} if uses_nli else {"prompt": self.prompt_used.id})}


# --- derivations of judge ratings: the ratings, rescaled to [0, 1], and their mean -----------------------------------


def judgement_steps(
    question: RatingPrompt | Score,
    judgements: Iterable[SampleJudgement],
    combine: Callable[[Sequence[float]], float],
    *,
    aggregation: str,
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    if isinstance(question, Score):
        assert question.value is not None
        return DerivationBuilder().finish(f"Nobody had to be asked: {format_number(question.value)}", question.value)
    ratings: list[tuple[int, Rating]] = []
    known = list(judgements)
    for repeat in sorted({one.judge_repeat for one in known}):
        rating = _rating(question, [one for one in known if one.judge_repeat == repeat], repeat)
        if isinstance(rating, str):
            return None
        if rating is not None:
            ratings.append((repeat, rating))
    if not ratings:
        return None
    low, high = question.scale.low, question.scale.high
    steps = DerivationBuilder()
    for name, text in question.texts.items():
        if isinstance(text, str):
            steps.add_step(f"The judge was shown as {name}: {quote_text(text)}")
        elif not isinstance(text, Mapping):
            steps.add_step(f"The judge was shown as {name}: {len(text)} texts")
    add_judgements(steps, known)
    rows: list[tuple[Cell, ...]] = [(repeat + 1, *one.values, combine(one.values)) for repeat, one in ratings]
    steps.table(
        f"Each number x on the scale from {low:g} to {high:g} is (x − {low:g}) / ({high:g} − {low:g})"
        + (f", put together by {aggregation}" if aggregation else ""),
        ("time", *question.names, "together"),
        rows,
    )
    values = [combine(one.values) for _, one in ratings]
    summands = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({summands}) / {len(values)}", math.fsum(values) / len(values)
    )


def _rating(question: RatingPrompt, judgements: Sequence[SampleJudgement], repeat: int) -> Rating | str | None:
    """The rating of one repeat; ``None`` if the judge failed, a string if the requests do not match."""
    critic = ReplayCritic(judgements[0].one_number, judgements[0].logprobs)
    requests = question.requests(critic, repeat)
    by_key = {one.request: one for one in judgements}
    answers = [by_key.get(request_key(request)) for _, request in requests]
    if any(one is None for one in answers):
        return "other questions"
    found = [one for one in answers if one is not None]
    if any(one.error is not None for one in found):
        return None
    judged = [Judgement(one.answer, weighted=one.weighted) for one in found]
    return parse_rating(requests, judged, question.scale)


# --- base class of metrics in which a critic rates an answer on a scale ----------------------------------------------


@dataclass(frozen=True)
class CriticMetric(RepeatedJudgementMetric):
    """An answer metric from a critic's ratings on a scale."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The judge: an ``LLMCritic``, a ``StructuredCritic``, or ``{use: NAME}`` in a plan."""
    scale: str | None = field(default="1-5", kw_only=True)
    """The rating scale, the worst value first."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a structured critic is asked for a rationale before the score."""
    prompt: Any = field(default=None, kw_only=True)
    """A custom prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """The custom prompt, loaded."""

    metadata = declare(
        reads=frozenset({"response"}),
        python_options=frozenset({"critic"}),  # on the command line --judge-model names it
        skip_reasons={"no_response": "no answer was asked for"},
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        if self.scale is not None:
            object.__setattr__(self, "scale", str(Scale.parse(self.scale)))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise=self.metadata.prompt_names[0]))
        super().__post_init__()

    @property
    def scale_used(self) -> str:
        """The rating scale in use."""
        assert self.scale is not None
        return self.scale

    @property
    def prompt_used(self) -> Prompt:
        """The prompt in use."""
        return self.own_prompt or resolve_prompt(None, otherwise=self.metadata.prompt_names[0])

    def require_ready(self) -> None:
        """Raise unless a judge is configured."""
        resolve_critic(self.critic, self.name)
        super().require_ready()

    @abstractmethod
    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The rating prompt, or an outcome that needs no judge."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        resolve_critic(self.critic, self.name)  # raise once, not for every sample
        return await super().ascore(batch, judge)

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        question = self.question(sample, output)
        if isinstance(question, Score):
            return question
        return self.score_ratings(await request_ratings(judge, resolve_critic(self.critic, self.name), question))

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The stored ratings, rescaled to [0, 1], and their mean."""
        metric = self._with_replay_critic(around.judgements)
        question = metric.question(sample, output)
        derivation = judgement_steps(
            question, around.judgements, metric.combine, aggregation=getattr(self, "aggregation", "")
        )
        return super().explain(sample, output, around) if derivation is None else derivation

    def _with_replay_critic(self, judgements: Iterable[SampleJudgement]) -> CriticMetric:
        """A copy with a critic of the kind that made these judgements: the prompt may depend on it."""
        first = next(iter(judgements), None)
        if first is None:
            return self
        twin = copy.copy(self)
        object.__setattr__(twin, "critic", ReplayCritic(first.one_number, first.logprobs))
        return twin

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt and the scale."""
        return {
            "critic": critic_signature(self.critic),
            "prompt": self.prompt_used.id,
            "scale": self.scale_used,
            **({} if self.rationale else {"rationale": "no"}),
        }
