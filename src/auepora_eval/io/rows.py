"""Rows of JSON lines, checked by the types that a class declares for its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import did_you_mean
from ..options import first_problem
from .codec import LineError
from .problems import quote_text, type_name


def row_values(
    row: object,
    known: Collection[str] | None,
    required: Sequence[str] = (),
    *,
    aliases: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The values of a row that are not null; a ``LineError`` names the first field that is wrong.

    ``known`` are the fields that a row may have (``None``: others are ignored), ``required`` those that it must have,
    and ``aliases`` what other tools call them.
    """
    if not isinstance(row, Mapping):
        raise LineError(f"each line must be one JSON object, not {type_name(row)}")
    for key in row:
        if known is not None and key not in known:
            meant = (aliases or {}).get(key.lower())
            hint = did_you_mean(key[:80], known, otherwise=f"; known fields: {', '.join(known)}")
            if meant in known:
                hint = f"; did you mean {meant!r}?"
            raise LineError(f"unknown field {quote_text(key)}{hint}")
    values = {key: value for key, value in row.items() if value is not None}
    for key in required:
        if key not in values:
            raise LineError(f"field {key!r} is missing")
    return values


def require_types(target: type, values: Mapping[str, Any]) -> None:
    """Raise a ``LineError`` that names the first value without the type that a class declares for it."""
    wrong = first_problem(target, values)
    if wrong is not None:
        raise LineError(f"field {wrong[0]!r} {wrong[1]}")
