"""Charts of results, comparisons and perturbation curves."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ..compare.queries import QueryChange, cause_counts
from ..compare.rendering import forest_plot, forest_rows
from ..compare.runs import DifferencePart, MetricSplit
from ..compare.types import CompareReport, ComparisonKind, MetricComparison
from ..core.reduce import Clusters
from ..core.results import Results, display_name, to_json_value
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError, UnknownMetricError
from ..perturb.documents import ARMS_KIND, Level, level_text
from ..render.blocks import Block, Bullets, Row, RowGroup, Table, TableColumn
from ..render.charts.chart import Chart
from ..render.charts.curves import Values, curve_over_k, distribution_chart, latency_chart, noise_curve, quality_by_rank
from ..render.charts.intervals import forest_chart, interval_chart, slices_chart, split_chart
from ..render.charts.queries import causes_chart, scatter_chart, wins_losses_chart
from ..render.html import interval_ends, interval_rows, metric_range, result_row, value_text
from ..render.markdown import blocks_markdown
from ..render.tables import UNRELIABLE_NOTE, format_value, p_text, results_blocks
from ..render.terminal import blocks_text
from ..stats.intervals import Floats, mean_interval

# --- results: values with intervals, distributions, slices, curves over k, causes, answers by rank -------------------

ResultsByRun = Results | Mapping[str, Results]
"""The results of one run, or of several by name."""
ResultByRun = MetricResult | Mapping[str, MetricResult]
"""A metric of one run, or of several by name."""
_CUTOFF = re.compile(r"(?P<family>.+?)@(?P<k>\d+)(?P<rest>.*)")
_RANK_RANGES = (
    ("1", 1, 1),
    ("2", 2, 2),
    ("3", 3, 3),
    ("4–5", 4, 5),
    ("6–10", 6, 10),
    ("11–20", 11, 20),
    ("21–50", 21, 50),
    ("> 50", 51, sys.float_info.max),
    ("none", math.inf, math.inf),
)
ANSWERS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
)


def plot_results(results: ResultsByRun, *, title: str | None = None) -> Chart:
    """Every metric with its interval, by target; several runs are grouped by metric.

    Args:
        results: Results, or results by the name of their run.
        title: Of the chart.

    Returns:
        A chart, which a notebook shows; ``save`` writes it.

    Example:
        >>> plot_results(evaluate(samples, outputs, ["recall@1"])).to_svg()[:4]
        '<svg'
    """
    if isinstance(results, Mapping):
        names = dict.fromkeys(result.name for result in chain.from_iterable(results.values()))
        rows = []
        for name in names:
            for run, each in results.items():
                rows += [_several_runs_row(result, run) for result in each if result.name == name]
        return interval_chart(rows, title=title or "Scores of each run, with 95 % intervals")
    return interval_chart(interval_rows(results), title=title or "Scores with 95 % intervals")


def _several_runs_row(result: MetricResult, run: str) -> dict[str, Any]:
    """The row of a run in the group of a metric, whose runs share an axis."""
    row = {**result_row(result, run), "group": display_name(result)}
    return row if metric_range(result.name, result.signature) == (0.0, 1.0) else {**row, "scale": result.name}


def _scores_by_run(result: ResultByRun) -> tuple[MetricResult, Values]:
    """The first result, and the scores of one run or of several by name."""
    if isinstance(result, MetricResult):
        return result, _scores(result)
    if not result:
        raise BadValueError("there is no result to draw; give at least one")
    return next(iter(result.values())), {run: _scores(own) for run, own in result.items()}


def _scores(result: MetricResult) -> list[float | None]:
    if result.scores is None:
        raise BadValueError(
            f"'{display_name(result)}' has no score per sample, so there is nothing to draw; name another metric"
        )
    return list(result.scores)


def plot_distribution(result: ResultByRun, *, title: str | None = None) -> Chart:
    """The distribution of a metric's scores; several runs are stacked."""
    first, values = _scores_by_run(result)
    bounds = metric_range(first.name, first.signature)
    return distribution_chart(values, display_name(first), bounds=bounds, title=title)


