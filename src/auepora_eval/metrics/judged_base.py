"""Base classes of judged metrics: repeats, shared requests, verdicts on statements, ratings, and derivations."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    SampleJudgement,
    attempt_text,
    format_number,
    quote_text,
)
from ..core.metric_metadata import declared_options, refuse_removed_hooks
from ..core.metrics_base import declare
from ..core.registry import ConfiguredMetric, Use, parse_use, resolve
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import BadValueError
from ..judge.critic import Critic, JudgeClient, decides
from ..judge.metric import JudgedMetric, add_mean_step, add_vote_step, make_replay_critic, replay_repeats
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.panel import (
    Panel,
    current_item,
    judged_item,
    num_panel_columns,
    panel_columns,
    panel_summary,
)
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import (
    Rating,
    critic_signature,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..judge.session import SharedJudgeClient
from ..judge.support import (
    SupportVerdict,
    bound_verifier,
    check_support,
    parse_verifier,
    require_structured_critic,
    resolve_verifier,
    verifier_name,
)
from .semantic import note_truncation

# --- measures over verdicts: exact, plain functions of one answer ----------------------------------------------------

Verdicts = Sequence[bool]


def proportion(verdicts: Verdicts) -> Fraction:
    """The proportion of true verdicts: precision, recall or faithfulness, depending on the evidence."""
    return Fraction(sum(verdicts), len(verdicts))


def exact_fraction(value: float) -> Fraction:
    """The fraction that a float represents, for fewer than a million claims."""
    return Fraction(value).limit_denominator(1_000_000)


def average_precision(useful: Verdicts) -> Fraction:
    """The mean precision at the useful documents; 0 if none is useful."""
    total, found = Fraction(0), 0
    for rank, is_useful in enumerate(useful, start=1):
        if is_useful:
            found += 1
            total += Fraction(found, rank)
    return total / found if found else Fraction(0)


# --- base class of metrics whose scores are means over repeated judgements, and statistics of the judge --------------

_COLUMNS = ("asked", "came", "squares", "weighted", "unweighted", "masses", "mass")
"""Statistics of each sample, before the means of its dimensions and its counts."""
_REMOVED_HOOKS = {
    "load_prompt": "load_prompts",
    "extraction_prompt": "prompt_used",
    "further_texts": "question",
    "require_replies": "require_judges",
    "require_panel_weights": "require_judges",
}
"""Former names of methods of judged metrics; a class that still defines one is refused."""
MetricT = TypeVar("MetricT", bound="RepeatedJudgementMetric")


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with the statistics of its judgements."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True)
class RepeatedJudgementMetric(ConfiguredMetric, JudgedMetric):
    """A metric whose score of a sample is the mean over its judgements."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The judge: a critic, or ``{use: NAME}`` in a plan."""

    metadata = declare(
        reads=frozenset({"response"}),
        needs_all=True,  # for the spread of the judge; the memory is small
        python_options=frozenset({"critic"}),  # on the command line --judge-model names it
        skip_reasons={"no_response": "no answer was asked for"},
    )
    shares_requests: ClassVar[bool] = True
    """Whether a request that another metric of the batch made is not repeated."""
    _listed: ClassVar[str] = ""
    """What the critic is asked to list, such as ``sentences``: critics that reply with a number cannot."""
    prompt_options: ClassVar[tuple[str, ...]] = ("prompt",)
    """The options that replace the prompts of the metadata, in the same order."""
    prompts_used: tuple[Prompt, ...] = field(init=False, repr=False)
    """The prompts of the options, loaded, or the built-in ones."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        refuse_removed_hooks(cls, _REMOVED_HOOKS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompts_used", self.load_prompts())
        object.__setattr__(self, "critic", self.parse_critic(self.critic))
        super().__post_init__()

    def load_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the options, else the built-in ones."""
        names = zip(self.prompt_options, self.metadata.prompt_names, strict=True)
        return tuple(resolve_prompt(getattr(self, option), otherwise=built_in) for option, built_in in names)

    @property
    def prompt_used(self) -> Prompt:
        """The first prompt, which is that of the critic."""
        return self.prompts_used[0]

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The texts of prompt files, by the options that name them."""
        prompts = zip(self.prompt_options, self.prompts_used, strict=False)
        return {option: prompt.source for option, prompt in prompts if isinstance(getattr(self, option), (str, Path))}

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips empty queries, if this is among the reasons of the metric."""
        is_empty = "empty_query" in self.metadata.skip_reasons and not sample.query.strip()
        return "empty_query" if is_empty else super().applies(sample)

    @staticmethod
    def parse_critic(option: Any) -> Any:
        """The critic that an option describes; ``None`` and ``{use: NAME}`` are possible."""
        critic = parse_use(option)
        require_critic(critic)
        return critic

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

    @property
    def is_mean_probability(self) -> bool:
        """Whether scores are probabilities of what is right, from a decision model."""
        return self.metadata.binary and decides(bound_verifier(self.critic))

    def judging_critic(self) -> Critic:
        """The resolved critic, which must return lists if the metric asks for some."""
        critic = resolve_critic(self.critic, self.name)
        if self._listed:
            require_structured_critic(critic, self.name, self._listed)
        return critic

    @property
    def panel(self) -> Panel | None:
        """The panel that gives the scores, if it is known."""
        voting = getattr(self, "verifier", None) or self.critic
        found = voting.thing if isinstance(voting, Use) else voting
        return found if isinstance(found, Panel) else None

    def require_judges(self) -> None:
        """Raise unless the judges are configured."""
        self.judging_critic()

    def _require_judging(self) -> None:
        """Raise unless the judges are configured, and if the weights of a panel belong to another prompt."""
        self.require_judges()
        if self.panel is not None:
            self.panel.require_weights_for(self.name, [prompt.id for prompt in self.judging_prompts().values()])

    def require_ready(self) -> None:
        """Raise unless the judges are configured."""
        self._require_judging()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        return self.to_scores(batch, await self.outcomes(batch, judge))

    async def outcomes(self, batch: Batch, judge: JudgeClient) -> list[Score]:
        """One outcome per sample, judged concurrently, with the statistics of its judgements."""
        self._require_judging()  # raise once, not for every sample
        self._note_families(batch)
        client = SharedJudgeClient(batch, judge, self.name) if self.shares_requests else judge
        return await super().outcomes(batch, client)

    def _note_families(self, batch: Batch) -> None:
        """Note the first output by a model of the family of a member of the panel."""
        if self.panel is None:
            return
        for sample, output in zip(batch.samples, batch.outputs, strict=True):
            if output is not None:
                metadata = None if output.response is None else output.response.metadata
                note = self.panel.same_family_note([output.usage, output.extra, metadata])
                if note:
                    batch.note(f"metric '{self.name}': {note}", sample.sample_id)
                    return

    def to_scores(self, batch: Batch, outcomes: Sequence[Score]) -> Scores:
        """The scores of all samples, with the statistics of their judgements; truncated texts are noted."""
        empty = [0.0] * self._num_columns
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else empty for outcome in outcomes]
        scores = replace(
            Scores.from_list(list(outcomes)), stats=np.array(stats, dtype=np.float64).reshape(len(outcomes), len(empty))
        )
        if "num_truncated" in self.count_names:
            note_truncation(batch, self.name, self.count_column(scores, "num_truncated"))
        return scores

    def score_ratings(self, ratings: Sequence[Rating], requested: int) -> Score:
        """The mean over the judgements of one sample, of which ``requested`` were asked for."""
        values = [self.combine(rating.values) for rating in ratings]
        mean = math.fsum(values) / len(values)
        masses = list(chain.from_iterable(rating.masses for rating in ratings))
        statistics = (
            requested,
            len(ratings),
            math.fsum((value - mean) ** 2 for value in values),
            sum(rating.num_weighted for rating in ratings),
            sum(rating.num_unweighted for rating in ratings),
            len(masses),
            math.fsum(masses),
        )
        means = [math.fsum(column) / len(ratings) for column in zip(*map(self._columns, ratings), strict=True)]
        return _JudgedScore(mean, stats=(*statistics, *means, *panel_columns(self.panel, current_item())))

    def score_without_judge(self, rating: Rating) -> Score:
        """A score that needs no judge."""
        return _JudgedScore(
            self.combine(rating.values),
            stats=(*[0.0] * len(_COLUMNS), *self._columns(rating), *panel_columns(self.panel, None)),
        )

    @property
    def _num_columns(self) -> int:
        """The number of statistics per sample."""
        counts = len(self.dimension_names) + len(self.count_names)
        return len(_COLUMNS) + counts + num_panel_columns(self.panel)

    def _columns(self, rating: Rating) -> tuple[float, ...]:
        return (*(rating.values if self.dimension_names else ()), *rating.counts)

    def count_column(self, scores: Scores, name: str) -> npt.NDArray[np.float64]:
        """The counts with this name, per sample; 0 if nothing was judged."""
        assert scores.stats is not None
        place = len(_COLUMNS) + len(self.dimension_names) + self.count_names.index(name)
        return scores.stats[:, place]

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer has the worst value in every dimension, and no judgements."""
        worst = 0.0 if self.higher_is_better else 1.0
        dimensions = len(self.dimension_names)
        return (
            [math.nan] * len(_COLUMNS) + [worst] * dimensions + [0.0] * (self._num_columns - len(_COLUMNS) - dimensions)
        )

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, the counts, and statistics of the judge or the panel."""
        found: dict[str, Any] = {}
        names = self.dimension_names
        stats = (np.zeros((0, self._num_columns)) if scores.stats is None else scores.stats)[scores.counted]
        columns = list(stats.T[len(_COLUMNS) :])
        if names:
            found["dimensions"] = {
                name: math.fsum(column) / len(column) if len(column) else None
                for name, column in zip(names, columns, strict=False)
            }
        for name, column in zip(self.count_names, columns[len(names) :], strict=False):
            total = math.fsum(column)
            found[name] = int(total) if total.is_integer() else total
        if self.panel is not None and stats.shape[1] == self._num_columns:
            panel = panel_summary(self.panel, stats[:, self._num_columns - num_panel_columns(self.panel) :])
            found |= {"panel": panel} if panel else {}
        judge = _judge_summary(scores.values[scores.counted], stats)
        if self.is_mean_probability:
            judge["mean_probability"] = True
        return {**found, "judge": judge} if judge else found

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The steps from the stored judgements to the score; the judgements alone if they do not lead to it."""
        with judged_item(sample.sample_id, "" if output.response is None else output.response.text) as item:
            derivation = self.replay(sample, output, around)
        if derivation is None:
            return super().explain(sample, output, around)
        if any(judgement.decides for judgement in around.judgements):
            notice = DerivationBuilder().add_step("A decision model replies with probabilities and gives no reason")
            derivation = replace(derivation, steps=(*notice.steps, *derivation.steps))
        return add_vote_step(derivation, item.polls)

    def judging_prompts(self) -> dict[str, Prompt]:
        """By the option with a critic, the prompt that this critic answers."""
        return {"critic": self.prompt_used}

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt, and what the class declares."""
        judge = {"critic": critic_signature(self.critic), "prompt": self.prompt_used.id}
        return judge | declared_options(self, self.metadata)

    def with_replay_critics(self: MetricT, judgements: Sequence[SampleJudgement]) -> MetricT:
        """A copy with critics of the kind that made these judgements: requests depend on it."""
        twin = copy.copy(self)
        for option, prompt in self.judging_prompts().items():
            object.__setattr__(twin, option, make_replay_critic(judgements, prompt.id))
        return twin


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


