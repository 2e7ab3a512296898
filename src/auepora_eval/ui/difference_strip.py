"""The strip of a comparison: how many queries changed by how much, in bins that filter the list."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.slices import Rows
from ..errors import BadValueError
from ..queries.filters import Condition, SampleFilter
from ..queries.table import QueryTable
from ..stats.intervals import Bools, Floats, Ints

SIDE = 7
"""The number of bins on each side of 0."""
WIDTH, HEIGHT = 24, 28
"""Of a bin in pixels."""
_QUANTILE = 0.95
"""The outer bins have the differences above this quantile of their size, too."""


def difference_strip(
    table: QueryTable, name: str, rows: Rows, url: Callable[[Sequence[Condition]], str], *, higher_is_better: bool
) -> dict[str, Any] | None:
    """The bins of a metric for the listed rows of a table, and the scale that the brush reads, as JSON.

    ``None`` where no query changed.

    ``url`` is the address of the list with some conditions on the change in place of others.
    """
    try:
        differences, changed = table.difference(name), np.abs(table.change(name)) == 1
    except BadValueError:
        return None
    if not changed.any():
        return None
    largest = float(np.quantile(np.abs(differences[changed]), _QUANTILE))
    steps = [float(f"{largest * step / SIDE:.2g}") for step in range(SIDE + 1)]
    places = _places(differences, changed, steps)
    is_known, is_listed = ~np.isnan(differences), np.zeros(len(differences), np.bool_)
    is_listed[rows] = True
    totals, listed = (np.bincount(places[some], minlength=2 * SIDE + 1) for some in (is_known, is_known & is_listed))
    tones = ["worse"] * SIDE + ["equal"] + ["better"] * SIDE
    tones = tones if higher_is_better else tones[::-1]
    highest = np.log1p(totals.max())
    bins, bands = [], []
    for place, tone in enumerate(tones):
        low, high = _ends(place - SIDE, steps)
        conditions = _conditions(name, place - SIDE, low, high)
        text = f"{' and '.join(str(condition) for condition in conditions)}: {totals[place]:,}"
        heights = [round(float(26 * np.log1p(counts[place]) / highest), 1) for counts in (totals, listed)]
        own: dict[str, Any] = {"x": WIDTH * place, "tone": tone, "text": text, "url": url(conditions)}
        bins.append(own | {"total": heights[0], "listed": heights[1]})
        bands.append([WIDTH * place, WIDTH * (place + 1), low, high])
    key = Condition("metric", name, "diff").key
    scale = {"field": key, "also": "", "kind": "steps", "bands": bands, "area": [0, 0, WIDTH * len(bins), HEIGHT]}
    end = f"{steps[-2]:g}"  # the lower end of the outermost bin
    return {"key": key, "label": table.metric_labels[name], "bins": bins, "end": end, "scale": json.dumps(scale)}


def replace_change(found: SampleFilter, name: str, conditions: Sequence[Condition]) -> SampleFilter:
    """The filter with these conditions in place of those on the change of a metric."""
    words = ("better", "worse", "same", "changed")
    others = [
        condition
        for condition in found.conditions
        if condition.name != name or not (condition.run == "diff" or condition.word in words)
    ]
    return replace(found, conditions=(*others, *conditions))


def _places(differences: Floats, changed: Bools, steps: Sequence[float]) -> Ints:
    """The bin of each difference: that of 0 is ``SIDE``."""
    sizes = np.searchsorted(steps[1:-1], np.abs(differences)) + 1
    return np.where(changed, SIDE + np.sign(np.nan_to_num(differences)) * sizes, SIDE).astype(np.intp)


def _ends(step: int, steps: Sequence[float]) -> tuple[float | None, float | None]:
    """The ends of the bin so many steps from 0; the outermost ones have one end."""
    if step == 0:
        return 0.0, 0.0
    near = steps[abs(step) - 1]
    far = steps[abs(step)] if abs(step) < SIDE else None
    if step > 0:
        return near, far
    low = None if far is None else -far
    return low, 0.0 - near


def _conditions(name: str, step: int, low: float | None, high: float | None) -> list[Condition]:
    if step == 0:
        return [Condition("metric", name, value="same")]
    above, below = (">", "<=") if step > 0 else (">=", "<")
    ends = ((above, low), (below, high))
    return [Condition("metric", name, "diff", operator, f"{end:g}") for operator, end in ends if end is not None]
