"""Share judge requests between metrics: identical requests about a sample are sent once."""

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
    """The judge session as seen by one metric of a batch: requests of other metrics are reused.

    Failures are shared too. The session records every reuse, so that usage and stored judgements are complete for each
    metric.
    """

    def __init__(self, batch: Batch, judge: JudgeClient, metric: str) -> None:
        self._batch, self._judge, self._metric = batch, judge, metric

    @property
    def repeats(self) -> int:
        """Judgements per item."""
        return self._judge.repeats

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` on failure."""
        own = replace(request, metric=self._metric)
        key = "asked", model_key(critic), request_key(own)
        outcome, is_first = await self._once(key, lambda: self._judge.ask(critic, own))
        report_reuse = None if is_first else getattr(self._judge, "reused", None)
        if report_reuse is not None:
            report_reuse(critic, own, outcome)
        return _result_or_raise(outcome)

    async def score_entailment(
        self, nli: EntailmentFunction | NliModel, evidence: Sequence[str], statements: Sequence[str]
    ) -> list[EntailmentScore]:
        """NLI scores of statements, computed once for all metrics."""
        key = "entailed", model_key(nli), tuple(evidence), tuple(statements)
        outcome, _ = await self._once(key, lambda: nli.score(evidence, statements))
        return _result_or_raise(outcome)

    async def _once(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T | JudgeError, bool]:
        """The result of a request, and whether it was made here."""
        is_first = False

        async def build(_: Batch) -> T | JudgeError:
            nonlocal is_first
            is_first = True
            try:
                return await ask()
            except JudgeError as error:
                return error

        return await self._batch.afeature(key, build), is_first


def _result_or_raise(outcome: T | JudgeError) -> T:
    if isinstance(outcome, JudgeError):
        raise copy_error(outcome)
    return outcome
