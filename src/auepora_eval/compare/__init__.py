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
* ``columns``: samples, outputs and scores of a stored run as columns, for lists of queries
* ``query_table``: the queries of several runs as one table, with search
* ``filters``: conditions on queries, search and order; one language for the workbench and the command line
* ``chunks``: whether the chunks changed between two runs
* ``guardrails``: what must not get worse, and other metrics that fell
* ``runs``: the leaderboard of two or more runs; the whole comparison of two, and its split into retrieval and
  generation
* ``diagnosis``: which part of a system fails, from its answers with different documents
* ``rendering``: comparisons as blocks, one sentence, CSV and notebook HTML
* ``short``: a comparison in few lines
"""

from .golden import compute_aggregate, store_aggregate
from .queries import QueryComparisons, compare_queries
from .rendering import render_report_md, write_report
from .runs import Leaderboard, MetricComparisons, build_leaderboard, compare_metrics, compare_runs, golden_report
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
