"""The tokenizer of gates, and syntax errors with their position."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..core.errors import BadValueError

__all__ = ["GateToken", "syntax_error", "tokenize"]

Kind = Literal["word", "quoted", "sign", "mark", "end"]

# A word may hold a bracketed part with anything in it: quantile_latency[end_to_end,0.95].
_TOKEN = re.compile(
    r"""(?P<word>(?:[^\s()\[\]<>=!,'"]|\[[^\[\]]*\])+)
      | (?P<quoted>'[^']*'|"[^"]*")
      | (?P<sign>[<>=!]+)
      | (?P<mark>[(),])""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")
_MAX_SHOWN = 120


@dataclass(frozen=True, slots=True)
class GateToken:
    """A token of a gate, and its position."""

    kind: Kind
    text: str
    start: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:_MAX_SHOWN])


def tokenize(text: str) -> list[GateToken]:
    """The tokens of a gate; the last one marks its end."""
    tokens: list[GateToken] = []
    position = _BLANK.match(text).end()  # type: ignore[union-attr]  # it matches everywhere
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = {"'": "a quote that is not closed", '"': "a quote that is not closed"}
            problem = what.get(text[position], f"a {text[position]!r} without its partner")
            raise syntax_error(text, position, f"there is {problem}")
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are the kinds
        value = match[0]
        tokens.append(GateToken(kind, value[1:-1] if kind == "quoted" else value, position))
        position = _BLANK.match(text, match.end()).end()  # type: ignore[union-attr]
    return [*tokens, GateToken("end", "", len(text))]


def syntax_error(text: str, position: int, problem: str) -> BadValueError:
    """The error for a syntax error at a position."""
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    return BadValueError(f"cannot read the gate {shown!r}: at character {position + 1} {problem}")
