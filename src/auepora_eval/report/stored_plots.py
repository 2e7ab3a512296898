"""Charts of stored runs by kind, for ``auepora plot``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from ..compare.match import coarsest, matched_result
from ..compare.metrics import main_metric
from ..compare.pairing import result_match
from ..compare.queries import explain_changes
from ..compare.runs import compare_metrics, compare_runs
from ..compare.stores import Store, open_store
from ..core.conventions import Match
from ..core.results import Results, display_name
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError, UnknownMetricError, did_you_mean
from ..features.matching import MATCH_WORDS
from ..perturb.documents import PERTURBATION
from ..render.charts.chart import Chart
from ..render.charts.curves import curve_over_k, latency_chart, quality_by_rank
from ..render.html import metric_range
from ..store.records import RunRecord
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore
from .comparison_sections import find_replay, stored_splits
from .plots import (
    Curve,
    CurvePoint,
    answer_metric,
    plot_causes,
    plot_changes,
    plot_comparison,
    plot_distribution,
    plot_noise_curve,
    plot_results,
    plot_scatter,
    plot_slices,
    plot_split,
    plot_wins_losses,
    quality_rows,
)
from .run_sections import StoredRun, find_runs, score_column
from .score_sections import curves_of_runs, retrieval_curves

T = TypeVar("T")
_MAX_RUNS = 20
"""The maximum number of runs in one chart."""
_TOTAL_TIMINGS = ("total", "latency", "end_to_end")
"""The usual names of the timing of a whole answer."""


@dataclass(frozen=True, slots=True)
class _PlotRequest:
    """The runs and metrics of a plot."""

    store: RunStore
    records: Sequence[RunRecord]
    metrics: Sequence[str]
    ways: dict[str, Match] = field(default_factory=dict)
    """By name of a metric that was computed again how gold is matched in it."""

    @property
    def names(self) -> list[str]:
        """The display names of the runs; equal names get their run ids."""
        called = [record.name for record in self.records]
        return [
            name if called.count(name) == 1 else f"{name} ({record.run_id})"
            for name, record in zip(called, self.records, strict=True)
        ]

    @property
    def pair(self) -> tuple[str, str]:
        """The names of two runs."""
        return self.names[0], self.names[1]

    def results(self) -> dict[str, Results]:
        """Results by run, restricted to the named metrics, if any."""
        found = {}
        for name, record in zip(self.names, self.records, strict=True):
            results = self.store.results(record.run_id)
            for metric_name in self.metrics:
                results.by_name[metric_name]  # an unknown name raises with a suggestion
            kept = [result for result in results if not self.metrics or result.name in self.metrics]
            found[name] = Results(kept, sample_ids=results.sample_ids, run_id=results.run_id)
        self._match_alike(found)
        return found

    def _match_alike(self, found: Mapping[str, Results]) -> None:
        """Compute metrics again where other runs match gold in a coarser way."""
        ways: dict[str, list[Match]] = {}
        for results in found.values():
            for result in results:
                ways.setdefault(result.name, []).append(result_match(result))
        for record, results in zip(self.records, found.values(), strict=True):
            for place, result in enumerate(results):
                match = coarsest(ways[result.name])
                again = matched_result(self.store, record, result, match)
                if isinstance(again, str):
                    raise BadValueError(
                        f"{result.name} cannot be drawn for all runs: {again}; name other runs or metrics"
                    )
                if again is not result:
                    self.ways[result.name], results[place] = match, again

    def single_metric(self) -> str | None:
        """The named metric, if any; more than one is an error."""
        if len(self.metrics) > 1:
            raise BadValueError(f"this kind draws one metric, not {len(self.metrics)}; name one")
        return self.metrics[0] if self.metrics else None

    def metric_results(self) -> dict[str, MetricResult]:
        """One metric of each run: the named one, else the main metric of answers."""
        name = self.single_metric()
        results = self.results()
        if name is None:
            first = next(iter(results.values()))
            name = answer_metric(first).name
        return {run: each.by_name[name] for run, each in results.items()}


@dataclass(frozen=True, slots=True)
class PlotKind:
    """A kind of chart of stored runs."""

    summary: str
    draw: Callable[[_PlotRequest], Chart]
    min_runs: int = 1
    max_runs: int = 1
    metrics: str = "one metric"
    """What ``-m`` may name."""

    @property
    def runs(self) -> str:
        """The number of runs as text."""
        if self.max_runs == self.min_runs:
            return "one run" if self.max_runs == 1 else f"{self.max_runs} runs"
        return f"{self.min_runs} to {self.max_runs} runs"


def plot_runs(kind: str, runs: Sequence[str], *, store: Store = None, metrics: Sequence[str] = ()) -> Chart:
    """A chart of stored runs; ``KINDS`` has the kinds. Runs are named as in ``RunStore.find``.

    Args:
        kind: A kind of chart.
        runs: Stored runs.
        store: An open store, or the path or URL of one; by default ``$AUEPORA_STORE``, else ``runs.sqlite``.
        metrics: Metrics to show; by default all.

    Returns:
        A chart, which a notebook shows; ``save`` writes it.

    Example:
        >>> plot_runs("scores", ["baseline"], store="runs.sqlite").to_svg()[:4]
        '<svg'
    """
    if kind not in KINDS:
        known = f"; choose one of: {', '.join(KINDS)}"
        raise BadValueError(f"unknown plot '{kind}'{did_you_mean(kind, KINDS, otherwise=known)}")
    chosen = KINDS[kind]
    if not chosen.min_runs <= len(runs) <= chosen.max_runs:
        raise BadValueError(f"'{kind}' needs {chosen.runs}, not {len(runs)}")
    with open_store(store) as opened:
        request = _PlotRequest(opened, find_runs(opened, runs), metrics)
        drawn = chosen.draw(request)
    ways = [f"gold matched by {MATCH_WORDS[match]}" for match in dict.fromkeys(request.ways.values())]
    return drawn.with_title("; ".join([drawn.title, *ways])) if ways else drawn


def _scores(request: _PlotRequest) -> Chart:
    single = len(request.records) == 1
    title = f"Scores of {request.names[0]}, with 95 % intervals" if single else "Scores of each run"
    return plot_results(_one_or_all(request.results()), title=title)


def _one_or_all(by_run: Mapping[str, T]) -> T | Mapping[str, T]:
    """The only value, or all of them by run."""
    return by_run if len(by_run) > 1 else next(iter(by_run.values()))


def _latency(request: _PlotRequest) -> Chart:
    metric_name = request.single_metric()
    timings = {
        name: StoredRun(request.store, record).timings
        for name, record in zip(request.names, request.records, strict=True)
    }
    known = dict.fromkeys(chain.from_iterable(timings.values()))
    if metric_name is None:
        metric_name = next((name for name in (*_TOTAL_TIMINGS, *known) if name in known), None)
    if metric_name is None:
        return latency_chart([])
    if metric_name not in known:
        raise BadValueError(f"nothing called '{metric_name}' was timed; there are: {', '.join(known) or 'none'}")
    values = {run: list(each[metric_name]) for run, each in timings.items() if metric_name in each}
    return latency_chart(_one_or_all(values), name=metric_name)


def _curve(request: _PlotRequest) -> Chart:
    curves: dict[str, dict[str, list[dict[str, Any]]]] = {}
    families: dict[str, None] = {}
    runs = [StoredRun(request.store, record) for record in request.records]
    for name, found in zip(request.names, curves_of_runs(runs), strict=True):
        families |= dict.fromkeys(found.curves)
        for family, points in found.curves.items():
            if not request.metrics or family in request.metrics:
                curves.setdefault(family, {})[name] = points
    for metric_name in request.metrics:
        if metric_name not in families:
            raise UnknownMetricError(metric_name, families)
    if len(request.records) > 1:
        return curve_over_k(curves)
    return curve_over_k({family: next(iter(lines.values())) for family, lines in curves.items()})


def _rank(request: _PlotRequest) -> Chart:
    run = StoredRun(request.store, request.records[0])
    (judged,) = request.metric_results().values()
    hits, scores = retrieval_curves(run).first_hit, score_column(judged)
    if not len(hits) or not len(scores):
        return quality_by_rank([], display_name(judged))
    ends = metric_range(judged.name, judged.signature)
    return quality_by_rank(quality_rows(hits, scores, bounds=ends, clusters=run.clusters), display_name(judged))


def _causes(request: _PlotRequest) -> Chart:
    if len(request.records) == 1:
        return plot_causes(request.store.results(request.records[0].run_id))
    first, second = request.records
    changes = explain_changes(request.store, first, second, metric=request.single_metric())
    return plot_changes(changes, title=f"What changed where {request.names[1]} got worse")


def _forest(request: _PlotRequest) -> Chart:
    compared = compare_metrics(request.store, *request.records, metrics=list(request.metrics) or None)
    return plot_comparison(compared.metrics, names=request.pair)


def _scatter(request: _PlotRequest) -> Chart:
    first, second = request.records
    a, b = request.results().values()
    chosen = main_metric(first, a, second, b, request.single_metric())
    return plot_scatter(a, b, chosen.name, names=request.pair, higher_is_better=chosen.higher_is_better)


def _wins(request: _PlotRequest) -> Chart:
    a, b = (record.run_id for record in request.records)
    report = compare_runs(a, b, store=request.store, metrics=list(request.metrics) or None)
    return plot_wins_losses(report, names=request.pair)


def _split(request: _PlotRequest) -> Chart:
    first, second = request.records
    a, b = StoredRun(request.store, first), StoredRun(request.store, second)
    replay = find_replay(a, b)
    if replay is None:
        raise BadValueError(
            f"no replay of {first.run_id} and {second.run_id} is stored: `auepora replay {first.run_id} "
            f"{second.run_id} PLAN` makes one, PLAN being the plan of the second"
        )
    splits = stored_splits(a, b, replay)
    return plot_split([split for split in splits if not request.metrics or split.name in request.metrics])


def _noise(request: _PlotRequest) -> Chart:
    """The curve of the sweep that a run belongs to."""
    (chosen,) = request.records
    perturbation = chosen.plan.get(PERTURBATION) or {}
    if "sweep" not in perturbation:
        raise BadValueError(
            f"{chosen.run_id} ({chosen.name}) is not a perturbed run; "
            "`auepora run PLAN --perturb noise=0,0.5,1` makes some"
        )
    levels: dict[Any, Results] = {}
    for record in request.store.runs(tag=PERTURBED_TAG):
        other = record.plan.get(PERTURBATION) or {}
        if other.get("sweep") == perturbation["sweep"] and "level" in other:
            levels.setdefault(other["level"], request.store.results(record.run_id))
    ordered = [level for level in perturbation["levels"] if level in levels]
    every = {result.name: result for result in chain.from_iterable(levels[level] for level in ordered)}
    for metric_name in request.metrics:
        if metric_name not in every:
            raise UnknownMetricError(metric_name, every)
    curve = Curve(
        perturbation["kind"],
        tuple(ordered),
        base=perturbation["levels"][0],
        seed=perturbation["seed"],
        runs=[],
        metrics={name: [_point(level, levels[level], name) for level in ordered] for name in every},
        scaled=frozenset(result.name for result in every.values() if result.target is TargetCategory.LATENCY),
        display_names={name: display_name(result) for name, result in every.items()},
    )
    return plot_noise_curve(curve, metrics=request.metrics)


def _point(level: Any, results: Results, name: str) -> CurvePoint:
    result = next((result for result in results if result.name == name and result.defined), None)
    return CurvePoint(level, None) if result is None else CurvePoint(level, result.value, result.interval)


KINDS: dict[str, PlotKind] = {
    "scores": PlotKind("every metric with its interval, by target", _scores, max_runs=_MAX_RUNS, metrics="metrics"),
    "distribution": PlotKind(
        "how a metric's scores are spread over samples",
        lambda request: plot_distribution(_one_or_all(request.metric_results())),
        max_runs=8,
    ),
    "latency": PlotKind("how long answers took, with quantiles", _latency, max_runs=8, metrics="what was timed"),
    "curve": PlotKind("retrieval over the cut-off k", _curve, max_runs=4, metrics="recall, precision, ndcg, hit_rate"),
    "rank": PlotKind("how good answers are by the rank of the first hit", _rank),
    "slices": PlotKind(
        "a metric in every group of every slice", lambda request: plot_slices(*request.metric_results().values())
    ),
    "causes": PlotKind("why answers were wrong; of two runs, why they got worse", _causes, max_runs=2),
    "noise": PlotKind("metrics over noise: a run of `auepora run --perturb`", _noise, metrics="metrics"),
    "forest": PlotKind("differences with intervals and verdicts", _forest, 2, 2, "metrics"),
    "scatter": PlotKind("each query's score in two runs", _scatter, 2, 2),
    "wins": PlotKind("how many queries were won and lost", _wins, 2, 2, "metrics"),
    "split": PlotKind("a difference split into retrieval and generation", _split, 2, 2, "metrics"),
}
"""The kinds of ``auepora plot``."""
