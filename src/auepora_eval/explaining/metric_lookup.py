"""Lookup of the metric behind a stored result: the one with its signature, or the closest one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..compare.metric_meta import likely_metrics
from ..core.errors import AueporaError
from ..core.metrics_base import BatchMetric, Metric
from ..core.signature import Signature
from ..core.types import MetricResult
from ..store.records import RunRecord
from ..store.stored_plan import run_info

__all__ = ["ResolvedMetric", "resolve_result_metric"]

_RESOURCES = ("critic", "embed", "vectors")
"""Options that name a resource of the plan; an explanation does not need the resource."""


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """The metric of a result, and how it differs from the stored signature."""

    metric: Metric | None
    differs: tuple[str, ...] = ()
    """Options in which it differs from the metric that computed the result."""


def resolve_result_metric(result: MetricResult, record: RunRecord, given: Mapping[str, Metric]) -> ResolvedMetric:
    """The metric of a result, by the object given for its name, the run's plan, or the registry."""
    nearest: ResolvedMetric | None = None
    for one in likely_metrics(result, record, given):
        if not isinstance(one, BatchMetric):
            nearest = nearest or ResolvedMetric(one)
            continue
        differs = _differences(one, result, record)
        if not differs:
            return ResolvedMetric(one)
        if nearest is None or (nearest.differs and len(differs) < len(nearest.differs)):
            nearest = ResolvedMetric(one, differs)
    return nearest or ResolvedMetric(None)


def _differences(one: BatchMetric, result: MetricResult, record: RunRecord) -> tuple[str, ...]:
    own = one.signature.with_options(**one.run_signature_options(run_info(record)))
    if str(own) == result.signature:
        return ()
    try:
        stored = Signature.parse(result.signature or "")
    except AueporaError:
        return ("signature",)
    fields = [name for name in stored.differences(own) if name.rpartition(".")[2] not in _RESOURCES]
    return tuple(fields)
