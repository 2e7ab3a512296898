"""The comparison of two runs by their golden queries, as a report that metrics can be added to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import BadValueError
from ..core.gc_pause import gc_paused
from ..io.files import write_lines
from ..store.records import RunRecord
from ..store.runs import RunStore
from .aggregate import CorpusIds, aggregate_deltas, aggregate_of, corpus_ids
from .causes import QueryChange
from .golden import Golden, golden_queries
from .markdown import render_report_md
from .queries import compare_run_outputs, require_same_chunks
from .stores import RunOutputsCache
from .types import CompareReport
from .versions import version_notes

__all__ = ["golden_report", "write_report"]


@gc_paused()
def golden_report(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    *,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    answers: RunOutputsCache | None = None,
) -> CompareReport:
    """Compare two runs by their golden queries: aggregates, their differences, each query. No other metric is in it.

    The aggregates are over the queries that both runs have, with the same expected chunks, so that they can be
    subtracted. If chunks are matched by location or span, hit rates and MRR are those of these ranks; stored values do
    not change. Without ``aggregates`` only queries and failures are counted. Citations must name documents of
    ``corpus``, else documents that were retrieved. ``answers`` is a cache of outputs that were read before.
    """
    if strict_chunker_version:
        require_same_chunks(record_a, record_b)
    answers = RunOutputsCache(store) if answers is None else answers
    run_a, run_b = answers.of(record_a), answers.of(record_b)
    queries = compare_run_outputs(
        run_a,
        run_b,
        golden=None if golden is None else golden_queries(golden),
        strict_chunker_version=strict_chunker_version,
    )
    known = None if corpus is None else corpus_ids(corpus)
    a, b = (aggregate_of(run, queries.samples, counts_only=not aggregates, corpus=known) for run in (run_a, run_b))
    if aggregates and queries.by_rank:
        a, b = queries.ranks_a.put_into(a), queries.ranks_b.put_into(b)
    return CompareReport(
        run_a=record_a.run_id,
        run_b=record_b.run_id,
        aggregate_a=a,
        aggregate_b=b,
        deltas={**queries.deltas(), **aggregate_deltas(a, b), "metrics": {}},
        per_query=queries.per_query,
        notes=[*version_notes(record_a, record_b, unanswered=(run_a.unanswered, run_b.unanswered)), *queries.notes],
    )


def write_report(
    report: CompareReport,
    runs_dir: str | Path,
    *,
    names: tuple[str, str] | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
) -> Path:
    """Write the report to ``<runs_dir>/<run_id>/report.md``, under the id of run B; return its path.

    The other arguments are those of ``render_report_md``.
    """
    run_id = report.run_b
    if run_id in ("", ".", "..") or any(mark in run_id for mark in "/\\\x00"):
        raise BadValueError(f"the run id {run_id!r} cannot be the name of a folder; write the page elsewhere")
    path = Path(runs_dir) / run_id / "report.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadValueError(f"cannot make the folder {path.parent}: {error.strerror or error}") from error
    page = render_report_md(report, names=names, changes=changes, judged_by=judged_by)
    write_lines(path, [page.rstrip("\n").encode()])
    return path
