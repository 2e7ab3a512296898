"""The evaluator at its documented path (re-exports ``systems.runner``)."""

from ..systems.runner import AueporaEvaluator, require_distinct_ids, require_ready

__all__ = ["AueporaEvaluator", "require_distinct_ids", "require_ready"]
