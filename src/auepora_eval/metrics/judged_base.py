"""The base class of judged metrics: repeated judgements of a sample, their statistics, and the steps to a score."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    SampleJudgement,
    add_judgements,
    format_number,
    quote_text,
)
from ..core.metric_metadata import declared_options
from ..core.metrics_base import declare
from ..core.registry import ConfiguredMetric, parse_use
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import Critic, JudgeClient, decides
from ..judge.metric import (
    JudgedMetric,
    add_mean_step,
    add_vote_step,
    bound_critic,
    judge_samples,
    make_replay_critic,
    replay_repeats,
    voting_panel,
)
from ..judge.panel import Panel, current_item, judged_item, num_panel_columns, panel_columns, panel_summary
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import (
    UNIT_SCALE,
    ClassScale,
    Rating,
    RatingPrompt,
    RatingScale,
    critic_signature,
    parse_scale,
    request_rating,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..judge.session import SharedJudgeClient
from ..judge.support import require_structured_critic
from .rated_inputs import RatedInputs, known_inputs, plain_text
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


# --- statistics of the judgements of each sample, in columns beside the scores ---------------------------------------

_COLUMNS = ("asked", "came", "squares", "weighted", "unweighted", "masses", "mass")
"""Statistics of each sample, before the means of its dimensions and its counts."""


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with the statistics of its judgements."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgementColumns:
    """The columns of statistics of a metric: of judgements, dimensions and counts, and of the members of a panel."""

    dimensions: tuple[str, ...]
    counts: tuple[str, ...]
    panel: Panel | None

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(_COLUMNS) + len(self.dimensions) + len(self.counts) + num_panel_columns(self.panel)

    def score(self, ratings: Sequence[Rating], values: Sequence[float], requested: int) -> Score:
        """The mean over the judgements of one sample, of which ``requested`` were asked for."""
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
        means = [math.fsum(column) / len(ratings) for column in zip(*map(self._own, ratings), strict=True)]
        return _JudgedScore(mean, stats=(*statistics, *means, *panel_columns(self.panel, current_item())))

    def score_without_judge(self, rating: Rating, value: float) -> Score:
        """A score that needs no judge."""
        return _JudgedScore(value, stats=(*[0.0] * len(_COLUMNS), *self._own(rating), *panel_columns(self.panel, None)))

    def _own(self, rating: Rating) -> tuple[float, ...]:
        values = rating.values if self.dimensions else ()
        padding = (0.0,) * (len(self.counts) - len(rating.counts))
        return (*values, *rating.counts[: len(self.counts)], *padding)

    def scores(self, outcomes: Sequence[Score]) -> Scores:
        """The scores of all samples, with their statistics."""
        empty = [0.0] * self.size
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else empty for outcome in outcomes]
        table = np.array(stats, dtype=np.float64).reshape(len(outcomes), len(empty))
        return replace(Scores.from_list(list(outcomes)), stats=table)

    def count(self, scores: Scores, name: str) -> npt.NDArray[np.float64]:
        """The counts with this name, per sample; 0 if nothing was judged."""
        assert scores.stats is not None
        return scores.stats[:, len(_COLUMNS) + len(self.dimensions) + self.counts.index(name)]

    def worst(self, value: float) -> list[float]:
        """The statistics of a failed answer: the worst value in every dimension, and no judgements."""
        nothing = [0.0] * (self.size - len(_COLUMNS) - len(self.dimensions))
        return [math.nan] * len(_COLUMNS) + [value] * len(self.dimensions) + nothing

    def details(self, scores: Scores, *, is_probability: bool) -> dict[str, Any]:
        """The mean of each dimension, the counts, and statistics of the judge or the panel.

        ``is_probability``: whether scores are probabilities of what is right.
        """
        found: dict[str, Any] = {}
        stats = (np.zeros((0, self.size)) if scores.stats is None else scores.stats)[scores.counted]
        columns = list(stats.T[len(_COLUMNS) :])
        if self.dimensions:
            means = [math.fsum(column) / len(column) if len(column) else None for column in columns]
            found["dimensions"] = dict(zip(self.dimensions, means, strict=False))
        for name, column in zip(self.counts, columns[len(self.dimensions) :], strict=False):
            total = math.fsum(column)
            found[name] = int(total) if total.is_integer() else total
        if self.panel is not None and stats.shape[1] == self.size:
            panel = panel_summary(self.panel, stats[:, self.size - num_panel_columns(self.panel) :])
            found |= {"panel": panel} if panel else {}
        judge = _judge_summary(scores.values[scores.counted], stats)
        if is_probability:
            judge["mean_probability"] = True
        return {**found, "judge": judge} if judge else found


def _judge_summary(values: npt.NDArray[np.float64], stats: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Statistics of the judge: number of judgements, agreement with itself, probability mass."""
    table = dict(zip(_COLUMNS, stats.T, strict=False))
    requested, received = table["asked"], table["came"]
    summary: dict[str, Any] = {}
    if (requested > 1).any():  # without repeats there is no spread
        summary = {
            "repeats": int(requested.max()),
            "num_judgements": int(received.sum()),
            "num_failed": int((requested - received).sum()),
            **_spread(values, received, table["squares"]),
        }
    weighted, unweighted = int(table["weighted"].sum()), int(table["unweighted"].sum())
    if weighted or unweighted:
        summary |= {"num_weighted": weighted, "num_unweighted": unweighted}
        masses = int(table["masses"].sum())
        summary["mean_mass"] = math.fsum(table["mass"]) / masses if masses else None
    return summary


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


