"""The evaluator at its documented path (re-exports ``systems.calls``)."""

from ..systems.calls import AueporaEvaluator, require_distinct_ids, require_ready

__all__ = ["AueporaEvaluator", "require_distinct_ids", "require_ready"]
