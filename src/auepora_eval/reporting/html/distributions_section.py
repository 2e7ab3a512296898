"""Distributions: how the scores of each metric are spread over the queries."""

from __future__ import annotations

import numpy as np

from ...core.types import TargetCategory
from .blocks import Block, Fold, Gallery, Prose, Section
from .figures import distribution_figure
from .stored_run import StoredRun, column_of

__all__ = ["distributions_section"]

SHOWN = 12
"""So many are shown at once; the rest is folded."""


def distributions_section(run: StoredRun) -> Section | None:
    """A small histogram per metric; metrics whose scores are all the same are named."""
    figures, same = [], []
    for result in run.results:
        if result.target is TargetCategory.LATENCY:
            continue
        values = column_of(result)
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        if values.min() == values.max():
            same.append(f"{result.name} ({values[0]:g})")
        else:
            figures.append(distribution_figure(run, result, values))
    if not figures and not same:
        return None
    blocks: list[Block] = []
    if figures:
        blocks.append(Gallery(figures[:SHOWN]))
    if len(figures) > SHOWN:
        blocks.append(Fold(f"{len(figures) - SHOWN} more", [Gallery(figures[SHOWN:])]))
    if same:
        blocks.append(Prose(f"The same on every query: {', '.join(same)}.", tone="muted"))
    return Section("distributions", "Distributions", blocks, "How many queries have which score.")
