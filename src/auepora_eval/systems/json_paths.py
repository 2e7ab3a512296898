"""Paths into JSON values, such as ``data.hits`` or ``choices[0].message.content``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..core.errors import BadTypeError, BadValueError

__all__ = ["JsonPath", "PathNotFoundError", "json_type_name", "parse_path"]

Step = str | int | None
"""A key, an index, or (``None``, written ``[*]``) every item of a list."""
_WHOLE = "."
_STEP = re.compile(r"""\.?(?:"([^"]+)"|'([^']+)'|([^.\[\]"'?\s][^.\[\]"'?]*))|\[(\d+|\*)\]""")
_KINDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
_MOST_KEYS_SHOWN = 10


class PathNotFoundError(BadValueError):
    """A path leads nowhere in a value; the message says where it ends and what is there instead."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Where something is in a JSON value."""

    text: str
    """The path as written, without the mark of an optional one."""
    steps: tuple[Step, ...]
    optional: bool = False
    """Whether it may be absent: it was written with a ``?`` at its end."""

    def find(self, value: Any, *, inside: str = "the reply") -> Any:
        """What is there; raises ``PathNotFoundError`` where nothing is. ``inside`` names the value in messages."""
        return self._follow(value, 0, inside)

    def _follow(self, value: Any, start: int, inside: str) -> Any:
        for place in range(start, len(self.steps)):
            step = self.steps[place]
            if step is None and isinstance(value, list):
                return [self._follow(item, place + 1, inside) for item in value]
            if isinstance(step, str):
                is_there = isinstance(value, dict) and step in value
            else:
                is_there = step is not None and isinstance(value, list) and step < len(value)
            if not is_there:
                raise PathNotFoundError(f"{inside} has no '{self.text}'; {self._seen(value, place)}")
            value = value[step]
        return value

    def _seen(self, value: Any, place: int) -> str:
        """What is at the last step that led somewhere."""
        subject = f"'{_path_text(self.steps[:place])}'" if place else "it"
        if isinstance(value, dict):
            keys = list(map(str, value))
            more = f" and {len(keys) - _MOST_KEYS_SHOWN} more" if len(keys) > _MOST_KEYS_SHOWN else ""
            return f"{subject} has: {', '.join(keys[:_MOST_KEYS_SHOWN])}{more}" if keys else f"{subject} is empty"
        if isinstance(value, list) and not isinstance(self.steps[place], str):
            return f"{subject} has {len(value)} items"
        return f"{subject} is {json_type_name(value)}"


def parse_path(text: object, *, what: str) -> JsonPath:
    """The path written as ``text``; ``what`` says in errors whose path it is.

    Keys are separated by dots, ``[n]`` is the n-th item of a list from 0, ``[*]`` every item; a key that holds dots or
    brackets stands in quotes; ``.`` alone is the whole value. A ``?`` at the end allows the path to be absent.
    """
    if not isinstance(text, str):
        raise BadTypeError(f"{what} must be a path such as 'data.answer', not {text!r:.80}")
    written = text.strip()
    optional = written.endswith("?")
    written = written.removesuffix("?")
    if not written:
        raise BadValueError(f"{what} is empty; give a path such as 'data.answer', or '.' for the whole")
    return JsonPath(written, () if written == _WHOLE else tuple(_steps(written, what)), optional)


def json_type_name(value: object) -> str:
    """What a JSON value is, in words."""
    return "null" if value is None else _KINDS.get(type(value), f"a {type(value).__name__}")


def _steps(written: str, what: str) -> Iterator[Step]:
    position = 0
    while position < len(written):
        found = _STEP.match(written, position)
        # A key is set off by a dot from what is before it, and by nothing at the beginning.
        if found is None or (found[4] is None and found[0].startswith(".") is (position == 0)):
            raise BadValueError(
                f"{what}: the path '{written}' cannot be read at its character {position + 1}; "
                'write it like data.hits, choices[0].text or "a.key".text'
            )
        if found[4] is not None:
            yield None if found[4] == "*" else int(found[4])
        else:
            yield found[1] or found[2] or found[3].rstrip()
        position = found.end()


def _path_text(steps: tuple[Step, ...]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, str):
            shown = f'"{step}"' if re.search(r"[.\[\]?]", step) else step
            text += f".{shown}" if text else shown
        else:
            text += "[*]" if step is None else f"[{step}]"
    return text