def plot_latency(result: ResultByRun, *, title: str | None = None) -> Chart:
    """The latency distribution, from the scores of a latency metric."""
    first, values = _scores_by_run(result)
    return latency_chart(values, name=display_name(first), title=title)


def plot_slices(result: MetricResult, *, title: str | None = None) -> Chart:
    """A metric in every group of every slice."""
    rows = list(chain.from_iterable(slice_rows(result, name, name) for name in result.slices))
    whole = result.known_value
    return slices_chart(rows, display_name(result), whole=whole, title=title)


def slice_rows(result: MetricResult, name: str, title: str) -> list[dict[str, Any]]:
    """The rows of ``slices_chart`` for one slice of a metric, under a title."""
    ends = metric_range(result.name, result.signature)
    own = {"slice": title} if ends is None else {"slice": title, "range": ends}
    parts = [(group, part) for group, part in result.slices[name].items() if isinstance(part, MetricResult)]
    return [{**result_row(part, group), "group": group, **own} for group, part in parts]


def plot_curve_over_k(
    results: ResultsByRun, *, families: Sequence[str] = (), title: str = "Metrics over the cut-off k"
) -> Chart:
    """Metrics that were computed at several cut-offs (``recall@1``, ``recall@5``, ...), as lines over k.

    ``families`` are those to draw (``recall``, ``ndcg``); by default all that have two cut-offs or more.
    """
    runs = results if isinstance(results, Mapping) else {"": results}
    curves: dict[str, dict[str, list[dict[str, Any]]]] = {}
    seen: set[str] = set()
    for run, each in runs.items():
        for curve in each:
            match = _CUTOFF.fullmatch(curve.name)
            if match is None:
                continue
            family = match["family"] + match["rest"]
            seen.add(family)
            if not families or family in families:
                line = curves.setdefault(family, {}).setdefault(run, [])
                line.append({**result_row(curve, ""), "k": int(match["k"])})
    for family in families:
        if family not in seen:
            raise UnknownMetricError(family, seen)
    drawn = {name: of for name, of in curves.items() if families or any(len(curve) > 1 for curve in of.values())}
    if isinstance(results, Mapping):
        return curve_over_k(drawn, title=title)
    return curve_over_k({name: lines[""] for name, lines in drawn.items()}, title=title)


def plot_causes(results: Results, *, title: str | None = None) -> Chart:
    """Why answers were wrong, where ``failure_attribution`` was computed."""
    for result in results:
        if result.details.causes:
            return causes_chart(cause_rows(result.details.causes), title=title or "Why answers were wrong")
    raise BadValueError(
        "there are no causes to draw: compute failure_attribution (`auepora rescore RUN -m failure_attribution@5`)"
    )


