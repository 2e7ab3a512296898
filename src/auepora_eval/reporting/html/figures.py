"""The figures of a report: data of a section turned into charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...compare.causes import Cause
from ...compare.notebook import forest_rows
from ...compare.split import MetricSplit
from ...compare.types import MetricComparison
from ...core.results import display_name
from ...core.types import MetricResult
from .. import charts
from .blocks import Figure, Gallery
from .stored_run import Floats, StoredRun

__all__ = [
    "causes_figure",
    "changes_figure",
    "curve_figure",
    "distribution_figure",
    "forest_figure",
    "latency_figure",
    "leaderboard_figure",
    "quality_figure",
    "scatter_figure",
    "slices_figure",
    "split_figure",
    "wins_figure",
]

WIDE, SQUARE, MEDIUM, SMALL = 820, 560, 440, 300
MAX_POINTS = 2000


def leaderboard_figure(runs: Sequence[StoredRun], name: str) -> Figure | None:
    """One metric of every run."""
    rows: list[dict[str, Any]] = [
        _value_row(run, one, run.label, "") for run in runs if (one := run.find_result(name)) is not None
    ]
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
        result = None if main is None else run.find_result(main)
        if result is None or name not in result.slices:
            continue
        whole = result.value if result.defined and len(runs) == 1 else None
        for group, part in result.slices[name].items():
            if isinstance(part, MetricResult):
                row = _value_row(run, part, group, "")
                rows.append({**row, "slice": f"{name}, {run.label}" if run.letter else name, "group": group})
    if not rows:
        return None
    chart = charts.slices_chart(rows, str(main), whole=whole)
    return Figure(chart, f"{main} in every group of {name}, with 95 % intervals.", WIDE)


def distribution_figure(scores_by_run: Mapping[StoredRun, Floats], name: str) -> Figure:
    """The distribution of one metric's scores in each run."""
    run, values = next(iter(scores_by_run.items()))
    result = run.find_result(name)
    assert result is not None
    low, high = run.definition(result).range
    ends = (low, high) if np.isfinite([low, high]).all() else None
    shown = {one.label: each.tolist() for one, each in scores_by_run.items()} if run.letter else values.tolist()
    chart = charts.distribution_chart(shown, name, bounds=ends, title=display_name(result))
    counts = [f"{one.letter} {len(each):,}" if one.letter else f"{len(each):,}" for one, each in scores_by_run.items()]
    return Figure(chart, f"{display_name(result)}: {', '.join(counts)} queries.", SMALL)


def latency_figure(runs: Sequence[StoredRun], name: str) -> Figure:
    """The latency distribution of each run."""
    times_by_run = {run.label: run.timings[name].tolist() for run in runs if name in run.timings}
    shown = times_by_run if len(times_by_run) > 1 else next(iter(times_by_run.values()))
    chart = charts.latency_chart(shown, name=name, quantiles=(0.5, 0.95, 0.99))
    return Figure(chart, f"How long answers took ({name}), with quantiles.", WIDE)


def forest_figure(metrics: Sequence[MetricComparison], names: tuple[str, str]) -> Figure | None:
    """Differences with their intervals and verdicts."""
    rows = forest_rows(metrics)
    if not rows:
        return None
    chart = charts.forest_chart(rows, names=names)
    return Figure(chart, "B − A with 95 % intervals. The shape tells the verdict, and so does the table below.", WIDE)


def split_figure(splits: Sequence[MetricSplit]) -> Figure | None:
    """Differences split into retrieval and generation."""
    from ..plots.comparisons import plot_split  # it imports this package

    if not splits:
        return None
    return Figure(plot_split(splits), "B − A, and what other documents and another generator made of it.", WIDE)


def curve_figure(title: str, curves: Mapping[str, Sequence[Point]], *, wide: bool = False) -> Figure:
    """Metrics over depth: a line per run, or per metric."""
    lines = {name: [_point(*one) for one in points] for name, points in curves.items()}
    return Figure(
        charts.curve_over_k(lines, title=f"{title} over k"),
        f"{title} over k with 95 % intervals.",
        WIDE if wide else MEDIUM,
    )


Point = tuple[int, float, tuple[float, float] | None]


def _point(k: int, value: float, ends: tuple[float, float] | None) -> dict[str, Any]:
    low, high = ends or (None, None)
    return {"k": k, "value": value, "low": low, "high": high}


def quality_figure(run: StoredRun, name: str, bins: Sequence[Bin]) -> Figure:
    """Answer quality by the rank of the first relevant document."""
    rows: list[dict[str, Any]] = [
        {
            "rank": title.removeprefix("rank "),
            "value": mean,
            "n": n,
            **dict(zip(("low", "high"), ends or (), strict=False)),
        }
        for title, n, mean, ends in bins
    ]
    chart = charts.quality_by_rank(rows, name, title=run.label if run.letter else name)
    return Figure(chart, f"Mean {name}, with 95 % intervals and the number of queries.", MEDIUM if run.letter else WIDE)


Bin = tuple[str, int, float, tuple[float, float] | None]


def causes_figure(run: StoredRun, causes: Mapping[str, Mapping[str, Any]]) -> Figure:
    """The proportion of each cause of wrong answers."""
    shares = {str(cause).replace("_", " "): _share(part) for cause, part in causes.items()}
    chart = charts.causes_chart(shares, title=run.label if run.letter else "Why answers are wrong")
    return Figure(chart, "Shares of the wrong answers, with 95 % intervals.", MEDIUM if run.letter else WIDE)


def _share(part: Mapping[str, Any]) -> dict[str, Any]:
    low, high = part.get("interval") or (None, None)
    return {"count": part.get("count"), "share": part.get("share"), "low": low, "high": high}


def changes_figure(worse: Mapping[Cause, int], better: Mapping[Cause, int]) -> Gallery | None:
    """The causes of queries that got worse, and of those that got better."""
    figures = [
        Figure(
            charts.causes_chart({str(cause).replace("_", " "): n for cause, n in counts.items()}, title=title),
            caption,
            MEDIUM,
        )
        for counts, title, caption in (
            (worse, "Queries that got worse", "The first difference that is seen, for each query that got worse."),
            (better, "Queries that got better", "The same for each query that got better."),
        )
        if counts
    ]
    return Gallery(figures) if figures else None


def scatter_figure(a: StoredRun, b: StoredRun, name: str, first: Floats, second: Floats, ids: Sequence[str]) -> Figure:
    """One metric of both runs, query by query."""
    result = b.find_result(name)
    chart = charts.scatter_chart(
        _numbers(first),
        _numbers(second),
        ids,
        name=name,
        names=(a.label, b.label),
        higher_is_better=result is None or b.definition(result).higher_score_is_better,
        links=len(ids) <= MAX_POINTS,
    )
    return Figure(chart, f"{name} of every query in both runs. A point leads to its query.", SQUARE)


def _numbers(values: Floats) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def wins_figure(metrics: Sequence[MetricComparison], names: tuple[str, str]) -> Figure | None:
    """The numbers of queries won and lost by each metric."""
    rows: list[dict[str, Any]] = [
        {"name": one.name, "wins": one.wins, "losses": one.losses, "draws": one.draws}
        for one in metrics
        if one.wins or one.losses or one.draws
    ]
    if not rows:
        return None
    chart = charts.wins_losses_chart(rows, names=names)
    return Figure(chart, "On how many queries B does better and worse than A, by each metric.", WIDE)
