"""What ``auepora score`` says about the data besides the numbers: what has no partner, what cannot be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.errors import BadValueError
from .saying import say

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.metrics_base import Metric

__all__ = ["require_retrieved", "warn_of_strays"]


def warn_of_strays(missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions) -> None:
    """Warn of samples without an output, saying what becomes of them, and of outputs without a sample."""
    from ..io.align import stray_remarks

    for remark in stray_remarks(missing, unknown, total=total, conventions=conventions):
        say(f"Warning: {remark}")


def require_retrieved(metrics: Sequence[Metric], outputs_path: str) -> None:
    """Refuse metrics that read ``retrieved``, for an outputs file in which no line has that field."""
    from ..core.suggest import readers_of_retrieved

    asked = readers_of_retrieved(metrics)
    if asked:
        raise BadValueError(
            f"{_listed(asked)} {'reads' if len(asked) == 1 else 'read'} the field 'retrieved', which no line of "
            f"{outputs_path} has; write what was returned ([] where nothing was), or leave the metric out"
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(", ".join(f"'{name}'" for name in names).rsplit(", ", 1)) if names else "nothing"
