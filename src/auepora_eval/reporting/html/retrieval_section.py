"""The sections of retrieval: metrics over k, and answer quality by the rank of the first hit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.types import MetricResult
from ...stats.interval import mean_interval
from .blocks import Block, Cell, Details, Gallery, ReportSection, Row, RowGroup, Table, TableColumn, simple_table
from .figures import curve_figure, quality_figure
from .formatting import interval_text, value_text
from .rankings import FAMILIES, RetrievalCurves, hits_by_span, retrieval_curves
from .stored_run import Floats, StoredRun, score_column

__all__ = ["retrieval_sections"]

_RANGES = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20), (21, 50), (51, np.inf))
_TITLES = {
    "recall": "recall",
    "precision": "precision",
    "ndcg": "nDCG",
    "hit_rate": "hit rate",
    "span_recall": "span recall",
    "span_precision": "span precision",
    "span_iou": "span IoU",
}


def retrieval_sections(runs: Sequence[StoredRun], answers: MetricResult | None) -> list[ReportSection]:
    """The curves over k, and the answer quality by rank."""
    by_span = any(map(hits_by_span, runs))
    run_curves = [(run, retrieval_curves(run, by_span=by_span)) for run in runs]
    sections = [_curves_section(run_curves), _quality_section(run_curves, None if answers is None else answers.name)]
    return [one for one in sections if one is not None]


def _curves_section(run_curves: Sequence[tuple[StoredRun, RetrievalCurves]]) -> ReportSection | None:
    families = [one for one in FAMILIES if any(one in each.curves and len(each.depths) > 1 for _, each in run_curves)]
    if not families:
        return None
    if len(run_curves) == 1:
        curves = run_curves[0][1].curves
        drawn: Block = curve_figure("Retrieval", {f"{_TITLES[one]}@k": curves[one] for one in families}, wide=True)
    else:
        drawn = Gallery(
            [
                curve_figure(
                    _TITLES[one], {run.label: each.curves[one] for run, each in run_curves if one in each.curves}
                )
                for one in families
            ]
        )
    tables: list[Block] = []
    for run, each in run_curves:
        if not each.curves:
            continue
        rows: list[Row] = [
            [
                Cell(f"{_TITLES[family]}@k"),
                *(_point_cell(point) for point in points),
                *([""] * (len(each.depths) - len(points))),
            ]
            for family, points in each.curves.items()
        ]
        columns = [TableColumn(""), *(TableColumn(f"k = {k}", number=True) for k in each.depths)]
        tables.append(simple_table(columns, rows, caption=run.label))
    again = any(run.record.repeats > 1 for run, _ in run_curves)
    lead = "Computed from the stored rankings, by the conventions of the plan; the bands are 95 % intervals." + (
        " Of the first answers, where queries were asked several times." if again else ""
    )
    if any("span_recall" in each.curves for _, each in run_curves):
        lead += " Returned chunks have other ids than the gold, so hits are those of spans."
    return ReportSection("curves", "Retrieval over k", [drawn, Details("The same as a table", tables)], lead)


def _point_cell(point: tuple[int, float, tuple[float, float] | None]) -> Cell:
    _, value, ends = point
    return Cell(value_text(value), note=interval_text(ends))


def _quality_section(run_curves: Sequence[tuple[StoredRun, RetrievalCurves]], name: str | None) -> ReportSection | None:
    """Answers by the rank of the first hit."""
    if name is None:
        return None
    figures, groups = [], []
    for run, each in run_curves:
        result = run.find_result(name)
        scores = np.zeros(0) if result is None else score_column(result)
        if result is None or not len(scores) or len(scores) != len(each.first_hit):
            continue
        bins = _bin_by_rank(run, result, each.first_hit, scores)
        if not bins:
            continue
        figures.append(quality_figure(run, name, bins))
        rows: list[Row] = [
            [Cell(title), f"{n:,}", value_text(mean), interval_text(ends)] for title, n, mean, ends in bins
        ]
        groups.append(RowGroup(rows, run.label if run.letter else ""))
    if not figures:
        return None
    columns = [
        TableColumn("first relevant document"),
        TableColumn("queries", number=True),
        TableColumn(f"mean {name}", number=True),
        TableColumn("95 % interval", number=True),
    ]
    lead = f"How good answers are, by {name}, given the rank at which the first relevant document was returned."
    blocks: list[Block] = [
        Gallery(figures) if len(figures) > 1 else figures[0],
        Table(columns, groups, grouped_by="run"),
    ]
    return ReportSection("quality", "Answers by retrieval rank", blocks, lead)


Bin = tuple[str, int, float, tuple[float, float] | None]


def _bin_by_rank(run: StoredRun, result: MetricResult, ranks: Floats, scores: Floats) -> list[Bin]:
    """Mean scores by the rank of the first hit."""
    lowest, highest = run.definition(result).range
    there = ~np.isnan(ranks) & ~np.isnan(scores)
    masks = [(_range_name(low, high), there & (ranks >= low) & (ranks <= high)) for low, high in _RANGES[:-1]]
    low = _RANGES[-1][0]
    masks.append((f"rank > {low - 1}", there & (ranks >= low) & np.isfinite(ranks)))
    masks.append(("not returned", there & np.isinf(ranks)))
    bins: list[Bin] = []
    for title, mask in masks:
        values = scores[mask]
        if len(values):
            clusters = None if run.clusters is None else run.clusters[mask]
            interval = mean_interval(values, clusters=clusters, lowest=lowest, highest=highest)
            bins.append(
                (title, len(values), float(values.mean()), None if interval is None else (interval.low, interval.high))
            )
    return bins


def _range_name(low: float, high: float) -> str:
    return f"rank {low:g}" if low == high else f"rank {low:g}–{high:g}"
