"""Metrics that call a judge: an asynchronous base class, and its synchronous view for the engine."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, ExplainContext
from ..core.metrics_base import BatchMetric, Metric, PerSampleMetric, declare, judged_derivation
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import JudgeError
from .critic import JudgeClient
from .panel import Panel, judged_item

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


class JudgedMetric(PerSampleMetric):
    """Base class of metrics scored by a judge: implement ``ascore_one``, or ``ascore`` for a whole batch.

    ``judge.ask(critic, request)`` returns a judgement; an exception is a failed measurement of that sample. What
    several metrics need from the judge, such as the claims of an answer, belongs into ``batch.afeature``.
    """

    metadata = declare(
        calls_judge=True,
        suggested=False,  # it costs money and needs a critic
        prompt_names=(),
    )
    asks_follow_ups: bool = False
    """Whether further requests depend on replies: a preview can count only the first ones."""

    @property
    def control_kinds(self) -> Mapping[str, bool]:
        """The kinds of control items of a judge, each with whether a judge that works accepts it.

        Accepted means a score in the better half of the range. The default follows from the target and from what the
        metric reads; a metric under which those items have no certain verdict declares others, or none.
        """
        declared: Mapping[str, bool] | None = self.metadata.controls
        if declared is not None:
            return declared
        needed, kinds = _CONTROLS.get(self.target, (frozenset(), {}))
        return kinds if needed <= self.metadata.reads else {}

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, all requested at once; the session limits concurrency."""
        return Scores.from_list(await self.outcomes(batch, judge))

    async def outcomes(self, batch: Batch, judge: JudgeClient) -> list[Score]:
        """One outcome per sample, all requested at once."""
        waiting = [
            self._ascore_checked(batch, sample, output, judge, answered=answered)
            for sample, output, answered in self.rows(batch)
        ]
        return await asyncio.gather(*waiting)

    @abstractmethod
    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The outcome of one sample."""

    def score(self, batch: Batch) -> Scores:
        """The outcomes that ``judge_batch`` prepared; otherwise calls the judge now, in a new session."""
        outcome: Scores | BaseException | None = batch.known(outcome_key(self))
        if outcome is None:
            outcome = _score_now(self, batch)
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

    async def _ascore_checked(
        self, batch: Batch, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, *, answered: bool
    ) -> Score:
        skipped = self.precheck(sample, output, answered=answered)
        if skipped is not None:
            return skipped
        try:
            with judged_item(sample.sample_id, "" if output.response is None else output.response.text):
                return self.check_score(await self.ascore_one(sample, output, judge))
        except JudgeError as error:
            # By reason alone: messages differ from sample to sample, and each warning is emitted once.
            batch.note(f"metric '{self.name}': the judge gave no judgement ({error.reason})", sample.sample_id)
            return Score.fail(error.reason)
        except Exception as error:
            return self.on_exception(batch, sample, error)


def outcome_key(metric: JudgedMetric) -> Hashable:
    """The key of the feature with the outcomes of a metric."""
    return "judged", metric, metric.active_conventions


def _score_now(metric: JudgedMetric, batch: Batch) -> Scores:
    from .session import run_judging

    return run_judging(None, lambda judge: metric.ascore(batch, judge))


def judged_parts(metric: BatchMetric) -> Iterator[JudgedMetric]:
    """The metrics that call a judge, among this one and its inner metrics."""
    if isinstance(metric, JudgedMetric):
        yield metric
    for part in metric.inner_metrics():
        yield from judged_parts(part)


def same_family_warnings(metrics: Iterable[Metric], described: object) -> list[str]:
    """A warning for each metric whose panel has a member of the model family of the system that is described."""
    found: dict[str, None] = {}
    for metric in metrics:
        for part in judged_parts(metric) if isinstance(metric, BatchMetric) else ():
            panel = getattr(part, "panel", None)
            note = panel.same_family_note(described) if isinstance(panel, Panel) else ""
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
