"""Planning a batch of documents to grade."""

from __future__ import annotations

from pathlib import Path

from ..core.conventions import Conventions
from ..errors import BadValueError, DataFileError
from ..io.grades import read_grades
from ..labels.batch import BatchEntry
from ..labels.batch_plans import BatchOptions, BatchPlan, sample_positions
from ..store.records import RunRecord
from ..store.runs import RunStore
from .drawn_pairs import correctable_metrics, draw_pairs
from .partial_grades import DEFAULT_METRICS
from .pool import PooledRuns, gold_grades, pool_outputs


def plan_grades(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the grades of documents that the runs returned."""
    sources = PooledRuns()
    sources.add_stored(store, records)
    samples = list(sources.samples.values())
    known = gold_grades(samples)
    if options.qrels is not None:
        if not Path(options.qrels).is_file():
            raise DataFileError(options.qrels, None, "no such file")
        known |= read_grades(options.qrels)
    pool = pool_outputs(samples, sources.runs, depth=options.depth, judged=known, seed=options.seed)
    draw = None
    if options.qrels is not None:
        metrics = correctable_metrics(options.metrics or DEFAULT_METRICS, Conventions.of())
        draw = draw_pairs(pool, metrics, options.n, seed=options.seed)
        keys = [one.key for one in draw.order]
        corrects = (
            f"{len(keys):,} of {len(pool.documents):,} pairs of question and document are drawn for "
            f"{', '.join(draw.metrics)}; their grades correct the grades of the model in these metrics."
        )
    else:
        keys = [one.key for one in pool.documents if one.judged is None]
        if not keys:
            raise BadValueError(f"runs: all {len(pool.documents):,} documents of the pool have a grade already")
        corrects = (
            f"All {len(keys):,} ungraded documents of the pool are graded; {pool.num_judged:,} have a grade already. "
            "To grade a random part, give the grades of a model."
        )
    positions = [sample_positions(store, record) for record in records]
    entries = tuple(BatchEntry(one, tuple(each.get(one, -1) for each in positions), doc) for one, doc in keys)
    queries = len({one for one, _ in keys})
    figures = {"n": len(keys), "population": len(pool.documents), "queries": queries}
    sentences = (corrects, f"They belong to {queries:,} questions.")
    return BatchPlan(options, store, records, None, entries, draw, sentences, figures)
