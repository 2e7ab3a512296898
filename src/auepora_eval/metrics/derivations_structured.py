"""Derivations of structured answers: expected and given values, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..core.derivation import Derivation, DerivationBuilder, quote_text
from ..core.types import Response

__all__ = ["fields_steps", "label_steps", "schema_steps"]


def to_json(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def label_steps(field: str, expected: Any, given: Any, response: Response, same: bool) -> Derivation:
    """Whether the labels are the same."""
    steps = DerivationBuilder().add_step(f"Expected under {quote_text(field)}: {to_json(expected)}")
    if response.structured is None:
        steps.add_step(
            f"The answer is not structured, so that its whole text is the label: {quote_text(response.text)}"
        )
    else:
        steps.add_step(f"Given under {quote_text(field)}: {to_json(given)}")
    return steps.finish("They are equal: 1" if same else "They are not equal: 0", float(same))


def fields_steps(
    expected: Mapping[str, Any], given: Any, text: str, same: Callable[[object, object], bool]
) -> Derivation:
    """The proportion of expected fields with an equal value."""
    if not isinstance(given, Mapping):
        return DerivationBuilder().add_step(f"The answer: {quote_text(text)}").finish("It is no object: 0", 0.0)
    rows = [
        (
            name,
            to_json(value),
            to_json(given[name]) if name in given else "not there",
            "right" if name in given and same(value, given[name]) else "wrong",
        )
        for name, value in expected.items()
    ]
    right = sum(row[3] == "right" for row in rows)
    steps = DerivationBuilder().table("Every expected field", ("field", "expected", "given", ""), rows)
    return steps.finish_with_value(f"Right / expected = {right} / {len(rows)}", right / len(rows))


def schema_steps(answer: Any, schema: str, fits: bool) -> Derivation:
    """Whether the answer satisfies the schema."""
    steps = (
        DerivationBuilder()
        .add_step(f"The schema: {quote_text(schema)}")
        .add_step(f"The answer, as JSON: {quote_text(to_json(answer))}")
    )
    if not isinstance(answer, dict):
        return steps.finish("It is no object: 0", 0.0)
    return steps.finish("It satisfies the schema: 1" if fits else "It does not satisfy the schema: 0", float(fits))
