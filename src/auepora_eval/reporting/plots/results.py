"""Charts of results: values with intervals, distributions, slices, curves over k, causes, answers by rank."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import BadValueError, UnknownMetricError
from ...core.results import Results, display_name
from ...core.types import MetricResult, TargetCategory
from ...stats.interval import mean_interval
from ..charts.causes import causes_chart
from ..charts.chart import Chart
from ..charts.curves import curve_over_k, quality_by_rank
from ..charts.distributions import distribution_chart, latency_chart
from ..charts.intervals import interval_chart, slices_chart
from ..result_rows import interval_rows, metric_range, result_row

__all__ = [
    "answer_metric",
    "plot_causes",
    "plot_curve_over_k",
    "plot_distribution",
    "plot_latency",
    "plot_quality_by_rank",
    "plot_results",
    "plot_slices",
    "quality_rows",
]

ResultsByRun = Results | Mapping[str, Results]
"""The results of one run, or of several by name."""
ResultByRun = MetricResult | Mapping[str, MetricResult]
"""A metric of one run, or of several by name."""
_CUTOFF = re.compile(r"(?P<family>.+?)@(?P<k>\d+)(?P<rest>.*)")
_RANKS = (1, 2, 3, 4, 5)
_ANSWERS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
)


def plot_results(results: ResultsByRun, *, title: str | None = None) -> Chart:
    """Every metric with its interval, by target; several runs are grouped by metric."""
    if isinstance(results, Mapping):
        names = dict.fromkeys(one.name for each in results.values() for one in each)
        rows = [
            {**result_row(result, run), "group": display_name(result), **_own_scale(result)}
            for name in names
            for run, each in results.items()
            if (result := _find(each, name)) is not None
        ]
        return interval_chart(rows, title=title or "Scores of each run, with 95 % intervals")
    return interval_chart(interval_rows(results), title=title or "Scores with 95 % intervals")


def _own_scale(result: MetricResult) -> dict[str, str]:
    """The ``scale`` key that puts several runs of a metric on one axis."""
    return {} if metric_range(result.name, result.signature) == (0.0, 1.0) else {"scale": result.name}


def _find(results: Results, name: str) -> MetricResult | None:
    return next((one for one in results if one.name == name), None)


def _by_run(result: ResultByRun) -> tuple[MetricResult, dict[str, MetricResult]]:
    if isinstance(result, MetricResult):
        return result, {"": result}
    if not result:
        raise BadValueError("there is no result to draw; give at least one")
    return next(iter(result.values())), dict(result)


def _scores(result: MetricResult) -> list[float | None]:
    if result.scores is None:
        raise BadValueError(
            f"'{result.name}' has no score per sample, so there is nothing to draw; name another metric"
        )
    return list(result.scores)


def plot_distribution(result: ResultByRun, *, title: str | None = None) -> Chart:
    """The distribution of a metric's scores; several runs are stacked."""
    first, runs = _by_run(result)
    values = {run: _scores(one) for run, one in runs.items()}
    shown = values[""] if list(values) == [""] else values
    return distribution_chart(shown, display_name(first), bounds=metric_range(first.name, first.signature), title=title)


def plot_latency(result: ResultByRun, *, title: str | None = None) -> Chart:
    """The latency distribution, from the scores of a latency metric."""
    first, runs = _by_run(result)
    values = {run: _scores(one) for run, one in runs.items()}
    shown = values[""] if list(values) == [""] else values
    return latency_chart(shown, name=display_name(first), title=title)


def plot_slices(result: MetricResult, *, title: str | None = None) -> Chart:
    """A metric in every group of every slice."""
    rows = [
        {**result_row(part, group), "slice": name, "group": group, **_range_of(result)}
        for name, groups in result.slices.items()
        for group, part in groups.items()
        if isinstance(part, MetricResult)
    ]
    whole = result.value if result.defined else None
    return slices_chart(rows, display_name(result), whole=whole, title=title)


