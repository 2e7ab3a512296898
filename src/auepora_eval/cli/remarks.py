"""What ``auepora score`` says about the data besides the numbers: what has no partner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .saying import say

if TYPE_CHECKING:
    from ..core.conventions import Conventions

__all__ = ["warn_of_strays"]


def warn_of_strays(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn of samples without an output, saying what becomes of them, and of outputs without a sample."""
    from ..io.align import stray_remarks

    for remark in stray_remarks(missing, unknown, total=total, conventions=conventions):
        say(f"Warning: {remark}")
