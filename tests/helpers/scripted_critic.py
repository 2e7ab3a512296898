"""Critics for tests: scripted, counted, in need of time."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auepora_eval.judge.critic import Judgement, JudgeRequest, StructuredCritic, Usage

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "rationale": {"type": "string"}},
    "required": ["score"],
}


def request(prompt: str = "?", **fields: Any) -> JudgeRequest:
    return JudgeRequest(prompt, SCHEMA, **fields)


@dataclass
class Scripted(StructuredCritic):
    """Replies by its script: raises an error, or returns a number or a judgement."""

    script: Callable[[JudgeRequest, int], Any] = lambda request, number: 0.5
    seconds: float = 0.0
    usage: Usage = field(default_factory=lambda: Usage(100, 20))
    kept: bool = True
    name: str = "scripted"
    model: str = "model-1"
    asked: list[JudgeRequest] = field(default_factory=list)
    closed: int = 0
    inside: int = 0
    most_inside: int = 0

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request)
        number = sum(one.prompt == request.prompt and one.repeat == request.repeat for one in self.asked)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.inside -= 1
        reply = self.script(request, number)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Judgement):
            return reply
        return Judgement({"score": reply, "rationale": "so"}, self.usage, f'{{"score": {reply}}}')

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        return {"model": self.model, "temperature": 0} if self.kept else None

    async def aclose(self) -> None:
        self.closed += 1
