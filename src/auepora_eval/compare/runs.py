"""The whole comparison of two stored runs: golden queries, every metric, other differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import BadValueError
from ..core.metrics_base import Metric
from .aggregate import CorpusIds
from .analysis import Adjustment
from .golden import Golden, golden_queries
from .metric_comparisons import compare_metrics
from .queries import require_same_chunks
from .report import golden_report
from .report_notes import empty_answer_notes
from .stores import RunOutputsCache, Store, open_store
from .types import CompareReport
from .verdict import Margin

__all__ = ["compare_runs"]


def compare_runs(
    run_id_a: str,
    run_id_b: str,
    *,
    store: Store = None,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    adjust: Adjustment = "max-t",
    metrics: Sequence[str | Metric] | None = None,
    other_dataset: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    seed: int = 0,
) -> CompareReport:
    """Compare run B with run A. Differences are B - A, over the samples that both have. No document's text is read.

    Runs are named as ``RunStore.find`` takes them: an id or the beginning of one, a name, ``latest``, ``latest~1``.
    ``golden`` names the golden queries if they are not the samples stored with the runs. ``delta`` is the largest
    difference that does not matter, ``primary`` the metrics that share one 5 %; see ``compare_metrics``. Without
    ``aggregates`` the metrics of golden queries are not computed again from what is stored. ``corpus`` names the
    documents that golden answers may cite: the path of a corpus, or its ids.
    """
    with open_store(store) as opened:
        record_a, record_b = opened.find(run_id_a), opened.find(run_id_b)
        if record_a.run_id == record_b.run_id:
            raise BadValueError(f"{record_a.run_id} is named twice; name two runs to compare")
        if strict_chunker_version:
            require_same_chunks(record_a, record_b)
        answers = RunOutputsCache(opened)
        queries = None if golden is None else golden_queries(golden)
        compared = compare_metrics(
            opened,
            record_a,
            record_b,
            delta=delta,
            primary=primary,
            adjust=adjust,
            metrics=metrics,
            other_dataset=other_dataset,
            seed=seed,
            golden=queries,
            answers=answers,
        )
        report = golden_report(
            opened,
            record_a,
            record_b,
            golden=queries,
            strict_chunker_version=strict_chunker_version,
            aggregates=aggregates,
            corpus=corpus,
            answers=answers,
        )
        empty = empty_answer_notes(opened, [record_a.run_id, record_b.run_id], compared.metrics)
    return replace(
        report,
        notes=[*report.notes, *empty],
        deltas={**report.deltas, "metrics": {one.name: one.to_dict() for one in compared.metrics}},
        metrics=compared.metrics,
        refused=compared.refused,
        missing=compared.missing,
    )
