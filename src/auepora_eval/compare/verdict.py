"""The verdict of a comparison (better, worse, equal, inconclusive) and the rules for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..core.errors import BadValueError, UnknownMetricError
from .types import Verdict

__all__ = ["ALPHA", "Ends", "Margin", "excludes_zero", "is_within", "margin_of", "require_margin", "verdict_of"]

ALPHA = 0.05
"""The significance level."""

Margin = float | Mapping[str, float] | None
"""The difference that does not matter: one for all metrics, or by the name of a metric."""

Ends = tuple[float, float] | None


def verdict_of(
    delta: float | None,
    *,
    p_adjusted: float | None,
    higher_is_better: bool,
    interval_adjusted: Ends = None,
    interval_90: Ends = None,
    margin: float | None = None,
    identical: bool = False,
) -> Verdict:
    """The verdict on one metric.

    ``better`` and ``worse`` need an adjusted p-value below .05 and an adjusted interval without 0: few skewed
    differences can have a small p-value by chance, but not both. ``equal`` needs values that are ``identical`` on all
    samples, or a margin that the user gave and a 90 % interval within it, which is two one-sided tests at 5 %.
    Everything else is inconclusive.
    """
    if delta is None:
        return "inconclusive"
    if p_adjusted is not None and p_adjusted < ALPHA and delta != 0 and excludes_zero(interval_adjusted):
        return "better" if (delta > 0) == higher_is_better else "worse"
    return "equal" if identical or is_within(interval_90, margin) else "inconclusive"


def excludes_zero(ends: Ends) -> bool:
    """Whether a whole interval lies on one side of zero."""
    return ends is not None and (ends[0] > 0 or ends[1] < 0)


def is_within(ends: Ends, margin: float | None) -> bool:
    """Whether a whole interval lies within the margin, on both sides of zero."""
    return ends is not None and margin is not None and -margin <= ends[0] and ends[1] <= margin


def margin_of(margin: Margin, name: str) -> float | None:
    """The margin of one metric; ``None`` if it has none."""
    return margin.get(name) if isinstance(margin, Mapping) else margin


def require_margin(margin: Margin, known: Iterable[str]) -> None:
    """Raise if a margin is not a positive number, or is for an unknown metric."""
    if margin is None:
        return
    named = margin if isinstance(margin, Mapping) else {"": margin}
    names = list(known)
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            where = f" of '{name}'" if name else ""
            raise BadValueError(
                f"delta{where} is the largest difference that does not matter: a number above 0, not {value!r}"
            )
        if name and name not in names:
            raise UnknownMetricError(name, names)
