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
    """Says what its script says for each call: raises what is an error, returns what is a number or a judgement."""

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
        said = self.script(request, number)
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, Judgement):
            return said
        return Judgement({"score": said, "rationale": "so"}, self.usage, f'{{"score": {said}}}')

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        return {"model": self.model, "temperature": 0} if self.kept else None

    async def aclose(self) -> None:
        self.closed += 1
