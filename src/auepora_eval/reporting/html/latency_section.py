"""The section of latency: quantiles and distribution of the timings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .blocks import Block, Cell, ReportSection, Row, RowGroup, Table, TableColumn
from .figures import latency_figure
from .formatting import seconds_text
from .stored_run import Floats, StoredRun

__all__ = ["latency_section"]

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def latency_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """Every timing of every run."""
    if not any(run.timings for run in runs):
        return None
    groups = [
        RowGroup([_latency_row(name, times) for name, times in run.timings.items()], run.label if run.letter else "")
        for run in runs
        if run.timings
    ]
    columns = [
        TableColumn("timing"),
        TableColumn("answers", number=True),
        TableColumn("mean", number=True),
        *(TableColumn("median" if q == 0.5 else f"{100 * q:g} %", number=True) for q in QUANTILES),
        TableColumn("longest", number=True),
    ]
    names = list(dict.fromkeys(name for run in runs for name in run.timings))
    shown = "end_to_end" if "end_to_end" in names else names[0]
    blocks: list[Block] = [latency_figure(runs, shown), Table(columns, groups, grouped_by="run")]
    return ReportSection(
        "latency", "Latency", blocks, "Of all answers that did not fail. So many percent took no longer."
    )


def _latency_row(name: str, times: Floats) -> Row:
    quantiles = np.quantile(times, QUANTILES, method="inverted_cdf")
    numbers = [float(times.mean()), *map(float, quantiles), float(times.max())]
    return [Cell(name), f"{len(times):,}", *map(seconds_text, numbers)]
