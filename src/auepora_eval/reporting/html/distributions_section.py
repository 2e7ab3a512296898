"""The section of distributions: histograms of each metric's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.types import TargetCategory
from .blocks import Block, Details, Gallery, Prose, ReportSection
from .figures import distribution_figure
from .stored_run import Floats, StoredRun, score_column

__all__ = ["distributions_section"]

LATENCY = TargetCategory.LATENCY  # has a section of its own
MAX_SHOWN = 12
"""The number of histograms shown; the rest is collapsed."""


def distributions_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A small histogram per metric, with several runs stacked; metrics with constant scores are only listed."""
    figures, same = [], []
    for name in dict.fromkeys(one.name for run in runs for one in run.results if one.target is not LATENCY):
        scores_by_run = {run: values for run in runs if len(values := _scores(run, name))}
        if not scores_by_run:
            continue
        every = np.concatenate(list(scores_by_run.values()))
        if every.min() == every.max():
            same.append(f"{name} ({every[0]:g})")
        else:
            figures.append(distribution_figure(scores_by_run, name))
    if not figures and not same:
        return None
    blocks: list[Block] = []
    if figures:
        blocks.append(Gallery(figures[:MAX_SHOWN]))
    if len(figures) > MAX_SHOWN:
        blocks.append(Details(f"{len(figures) - MAX_SHOWN} more", [Gallery(figures[MAX_SHOWN:])]))
    if same:
        blocks.append(Prose(f"The same on every query: {', '.join(same)}.", tone="muted"))
    lead = "How many queries have which score."
    if len(runs) > 1:
        lead += " Each run over all its queries, on the same scale."
    return ReportSection("distributions", "Distributions", blocks, lead)


def _scores(run: StoredRun, name: str) -> Floats:
    """The scores of the scored queries."""
    result = run.find_result(name)
    values = np.zeros(0) if result is None else score_column(result)
    return values[~np.isnan(values)]
