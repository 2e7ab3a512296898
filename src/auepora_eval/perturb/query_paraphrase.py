"""Questions reworded by a language model, or by any function of the user's."""

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
    """Asks a language model to reword a question: ``llm`` takes a prompt and gives a text, or is ``async`` and does.

    Where it raises, or answers nothing, the sample stays without that variant, and it is counted. It is asked once per
    variant: asking again costs money, and a model at temperature 0 would say the same.
    """

    llm: Callable[[str], Any]
    prompt: str = PROMPT
    """What it is asked; ``{query}`` is where the question goes."""
    name: str = "paraphrase"
    scenario: str | tuple[str, ...] = "paraphrase"

    def __post_init__(self) -> None:
        if not callable(self.llm):
            raise BadTypeError(f"llm must be a function from a prompt to a text, not {self.llm!r:.100}")
        if "{query}" not in self.prompt:
            raise BadValueError("the prompt of a Paraphraser must say where the question goes: {query}")

    def perturb(self, query: str, rng: Random) -> str | Awaitable[str]:
        """The question reworded."""
        # Not str.format: a prompt may hold other braces, such as an example in JSON.
        given = self.llm(self.prompt.replace("{query}", query))
        return _strip_awaited_reply(given) if inspect.isawaitable(given) else _strip_reply(given)


async def _strip_awaited_reply(given: Awaitable[Any]) -> str:
    return _strip_reply(await given)


def _strip_reply(text: Any) -> str:
    """The reply without the spaces and quotation marks around it."""
    if not isinstance(text, str):
        raise BadTypeError(f"the model gave {type(text).__name__} where a text is wanted")
    plain: str = text.strip()
    quoted = len(plain) > 1 and _QUOTES.get(plain[0]) == plain[-1]
    return plain[1:-1].strip() if quoted else plain


@dataclass(frozen=True, slots=True)
class FunctionPerturber:
    """A function ``(query, rng) -> text`` of the user's as a perturber."""

    function: Callable[[str, Random], Any]
    name: str
    scenario: str | tuple[str, ...] = "paraphrase"

    def perturb(self, query: str, rng: Random) -> Any:
        """What the function makes of a question."""
        return self.function(query, rng)


def as_perturber(found: Any) -> Any:
    """A perturber of whatever a user brings: one as it is, or a function ``(query, rng)`` under its own name.

    A function may say its ``scenario`` as an attribute; without, its variants are paraphrases.
    """
    if callable(getattr(found, "perturb", None)) or not callable(found):
        return found
    name = getattr(found, "__name__", type(found).__name__)
    return FunctionPerturber(found, name, getattr(found, "scenario", "paraphrase"))