# --- texts that statements are extracted from or compared with, each with a display name -----------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """One or several texts with a name."""

    name: str
    """Such as ``the answer``, or the id of a document."""
    texts: tuple[str, ...]


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
    return Source(name or ", ".join(part.name for part in parts), tuple(text for part in parts for text in part.texts))


# --- base class of metrics over verdicts on statements, by a critic or an NLI function -------------------------------


class StatementEvaluation:
    """One judgement of a sample: verifies statements, and records the verdicts in the order of requests."""

    def __init__(
        self, metric: StatementMetric, judge: JudgeClient, sample: EvaluationSample, output: SystemOutputs, repeat: int
    ) -> None:
        self.sample, self.output = sample, output
        self.checked: list[CheckedStatements] = []
        self._judge, self._verifier, self._prompt = judge, metric.checker(), metric.verification_prompt
        self._request_options: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> Source:
        """The answer of the system."""
        return Source("the answer", ("" if self.output.response is None else self.output.response.text,))

    @property
    def truncated(self) -> int:
        """The number of verdicts on truncated texts."""
        return sum(verdict.cut for statements in self.checked for verdict in statements.verdicts)

    async def verify(self, statements: Sequence[str], by: Source) -> list[SupportVerdict]:
        """A verdict per statement, from all texts of the source together."""
        checked = CheckedStatements(statements, by)
        self.checked.append(checked)
        checked.verdicts = await check_support(
            self._judge,
            self._verifier,
            by.texts,
            statements,
            prompt=self._prompt,
            source_name=by.name,
            **self._request_options,
        )
        return checked.verdicts


