"""Comparison of stored runs: query by query and metric by metric, with intervals, tests and a verdict.

* ``types``: the data types of a comparison
* ``stores``: the store that a comparison reads, and differences of configuration
* ``pairing``: the scores of one metric in two runs, paired by sample
* ``verdicts``: better, worse, equal or inconclusive; margins; sensitivity to failed and missing outputs
* ``depths``: how deep rankings are known, and what runs with lists of different length can be compared on
* ``analysis``: tests, intervals, power
* ``match``: how gold is matched in all runs, and what is computed again by it
* ``metrics``: the metrics that runs can be compared on, with their scores
* ``golden``: golden queries: rank of the first expected chunk, aggregate of a run
* ``queries``: two runs query by query, and the cause of each change
* ``chunks``: whether the chunks changed between two runs
* ``guardrails``: what must not get worse, and other metrics that fell
* ``runs``: the leaderboard of two or more runs; the whole comparison of two, and its split into retrieval and
  generation
* ``diagnosis``: which part of a system fails, from its answers with different documents
* ``rendering``: comparisons as blocks, one sentence, CSV and notebook HTML
* ``short``: a comparison in few lines
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .golden import compute_aggregate as compute_aggregate, store_aggregate as store_aggregate
    from .queries import QueryComparisons as QueryComparisons, compare_queries as compare_queries
    from .rendering import render_report_md as render_report_md, write_report as write_report
    from .runs import (
        Leaderboard as Leaderboard,
        MetricComparisons as MetricComparisons,
        build_leaderboard as build_leaderboard,
        compare_metrics as compare_metrics,
        compare_runs as compare_runs,
        golden_report as golden_report,
    )
    from .stores import version_notes as version_notes
    from .types import (
        AggregateMetrics as AggregateMetrics,
        CompareReport as CompareReport,
        ComparisonKind as ComparisonKind,
        MetricComparison as MetricComparison,
        QueryComparison as QueryComparison,
    )

_EXPORTS = {
    "AggregateMetrics": "types",
    "CompareReport": "types",
    "ComparisonKind": "types",
    "Leaderboard": "runs",
    "MetricComparison": "types",
    "MetricComparisons": "runs",
    "QueryComparison": "types",
    "QueryComparisons": "queries",
    "build_leaderboard": "runs",
    "compare_metrics": "runs",
    "compare_queries": "queries",
    "compare_runs": "runs",
    "compute_aggregate": "golden",
    "golden_report": "runs",
    "render_report_md": "rendering",
    "store_aggregate": "golden",
    "version_notes": "stores",
    "write_report": "rendering",
}

__all__ = [*_EXPORTS]  # noqa: PLE0604 -- the names of a dict literal just above


def __getattr__(name: str) -> Any:
    """Import an exported name when it is used: gates need a part of this package only."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    globals()[name] = value
    return value


class _CallablePackage(ModuleType):
    """This package, which is also the function ``auepora_eval.compare``."""

    @property
    def __wrapped__(self) -> Callable[..., CompareReport]:
        from .runs import compare_runs

        return compare_runs

    __call__ = __wrapped__


sys.modules[__name__].__class__ = _CallablePackage