def cause_rows(causes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of ``causes_chart`` for the causes in the details of a result."""
    return {
        str(name): {**part, **dict(zip(("low", "high"), part.get("interval") or (), strict=False))}
        for name, part in causes.items()
        if isinstance(part, Mapping)
    }


def plot_quality_by_rank(results: Results, metric: str | None = None, *, title: str | None = None) -> Chart:
    """Answer quality by the rank of the first relevant document, taken from the scores of ``mrr``."""
    ranked = next(
        (result for result in results if re.fullmatch(r"mrr(@\d+)?", result.name) and result.scores is not None), None
    )
    if ranked is None:
        raise BadValueError("the rank of the first relevant document is not known: compute mrr as well")
    judged = results.by_name[metric] if metric is not None else answer_metric(results)
    reciprocals = _floats(_scores(ranked))
    with np.errstate(divide="ignore"):
        rows = quality_rows(
            1 / reciprocals, _floats(_scores(judged)), bounds=metric_range(judged.name, judged.signature)
        )
    return quality_by_rank(rows, display_name(judged), title=title)


def _floats(scores: Sequence[float | None]) -> Floats:
    return np.array(scores, np.float64)  # NaN for None


def answer_metric(results: Results) -> MetricResult:
    """The first metric that judges answers per sample; correctness first."""
    for target in ANSWERS:
        for result in results:
            if result.target is target and result.scores is not None:
                return result
    raise BadValueError("no metric here judges answers sample by sample; compute one, such as token_f1")


def quality_rows(
    ranks: Floats, scores: Floats, *, bounds: tuple[float, float] | None = None, clusters: Clusters | None = None
) -> list[dict[str, Any]]:
    """The rows of ``quality_by_rank``: mean scores by rank. An infinite rank means no hit, NaN that it is unknown."""
    low, high = bounds or (-math.inf, math.inf)
    known = ~np.isnan(ranks) & ~np.isnan(scores)
    rows = []
    for name, first, last in _RANK_RANGES:
        members = known & (ranks.round() >= first) & (ranks.round() <= last)
        values = scores[members]
        if not len(values):
            continue
        interval = mean_interval(
            values, clusters=None if clusters is None else clusters[members], lowest=low, highest=high
        )
        row: dict[str, Any] = {"rank": name, "value": float(values.mean()), "n": len(values)}
        if interval is not None and math.isfinite(interval.low) and math.isfinite(interval.high):
            row |= {"low": interval.low, "high": interval.high}
        rows.append(row | ({} if bounds is None else {"range": bounds}))
    return rows


# --- perturbation curves: every metric at every level of a perturbation, as data and as a terminal drawing -----------

DRAWING_WIDTH = 25
"""The width of a drawing in characters."""


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
            "metrics": {name: [self._point(point) for point in points] for name, points in self.metrics.items()},
            **({} if self.together is None else {"together": self.together.to_dict()}),
            "refused": dict(self.refused),
            "notes": list(self.notes),
        }

    def _point(self, point: CurvePoint) -> dict[str, Any]:
        values = {**to_json_value(asdict(point)), "level": point.level}
        return {self.axis: values.pop("level"), **values}


def curve_text(curve: Curve) -> str:
    """A table with a row per metric and level: value, interval, a drawing of both, the change from the base."""
    return blocks_text(curve_blocks(curve, drawn=True))


def curve_markdown(curve: Curve) -> str:
    """The same as a Markdown table, without drawings."""
    return blocks_markdown(curve_blocks(curve, drawn=False))


def curve_blocks(curve: Curve, *, drawn: bool) -> list[Block]:
    """A row per metric and level; ``drawn`` adds a drawing of each interval."""
    columns = [
        TableColumn(curve.column),
        TableColumn("value", number=True),
        TableColumn("95 % interval"),
        *([TableColumn("")] if drawn else []),
        TableColumn(f"from {level_text(curve.base)}", number=True),
        TableColumn("95 % interval"),
        TableColumn("p", number=True),
        TableColumn(""),
    ]
    groups = []
    for name, points in curve.metrics.items():
        low, high = _scale(points, own=name in curve.scaled)
        rows = [
            [*_cells(point), *([_draw_interval(point, low, high)] if drawn else []), *_change_cells(point)]
            for point in points
        ]
        groups.append(RowGroup(rows, curve.display_names.get(name, name)))
    scale = ["drawn from 0 to 1, or as far as the values go"] if drawn and groups else []
    flagged = any(point.flags for point in chain.from_iterable(curve.metrics.values()))
    refused = [f"not compared with {level_text(curve.base)}: {name} ({why})" for name, why in curve.refused.items()]
    notes = [*scale, *([UNRELIABLE_NOTE] if flagged else []), *refused, *curve.notes]
    blocks: list[Block] = [Table(columns, groups, grouped_by="metric"), *([Bullets(notes)] if notes else [])]
    return blocks if curve.together is None else [*blocks, *results_blocks(curve.together)]


def _cells(point: CurvePoint) -> Row:
    ends = (
        "" if point.interval is None else " – ".join(map(format_value, point.interval)) + (" ?" if point.flags else "")
    )
    return [level_text(point.level), value_text(point.value), ends]


def _change_cells(point: CurvePoint) -> Row:
    if point.delta is None:
        return ["", "", "", ""]
    ends = "" if point.delta_interval is None else " … ".join(f"{end:+.4f}" for end in point.delta_interval)
    p = point.p_value if point.p_adjusted is None else point.p_adjusted
    return [f"{point.delta:+.4f}", ends, p_text(p), point.verdict or ""]


def _scale(points: Sequence[CurvePoint], *, own: bool) -> tuple[float, float]:
    """From 0 to 1 where all values lie there, else the range of the values; ``own`` scales end at the highest value."""
    ends = [end for point in points if point.value is not None for end in (point.value, *(point.interval or ()))]
    low, high = min([0.0, *ends]), max(ends, default=0.0)
    if not own and low == 0.0:
        high = max(high, 1.0)
    return low, high if high > low else low + 1.0


def _draw_interval(point: CurvePoint, low: float, high: float) -> str:
    """The value as a point and its interval as a line, on a dotted ground."""
    if point.value is None:
        return ""

    def at(value: float) -> int:
        return round((value - low) / (high - low) * (DRAWING_WIDTH - 1))

    cells = ["·"] * DRAWING_WIDTH
    if point.interval is not None:
        first, last = (at(end) for end in point.interval)
        cells[first : last + 1] = "─" * (last + 1 - first)
    cells[at(point.value)] = "●"
    return "".join(cells)


# --- comparisons: differences and verdicts, queries side by side, wins and losses, splits, curves --------------------

_NAMES = ("A", "B")


def plot_comparison(
    report: CompareReport | Sequence[MetricComparison],
    *,
    names: tuple[str, str] = _NAMES,
    title: str | None = None,
    exploratory_below: bool = False,
) -> Chart:
    """Every metric's difference with its interval and verdict, by target; refused metrics with their reason.

    With ``exploratory_below``, metrics that are not primary follow below a line, where a list of metrics is given.

    Args:
        report: A comparison.
        names: Of the runs.
        title: Of the chart.

    Returns:
        A chart, which a notebook shows; ``save`` writes it.

    Example:
        >>> plot_comparison(compare("baseline", "candidate", store="runs.sqlite")).to_svg()[:4]
        '<svg'
    """
    if isinstance(report, CompareReport):
        return forest_plot(report, names=names, title=title)
    heading = title or f"Differences, {names[1]} − {names[0]}"
    return forest_chart(forest_rows(report), names=names, title=heading, exploratory_below=exploratory_below)


def plot_wins_losses(report: CompareReport, *, names: tuple[str, str] = _NAMES, title: str | None = None) -> Chart:
    """The numbers of queries won and lost, by the rank of the first expected chunk and by each metric."""
    rows: list[dict[str, Any]] = []
    if report.per_query:
        kinds = [comparison.kind for comparison in report.per_query]
        rows.append(
            {
                "name": "first expected chunk",
                "wins": kinds.count(ComparisonKind.WIN),
                "losses": kinds.count(ComparisonKind.LOSS),
                "draws": kinds.count(ComparisonKind.DRAW),
                "regressions": kinds.count(ComparisonKind.REGRESSION),
            }
        )
    rows += win_rows(report.metrics)
    return wins_losses_chart(rows, names=names, title=title or "Wins and losses, query by query")


def win_rows(metrics: Sequence[MetricComparison]) -> list[dict[str, Any]]:
    """The rows of ``wins_losses_chart`` for the metrics with compared queries."""
    return [
        {"name": metric.label or metric.name, "wins": metric.wins, "losses": metric.losses, "draws": metric.draws}
        for metric in metrics
        if metric.wins or metric.losses or metric.draws
    ]


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
        (sample_id, first_scores[sample_id], score)
        for sample_id, score in zip(second.sample_ids, b.scores, strict=True)
        if sample_id in first_scores
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
            "name": split.label or split.name,
            "retrieval": _part_values(split.retrieval),
            "generation": _part_values(split.generation),
            "delta": _part_values(split.delta),
        }
        for split in splits
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
                "level": metric.level,
                "value": metric.value,
                **interval_ends(metric.interval),
            }
            for metric in curve.metrics[name]
        ]
    scaled = [curve.display_names.get(name, name) for name in curve.scaled]
    axis = curve.axis if curve.axis == "arm" else f"{curve.kind} rate"
    return noise_curve(lines, axis=axis, scaled=scaled, title=title or f"Metrics over {axis}")