# --- the base class --------------------------------------------------------------------------------------------------

Judged = tuple[int, Any, Rating]
"""The number of a repeat, what was judged in it, and its rating."""


def parse_critic(option: Any) -> Any:
    """The critic that an option describes; ``None`` and ``{use: NAME}`` are possible."""
    critic = parse_use(option)
    require_critic(critic)
    return critic


@dataclass(frozen=True)
class RepeatedJudgementMetric(ConfiguredMetric, JudgedMetric):
    """A metric whose score of a sample is the mean over its judgements.

    A class declares its prompts (``metadata.prompt_names``), the dimensions and counts of a judgement, and either a
    ``question`` whose reply is a rating, or in ``_judge_once`` how a judgement becomes one. ``combine`` makes a score
    of a rating.
    """

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False, metadata={"convert": parse_critic})
    """The judge: a critic, or ``{use: NAME}`` in a plan."""

    metadata = declare(
        reads=frozenset({"response"}),
        needs_all=True,  # for the spread of the judge; the memory is small
        python_options=frozenset({"critic"}),  # on the command line --judge-model names it
        skip_reasons={"no_response": "no answer was asked for"},
    )
    _removed_hooks = {  # noqa: RUF012 -- never changed
        "load_prompt": "_load_prompts",
        "load_prompts": "_load_prompts",
        "extraction_prompt": "prompts_used",
        "prompt_used": "prompts_used",
        "verification_prompt": "prompts_used",
        "prompt_options": "_prompt_options",
        "further_texts": "question",
        "require_replies": "_require_judges",
        "require_panel_weights": "_require_judges",
        "require_judges": "_require_judges",
        "judging_critic": "_resolved_critic",
        "judging_prompts": "_judging_prompts",
        "shares_requests": "_shares_requests",
        "dimension_names": "_dimension_names",
        "count_names": "_count_names",
        "own_count_names": "_own_counts",
        "known_outcome": "_known_outcome",
        "evaluate": "_judge_once",
        "add_input_steps": "_add_input_steps",
        "add_result_steps": "_add_result_steps",
        "score_ratings": "JudgementColumns.score",
        "judged_inputs": "_rated",
        "fixed_inputs": "_fixed_inputs",
        "words": "_words",
    }
    _shares_requests: ClassVar[bool] = True
    """Whether a request that another metric of the batch made is not repeated."""
    _listed: ClassVar[str] = ""
    """What the critic is asked to list, such as ``sentences``: critics that reply with a number cannot."""
    _prompt_options: ClassVar[tuple[str, ...]] = ("prompt",)
    """The options that replace the prompts of the metadata, in the same order."""
    prompts_used: tuple[Prompt, ...] = field(init=False, repr=False)
    """The prompts of the options, loaded, or the built-in ones; the first is that of the critic."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompts_used", self._load_prompts())
        super().__post_init__()
        self._rated.declare_for(self)

    def _load_prompts(self) -> tuple[Prompt, ...]:
        """The prompts of the options, else the built-in ones."""
        names = zip(self._prompt_options, self.metadata.prompt_names, strict=True)
        return tuple(resolve_prompt(getattr(self, option), otherwise=built_in) for option, built_in in names)

    def _prompt_texts(self) -> Mapping[str, str]:
        """The texts of prompt files, by the options that name them."""
        prompts = zip(self._prompt_options, self.prompts_used, strict=False)
        return {option: prompt.source for option, prompt in prompts if isinstance(getattr(self, option), (str, Path))}

    @property
    def _rated(self) -> RatedInputs:
        """The inputs that the judge rates, and the scale; none by default."""
        return RatedInputs((), UNIT_SCALE)

    def required_fields(self) -> list[str]:
        """The fields of samples that the inputs are read from."""
        return self._rated.required_fields

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples that lack an input, and empty queries if this is among the reasons of the metric."""
        if "empty_query" in self.metadata.skip_reasons and not sample.query.strip():
            return "empty_query"
        return self._rated.skip_reason(sample)

    def _certain_controls(self, kinds: Mapping[str, bool]) -> Mapping[str, bool]:
        """Those of the target, as far as the judge is shown what an answer or the documents are compared with."""
        return kinds if self._rated.has_certain_controls(self.target) else {}

    @property
    def _dimension_names(self) -> tuple[str, ...]:
        """The names of the dimensions, if there are several."""
        return ()

    @property
    def _count_names(self) -> tuple[str, ...]:
        """The names of the counts, such as ``num_claims``."""
        return ()

    # --- the judge -----------------------------------------------------------------------------------------------

    def _resolved_critic(self) -> Critic:
        """The critic, which must return lists if the metric asks for some."""
        critic = resolve_critic(self.critic, self.name)
        if self._listed:
            require_structured_critic(critic, self.name, self._listed)
        return critic

    def _require_judges(self) -> None:
        """Raise unless the judges are configured, and can reply on the scale."""
        self._rated.require_critic(self._resolved_critic(), self.name)

    def _judging_prompts(self) -> dict[str, Prompt]:
        """By the option with a critic, the prompt that this critic answers."""
        return {"critic": self.prompts_used[0]}

    def _require_judging(self) -> None:
        """Raise unless the judges are configured, and if the weights of a panel belong to another prompt."""
        self._require_judges()
        panel = voting_panel(self)
        if panel is not None:
            panel.require_weights_for(self.name, [prompt.id for prompt in self._judging_prompts().values()])

    def require_ready(self) -> None:
        """Raise unless the judges are configured."""
        self._require_judging()
        super().require_ready()

    # --- judgements of a sample ----------------------------------------------------------------------------------

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Rating | None:
        """The outcome that needs no judge; ``None`` if a judge is needed."""
        return None

    @property
    def _needs_repeats(self) -> bool:
        """Whether judgements may differ."""
        return True

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """What the judge is asked about a sample, or the outcome where it need not be asked."""
        raise NotImplementedError

    async def _judge_once(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[Any, Rating | Score]:
        """One judgement of a sample: what was judged, and the rating or an outcome without one."""
        question = self.question(sample, output)
        if isinstance(question, Score):
            return question, question
        return question, await request_rating(judge, self._resolved_critic(), question, repeat)

    def combine(self, values: Sequence[float]) -> float:
        """The score of one judgement from its values."""
        (value,) = values
        return value

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        known = self._known_outcome(sample, output)
        if isinstance(known, Rating):
            return self._columns.score_without_judge(known, self.combine(known.values))
        if known is not None:
            return known

        async def once(repeat: int) -> Rating | Score:
            _, outcome = await self._judge_once(sample, output, judge, repeat)
            return outcome

        results, requested = await run_repeats(judge, once) if self._needs_repeats else ([await once(0)], 1)
        ratings = [result for result in results if isinstance(result, Rating)]
        without = [result for result in results if isinstance(result, Score)]
        # If only some repeats find claims, the score is the mean over those.
        return self._score(ratings, requested - len(without)) if ratings else without[0]

    def _score(self, ratings: Sequence[Rating], requested: int) -> Score:
        return self._columns.score(ratings, [self.combine(rating.values) for rating in ratings], requested)

    # --- batches and their statistics ----------------------------------------------------------------------------

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        return self._with_columns(batch, await self._judge_batch(batch, judge))

    async def _judge_batch(self, batch: Batch, judge: JudgeClient) -> list[Score]:
        """One outcome per sample, judged concurrently, with the statistics of its judgements."""
        self._require_judging()  # raise once, not for every sample
        _note_families(self, batch)
        return await judge_samples(
            self, batch, SharedJudgeClient(batch, judge, self.name) if self._shares_requests else judge
        )

    def _with_columns(self, batch: Batch, outcomes: Sequence[Score]) -> Scores:
        """The scores of all samples, with the statistics of their judgements; truncated texts are noted."""
        scores = self._columns.scores(outcomes)
        if "num_truncated" in self._count_names:
            note_truncation(batch, self.name, self._columns.count(scores, "num_truncated"))
        return scores

    @property
    def _columns(self) -> JudgementColumns:
        return JudgementColumns(self._dimension_names, self._count_names, voting_panel(self))

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer has the worst value in every dimension, and no judgements."""
        return self._columns.worst(0.0 if self.higher_is_better else 1.0)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, the counts, and statistics of the judge or the panel."""
        keeps_probabilities = self.metadata.binary and getattr(self, "threshold", None) is None
        is_probability = keeps_probabilities and decides(bound_critic(self))
        return self._columns.details(scores, is_probability=is_probability)

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt, and what the class declares."""
        judge = {"critic": critic_signature(self.critic), "prompt": self.prompts_used[0].id}
        return judge | declared_options(self, self.metadata)

    # --- derivations from stored judgements ----------------------------------------------------------------------

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

    def replay(self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation | None:
        """The stored ratings, rescaled to [0, 1], and their mean; ``None`` for a metric that asks for no ratings."""
        if type(self).question is RepeatedJudgementMetric.question:
            return None
        metric = self._with_replay_critics(around.judgements)
        steps = DerivationBuilder()
        question = metric._known_outcome(sample, output) or metric.question(sample, output)
        if not isinstance(question, RatingPrompt):
            assert isinstance(question, Score)
            assert question.value is not None
            return steps.finish(f"No calls were needed: {format_number(question.value)}", question.value)
        judged = metric._replayed(sample, output, around.judgements)
        if judged is None:
            return None
        for name, text in question.texts.items():
            if isinstance(text, str):
                steps.add_step(f"The judge was shown as {name}: {quote_text(text)}")
            elif not isinstance(text, Mapping):
                steps.add_step(f"The judge was shown as {name}: {len(text)} texts")
        add_judgements(steps, around.judgements)
        scores = [metric.combine(rating.values) for _, _, rating in judged]
        rows = [(repeat + 1, *rating.values, score) for (repeat, _, rating), score in zip(judged, scores, strict=True)]
        aggregation = getattr(metric, "aggregation", "")
        title = question.scale.conversion + (f", combined by {aggregation}" if aggregation else "")
        steps.table(title, ("time", *question.scored_names, "together"), rows)
        return add_mean_step(steps, scores)

    def _with_replay_critics(self, judgements: Sequence[SampleJudgement]) -> Self:
        """A copy with critics of the kind that made these judgements: requests depend on it."""
        twin = copy.copy(self)
        for option, prompt in self._judging_prompts().items():
            object.__setattr__(twin, option, make_replay_critic(judgements, prompt.id))
        return twin

    def _replayed(
        self, sample: EvaluationSample, output: SystemOutputs, judgements: Sequence[SampleJudgement]
    ) -> list[Judged] | None:
        """The ratings that follow from stored judgements; ``None`` if these do not match the present requests."""
        repeats = replay_repeats(judgements, lambda judge, repeat: self._judge_once(sample, output, judge, repeat))
        found = repeats or ()
        judged = [(repeat, subject, rating) for repeat, (subject, rating) in found if isinstance(rating, Rating)]
        return judged or None


def _note_families(metric: RepeatedJudgementMetric, batch: Batch) -> None:
    """Note the first output by a model of the family of a member of the panel."""
    panel = voting_panel(metric)
    if panel is None:
        return
    for sample, output in zip(batch.samples, batch.outputs, strict=True):
        if output is not None:
            metadata = None if output.response is None else output.response.metadata
            note = panel.same_family_note([output.usage, output.extra, metadata])
            if note:
                batch.note(f"metric '{metric.name}': {note}", sample.sample_id)
                return


# --- metrics in which a judge rates inputs of a sample ---------------------------------------------------------------

RATING_SIGNATURE = {
    "scale": SignatureOption("rating_scale", write=plain_text),
    "rationale": SignatureOption("rationale", unless=True),
    "inputs": SignatureOption("_rated.inputs", unless=(), write=plain_text),
}
"""What the signature of a metric says about the rating."""


def scale_option(option: Any) -> Any:
    """The scale that an option describes, as it is written in a spec."""
    scale = parse_scale(option)
    return scale.option if isinstance(scale, ClassScale) else str(scale)


@dataclass(frozen=True)
class RatingMetric(RepeatedJudgementMetric):
    """A metric in which a critic rates inputs of a sample on a scale, each in a frame of the prompt.

    A built-in metric sets ``_fixed_inputs``, ``target``, the default of ``scale`` and, in its metadata, the name of a
    prompt file in ``judge/prompts`` whose slots are its inputs, ``scale``, ``form`` and those of ``_words``. One that
    asks about something else has no ``_fixed_inputs``, and a ``question`` of its own.
    """

    scale: Any = field(default=None, kw_only=True, hash=False, metadata={"convert": scale_option})
    """The rating scale, the worst value first."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a structured critic is asked for a rationale before the score."""
    prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt: the path of a file, or a ``Prompt``."""

    _shares_requests: ClassVar[bool] = False  # no two metrics ask for the same rating
    _fixed_inputs: ClassVar[tuple[str, ...]] = ()
    """The inputs, as a plan writes them."""
    metadata = declare(
        output_skips=frozenset({"no_steps"}),
        signature=RATING_SIGNATURE,
    )

    @property
    def rating_scale(self) -> RatingScale:
        """The scale of the judge's replies."""
        return parse_scale(self.scale)

    @property
    def _rated(self) -> RatedInputs:
        return RatedInputs(known_inputs(self._fixed_inputs), self.rating_scale)

    def _words(self) -> Mapping[str, str]:
        """Trusted texts for slots of the prompt besides inputs, scale and form."""
        return {}

    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The prompt with all inputs in frames."""
        frames = self._rated.frames(sample, output)
        if isinstance(frames, Score):
            return frames
        return RatingPrompt(
            self.prompts_used[0],
            frames,
            self.rating_scale,
            words=self._words(),
            rationale=self.rationale,
            metric=self.name,
            sample_id=sample.sample_id,
        )
