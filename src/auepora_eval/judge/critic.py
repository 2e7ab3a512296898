"""Who judges, what is asked of a judge, and what comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = [
    "Critic",
    "JudgeClient",
    "JudgeRequest",
    "Judgement",
    "LLMCritic",
    "StructuredCritic",
    "Usage",
    "critic_name",
]


class LLMCritic(ABC):
    """The small interface: a prompt in, a number out. Anyone can implement it in a few lines.

    It may be called from several threads at once. Whatever it raises makes the sample a failed measurement; raise
    ``JudgeError`` to say why, and whether asking again may help.
    """

    @abstractmethod
    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        """A number for the prompt, on the scale that the prompt and ``metadata["scale"]`` name."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Usage:
    """What judging took: tokens as the server counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One question to a judge. Two requests that are equal in what is sent may share one answer."""

    prompt: str
    """What is asked, complete: the judged texts are in it, each in a frame that it cannot close."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer, which is an object. Numbers carry ``minimum`` and ``maximum``."""
    system: str = ""
    """Instructions that stand before the prompt, as the system message."""
    prompt_id: str = ""
    """Name, version and digest of the prompt: ``faithfulness/1/3f9a2c``."""
    weighted: str | None = None
    """The number of the answer that may be a mean weighted by probability, where the judge tells probabilities."""
    repeat: int = 0
    """Which of several judgements of the same thing this is; each is asked for anew."""
    may_repair: bool = True
    """Whether a critic may ask once more for an answer that it cannot read: not with the last call of a budget."""
    metric: str = ""
    """Which metric asks: for the accounts, never sent."""
    sample_id: str = ""
    """Which sample is judged: for messages and records, never sent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What an ``LLMCritic`` is handed beside the prompt."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What it is about, for whoever reads the stored judgement, never sent: ``of`` names a text (the answer, d1), and
    ``statements`` or ``sentences`` are those that the answer refers to by number."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge said, after it was parsed and checked against the schema."""

    answer: Mapping[str, Any]
    """An object that fits the request's schema."""
    usage: Usage = Usage()
    raw: str = ""
    """The text it was read from."""
    weighted: float | None = None
    """The weighted mean that was asked for, where the judge gave probabilities that cover enough."""
    mass: float | None = None
    """How much of the probability at that place fell on the labels of the scale."""
    repaired: bool = False
    """Whether a first answer could not be read and a second was asked for."""
    cached: bool = False
    """Whether it was known from before, so that nothing was asked."""

    @property
    def scores(self) -> dict[str, float]:
        """The numbers of the answer by name, the weighted mean aside."""
        return {
            name: float(value)
            for name, value in self.answer.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }

    @property
    def rationale(self) -> str | None:
        """Why, in the judge's words, if it was asked for."""
        value = self.answer.get("rationale")
        return value if isinstance(value, str) else None


class StructuredCritic(ABC):
    """A judge that answers with an object by a schema: scores by dimension, verdicts, a rationale."""

    name: str = "critic"
    """What signatures show: two critics that may judge differently need different names."""

    @abstractmethod
    async def judge(self, request: JudgeRequest) -> Judgement:
        """One judgement, or a ``JudgeError``. Waiting, repeating, caching and counting are the session's business."""

    def cache_key(self, request: JudgeRequest) -> Mapping[str, Any] | None:
        """All that the answer depends on besides the request: model, temperature. ``None``: never cached."""
        return None

    async def aclose(self) -> None:
        """Give back what is held open, on the loop it was used on; the critic may be used again afterwards."""
        return


Critic = LLMCritic | StructuredCritic


class JudgeClient(Protocol):
    """Asks critics on behalf of metrics; ``judge.session`` has the one that waits, repeats, caches and counts."""

    @property
    def repeats(self) -> int:
        """How often each thing is judged."""
        ...

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` where there is none."""
        ...


def critic_name(critic: object) -> str:
    """What a signature calls a critic: its name, or its class where it has none."""
    name = getattr(critic, "name", None)
    return name if isinstance(name, str) and name else f"{type(critic).__module__}.{type(critic).__qualname__}"
