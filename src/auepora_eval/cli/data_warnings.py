"""What commands say about the data besides the numbers: what has no partner, and what is suspicious."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .console import echo_err

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.results import Results

__all__ = ["show_warnings", "warn_unmatched_ids"]


def warn_unmatched_ids(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn of samples without an output, saying what becomes of them, and of outputs without a sample."""
    from ..io.align import unmatched_warnings

    for remark in unmatched_warnings(missing, unknown, total=total, conventions=conventions):
        echo_err(f"Warning: {remark}")


def show_warnings(results: Results) -> None:
    """Warn of what is suspicious about data and scores."""
    for warning in results.warnings:
        echo_err(f"Warning: {warning}")
