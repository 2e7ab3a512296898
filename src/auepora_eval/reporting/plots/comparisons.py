"""Charts of comparisons: differences and verdicts, queries side by side, wins and losses, splits, perturbed runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compare.causes import QueryChange, cause_counts
from ...compare.notebook import forest_plot, forest_rows
from ...compare.split import DifferencePart, MetricSplit
from ...compare.types import CompareReport, ComparisonKind, MetricComparison
from ...core.errors import BadValueError
from ...core.results import Results, display_name
from ...core.types import TargetCategory
from ..charts.causes import causes_chart
from ..charts.chart import Chart
from ..charts.curves import noise_curve
from ..charts.forest import forest_chart, split_chart
from ..charts.queries import scatter_chart, wins_losses_chart
from ..curve import Curve

__all__ = [
    "plot_changes",
    "plot_comparison",
    "plot_noise_curve",
    "plot_scatter",
    "plot_split",
    "plot_wins_losses",
]

_NAMES = ("A", "B")


def plot_comparison(
    report: CompareReport | Sequence[MetricComparison], *, names: tuple[str, str] = _NAMES, title: str | None = None
) -> Chart:
    """Every metric's difference with its interval and verdict, by target; refused metrics with their reason."""
    if isinstance(report, CompareReport):
        return forest_plot(report, names=names, title=title)
    return forest_chart(forest_rows(report), names=names, title=title or f"Differences, {names[1]} − {names[0]}")


def plot_wins_losses(report: CompareReport, *, names: tuple[str, str] = _NAMES, title: str | None = None) -> Chart:
    """The numbers of queries won and lost, by the rank of the first expected chunk and by each metric."""
    rows: list[dict[str, Any]] = []
    if report.per_query:
        kinds = [one.kind for one in report.per_query]
        rows.append(
            {
                "name": "first expected chunk",
                "wins": kinds.count(ComparisonKind.WIN),
                "losses": kinds.count(ComparisonKind.LOSS),
                "draws": kinds.count(ComparisonKind.DRAW),
                "regressions": kinds.count(ComparisonKind.REGRESSION),
            }
        )
    rows += [
        {"name": one.name, "wins": one.wins, "losses": one.losses, "draws": one.draws}
        for one in report.metrics
        if one.wins or one.losses or one.draws
    ]
    return wins_losses_chart(rows, names=names, title=title or "Wins and losses, query by query")


def plot_scatter(
    first: Results,
    second: Results,
    metric: str,
    *,
    names: tuple[str, str] = _NAMES,
    higher_is_better: bool | None = None,
    links: bool = False,
    title: str | None = None,
) -> Chart:
    """Each query's score of one metric in two runs, over the common samples."""
    a, b = first.by_name[metric], second.by_name[metric]
    if a.scores is None or b.scores is None:
        raise BadValueError(f"'{metric}' has no score per sample in both runs, so there is nothing to draw")
    first_scores = dict(zip(first.sample_ids, a.scores, strict=True))
    rows = [
        (one, first_scores[one], score)
        for one, score in zip(second.sample_ids, b.scores, strict=True)
        if one in first_scores
    ]
    better = b.target is not TargetCategory.LATENCY if higher_is_better is None else higher_is_better
    return scatter_chart(
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[0] for row in rows],
        name=display_name(b),
        names=names,
        higher_is_better=better,
        links=links,
        title=title,
    )


def plot_split(splits: Sequence[MetricSplit], *, title: str = "Where the difference comes from") -> Chart:
    """Differences split into retrieval and generation."""
    rows = [
        {
            "name": one.name,
            "retrieval": _part_values(one.retrieval),
            "generation": _part_values(one.generation),
            "delta": _part_values(one.delta),
        }
        for one in splits
    ]
    return split_chart(rows, title=title)


def _part_values(part: DifferencePart) -> dict[str, float | None]:
    low, high = part.interval or (None, None)
    return {"value": part.value, "low": low, "high": high}


def plot_changes(changes: Sequence[QueryChange], *, title: str = "What changed where queries got worse") -> Chart:
    """The number of queries per cause."""
    return causes_chart({str(cause): count for cause, count in cause_counts(changes).items()}, title=title)


def plot_noise_curve(curve: Curve, *, metrics: Sequence[str] = (), title: str | None = None) -> Chart:
    """Metrics over the perturbation level; with ``metrics`` only these."""
    shown_metrics = list(metrics) or list(curve.metrics)
    missing = [name for name in shown_metrics if name not in curve.metrics]
    if missing:
        raise BadValueError(f"the curve has no metric '{missing[0]}'; it has {', '.join(curve.metrics) or 'none'}")
    lines = {}
    for name in shown_metrics:
        lines[curve.display_names.get(name, name)] = [
            {
                "level": one.level,
                "value": one.value,
                **({} if one.interval is None else {"low": one.interval[0], "high": one.interval[1]}),
            }
            for one in curve.metrics[name]
        ]
    scaled = [curve.display_names.get(name, name) for name in curve.scaled]
    axis = curve.axis if curve.axis == "arm" else f"{curve.kind} rate"
    return noise_curve(lines, axis=axis, scaled=scaled, title=title or f"Metrics over {axis}")