def _range_of(result: MetricResult) -> dict[str, Any]:
    ends = metric_range(result.name, result.signature)
    return {} if ends is None else {"range": ends}


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
        for one in each:
            match = _CUTOFF.fullmatch(one.name)
            if match is None:
                continue
            family = match["family"] + match["rest"]
            seen.add(family)
            if not families or family in families:
                line = curves.setdefault(family, {}).setdefault(run, [])
                line.append({**result_row(one, ""), "k": int(match["k"])})
    for family in families:
        if family not in seen:
            raise UnknownMetricError(family, seen)
    drawn = {name: of for name, of in curves.items() if families or any(len(one) > 1 for one in of.values())}
    if isinstance(results, Mapping):
        return curve_over_k(drawn, title=title)
    return curve_over_k({name: lines[""] for name, lines in drawn.items()}, title=title)


def plot_causes(results: Results, *, title: str | None = None) -> Chart:
    """Why answers were wrong, where ``failure_attribution`` was computed."""
    for one in results:
        causes = one.details.get("causes")
        if isinstance(causes, Mapping) and causes:
            rows = {str(name): _cause(part) for name, part in causes.items() if isinstance(part, Mapping)}
            return causes_chart(rows, title=title or "Why answers were wrong")
    raise BadValueError(
        "there are no causes to draw: compute failure_attribution (`auepora rescore RUN -m failure_attribution@5`)"
    )


def _cause(part: Mapping[str, Any]) -> dict[str, Any]:
    low, high = part.get("interval") or (None, None)
    return {"count": part.get("count"), "share": part.get("share"), "low": low, "high": high}


def plot_quality_by_rank(results: Results, metric: str | None = None, *, title: str | None = None) -> Chart:
    """Answer quality by the rank of the first relevant document, taken from the scores of ``mrr``."""
    ranked = next((one for one in results if re.fullmatch(r"mrr(@\d+)?", one.name) and one.scores is not None), None)
    if ranked is None:
        raise BadValueError("the rank of the first relevant document is not known: compute mrr as well")
    judged = results.by_name[metric] if metric is not None else answer_metric(results)
    ranks = [None if one is None else math.inf if one == 0 else 1 / one for one in _scores(ranked)]
    rows = quality_rows(ranks, _scores(judged), bounds=metric_range(judged.name, judged.signature))
    return quality_by_rank(rows, display_name(judged), title=title)


def answer_metric(results: Results) -> MetricResult:
    """The first metric that judges answers per sample; correctness first."""
    for target in _ANSWERS:
        for one in results:
            if one.target is target and one.scores is not None:
                return one
    raise BadValueError("no metric here judges answers sample by sample; compute one, such as token_f1")


def quality_rows(
    ranks: Sequence[float | None], scores: Sequence[float | None], *, bounds: tuple[float, float] | None = None
) -> list[dict[str, Any]]:
    """The rows of ``quality_by_rank``: mean scores by rank. An infinite rank means no hit, ``None`` unknown."""
    low, high = bounds or (-math.inf, math.inf)
    groups: dict[str, list[float]] = {name: [] for name in (*map(str, _RANKS), "6–10", "> 10", "none")}
    for rank, score in zip(ranks, scores, strict=True):
        if rank is None or score is None or math.isnan(rank) or math.isnan(score):
            continue
        position = round(rank) if math.isfinite(rank) else None
        name = (
            "none"
            if position is None
            else str(position)
            if position <= _RANKS[-1]
            else "6–10"
            if position <= 10
            else "> 10"
        )
        groups[name].append(score)
    rows = []
    for name, members in groups.items():
        if not members:
            continue
        values = np.array(members, dtype=np.float64)
        interval = mean_interval(values, lowest=low, highest=high)
        row: dict[str, Any] = {"rank": name, "value": float(values.mean()), "n": len(members)}
        if interval is not None and math.isfinite(interval.low) and math.isfinite(interval.high):
            row |= {"low": interval.low, "high": interval.high}
        rows.append(row | ({} if bounds is None else {"range": bounds}))
    return rows
