"""The figures of a report: what a section knows, handed to the charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...compare.causes import Cause
from ...compare.split import MetricSplit, Part
from ...compare.types import MetricComparison
from ...core.results import display_name
from ...core.targets import TARGETS
from ...core.types import MetricResult, TargetCategory
from .. import charts
from .blocks import Figure
from .stored_run import Floats, StoredRun

__all__ = [
    "causes_figure",
    "changes_figure",
    "curve_figure",
    "distribution_figure",
    "forest_figure",
    "intervals_figure",
    "latency_figure",
    "league_figure",
    "quality_figure",
    "scatter_figure",
    "slices_figure",
    "split_figure",
    "wins_figure",
]

WIDE, NARROW = 820, 400
MOST_POINTS = 2000


def intervals_figure(run: StoredRun) -> Figure | None:
    """Every metric that has an interval, under its target."""
    rows = [
        _value_row(run, one, display_name(one), TARGETS[one.target].title)
        for one in sorted(run.results, key=lambda one: list(TARGETS).index(one.target))
        if one.target is not TargetCategory.LATENCY
    ]
    if not rows:
        return None
    chart = charts.interval_chart(rows, title="Scores with 95 % intervals")
    return Figure(chart, "Value and 95 % interval of every metric.", WIDE)


def league_figure(runs: Sequence[StoredRun], name: str) -> Figure | None:
    """One metric of every run."""
    rows = [_value_row(run, one, run.called, "") for run in runs if (one := run.named(name)) is not None]
    if not rows:
        return None
    chart = charts.interval_chart([{**row, "scale": name} for row in rows], title=name)
    return Figure(chart, f"{name} of each run over all its queries, with 95 % intervals.", WIDE)


def _value_row(run: StoredRun, result: MetricResult, name: str, group: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "group": group, "value": result.value if result.defined else None}
    low, high = run.definition(result).range
    if np.isfinite([low, high]).all():
        row["range"] = (low, high)
    if result.interval is not None and result.defined:
        row |= {"low": result.interval[0], "high": result.interval[1]}
        row["doubt"] = bool((result.details.get("interval") or {}).get("flags"))
    if not result.defined:
        row["note"] = str(result.details.get("undefined_because") or "no query was scored")
    return {**row, "n": result.details.get("num_samples")}


def slices_figure(runs: Sequence[StoredRun], name: str, main: str | None) -> Figure | None:
    """One metric in every group of a slice, for each run."""
    rows: list[dict[str, Any]] = []
    whole = None
    for run in runs:
        result = None if main is None else run.named(main)
        if result is None or name not in result.slices:
            continue
        whole = result.value if result.defined and len(runs) == 1 else None
        for group, part in result.slices[name].items():
            if isinstance(part, MetricResult):
                row = _value_row(run, part, group, "")
                rows.append({**row, "slice": f"{name}, {run.called}" if run.letter else name, "group": group})
    if not rows:
        return None
    chart = charts.slices_chart(rows, str(main), whole=whole)
    return Figure(chart, f"{main} in every group of {name}, with 95 % intervals.", WIDE)


def distribution_figure(run: StoredRun, result: MetricResult, values: Floats) -> Figure:
    """How the scores of one metric are spread."""
    low, high = run.definition(result).range
    ends = (low, high) if np.isfinite([low, high]).all() else None
    chart = charts.distribution_chart(values.tolist(), result.name, range=ends, title=display_name(result))
    return Figure(chart, f"{display_name(result)}: {len(values):,} queries.", NARROW)


def latency_figure(runs: Sequence[StoredRun], name: str) -> Figure:
    """How long answers took, in each run."""
    held = {run.called: run.timings[name] for run in runs if name in run.timings}
    shown = held if len(held) > 1 else next(iter(held.values()))
    chart = charts.latency_chart(shown, name=name, quantiles=(0.5, 0.95, 0.99))
    return Figure(chart, f"How long answers took ({name}), with quantiles.", WIDE)


def forest_figure(metrics: Sequence[MetricComparison], names: tuple[str, str]) -> Figure | None:
    """Differences with their intervals and verdicts."""
    rows = []
    for target, entry in TARGETS.items():
        for one in metrics:
            if one.target != target.name:
                continue
            low, high = one.interval or (None, None)
            rows.append(
                {
                    "name": one.name,
                    "group": entry.title,
                    "delta": one.delta,
                    "low": low,
                    "high": high,
                    "verdict": one.verdict,
                    "primary": one.primary,
                    "n": one.n,
                    "note": one.note or "no difference",
                }
            )
    if not rows:
        return None
    chart = charts.forest_chart(rows, names=names)
    return Figure(chart, "B − A with 95 % intervals. The shape tells the verdict, and so does the table below.", WIDE)


def split_figure(splits: Sequence[MetricSplit]) -> Figure | None:
    """Differences in their two parts."""
    rows = [
        {
            "name": one.name,
            "retrieval": _part(one.retrieval),
            "generation": _part(one.generation),
            "delta": _part(one.delta),
        }
        for one in splits
    ]
    if not rows:
        return None
    return Figure(charts.split_chart(rows), "B − A, and what other documents and another generator made of it.", WIDE)


def _part(part: Part) -> dict[str, float | None]:
    low, high = part.interval or (None, None)
    return {"value": part.value, "low": low, "high": high}


def curve_figure(title, curves):  # type: ignore
    return None


def quality_figure(runs, name, bins):  # type: ignore
    return None


def causes_figure(runs, name, causes):  # type: ignore
    return None


def changes_figure(worse, better):  # type: ignore
    return None


def scatter_figure(name, a, b, ids):  # type: ignore
    return None


def wins_figure(metrics):  # type: ignore
    return None
