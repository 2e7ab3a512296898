"""Critics for tests: they judge by the text they are shown, always alike, or by a script."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest, LLMCritic, StructuredCritic, Usage


def framed(prompt: str, name: str) -> list[str]:
    """What stands in the frames of this name, in their order; they may be numbered."""
    frame = rf"^\[begin ({name}(?: \d+)?) (\w{{16}})\]\n(.*?)\n\[end \1 \2\]$"
    return [found[3] for found in re.finditer(frame, prompt, re.MULTILINE | re.DOTALL)]


def steady(text: str) -> float:
    """A number between 0 and 1 that depends on nothing but the text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] / 255


def steady_value(name: str, kind: Mapping[str, Any], prompt: str) -> Any:
    """Something that fits a schema: the items of a list are numbered, a text is one of those allowed, or differs."""
    where = steady(f"{name} {prompt}")
    if kind["type"] == "array":
        least, most = kind.get("minItems", 0), kind.get("maxItems", 3)
        count = least + round(where * (most - least))
        return [steady_value(f"{name} {number}", kind["items"], prompt) for number in range(1, count + 1)]
    if kind["type"] == "object":
        fields = {key: steady_value(f"{name} {key}", inner, prompt) for key, inner in kind["properties"].items()}
        return {**fields, **({"number": int(name.split()[-1])} if "number" in fields else {})}
    if kind["type"] == "boolean":
        return where > 0.5
    if kind["type"] == "string":
        words = kind.get("enum")
        return (
            words[min(int(where * len(words)), len(words) - 1)]
            if words
            else f"because of {name}"
            if " " in name
            else "because"
        )
    value = kind["minimum"] + where * (kind["maximum"] - kind["minimum"])
    return round(value) if kind["type"] == "integer" else value


def shares_words(premise: str, hypothesis: str) -> float:
    """A function of entailment: the share of words that the premise has as well."""
    words = hypothesis.split()
    return sum(word in premise.split() for word in words) / len(words) if words else 0.0


class SteadyCritic(StructuredCritic):
    """Answers by the schema; the same text gets the same scores."""

    name = "steady"

    async def judge(self, request: JudgeRequest) -> Judgement:
        await asyncio.sleep(0)
        properties = request.schema["properties"].items()
        answer = {name: steady_value(name, kind, request.prompt) for name, kind in properties}
        return Judgement(answer, usage=Usage(10, 5))


class SteadyBareCritic(LLMCritic):
    """The same by the small interface."""

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        low, high = map(float, (metadata or {})["scale"].split("-"))
        return low + steady(prompt) * (high - low)


class SteadyYesNoCritic(LLMCritic):
    """The same where 1 means yes and 0 no."""

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        return float(steady(prompt) > 0.5)


Script = dict[str, Any] | float | Judgement | JudgeError


@dataclass(eq=False)
class ScriptedCritic(StructuredCritic):
    """Replies by a function of the request, and records the requests."""

    script: Callable[[JudgeRequest], Script]
    name: str = "scripted"
    logprobs: bool = False
    asked: list[JudgeRequest] = field(default_factory=list)

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request)
        await asyncio.sleep(0)
        reply = self.script(request)
        if isinstance(reply, JudgeError):
            raise reply
        if isinstance(reply, Judgement):
            return reply
        return Judgement(reply if isinstance(reply, dict) else {"score": reply})


@dataclass(eq=False)
class ScriptedBareCritic(LLMCritic):
    """The same by the small interface: a function of the prompt and the metadata."""

    script: Callable[[str, dict[str, Any]], float]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        self.asked.append((prompt, metadata or {}))
        return self.script(prompt, metadata or {})


def by_sample(replies: dict[str, Script]) -> Callable[[JudgeRequest], Script]:
    """By the id of the sample."""
    return lambda request: replies[request.sample_id]


def by_repeat(replies: dict[str, Iterable[Script]]) -> Callable[[JudgeRequest], Script]:
    """By the id of the sample, then by which repeat it is."""
    listed = {key: list(values) for key, values in replies.items()}
    return lambda request: listed[request.sample_id][request.repeat]
