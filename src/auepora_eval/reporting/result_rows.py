"""Results as chart rows: value, interval, reliability and the range of the metric."""

from __future__ import annotations

from typing import Any

from ..core.errors import AueporaError
from ..core.metrics_base import BatchMetric
from ..core.registry import metric as registered
from ..core.results import Results, display_name
from ..core.targets import TARGETS
from ..core.types import MetricResult, TargetCategory

__all__ = ["SECONDS", "interval_rows", "metric_range", "result_row"]

SECONDS = "seconds"
"""The axis that timings share."""


def interval_rows(results: Results) -> list[dict[str, Any]]:
    """The rows of ``interval_chart``: results by target, each with the range of its metric."""
    order = list(TARGETS)
    return [
        {**result_row(one, display_name(one)), "group": TARGETS[one.target].title}
        for one in sorted(results, key=lambda one: order.index(one.target))
    ]


def result_row(result: MetricResult, name: str) -> dict[str, Any]:
    """One result as a row with a name."""
    row: dict[str, Any] = {"name": name, "value": result.value if result.defined else None}
    ends = metric_range(result.name, result.signature)
    if ends is not None:
        row["range"] = ends
    if result.target is TargetCategory.LATENCY and "throughput" not in result.name:
        row["scale"] = SECONDS
    if result.interval is not None and result.defined:
        row["low"], row["high"] = result.interval
        row["doubt"] = bool((result.details.get("interval") or {}).get("flags"))
    if not result.defined:
        row["note"] = str(result.details.get("undefined_because") or "no sample was scored")
    return {**row, "n": result.details.get("num_samples")}


def metric_range(name: str, signature: str | None = None) -> tuple[float, float] | None:
    """The range of a metric; ``None`` where the metric is not registered."""
    for spelt in dict.fromkeys([name, (signature or name).partition("|")[0]]):
        try:
            known = registered(spelt)
        except AueporaError:  # a user's metric, or one with options that its name lacks
            continue
        if isinstance(known, BatchMetric):
            low, high = known.range
            return float(low), float(high)
    return None
