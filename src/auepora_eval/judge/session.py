"""The session that asks judges on behalf of metrics."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ..core.errors import JudgeError
from .critic import Critic, Judgement, JudgeRequest, StructuredCritic
from .policy import JudgePolicy

__all__ = ["JudgeSession"]


class JudgeSession:
    """Asks critics, within what a policy allows."""

    def __init__(self, policy: JudgePolicy = JudgePolicy()) -> None:  # noqa: B008 -- frozen
        self.policy = policy

    async def __aenter__(self) -> JudgeSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @property
    def repeats(self) -> int:
        """How often each thing is judged."""
        return self.policy.repeats

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` where there is none."""
        if isinstance(critic, StructuredCritic):
            return await critic.judge(request)
        try:
            value = await asyncio.to_thread(critic.score, prompt=request.prompt, metadata=dict(request.metadata))
        except JudgeError:
            raise
        except Exception as error:
            raise JudgeError("critic_raised", f"{type(error).__name__}: {error}") from error
        return Judgement({"score": value})
