"""The text of a gate, cut into words; and the error that says where it cannot be read."""

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
    """A piece of a gate, and where it begins."""

    kind: Kind
    text: str
    start: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:_MAX_SHOWN])


def tokenize(text: str) -> list[GateToken]:
    """The pieces of a gate; the last one is its end."""
    found: list[GateToken] = []
    place = _BLANK.match(text).end()  # type: ignore[union-attr]  # it matches everywhere
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            what = {"'": "a quote that is not closed", '"': "a quote that is not closed"}
            held = what.get(text[place], f"a {text[place]!r} without its partner")
            raise syntax_error(text, place, f"there is {held}")
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are the kinds
        held = match[0]
        found.append(GateToken(kind, held[1:-1] if kind == "quoted" else held, place))
        place = _BLANK.match(text, match.end()).end()  # type: ignore[union-attr]
    return [*found, GateToken("end", "", len(text))]


def syntax_error(text: str, place: int, problem: str) -> BadValueError:
    """The error that a gate cannot be read from a place on."""
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    return BadValueError(f"cannot read the gate {shown!r}: at character {place + 1} {problem}")
