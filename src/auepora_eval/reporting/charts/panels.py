"""Rows of a chart: their numbers, and their grouping into panels with a common axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .labels import finite_number, format_number, pluralize
from .spec import Json

__all__ = [
    "MAX_ROWS",
    "ROW_HEIGHT",
    "TOOLTIP",
    "Row",
    "describe_row",
    "group_into_panels",
    "has_unit_range",
    "list_first",
    "omitted_rows_note",
    "row_values",
    "text_layer",
]

Row = Mapping[str, Any]
MAX_ROWS = 200
"""The number of rows drawn; further rows are only counted."""
ROW_HEIGHT = 22.0
"""The height of a row."""
TOOLTIP: Json = {"field": "tip", "type": "nominal"}


def row_values(row: Row, key: str = "value") -> list[float]:
    """The numbers of a row: value, low and high; empty where it has no value."""
    value = finite_number(row.get(key))
    if value is None:
        return []
    low, high = finite_number(row.get("low")), finite_number(row.get("high"))
    return [value] if low is None or high is None else [value, low, high]


def has_unit_range(row: Row, key: str = "value") -> bool:
    """Whether a row's metric lies between 0 and 1, by its ``range`` or else by its numbers."""
    value_range = row.get("range")
    if value_range is not None:
        return tuple(map(finite_number, value_range)) == (0.0, 1.0)
    lowest = -1 if key == "delta" else 0
    return all(lowest <= one <= 1 for one in row_values(row, key))


def group_into_panels(rows: Sequence[Row], key: str = "value") -> list[tuple[str, list[Row]]]:
    """Group rows into panels with a common axis; only the first panel of a group has its name.

    Metrics between 0 and 1 share an axis, else those of one ``scale``, else those of one name without its cut-off.
    """
    groups: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.get("scale"):
            scale = f"scale {row['scale']}"
        else:
            scale = "unit" if has_unit_range(row, key) else f"of {str(row.get('name', '')).partition('@')[0]}"
        groups.setdefault(str(row.get("group") or ""), {}).setdefault(scale, []).append(row)
    return [
        (group if index == 0 else "", members)
        for group, scales in groups.items()
        for index, members in enumerate(scales.values())
    ]


def list_first(texts: Sequence[str], what: str, most: int = 6) -> str:
    """List the first few texts and the number of further ones."""
    rest = [f"and {pluralize(len(texts) - most, f'more {what}')}"] if len(texts) > most else []
    return ", ".join([*texts[:most], *rest])


def omitted_rows_note(rows: Sequence[Row], what: str = "row") -> str:
    """A note on the number of rows that are not drawn."""
    rest = len(rows) - MAX_ROWS
    return f"{pluralize(rest, f'more {what}')} not drawn" if rest > 0 else ""


def text_layer(rows: Sequence[Json], x: Json, y: Json, *, colour: str, dx: float, align: str = "left") -> Json:
    """A layer of labels next to marks: rows have ``text``."""
    mark = {"type": "text", "align": align, "baseline": "middle", "dx": dx, "color": colour}
    encoding = {"x": x, "y": y, "text": {"field": "text", "type": "nominal"}}
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def describe_row(label: str, ends: Sequence[float], *, signed: bool = False) -> str:
    """A row's numbers as text: ``recall@5: 0.7000 (0.6000 to 0.8000)``."""
    sign = "+" if signed and ends[0] > 0 else ""
    text = f"{label}: {sign}{format_number(ends[0])}"
    return f"{text} ({format_number(ends[1])} to {format_number(ends[2])})" if len(ends) == 3 else text
