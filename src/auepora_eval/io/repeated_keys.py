"""Keys that occur twice in one JSON object: the last one counts, which is usually a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .problem_messages import quote_text
from .reader_types import Problems

__all__ = ["repeated_keys", "warn_repeated_keys"]


class _ObjectWithRepeats(dict[str, Any]):
    """An object with repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def repeated_keys(data: bytes | str) -> list[str]:
    """Return the paths of all repeated keys; none if the data is not JSON."""
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found = True
        return _ObjectWithRepeats(pairs)

    try:
        value = json.loads(data, object_pairs_hook=build)
    except (ValueError, RecursionError):
        return []
    return _paths(value) if found else []


def _paths(value: Any) -> list[str]:
    paths = []
    pending = [("", value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _ObjectWithRepeats):
            paths += [f"{path}.{key}" if path else key for key in value.repeated]
        if isinstance(value, dict):
            pending += [(f"{path}.{key}" if path else key, item) for key, item in value.items()][::-1]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", item) for index, item in enumerate(value)][::-1]
    return paths


def warn_repeated_keys(
    path: Path, line: int | None, data: bytes | str, problems: Problems, *, record: int | None = None
) -> None:
    """Warn about repeated keys if problems are collected; plain reading does not check for them."""
    if not problems.collect_all:
        return
    for key in repeated_keys(data):
        message = f"field {quote_text(key)} comes twice in its object; the last one counts"
        problems.warnings.add(f"repeated {key}", path, line, message, record=record)
