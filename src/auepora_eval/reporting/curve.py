"""Perturbation curves: every metric at every level of a perturbation, as data and as a terminal drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.results import Results
from ..perturb.kinds import ARMS_KIND, Level, level_text
from .markdown import escape_markdown, markdown_table
from .tables import escape_line_breaks, format_value, results_table, table

__all__ = ["Curve", "CurvePoint", "curve_markdown", "curve_text"]

DRAWING_WIDTH = 25
"""The width of a drawing in characters."""
_UNRELIABLE_MARK = "?"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One metric at one level. Numbers are unrounded; ``None`` where undefined."""

    level: Level
    value: float | None
    interval: tuple[float, float] | None = None
    n: int = 0
    """The number of samples in the value."""
    delta: float | None = None
    """The difference from the base, over the common samples."""
    delta_interval: tuple[float, float] | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    """Adjusted for the number of metrics; ``None`` for metrics that are not primary."""
    verdict: str | None = None
    """The verdict on the difference; ``None`` at the base itself."""
    flags: tuple[str, ...] = ()
    """Why its interval may be too narrow."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Every metric at every level, compared with the base."""

    kind: str
    """The kind of perturbation: ``noise``, ``drop``, ``arms``, ..."""
    levels: tuple[Level, ...]
    """The rates, or the names of the arms."""
    base: Level
    seed: int
    runs: list[str]
    """The id of the run at each level."""
    metrics: dict[str, list[CurvePoint]] = field(default_factory=dict)
    scaled: frozenset[str] = frozenset()
    """Metrics that are drawn on their own scale instead of 0 to 1."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Metrics that could not be compared with the base, and why."""
    notes: list[str] = field(default_factory=list)
    together: Results | None = None
    """Metrics over the answers of all arms together."""
    display_names: Mapping[str, str] = field(default_factory=dict)
    """Display names of metrics, where they differ from their names."""

    @property
    def axis(self) -> str:
        """The name of the levels."""
        return "arm" if self.kind == ARMS_KIND else "rate"

    @property
    def column(self) -> str:
        """The column heading of the levels."""
        return "arm" if self.kind == ARMS_KIND else self.kind

    def to_dict(self) -> dict[str, Any]:
        """The curve as a JSON-compatible dictionary."""
        return {
            "schema": 1,
            "perturbation": self.kind,
            f"{self.axis}s": list(self.levels),
            "base": self.base,
            "seed": self.seed,
            "runs": list(self.runs),
            "metrics": {name: [self._point(one) for one in points] for name, points in self.metrics.items()},
            **({} if self.together is None else {"together": self.together.to_dict()}),
            "refused": dict(self.refused),
            "notes": list(self.notes),
        }

    def _point(self, point: CurvePoint) -> dict[str, Any]:
        values = {key: list(one) if isinstance(one, tuple) else one for key, one in asdict(point).items()}
        return {self.axis: values.pop("level"), **values}


def curve_text(curve: Curve) -> str:
    """A table with a row per metric and level: value, interval, a drawing of both, the change from the base."""
    rows = []
    for name, points in curve.metrics.items():
        low, high = _scale(points, own=name in curve.scaled)
        for index, one in enumerate(points):
            display_name = curve.display_names.get(name, name) if index == 0 else ""
            rows.append([display_name, *_cells(one), _draw_interval(one, low, high), *_change_cells(one)])
    headers = [
        "metric",
        curve.column,
        "value",
        "95 % interval",
        "",
        f"from {level_text(curve.base)}",
        "95 % interval",
        "p",
        "",
    ]
    text = table(rows, headers=headers, right=(2, 5, 7))
    return "\n\n".join(filter(None, [text, "\n".join(_footnotes(curve)), _joint_results_text(curve, markdown=False)]))


def curve_markdown(curve: Curve) -> str:
    """The same as a Markdown table, without drawings."""
    rows = [
        [escape_markdown(curve.display_names.get(name, name)), *_cells(one), *_change_cells(one)]
        for name, points in curve.metrics.items()
        for one in points
    ]
    headers = [
        "Metric",
        curve.column,
        "Value",
        "95 % interval",
        f"From {level_text(curve.base)}",
        "95 % interval",
        "p",
        "",
    ]
    text = markdown_table(headers, rows, right=(2, 4, 6))
    footnotes = "\n".join(f"- {escape_markdown(one)}" for one in _footnotes(curve, drawn=False))
    return "\n\n".join(filter(None, [text, footnotes, _joint_results_text(curve, markdown=True)]))


def _cells(one: CurvePoint) -> list[str]:
    ends = (
        ""
        if one.interval is None
        else " – ".join(map(format_value, one.interval)) + (f" {_UNRELIABLE_MARK}" if one.flags else "")
    )
    return [level_text(one.level), "n/a" if one.value is None else format_value(one.value), ends]


def _change_cells(one: CurvePoint) -> list[str]:
    if one.delta is None:
        return ["", "", "", ""]
    ends = "" if one.delta_interval is None else " … ".join(f"{end:+.4f}" for end in one.delta_interval)
    p = one.p_value if one.p_adjusted is None else one.p_adjusted
    shown = "" if p is None else f"{p:.4f}" if p >= 0.0001 else "<.0001"
    return [f"{one.delta:+.4f}", ends, shown, one.verdict or ""]


def _scale(points: Sequence[CurvePoint], *, own: bool) -> tuple[float, float]:
    """From 0 to 1 where all values lie there, else the range of the values; ``own`` scales end at the highest value."""
    ends = [end for one in points if one.value is not None for end in (one.value, *(one.interval or ()))]
    low, high = min([0.0, *ends]), max(ends, default=0.0)
    if not own and low == 0.0:
        high = max(high, 1.0)
    return low, high if high > low else low + 1.0


def _draw_interval(one: CurvePoint, low: float, high: float) -> str:
    """The value as a point and its interval as a line, on a dotted ground."""
    if one.value is None:
        return ""

    def at(value: float) -> int:
        return round((value - low) / (high - low) * (DRAWING_WIDTH - 1))

    cells = ["·"] * DRAWING_WIDTH
    if one.interval is not None:
        first, last = (at(end) for end in one.interval)
        cells[first : last + 1] = "─" * (last + 1 - first)
    cells[at(one.value)] = "●"
    return "".join(cells)


def _footnotes(curve: Curve, *, drawn: bool = True) -> list[str]:
    points = [one for several in curve.metrics.values() for one in several]
    scale = "drawn from 0 to 1, or as far as the values go" if drawn and points else ""
    reliability = (
        f"{_UNRELIABLE_MARK} few or skewed samples: the interval may be too narrow"
        if any(one.flags for one in points)
        else ""
    )
    refused = [f"not compared with {level_text(curve.base)}: {name} ({why})" for name, why in curve.refused.items()]
    return [escape_line_breaks(one) for one in filter(None, [scale, reliability, *refused, *curve.notes])]


def _joint_results_text(curve: Curve, *, markdown: bool) -> str:
    if curve.together is None:
        return ""
    return curve.together.to_markdown() if markdown else results_table(curve.together)
