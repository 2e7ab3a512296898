"""Warnings about the data: samples and outputs that do not match, and suspicious scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .console import echo_err

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.results import Results

__all__ = ["show_warnings", "warn_unmatched_ids"]


def warn_unmatched_ids(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn about samples without an output, with how they are scored, and about outputs without a sample."""
    from ..io.align import unmatched_warnings

    for warning in unmatched_warnings(missing, unknown, total=total, conventions=conventions):
        echo_err(f"Warning: {warning}")


def show_warnings(results: Results) -> None:
    """Print the warnings of the results."""
    for warning in results.warnings:
        echo_err(f"Warning: {warning}")
