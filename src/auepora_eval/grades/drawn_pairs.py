"""Draws of pairs from a pool for people to grade, the metrics that their grades correct, and batches of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import Spec
from ..engine.evaluate import resolve_metrics
from ..errors import BadValueError, DataFileError
from ..io.grades import Grade, GradeKey, read_grades
from ..labels.batch import BatchEntry
from ..labels.batch_plans import BatchOptions, BatchPlan, sample_positions
from ..labels.pair_draws import DrawnPair, PairDraw
from ..stats.partial_grades import MeasureName, PooledPairs, RankedMeasure, grading_probabilities
from ..stats.sampling import systematic_draw
from ..store.records import RunRecord
from ..store.runs import RunStore
from .pool import Pool, PooledRuns, gold_grades, pool_outputs

DEFAULT_METRICS = ("precision@10", "recall@10", "ndcg@10")


def draw_pairs(pool: Pool, metrics: Sequence[Metric], n: int, *, seed: int = 0) -> PairDraw:
    """Draw ``n`` pairs of a pool whose documents have grades of a model, for people to grade.

    Pairs are drawn over all queries, more often where the model is uncertain and the metrics depend on the document.
    Human grades that the pool has already need no draw.
    """
    measures = [ranked_measure(metric) for metric in metrics]
    lowest_levels = {min_relevance_of(metric) for metric in metrics}
    if len(lowest_levels) > 1:
        raise BadValueError("the metrics of a draw have different 'min_relevance'; draw for one level at a time")
    (lowest,) = lowest_levels
    largest = max(measure.k for measure in measures)
    if largest > pool.depth:
        raise BadValueError(
            f"a pool of depth {pool.depth} does not contain the top {largest}; pool with --depth {largest}"
        )
    ungraded = sum(document.judged is None for document in pool.documents)
    if ungraded:
        raise BadValueError(
            f"{ungraded:,} of {len(pool.documents):,} documents have no grade; grade the pool with `auepora judge "
            "relevance`, and give the grades with --qrels"
        )
    known = {
        document.key: document.judged.grade
        for document in pool.documents
        if document.judged is not None and document.judged.by != "model"
    }
    if known and len(known) == len(pool.documents):
        raise BadValueError(
            f"all {len(known):,} grades of the pool count as human grades, so that there is nothing to draw; "
            "grades of a model have 'by': 'model' in the provenance file, as `auepora judge relevance` writes it"
        )
    rows = [
        DrawnPair(
            *document.key, min(document.returned.values()), float(document.key in known), grade=known.get(document.key)
        )
        for document in pool.documents
    ]
    levels = model_levels(document.judged for document in pool.documents if document.judged is not None)
    lengths = dict.fromkeys((row.sample_id for row in rows), pool.depth)
    rankings = []
    for run in pool.runs:
        ranks = {document.key: document.returned[run] - 1 for document in pool.documents if run in document.returned}
        rankings.append(pooled_pairs(rows, levels, known, ranks, lengths, min_relevance=lowest))
    probability = grading_probabilities(rankings, measures, n)
    drawn = systematic_draw(np.where(rankings[0].graded, 0.0, probability), seed)
    positions = {int(row): number for number, row in enumerate(drawn, start=1)}
    pairs = tuple(
        replace(pair, probability=round(float(probability[row]), 9), position=positions.get(row))
        for row, pair in enumerate(rows)
    )
    return PairDraw(
        seed,
        n,
        metrics=tuple(f"{measure.name}@{measure.k}" for measure in measures),
        min_relevance=lowest,
        runs=tuple(pool.runs),
        pairs=pairs,
    )


def ranked_measure(metric: Metric) -> RankedMeasure:
    """The measure that a metric stands for; raises for others than precision, recall and binary nDCG with a cut-off."""
    kind: Any = getattr(type(metric), "registered_as", "")
    k = getattr(metric, "k", None)
    if kind not in get_args(MeasureName) or k is None:
        raise BadValueError(
            f"'{metric.name}' cannot be corrected by grades of some pairs; give precision@k, recall@k or ndcg@k"
        )
    assert isinstance(metric, BatchMetric)
    rules = metric.active_conventions
    if kind == "ndcg" and (
        getattr(metric, "gain", "binary") != "binary" or getattr(metric, "ties", "order") != "order"
    ):
        raise BadValueError(f"'{metric.name}' is corrected with binary gain and without ties only")
    if rules.empty_gold == "skip" or rules.k_policy != "written":
        raise BadValueError(
            f"'{metric.name}' is corrected over all queries with k as written; leave out its own conventions"
        )
    return RankedMeasure(kind, k if rules.depth is None else min(k, rules.depth), rules.precision)


def correctable_metrics(specs: Sequence[Spec], conventions: Conventions) -> list[Metric]:
    """The metrics with binary gain, in which a query without a relevant document counts 0; precision first."""
    rules = replace(conventions, gain="binary", empty_gold="zero")
    order = get_args(MeasureName)
    return sorted(resolve_metrics(specs, rules), key=lambda metric: order.index(ranked_measure(metric).name))


def min_relevance_of(metric: Metric) -> int:
    """The lowest grade that counts as relevant."""
    assert isinstance(metric, BatchMetric)
    return metric.active_conventions.min_relevance


def model_levels(grades: Iterable[Grade]) -> dict[GradeKey, float]:
    """The grade of the model for each document before rounding; where there is none, the grade of the person."""
    levels: dict[GradeKey, float] = {}
    for grade in grades:
        level = grade.grade if grade.grade_by_model is None else grade.grade_by_model
        levels[grade.key] = grade.mean if grade.by == "model" and grade.mean is not None else level
    return levels


def pooled_pairs(
    rows: Sequence[DrawnPair],
    levels: Mapping[GradeKey, float],
    grades: Mapping[GradeKey, int],
    ranks: Mapping[GradeKey, int],
    lengths: Mapping[str, int],
    *,
    min_relevance: int = 1,
) -> PooledPairs:
    """The columns of pairs with one ranking.

    ``levels`` are grades of the model and ``grades`` those of people. ``ranks`` has the position, from 0, of documents
    in the ranking. ``lengths`` has the queries in the order of the rows, with the number of documents returned.
    """
    numbers = {query: number for number, query in enumerate(lengths)}
    highest = max((math.ceil(level) for level in levels.values()), default=min_relevance)
    steps = np.arange(max(highest, min_relevance) + 1)
    # A document below the lowest relevant level has a score below one half.
    above = 0.5 + 0.5 * (steps - min_relevance + 1) / (steps[-1] - min_relevance + 1)
    scale = np.where(steps < min_relevance, steps / (2 * min_relevance), above)
    is_relevant = {key: float(grade >= min_relevance) for key, grade in grades.items()}
    return PooledPairs(
        np.array([numbers[row.sample_id] for row in rows], dtype=np.intp),
        np.interp([levels[row.key] for row in rows], steps, scale),
        rank=np.array([ranks.get(row.key, -1) for row in rows], dtype=np.intp),
        best_rank=np.array([row.best_rank - 1 for row in rows], dtype=np.intp),
        probability=np.array([row.probability for row in rows], dtype=np.float64),
        grade=np.array([is_relevant.get(row.key, math.nan) for row in rows]),
        returned=np.array(list(lengths.values()), dtype=np.intp),
    )


# --- a batch of documents to grade -----------------------------------------------------------------------------------


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
        keys = [pair.key for pair in draw.order]
        corrects = (
            f"{len(keys):,} of {len(pool.documents):,} pairs of question and document are drawn for "
            f"{', '.join(draw.metrics)}; their grades correct the grades of the model in these metrics."
        )
    else:
        keys = [document.key for document in pool.documents if document.judged is None]
        if not keys:
            raise BadValueError(f"runs: all {len(pool.documents):,} documents of the pool have a grade already")
        corrects = (
            f"All {len(keys):,} ungraded documents of the pool are graded; {pool.num_judged:,} have a grade already. "
            "To grade a random part, give the grades of a model."
        )
    places = [sample_positions(store, record) for record in records]
    entries = []
    for sample_id, doc in keys:
        entries.append(BatchEntry(sample_id, tuple(of_run.get(sample_id, -1) for of_run in places), doc))
    queries = len({sample_id for sample_id, _ in keys})
    figures = {"n": len(keys), "population": len(pool.documents), "queries": queries}
    sentences = (corrects, f"They belong to {queries:,} questions.")
    return BatchPlan(
        options,
        store,
        runs=records,
        metric=None,
        entries=tuple(entries),
        draw=draw,
        forecast=sentences,
        figures=figures,
    )
