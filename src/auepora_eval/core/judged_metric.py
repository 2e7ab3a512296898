"""Metrics that ask a judge: one asynchronous body, and how the rest of the engine sees them."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import ClassVar

from ..judge.critic import JudgeClient
from .batch import Batch
from .derivation import NO_CONTEXT, Derivation, ExplainContext
from .errors import JudgeError
from .general_derivation import judged_derivation
from .metrics_base import BatchMetric, PerSampleMetric
from .scores import Score, Scores
from .types import EvaluationSample, SystemOutputs

__all__ = ["JudgedMetric", "judge_batch", "judged_parts", "pairs_in_worker"]


class JudgedMetric(PerSampleMetric):
    """A metric that a judge decides: implement ``ascore_one``, or ``ascore`` for a whole batch.

    ``judge.ask(critic, request)`` gives a judgement; whatever it raises is a failed measurement of that sample. What
    several metrics need from the judge, such as the claims of an answer, belongs into ``batch.afeature``.
    """

    suggested: ClassVar[bool] = False  # it costs money and needs somebody to ask
    prompt_names: ClassVar[tuple[str, ...]] = ()
    """Which of our prompts it asks with unless told, for the reference page."""
    asks_follow_ups: bool = False
    """Whether it asks further questions that depend on answers: a preview counts the first ones only, and says so."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, all asked for at once; the session sees to it that not too many are under way."""
        waiting = [
            self._ascore_checked(batch, sample, output, judge, answered=answered)
            for sample, output, answered in self.rows(batch)
        ]
        return Scores.from_list(await asyncio.gather(*waiting))

    @abstractmethod
    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The outcome of one sample."""

    def score(self, batch: Batch) -> Scores:
        """The outcomes that were asked for ahead, or else asked for now, with a session of its own."""
        outcome: Scores | BaseException | None = batch.known(_key(self))
        if outcome is None:
            outcome = _score_now(self, batch)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """What the judge said, as it is stored: nobody is asked again."""
        return judged_derivation(sample, output, around)

    async def _ascore_checked(
        self, batch: Batch, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, *, answered: bool
    ) -> Score:
        skipped = self.precheck(sample, output, answered=answered)
        if skipped is not None:
            return skipped
        try:
            return self.check_score(await self.ascore_one(sample, output, judge))
        except JudgeError as error:
            # By reason alone: what each judge said differs, and a remark is made once.
            batch.note(f"metric '{self.name}': the judge gave no judgement ({error.reason})", sample.sample_id)
            return Score.fail(error.reason)
        except Exception as error:
            return self.on_exception(batch, sample, error)


def _key(metric: JudgedMetric) -> Hashable:
    return "judged", metric, metric.active_conventions


def _score_now(metric: JudgedMetric, batch: Batch) -> Scores:
    from ..judge.loop import LoopThread
    from ..judge.session import JudgeSession

    async def ask() -> Scores:
        async with JudgeSession() as judge:
            return await metric.ascore(batch, judge)

    with LoopThread() as loop:
        return loop.run(ask())


def judged_parts(metric: BatchMetric) -> Iterator[JudgedMetric]:
    """The metrics that ask a judge among this one and those it is over."""
    if isinstance(metric, JudgedMetric):
        yield metric
    for part in metric.inner_metrics():
        yield from judged_parts(part)


def pairs_in_worker(metric: BatchMetric) -> bool:
    """Whether a metric's pairs can be made by whoever scores a batch that brings the bases of its variants along.

    Not where a judge decides: it would be asked about a base once for every batch that brings it.
    """
    return metric.needs_parents_only and not any(judged_parts(metric))


async def judge_batch(batch: Batch, metrics: Iterable[JudgedMetric], judge: JudgeClient) -> None:
    """Ask for the outcomes of a batch under all these metrics at once; their ``score`` finds them."""

    async def ask(metric: JudgedMetric) -> None:
        outcome: Scores | BaseException
        try:
            outcome = await metric.ascore(batch, judge)
        except Exception as error:  # told by ``score``, where the engine knows what to do about it
            outcome = error
        batch.feature(_key(metric), lambda _: outcome)

    await asyncio.gather(*(ask(metric) for metric in dict.fromkeys(metrics)))
