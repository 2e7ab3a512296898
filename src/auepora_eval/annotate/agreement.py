"""Human labels at an earlier path (re-exports ``labels.agreement``)."""

from ..labels.agreement import read_annotations

__all__ = ["read_annotations"]
