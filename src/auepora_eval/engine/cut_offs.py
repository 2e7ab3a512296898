"""The cut-offs a paper reports, and the effective K of short rankings."""

from __future__ import annotations

from operator import index
from typing import Final, Literal, SupportsIndex

from ..core.conventions import RankCutOff
from ..errors import BadTypeError, BadValueError
from ..options import check_arguments

ALL: Final = "ALL"
"""No cut-off. An upper bound for sanity checks, not a figure for decisions."""

PRIMARY_K: Final = (3, 5, 10)
"""The cut-offs every table shows."""

OPTIONAL_K: Final = (1,)
"""For systems that return very little."""

CutOff = int | Literal["ALL"] | None
"""A cut-off as users write it; ``None`` and ``ALL`` both mean no cut."""


def cut_of(k: CutOff) -> int | None:
    """The cut-off as the metrics take it: an integer >= 1 or ``None``; anything else is an error."""
    if k is None or (isinstance(k, str) and k == ALL):
        return None
    if isinstance(k, str):
        raise BadTypeError(f"the cut-off k must be an integer or {ALL!r}, not {k!r}")
    _check_cut_off(k)
    return k


@check_arguments
def _check_cut_off(k: RankCutOff) -> None:
    """Raise unless ``k`` is an integer >= 1."""


def compute_k_eff(k: CutOff, n_candidates: SupportsIndex) -> int:
    """min(k, n_candidates): the K that a list of ``n_candidates`` can fill; ``ALL`` (or ``None``) gives
    ``n_candidates``.

    >>> compute_k_eff(10, 5), compute_k_eff(3, 5), compute_k_eff("ALL", 5)
    (5, 3, 5)
    """
    if isinstance(n_candidates, bool) or not isinstance(n_candidates, SupportsIndex):
        raise BadTypeError(f"n_candidates must be an integer, not {n_candidates!r}")
    n = index(n_candidates)
    if n < 0:
        raise BadValueError(f"n_candidates must be at least 0, not {n}")
    cut = cut_of(k)
    return n if cut is None else min(cut, n)
