"""Metrics that call a judge: an asynchronous base class, its synchronous view, and replay of stored judgements."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import TypeVar

from ..core.batch import Batch
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    SampleJudgement,
    format_number,
)
from ..core.general_derivation import judged_derivation
from ..core.metric_hooks import asks_models, failure_message
from ..core.metric_metadata import REMOVED_SAMPLE_HOOKS
from ..core.metrics_base import BatchMetric, Metric, check_score, declare, exception_outcome, precheck, sample_rows
from ..core.registry import Use
from ..core.scores import NOT_JUDGED, Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import JudgeError
from ..runtime.processes import LoopThread
from .cache import stored_request_key
from .critic import Critic, JudgeClient, Judgement, JudgeRequest, StructuredCritic, decides
from .panel import NOT_STORED, Panel, PanelClient, Poll, Vote, judged_item
from .ratings import supports_logprobs

_ANSWER_CONTROLS = {"other_answer": False, "altered_fact": False, "reference": True}
_DOCUMENT_CONTROLS = {"other_documents": False, "gold_documents": True}
_CONTROLS: dict[TargetCategory, tuple[frozenset[str], dict[str, bool]]] = {
    TargetCategory.RETRIEVAL_RELEVANCE: (frozenset({"retrieved"}), _DOCUMENT_CONTROLS),
    TargetCategory.RETRIEVAL_ACCURACY: (frozenset({"retrieved"}), _DOCUMENT_CONTROLS),
    # An answer with a wrong fact still addresses the question.
    TargetCategory.GENERATION_RELEVANCE: (frozenset({"response"}), {"other_answer": False, "reference": True}),
    TargetCategory.GENERATION_FAITHFULNESS: (frozenset({"response", "retrieved"}), _ANSWER_CONTROLS),
    TargetCategory.GENERATION_CORRECTNESS: (frozenset({"response"}), _ANSWER_CONTROLS),
}
"""By target, the fields of an output that a metric must read, and the control items whose verdict is then certain."""


class JudgedMetric(BatchMetric):
    """Base class of metrics scored by a judge: implement ``ascore_one``, or ``ascore`` for a whole batch.

    ``judge.ask(critic, request)`` returns a judgement; an exception is a failed measurement of that sample. What
    several metrics need from the judge, such as the claims of an answer, belongs into ``batch.afeature``.
    ``asks_follow_ups = True`` says that further requests depend on replies, so that a preview counts only the first
    ones. ``sample_problem(sample)`` may say what is wrong with an annotation that the judge would be asked about.

    Example:
        >>> from auepora_eval.judge.critic import JudgeRequest
        >>> class IsPolite(JudgedMetric):
        ...     target = TargetCategory.GENERATION_RELEVANCE
        ...     def __init__(self, critic):
        ...         self.critic = critic
        ...     async def ascore_one(self, sample, output, judge):
        ...         request = JudgeRequest(f"Is this polite? {output.response.text}", {}, sample_id=sample.sample_id)
        ...         judgement = await judge.ask(self.critic, request)
        ...         return Score(judgement.answer["score"])
        >>> evaluate(samples, outputs, [IsPolite(RecordedCritic({"q1": 1.0, "q2": 1.0}))])[0].value
        1.0
    """

    metadata = declare(
        calls_judge=True,
        suggested=False,  # it costs money and needs a critic
        prompt_names=(),
    )

    _removed_hooks = REMOVED_SAMPLE_HOOKS | {
        "control_kinds": "metadata = declare(controls=...)",
        "has_fractions": "judge.metric.has_fractions",
        "outcomes": "judge.metric.judge_samples",
    }

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, all requested at once; the session limits concurrency."""
        return Scores.from_list(await judge_samples(self, batch, judge))

    @abstractmethod
    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The outcome of one sample."""

    def score(self, batch: Batch) -> Scores:
        """The outcomes that ``judge_batch`` prepared; otherwise calls the judge now, in a new session."""
        outcome: Scores | BaseException | None = batch.known(outcome_key(self))
        if outcome is None:
            from .session import run_judging

            outcome = run_judging(None, lambda judge: self.ascore(batch, judge))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The stored judgements; no judge is called."""
        return judged_derivation(sample, output, around)

    def replay(self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation | None:
        """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
        return None

    def _certain_controls(self, kinds: Mapping[str, bool]) -> Mapping[str, bool]:
        """Those of some kinds of control items whose verdict is certain under this metric."""
        return kinds


async def judge_samples(metric: JudgedMetric, batch: Batch, judge: JudgeClient) -> list[Score]:
    """The outcome of each sample of a batch by ``ascore_one``, all requested at once."""

    async def judge_sample(sample: EvaluationSample, output: SystemOutputs, *, answered: bool) -> Score:
        skipped = precheck(metric, sample, output, answered=answered)
        if skipped is not None:
            return skipped
        if isinstance(judge, PanelClient) and sample.sample_id in judge.exclusions.get(metric.name, ()):
            return Score.skip(NOT_JUDGED)
        try:
            with judged_item(sample.sample_id, "" if output.response is None else output.response.text):
                score = check_score(metric, await metric.ascore_one(sample, output, judge))
        except JudgeError as error:
            # By reason alone: messages differ from sample to sample, and each warning is emitted once.
            batch.note(f"metric '{metric.name}': the judge gave no judgement ({error.reason})", sample.sample_id)
            return Score.fail(error.reason)
        except Exception as error:
            return exception_outcome(metric, batch, sample, error)
        message = failure_message(metric, sample, output) if score.status is Status.MEASURE_FAILED else ""
        if message:
            batch.note(f"metric '{metric.name}': {message}", sample.sample_id)
        return score

    rows = sample_rows(metric, batch)
    return await asyncio.gather(*(judge_sample(sample, output, answered=answered) for sample, output, answered in rows))


# --- what the critic of a metric is, and what follows from it --------------------------------------------------------


def bound_critic(metric: object) -> object:
    """The critic of a metric, as far as it is known; a reference until it is bound to a resource."""
    option = getattr(metric, "critic", None)
    return option.thing if isinstance(option, Use) else option


def voting_panel(metric: object) -> Panel | None:
    """The panel that gives the scores of a metric, if it is known."""
    option = getattr(metric, "verifier", None) or getattr(metric, "critic", None)
    found = option.thing if isinstance(option, Use) else option
    return found if isinstance(found, Panel) else None


def has_fractions(metric: JudgedMetric) -> bool:
    """Whether the score of a judgement may lie between those of the labels: a mean over their probabilities."""
    critic = bound_critic(metric)
    return getattr(metric, "threshold", None) is None and (decides(critic) or supports_logprobs(critic))


def control_kinds(metric: JudgedMetric) -> Mapping[str, bool]:
    """The kinds of control items of a judge, each with whether a judge that works accepts it.

    Accepted means a score in the better half of the range. The default follows from the target and from what the metric
    reads; a metric under which those items have no certain verdict declares others, or none.
    """
    declared: Mapping[str, bool] | None = metric.metadata.controls
    if declared is not None:
        return declared
    needed, kinds = _CONTROLS.get(metric.target, (frozenset(), {}))
    return metric._certain_controls(kinds) if needed <= metric.metadata.reads else {}


# --- judging a batch -------------------------------------------------------------------------------------------------


def outcome_key(metric: JudgedMetric) -> Hashable:
    """The key of the feature with the outcomes of a metric."""
    return "judged", metric, metric.active_conventions


def judged_parts(metric: BatchMetric) -> Iterator[JudgedMetric]:
    """The metrics that call a judge, among this one and its inner metrics."""
    if isinstance(metric, JudgedMetric):
        yield metric
    for part in metric.inner_metrics():
        yield from judged_parts(part)


def needs_calls(metric: BatchMetric, around: ExplainContext) -> bool:
    """Whether computing an outcome again would call a judge, or a model that must not be called."""
    return any(True for _ in judged_parts(metric)) or (asks_models(metric) and not around.may_call_models)


def same_family_warnings(metrics: Iterable[Metric], described: object) -> list[str]:
    """A warning for each metric whose panel has a member of the model family of the system that is described."""
    found: dict[str, None] = {}
    for metric in metrics:
        for part in judged_parts(metric) if isinstance(metric, BatchMetric) else ():
            panel = voting_panel(part)
            note = "" if panel is None else panel.same_family_note(described)
            found |= {f"metric '{part.name}': {note}": None} if note else {}
    return list(found)


async def judge_batch(batch: Batch, metrics: Iterable[JudgedMetric], judge: JudgeClient) -> None:
    """Compute the outcomes of a batch for all these metrics concurrently; their ``score`` returns them."""

    async def ask(metric: JudgedMetric) -> None:
        outcome: Scores | BaseException
        try:
            outcome = await metric.ascore(batch, judge)
        except Exception as error:  # raised by ``score``, where the engine handles it
            outcome = error
        batch.feature(outcome_key(metric), lambda _: outcome)

    await asyncio.gather(*(ask(metric) for metric in dict.fromkeys(metrics)))


# --- replay of stored judgements in place of a judge, for derivations ------------------------------------------------

T = TypeVar("T")


@dataclass
class ReplayCritic(StructuredCritic):
    """A critic that is never called: it only sets the form of the requests."""

    one_number: bool = False
    logprobs: bool = False
    decides: bool = False
    name: str = "critic"

    async def judge(self, request: object) -> Judgement:
        """Never called."""
        raise NotImplementedError


def make_replay_critic(judgements: Iterable[SampleJudgement], prompt_id: str) -> Critic:
    """A critic, or a panel, of the kind that answered this prompt."""
    stored = list(judgements)
    matching = [judgement for judgement in stored if judgement.prompt_id == prompt_id]
    record = next((judgement.panel for judgement in matching if judgement.panel), None)
    if record is None:
        return _critic_like(matching, "critic")
    members = []
    for name in record["members"]:
        # A member may have been asked another prompt only.
        own = [judgement for judgement in stored if judgement.critic == name]
        members.append(_critic_like(own, name))
    return Panel.from_record(record, members)


def _critic_like(judgements: Sequence[SampleJudgement], name: str) -> ReplayCritic:
    """A critic that is asked in the same form."""
    one_number = any(judgement.one_number for judgement in judgements)
    logprobs = any(judgement.logprobs for judgement in judgements)
    return ReplayCritic(one_number, logprobs, any(judgement.decides for judgement in judgements), name)


class _ReplaySession(PanelClient):
    """A judging session that returns stored judgements."""

    def __init__(self, judgements: Iterable[SampleJudgement]) -> None:
        stored = list(judgements)
        self._judgements = {judgement.request: judgement for judgement in stored}
        self.repeats = 1 + max((judgement.judge_repeat for judgement in stored), default=0)

    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The stored judgement; ``JudgeError`` if there is none for this request."""
        judgement = self._judgements.get(stored_request_key(critic, request))
        if judgement is None or judgement.error is not None:
            raise JudgeError(NOT_STORED if judgement is None else judgement.error or "")
        return Judgement(judgement.answer, weighted=judgement.weighted)


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
                if error.reason == NOT_STORED:
                    return None
        return results or None

    with LoopThread() as loop:
        return loop.run(run_all())


_SHOWN_VOTES = 200
"""Maximum number of votes shown in a derivation."""


def add_vote_step(derivation: Derivation, polls: Sequence[Poll]) -> Derivation:
    """A derivation with the votes of a panel, after the judgements and before what follows from them."""
    if not polls:
        return derivation
    first = polls[0]
    places = chain.from_iterable(product([poll], poll.decided) for poll in polls)
    rows = [
        (" ".join(map(str, path)), *map(_vote_text, poll.row(path)), _vote_text(Vote(*poll.decided[path])))
        for poll, path in places
    ]
    title = f"The votes of the panel, {first.formula}"
    headers = ("voted on", *first.names, "panel")
    table = DerivationBuilder().table(title, headers, rows[:_SHOWN_VOTES]).steps
    steps = derivation.steps
    later = [
        n for n, step in enumerate(steps) if step.table is not None and step.table.headers[:2] != ("time", "judge")
    ]
    place = later[0] if later else len(steps) - 1
    return replace(derivation, steps=(*steps[:place], *table, *steps[place:]))


def _vote_text(vote: Vote | None) -> str:
    """An answer and its value."""
    if vote is None:
        return "failed"
    value = "" if vote.number is None else format_number(vote.number)
    if vote.answer is None or isinstance(vote.answer, bool):
        return value
    answer = vote.answer if isinstance(vote.answer, str) else format_number(vote.answer)
    return f"{answer} ({value})" if value and value != answer else answer


def add_mean_step(steps: DerivationBuilder, values: Sequence[float]) -> Derivation:
    """Add the last step: the mean over the repeats."""
    shown = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({shown}) / {len(values)}", math.fsum(values) / len(values)
    )
