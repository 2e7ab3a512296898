"""Paraphrases of questions by a language model or a user's function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ..core.errors import BadTypeError, BadValueError

__all__ = ["PROMPT", "FunctionPerturber", "Paraphraser", "as_perturber"]

PROMPT = """Reword the question below. Keep its meaning, its language, and every name and number in it.
Reply with the reworded question and nothing else.

Question: {query}"""

_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}


@dataclass(frozen=True, slots=True)
class Paraphraser:
    """Asks a language model to reword a question: ``llm`` takes a prompt and returns a string; it may be ``async``.

    Where it raises or returns nothing, the variant is left out and counted. It is called once per variant: a retry
    costs money, and a model at temperature 0 would reply the same.
    """

    llm: Callable[[str], Any]
    prompt: str = PROMPT
    """The prompt; ``{query}`` is replaced by the question."""
    name: str = "paraphrase"
    scenario: str | tuple[str, ...] = "paraphrase"

    def __post_init__(self) -> None:
        if not callable(self.llm):
            raise BadTypeError(f"llm must be a function from a prompt to a string, not {self.llm!r:.100}")
        if "{query}" not in self.prompt:
            raise BadValueError("the prompt of a Paraphraser must contain {query}")

    def perturb(self, query: str, rng: Random) -> str | Awaitable[str]:
        """The question reworded."""
        # Not str.format: a prompt may hold other braces, such as an example in JSON.
        reply = self.llm(self.prompt.replace("{query}", query))
        return _strip_awaited_reply(reply) if inspect.isawaitable(reply) else _strip_reply(reply)


async def _strip_awaited_reply(reply: Awaitable[Any]) -> str:
    return _strip_reply(await reply)


def _strip_reply(text: Any) -> str:
    """The reply without the spaces and quotation marks around it."""
    if not isinstance(text, str):
        raise BadTypeError(f"the model returned {type(text).__name__}, not a string")
    plain: str = text.strip()
    quoted = len(plain) > 1 and _QUOTES.get(plain[0]) == plain[-1]
    return plain[1:-1].strip() if quoted else plain


@dataclass(frozen=True, slots=True)
class FunctionPerturber:
    """A user's function ``(query, rng) -> str`` as a perturber."""

    function: Callable[[str, Random], Any]
    name: str
    scenario: str | tuple[str, ...] = "paraphrase"

    def perturb(self, query: str, rng: Random) -> Any:
        """What the function makes of a question."""
        return self.function(query, rng)


def as_perturber(candidate: Any) -> Any:
    """Return a perturber unchanged; wrap a function ``(query, rng)`` under its own name.

    A function may have an attribute ``scenario``; the default is ``paraphrase``.
    """
    if callable(getattr(candidate, "perturb", None)) or not callable(candidate):
        return candidate
    name = getattr(candidate, "__name__", type(candidate).__name__)
    return FunctionPerturber(candidate, name, getattr(candidate, "scenario", "paraphrase"))
