"""Distributions: how the scores of each metric are spread over the queries."""

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
"""So many are shown at once; the rest is folded."""


def distributions_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A small histogram per metric, of several runs below each other; metrics whose scores never differ are named."""
    figures, same = [], []
    for name in dict.fromkeys(one.name for run in runs for one in run.results if one.target is not LATENCY):
        held = {run: values for run in runs if len(values := _scores(run, name))}
        if not held:
            continue
        every = np.concatenate(list(held.values()))
        if every.min() == every.max():
            same.append(f"{name} ({every[0]:g})")
        else:
            figures.append(distribution_figure(held, name))
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
    """The numbers of the queries that have one."""
    result = run.find_result(name)
    values = np.zeros(0) if result is None else score_column(result)
    return values[~np.isnan(values)]
