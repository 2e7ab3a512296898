"""Runs held against each other: query by query, metric by metric, with error bars and an honest verdict.

========= ============================================================================================
module    what it holds
========= ============================================================================================
types     what a comparison is made of
aggregate the golden-query metrics of one run: computed, stored, subtracted
queries   two runs query by query
match     where an expected chunk stands: by its id, or by its place
golden    golden queries, and those that a run knows
versions  what else differs between two runs
report    both together, and where its page is written; ``markdown``: the page
paired    two runs on every metric: differences, tests, ``verdict``; ``build_leaderboard``: more than two
overlap   metrics of words that answers share with questions, and when they decide nothing
doubt     what a verdict may owe to answers that were not given; ``missing``: outputs that are not there
runs      everything of two runs in one report; ``sentence``: in short; ``tables``, ``remarks``: in a terminal
stores    which store is read, and a run's queries and answers
========= ============================================================================================
"""

from .aggregate import compute_aggregate, store_aggregate
from .leaderboard import Leaderboard, build_leaderboard
from .markdown import render_report_md
from .metric_comparisons import MetricComparisons, compare_metrics
from .queries import QueryComparisons, compare_queries
from .report import golden_report, write_report
from .runs import compare_runs
from .types import AggregateMetrics, CompareReport, ComparisonKind, MetricComparison, QueryComparison
from .versions import version_notes

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
