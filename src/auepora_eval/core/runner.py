"""The evaluator at its documented path (re-exports ``systems.calls``)."""

from ..core.batch import require_distinct_ids
from ..systems.calls import AueporaEvaluator, require_ready

__all__ = ["AueporaEvaluator", "require_distinct_ids", "require_ready"]
