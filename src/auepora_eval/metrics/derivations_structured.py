"""Derivations of structured answers: what was expected, what was given, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..core.derivation import Derivation, Derived, quoted
from ..core.types import Response

__all__ = ["fields_steps", "label_steps", "schema_steps"]


def shown(value: Any) -> str:
    """A value as JSON writes it."""
    return json.dumps(value, ensure_ascii=False, default=str)


def label_steps(field: str, expected: Any, given: Any, response: Response, same: bool) -> Derivation:
    """Whether the labels are the same."""
    steps = Derived().say(f"Expected under {quoted(field)}: {shown(expected)}")
    if response.structured is None:
        steps.say(f"The answer is not structured, so that its whole text is the label: {quoted(response.text)}")
    else:
        steps.say(f"Given under {quoted(field)}: {shown(given)}")
    return steps.ends("They are equal: 1" if same else "They are not equal: 0", float(same))


def fields_steps(
    expected: Mapping[str, Any], given: Any, text: str, same: Callable[[object, object], bool]
) -> Derivation:
    """The share of expected fields that are given with an equal value."""
    if not isinstance(given, Mapping):
        return Derived().say(f"The answer: {quoted(text)}").ends("It is no object: 0", 0.0)
    rows = [
        (
            name,
            shown(value),
            shown(given[name]) if name in given else "not there",
            "right" if name in given and same(value, given[name]) else "wrong",
        )
        for name, value in expected.items()
    ]
    right = sum(row[3] == "right" for row in rows)
    steps = Derived().table("Every expected field", ("field", "expected", "given", ""), rows)
    return steps.gives(f"Right / expected = {right} / {len(rows)}", right / len(rows))


def schema_steps(answer: Any, schema: str, fits: bool) -> Derivation:
    """Whether the answer satisfies the schema."""
    steps = Derived().say(f"The schema: {quoted(schema)}").say(f"The answer, as JSON: {quoted(shown(answer))}")
    if not isinstance(answer, dict):
        return steps.ends("It is no object: 0", 0.0)
    return steps.ends("It satisfies the schema: 1" if fits else "It does not satisfy the schema: 0", float(fits))