@dataclass(frozen=True)
class StatementMetric(RepeatedJudgementMetric):
    """A metric over verdicts whether texts support statements."""

    own_count_names: ClassVar[tuple[str, ...]] = ()
    """The names of the metric's own counts."""

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the counts; with an NLI model also ``num_truncated``."""
        truncated = ("num_truncated",) if isinstance(self.known_verifier, NliModel) else ()
        return (*self.own_count_names, *truncated)

    @property
    @abstractmethod
    def known_verifier(self) -> Any:
        """The verifier, as far as it is resolved."""

    @property
    @abstractmethod
    def verification_prompt(self) -> Prompt:
        """The prompt that asks for verdicts."""

    @property
    def control_kinds(self) -> Mapping[str, bool]:
        """Without altered facts: a single wrong statement among several leaves the score in the better half."""
        return {kind: accepted for kind, accepted in super().control_kinds.items() if kind != "altered_fact"}

    @property
    def uses_nli(self) -> bool:
        """Whether an NLI function or model verifies the statements, not a critic."""
        return isinstance(self.known_verifier, (EntailmentFunction, NliModel))

    @property
    def needs_judge(self) -> bool:
        """Whether a judge is called; NLI functions and models are deterministic and need no repeats."""
        return not isinstance(self.checker(), (EntailmentFunction, NliModel))

    @abstractmethod
    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """The resolved verifier."""

    def require_judges(self) -> None:
        """Raise unless a verifier is configured."""
        self.checker()

    def require_ready(self) -> None:
        """Raise unless the judges are configured and a verifier model can be loaded."""
        super().require_ready()
        verifier = self.checker()
        if isinstance(verifier, NliModel):
            verifier.require_ready()

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Rating | None:
        """The outcome that needs no judge; ``None`` if a judge is needed."""
        return None

    @abstractmethod
    async def evaluate(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[Any, Rating | Score]:
        """One judgement of a sample: its evaluation and the values with counts, or an outcome without values."""

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        known = self.known_outcome(sample, output)
        if known is not None:
            return known if isinstance(known, Score) else self.score_without_judge(self._counted(known, 0))

        async def once(repeat: int) -> Rating | Score:
            evaluation, outcome = await self.evaluate(sample, output, judge, repeat)
            return outcome if isinstance(outcome, Score) else self._counted(outcome, evaluation.truncated)

        results, requested = await run_repeats(judge, once) if self.needs_judge else ([await once(0)], 1)
        ratings = [result for result in results if isinstance(result, Rating)]
        skips = [result for result in results if isinstance(result, Score)]
        # If only some repeats find claims, the score is the mean over those.
        return self.score_ratings(ratings, requested - len(skips)) if ratings else skips[0]

    def _counted(self, rating: Rating, truncated: int) -> Rating:
        return replace(rating, counts=(*rating.counts, float(truncated))[: len(self.count_names)])

    def replay(self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation | None:
        """The input, the verdicts and the counts, from the stored judgements."""
        steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
        known = self.known_outcome(sample, output)
        if isinstance(known, Rating):
            self.add_input_steps(steps, sample, output, ())
            (value,) = known.values
            return steps.finish(f"No calls were needed: {format_number(value)}", value)
        if known is not None or (self.uses_nli and not around.may_call_models):
            return None
        metric = self.with_replay_critics(around.judgements)
        repeats = replay_repeats(
            around.judgements, lambda judge, repeat: metric.evaluate(sample, output, judge, repeat)
        )
        judged = [
            (repeat, evaluation, rating) for repeat, (evaluation, rating) in repeats or () if isinstance(rating, Rating)
        ]
        if not judged:
            return None
        self.add_input_steps(steps, sample, output, [evaluation for _, evaluation, _ in judged])
        for repeat, evaluation, rating in judged:
            if len(judged) > 1:
                steps.add_step(f"{attempt_text(repeat).capitalize()}:")
            self.add_result_steps(steps, evaluation, rating)
        values = [self.combine(rating.values) for _, _, rating in judged]
        return add_mean_step(steps, values) if len(values) > 1 else steps.finish_with_value(self.name, values[0])

    @abstractmethod
    def add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[Any],
    ) -> None:
        """Add the judged input of a sample to its derivation."""

    @abstractmethod
    def add_result_steps(self, steps: DerivationBuilder, evaluation: Any, rating: Rating) -> None:
        """Add the verdicts of one judgement, and the values that follow from them."""


@dataclass(frozen=True)
class VerdictMetric(StatementMetric):
    """A metric over verdicts by its critic on statements that need no extraction."""

    critic: Any = field(default=None, hash=False)
    """The verifier: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    metadata = declare(prompt_names=("support",))
    formula_text: ClassVar[str]
    """The formula of the score, as text."""
    evaluation_type: ClassVar[type[StatementEvaluation]] = StatementEvaluation

    @staticmethod
    def parse_critic(option: Any) -> Any:
        """The verifier that an option describes."""
        return parse_verifier(option, what="critic")

    @property
    def known_verifier(self) -> Any:
        """The critic, as far as it is resolved."""
        return bound_verifier(self.critic)

    @property
    def verification_prompt(self) -> Prompt:
        """The prompt in use."""
        return self.prompt_used

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

    @abstractmethod
    async def value(self, evaluation: StatementEvaluation) -> Rating:
        """The value and counts of one judgement."""

    async def evaluate(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[StatementEvaluation, Rating]:
        """One judgement of a sample: its verdicts, and the value with counts."""
        evaluation = self.evaluation_type(self, judge, sample, output, repeat)
        return evaluation, await self.value(evaluation)

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; failed measurements are noted."""
        scores = await super().ascore(batch, judge)
        for row in np.flatnonzero(scores.status == Status.MEASURE_FAILED).tolist():
            sample, output = batch.samples[row], batch.outputs[row]
            message = "" if output is None else self.failure_message(sample, output)
            if message:
                batch.note(f"metric '{self.name}': {message}", sample.sample_id)
        return scores

    def add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[StatementEvaluation],
    ) -> None:
        """Add the answer."""
        if output.response is not None:
            steps.add_step(f"The answer: {quote_text(output.response.text)}")

    def add_result_steps(self, steps: DerivationBuilder, evaluation: StatementEvaluation, rating: Rating) -> None:
        """Add the verdicts, the counts and the formula."""
        rows = []
        for checked in evaluation.checked:
            for statement, verdict in zip(checked.statements, checked.verdicts, strict=True):
                rows.append((statement, checked.against.name, verdict.level.label, verdict.rationale))
        steps.table("How far each is supported", ("statement", "by", "verdict", "why"), rows)
        if self.own_count_names:
            counts = zip(self.own_count_names, rating.counts, strict=True)
            steps.table("What was counted", ("what", "number"), counts)
        (value,) = rating.values
        fraction, number = str(exact_fraction(value)), format_number(value)
        shown = fraction if fraction == number else f"{fraction} = {number}"
        steps.add_step(f"{capitalise(self.formula_text)}: {shown}", value)

    def judging_prompts(self) -> dict[str, Prompt]:
        """The prompt that the critic answers, unless it is an NLI function."""
        return {} if self.uses_nli else super().judging_prompts()

    def signature_options(self) -> dict[str, str]:
        """The verifier, the prompt, and what the class declares."""
        prompt = {} if self.uses_nli else {"prompt": self.prompt_used.id}
        return {"critic": verifier_name(self.critic), **prompt, **declared_options(self, self.metadata)}


def capitalise(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
