"""What ``auepora score`` says about the data besides the numbers: what has no partner, and that nothing was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .saying import say

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.results import Results

__all__ = ["warn_of_no_hit", "warn_of_strays"]

_OF_HITS = {"f1", "hit_rate", "map", "mrr", "ndcg", "precision", "r_precision", "recall"}
"""Metrics that are 0 where nothing relevant was returned within their cut-off, and only there."""


def warn_of_strays(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn of samples without an output, saying what becomes of them, and of outputs without a sample."""
    from ..io.align import stray_remarks

    for remark in stray_remarks(missing, unknown, total=total, conventions=conventions):
        say(f"Warning: {remark}")


def warn_of_no_hit(results: Results) -> None:
    """Warn where every metric of hits is 0: mostly the two files call their documents differently."""
    values = [
        result.value
        for result in results
        if (result.signature or "").partition("|")[0].partition("@")[0] in _OF_HITS
        and result.details["num_samples"] > result.details["num_system_failed"]
    ]
    if values and not any(values):
        say(
            "Warning: no relevant document stands where these metrics look; if that is a surprise, do both files name "
            "documents in the same way, and does any judgement reach the level that counts as relevant?"
        )
