"""Stored judgements in the place of a judge: what was asked is asked again, and answered as it was then."""

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
    """Stands for the judge where only the form of its questions matters: it is never asked."""

    one_number: bool = False
    logprobs: bool = False

    async def judge(self, request: object) -> Judgement:
        """Never called."""
        raise NotImplementedError


def make_replay_critic(said: Iterable[SampleJudgement], prompt_id: str) -> ReplayCritic:
    """For whoever answered with this prompt."""
    own = [one for one in said if one.prompt_id == prompt_id]
    return ReplayCritic(any(one.one_number for one in own), any(one.logprobs for one in own))


class _ReplaySession:
    """Asks nobody: knows what was said."""

    def __init__(self, said: Iterable[SampleJudgement]) -> None:
        known = list(said)
        self._said = {one.request: one for one in known}
        self.repeats = 1 + max((one.judge_repeat for one in known), default=0)

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """What was said; ``JudgeError`` where there was no judgement, or this was never asked."""
        one = self._said.get(request_key(request))
        if one is None or one.error is not None:
            raise JudgeError(_UNKNOWN if one is None else one.error or "")
        return Judgement(one.answer, weighted=one.weighted)


def replay_repeats(
    said: Iterable[SampleJudgement], once: Callable[[_ReplaySession, int], Awaitable[T]]
) -> list[tuple[int, T]] | None:
    """What comes of asking once per repeat, those left out in which the judge failed.

    ``None`` where something would be asked now that was not asked then, or where nothing comes of it.
    """
    judge = _ReplaySession(said)

    async def every() -> list[tuple[int, T]] | None:
        came = []
        for repeat in range(judge.repeats):
            try:
                came.append((repeat, await once(judge, repeat)))
            except JudgeError as error:
                if error.reason == _UNKNOWN:
                    return None
        return came or None

    with LoopThread() as loop:
        return loop.run(every())
