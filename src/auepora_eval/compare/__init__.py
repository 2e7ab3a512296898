"""Comparison of stored runs: query by query and metric by metric, with intervals, tests and a verdict.

======================= ================================================================================
``types``               the comparison documents: aggregates, queries, metrics, ``CompareReport``
``aggregate``           golden-query metrics of one run: compute, store, subtract
``queries``             two runs query by query
``match``               rank of an expected chunk: by its id, or by its location in the document
``golden``              golden queries, and which of them a run contains
``versions``            configuration and dataset differences between two runs
``report``              the golden-query report of two runs and its file; ``markdown``: the page
``metric_comparisons``  two runs on every metric: differences, tests, ``verdict``
``leaderboard``         more than two runs; ``leaderboard_tables``: as tables
``question_overlap``    metrics of word overlap between answer and question, and when they decide nothing
``failure_sensitivity`` verdicts rechecked for failed outputs; ``missing_outputs``: for missing ones
``runs``                the whole report on two runs; ``summary``: one sentence
``tables``              terminal output; ``report_notes``: notes on failures
``stores``              the store to read, and a run's samples and outputs
======================= ================================================================================
"""

from .golden import compute_aggregate, store_aggregate
from .leaderboard import Leaderboard, build_leaderboard
from .metrics import MetricComparisons, compare_metrics
from .queries import QueryComparisons, compare_queries
from .rendering import render_report_md
from .runs import compare_runs, golden_report, write_report
from .stores import version_notes
from .types import AggregateMetrics, CompareReport, ComparisonKind, MetricComparison, QueryComparison

__all__ = [
    "AggregateMetrics",
    "CompareReport",
    "ComparisonKind",
    "Leaderboard",
    "MetricComparison",
    "MetricComparisons",
    "QueryComparison",
    "QueryComparisons",
    "build_leaderboard",
    "compare_metrics",
    "compare_queries",
    "compare_runs",
    "compute_aggregate",
    "golden_report",
    "render_report_md",
    "store_aggregate",
    "version_notes",
    "write_report",
]
