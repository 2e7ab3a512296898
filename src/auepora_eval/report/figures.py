"""The stored data of a run for a report, and its figures."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compare.pairing import MetricMeta, lookup_metric
from ..compare.queries import Cause
from ..compare.rendering import forest_rows
from ..compare.runs import MetricSplit
from ..compare.types import MetricComparison
from ..core.metrics_base import sample_clusters
from ..core.reduce import Clusters
from ..core.results import Results, display_name
from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..render import charts
from ..render.blocks import Figure, Gallery
from ..store.records import RunRecord
from ..store.runs import RunStore, aligned_outputs

# --- the stored data of one run; each part is read once, on first access ---------------------------------------------

Floats = npt.NDArray[np.float64]


class StoredRun:
    """The stored data of a run. Document texts are not read."""

    def __init__(self, store: RunStore, record: RunRecord, letter: str = "") -> None:
        """``letter`` identifies the run among several, as in ``A``."""
        self.store = store
        self.record = record
        self.letter = letter
        self._definitions: dict[int, MetricMeta] = {}

    @property
    def label(self) -> str:
        """Its name, with its letter where there are several runs."""
        return f"{self.letter}: {self.record.name}" if self.letter else self.record.name

    @cached_property
    def results(self) -> Results:
        """Its results, the latest of each name."""
        return self.store.results(self.record.run_id)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """The number of outputs, and of failed ones."""
        return self.store.counts(self.record.run_id)

    @cached_property
    def samples(self) -> list[EvaluationSample]:
        """Its samples; documents have no texts."""
        return self.store.samples(self.record.run_id, texts=False)

    @cached_property
    def clusters(self) -> Clusters | None:
        """The cluster code of each sample; ``None`` where there are no clusters."""
        return sample_clusters(self.samples)

    def outputs(self) -> Iterator[SystemOutputs | None]:
        """Read the outputs of the first repeat, in the order of the samples; ``None`` where one is missing."""
        return aligned_outputs(self.store, self.record.run_id, texts=False)

    @cached_property
    def _summary(self) -> tuple[list[str], dict[str, Floats], int]:
        """Errors, timings and depth, from one pass over all outputs."""
        errors: list[str] = []
        seconds: dict[str, array[float]] = {}
        depth = 0
        for row in self.store.outputs(self.record.run_id, texts=False):
            output = row.output
            if row.repeat == 0:
                depth = max(depth, len(output.retrieved))
            if output.error is not None:
                errors.append(output.error)
                continue
            for name, value in output.timings.items():
                if name != "started" and _is_number(value):
                    seconds.setdefault(name, array("d")).append(float(value))
        return errors, {name: np.array(values) for name, values in seconds.items()}, depth

    @property
    def errors(self) -> list[str]:
        """The error of each failed output."""
        return self._summary[0]

    @property
    def timings(self) -> dict[str, Floats]:
        """Seconds by timing name, of all answers that did not fail."""
        return self._summary[1]

    @property
    def depth(self) -> int:
        """The length of the longest ranking."""
        return self._summary[2]

    def definition(self, result: MetricResult) -> MetricMeta:
        """The metadata of the metric of a result."""
        key = id(result)
        if key not in self._definitions:
            self._definitions[key] = lookup_metric(result, self.record, {})
        return self._definitions[key]

    def find_result(self, name: str) -> MetricResult | None:
        """The result of that name."""
        return next((one for one in self.results if one.name == name), None)


def score_column(result: MetricResult) -> Floats:
    """The scores of a result per sample; NaN for samples without a score, empty where no scores are stored."""
    if isinstance(result.scores, Scores):
        return result.scores.values
    scores: Sequence[float | None] = result.scores or ()
    return np.array([np.nan if one is None else float(one) for one in scores])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# --- figures: data of a section turned into charts -------------------------------------------------------------------

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
    from .plots import plot_split

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
