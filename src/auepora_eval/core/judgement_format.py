"""Formats judgements as lines: verdicts are shown next to the statements and sentences they refer to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["format_lines", "format_one_line", "format_subject"]


def format_subject(about: Mapping[str, Any]) -> str:
    """The text that a judgement is about, or that statements were compared with; empty where unknown."""
    name = about.get("of")
    return "" if not name else f"against {name}" if about.get("statements") else f"of {name}"


def format_lines(answer: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    """A line per statement with its verdict and rationale, or per sentence with whether it is needed."""
    statements, sentences = _texts(about, "statements"), _texts(about, "sentences")
    verdicts, needed = answer.get("verdicts"), answer.get("needed")
    if statements and _list(verdicts):
        return [_verdict(one, statements) for one in verdicts or ()]
    if sentences and _list(needed):
        marked = set(map(str, needed or ()))
        return [
            f"{'needed' if str(number) in marked else 'not needed'}: {one}" for number, one in enumerate(sentences, 1)
        ]
    return [f"{_plain(value)}: {statements[0]}" for value in answer.values()] if len(statements) == 1 else []


def format_one_line(answer: Mapping[str, Any]) -> str:
    """A judgement in one line, without the rationale."""
    return ", ".join(f"{name} {_plain(value)}" for name, value in answer.items() if name != "rationale")


def _verdict(one: object, statements: Sequence[str]) -> str:
    if not isinstance(one, Mapping):
        return _plain(one)
    number = one.get("number")
    known = isinstance(number, int) and 1 <= number <= len(statements)
    statement = statements[number - 1] if known and isinstance(number, int) else f"statement {number}"
    why = f" ({one['why']})" if one.get("why") else ""
    return f"{one.get('verdict')}: {statement}{why}"


def _texts(about: Mapping[str, Any], name: str) -> list[str]:
    texts = about.get(name)
    return [str(one) for one in texts] if isinstance(texts, (list, tuple)) else []


def _list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
