"""Values of a record by their path: ``a.b``, ``a[0]``, ``a[1:].b``, ``a[*].b``, ``a[flag].b``, ``a[!flag].b``, ``a?``.

>>> select({"facts": [{"text": "x", "used": True}, {"text": "y", "used": False}]}, "facts[used].text")
['x']
>>> select({"id": "q", "part": 2}, "id + part")
'q#2'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from ..errors import BadValueError

_STEP = re.compile(
    r"\.?(?P<name>[^.\[\]+]+)|\[(?P<index>-?\d+)\]|\[(?P<start>-?\d*):(?P<stop>-?\d*)\]|\[(?P<flag>\*|!?\w+)\]"
)
_CONSTANT = re.compile(r"'(.*)'")


def select(record: Mapping[str, Any], path: str) -> Any:
    """The value at a path; ``None`` where there is none.

    ``'text'`` is a constant, ``a + b`` joins two values, and ``a?`` is whether there is a value that is not empty,
    ``!a?`` whether there is none. ``a != x|y`` is whether the value is none of these texts.
    """
    path, compared, texts = path.partition(" != ")
    if compared:
        return select(record, path) not in texts.split("|")
    if path.endswith("?"):
        return bool(select(record, path[:-1].removeprefix("!"))) is not path.startswith("!")
    parts = [_select_one(record, part.strip()) for part in path.split(" + ")]
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, list) or part is None for part in parts):
        return list(chain.from_iterable(part or () for part in parts))
    return "#".join(str(part) for part in parts)


def path_head(path: str) -> str:
    """The key of a record that a path begins with; empty for a constant or a setting.

    >>> path_head("paragraphs[is_supporting].text")
    'paragraphs'
    """
    if path.startswith(("'", "@")):
        return ""
    return re.split(r"[.\[]| != ", path.lstrip("!"), maxsplit=1)[0]


def _select_one(record: Mapping[str, Any], path: str) -> Any:
    constant = _CONSTANT.fullmatch(path)
    if constant is not None:
        return constant[1]
    if path in record:
        return record[path]
    value: Any = record
    place = 0
    is_several = False
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise BadValueError(f"cannot read the path '{path}'; write a.b, a[0], a[1:], a[*].b or a[flag].b")
        place = step.end()
        value = [_take(item, step) for item in value] if is_several else _take(value, step)
        if value is None:
            return None
        is_several = is_several or step["flag"] is not None or step["stop"] is not None
    return value


def _take(value: Any, step: re.Match[str]) -> Any:
    """The value that one step of a path leads to."""
    if step["name"] is not None:
        return value.get(step["name"]) if isinstance(value, Mapping) else None
    if step["flag"] is not None:
        return _selected(value, step["flag"])
    if not isinstance(value, list):
        return None
    if step["index"] is not None:
        index = int(step["index"])
        return value[index] if -len(value) <= index < len(value) else None
    start = int(step["start"]) if step["start"] else None
    stop = int(step["stop"]) if step["stop"] else None
    return value[start:stop]


def _selected(value: Any, flag: str) -> list[Any] | None:
    """The items of a list whose flag is true, or false for ``!flag``; of an object the values, of one value itself."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if flag == "*":
        return value if isinstance(value, list) else [value]
    if not isinstance(value, list):
        return None
    is_wanted = not flag.startswith("!")
    name = flag.removeprefix("!")
    return [item for item in value if isinstance(item, Mapping) and bool(item.get(name)) is is_wanted]
