"""Questions that several metrics have about the same sample: asked once, and known to all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from ..core.batch import Batch
from ..core.errors import JudgeError
from ..features.model_cache import model_key
from .critic import Critic, JudgeClient, Judgement, JudgeRequest
from .critic_queue import copy_error
from .entailment import EntailmentFunction, EntailmentScore, NliModel
from .recorded import request_key

__all__ = ["SharedJudgeClient"]

T = TypeVar("T")


class SharedJudgeClient:
    """A session as the metrics of one batch see it: what one of them asked, the others do not ask again.

    A failure is shared like an answer. The session is told of everything that a metric learned from another one's
    question, so that accounts and stored judgements are complete for each metric.
    """

    def __init__(self, batch: Batch, judge: JudgeClient, metric: str) -> None:
        self._batch, self._judge, self._metric = batch, judge, metric

    @property
    def repeats(self) -> int:
        """How often each thing is judged."""
        return self._judge.repeats

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` where there is none."""
        own = replace(request, metric=self._metric)
        key = "asked", model_key(critic), request_key(own)
        outcome, first = await self._once(key, lambda: self._judge.ask(critic, own))
        reused = None if first else getattr(self._judge, "reused", None)
        if reused is not None:
            reused(critic, own, outcome)
        return _result_or_raise(outcome)

    async def read(
        self, who: EntailmentFunction | NliModel, evidence: Sequence[str], statements: Sequence[str]
    ) -> list[EntailmentScore]:
        """What a function of entailment says of statements, for all who ask the same."""
        key = "entailed", model_key(who), tuple(evidence), tuple(statements)
        outcome, _ = await self._once(key, lambda: who.read(evidence, statements))
        return _result_or_raise(outcome)

    async def _once(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T | JudgeError, bool]:
        """What became of a question, and whether it was asked here."""
        first = False

        async def build(_: Batch) -> T | JudgeError:
            nonlocal first
            first = True
            try:
                return await ask()
            except JudgeError as error:
                return error

        return await self._batch.afeature(key, build), first


def _result_or_raise(outcome: T | JudgeError) -> T:
    if isinstance(outcome, JudgeError):
        raise copy_error(outcome)
    return outcome
