"""Distributions: how the scores of each metric are spread over the queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.types import TargetCategory
from .blocks import Block, Fold, Gallery, Prose, Section
from .figures import distribution_figure
from .stored_run import Floats, StoredRun, column_of

__all__ = ["distributions_section"]

LATENCY = TargetCategory.LATENCY  # has a section of its own
SHOWN = 12
"""So many are shown at once; the rest is folded."""


def distributions_section(runs: Sequence[StoredRun]) -> Section | None:
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
        blocks.append(Gallery(figures[:SHOWN]))
    if len(figures) > SHOWN:
        blocks.append(Fold(f"{len(figures) - SHOWN} more", [Gallery(figures[SHOWN:])]))
    if same:
        blocks.append(Prose(f"The same on every query: {', '.join(same)}.", tone="muted"))
    lead = "How many queries have which score."
    if len(runs) > 1:
        lead += " Each run over all its queries, on the same scale."
    return Section("distributions", "Distributions", blocks, lead)


def _scores(run: StoredRun, name: str) -> Floats:
    """The numbers of the queries that have one."""
    result = run.named(name)
    values = np.zeros(0) if result is None else column_of(result)
    return values[~np.isnan(values)]
