"""Replay of stored judgements in place of a judge, for derivations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..core.derivation import SampleJudgement
from ..core.errors import JudgeError
from ..judge.critic import Critic, Judgement, JudgeRequest, StructuredCritic
from ..judge.loop import LoopThread
from ..judge.recorded import request_key

__all__ = ["ReplayCritic", "make_replay_critic", "replay_repeats"]

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
