"""Metrics from grades of a model for all pooled pairs and human grades for a random part of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, make_result, run_signature, sample_clusters
from ..core.registry import Spec
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import SystemOutputs
from ..errors import BadValueError, DataFileError
from ..io.grades import Grade, GradeKey, read_grades
from ..labels.draws import draw_path
from ..labels.pair_draws import SHOWN, DrawnPair, PairDraw, find_pair_draw, read_pair_draw
from ..render.tables import format_value, table
from ..runs.judging import conventions_of_run
from ..stats.intervals import Floats, mean_interval
from ..stats.partial_grades import graded_measure, require_enough_grades
from ..store.records import RunRecord, run_info
from ..store.runs import RunStore, aligned_outputs, iter_samples
from .drawn_pairs import (
    DEFAULT_METRICS,
    correctable_metrics,
    min_relevance_of,
    model_levels,
    pooled_pairs,
    ranked_measure,
)
from .human_grades import read_human_grades


@dataclass(frozen=True, slots=True)
class PartialGrades:
    """Grades of a model for all pairs, and of people for a random part of them."""

    pairs: tuple[DrawnPair, ...]
    """All pairs with the probability that they were graded, in the order of queries."""
    levels: Mapping[GradeKey, float]
    """Grades of the model."""
    grades: Mapping[GradeKey, int]
    """Human grades."""
    draw: PairDraw | None = None
    """``None`` where people graded all pairs."""

    @property
    def signature(self) -> str:
        """These grades as the gold of a signature."""
        rows = sorted(
            (*pair.key, pair.probability, self.levels[pair.key], self.grades.get(pair.key)) for pair in self.pairs
        )
        return f"grades-{hashlib.sha256(repr(rows).encode()).hexdigest()[:8]}"

    def to_dict(self) -> dict[str, Any]:
        """The counts as a JSON object."""
        return {
            "draw": None if self.draw is None else self.draw.id,
            "pairs": len(self.pairs),
            "drawn": len(self.pairs) if self.draw is None else len(self.draw.order),
            "graded": len(self.grades),
            "known_before": sum(pair.grade is not None for pair in self.pairs),
            "shown": list(SHOWN),
        }


def read_partial_grades(qrels: str | Path, grades: str | Path, draw: str | Path | None = None) -> PartialGrades:
    """Read the grades of a model from ``qrels``, those of people from ``grades``, and the draw of the latter.

    The draw is by default next to the grades. Without a draw people must have graded all pairs. Grades of pairs that
    were not drawn, and grades out of the order of the draw, are refused.
    """
    by_key = read_grades(qrels)
    levels = model_levels(by_key.values())
    human = read_human_grades(grades)
    found = find_pair_draw(grades) if draw is None else read_pair_draw(draw)
    if found is None:
        return _census(Path(grades), levels, human)
    missing = next((pair for pair in found.pairs if pair.key not in levels), None)
    if missing is not None:
        raise DataFileError(
            Path(qrels),
            None,
            f"document {missing.doc_id!r} of query {missing.sample_id!r} was part of the draw and has no grade here; "
            "give the qrels with the grades of the model",
        )
    edited = next(
        (pair for pair in found.pairs if pair.grade is None and by_key[pair.key].grade_by_model is None), None
    )
    if edited is not None:
        raise DataFileError(
            Path(qrels),
            None,
            f"the grade of document {edited.doc_id!r} of query {edited.sample_id!r} is that of a person, and the one "
            "of the model is not there; give the qrels from which pairs were drawn, with their provenance file",
        )
    share = _check_order(Path(grades), found, human) / len(found.order)
    pairs = tuple(pair.graded_in_part(share) for pair in found.pairs)
    known = {pair.key: pair.grade for pair in found.pairs if pair.grade is not None}
    return PartialGrades(pairs, levels, {key: grade.grade for key, grade in human.items()} | known, found)


def _census(path: Path, levels: Mapping[GradeKey, float], human: Mapping[GradeKey, Grade]) -> PartialGrades:
    """All pairs, if people graded all of them; otherwise an error, because the probabilities are not known."""
    if not levels.keys() <= human.keys():
        raise DataFileError(
            path,
            None,
            f"the {len(human):,} grades have no draw ({draw_path(path).name} is not there), and without the "
            "probabilities of a draw grades cannot correct a metric; draw pairs with `auepora pool --draw`, or grade "
            f"all {len(levels):,} pairs",
        )
    names = dict.fromkeys(query for query, _ in levels)
    queries = {query: number for number, query in enumerate(names)}
    keys = sorted(levels, key=lambda key: queries[key[0]])
    pairs = tuple(DrawnPair(*key, 1, 1.0) for key in keys)
    return PartialGrades(pairs, levels, {key: human[key].grade for key in keys})


def _check_order(path: Path, draw: PairDraw, human: Mapping[GradeKey, Grade]) -> int:
    """The number of graded pairs; raises unless they are the first of the draw."""
    drawn, name = draw.order, draw.id
    positions = {pair.key: number for number, pair in enumerate(drawn)}
    known = {pair.key: pair.grade for pair in draw.pairs if pair.grade is not None}
    for key, grade in human.items():
        what = f"document {key[1]!r} of query {key[0]!r}"
        if grade.draw and grade.draw != name:
            raise DataFileError(path, None, f"{what} was graded for the draw {grade.draw}, not for {name}")
        if key not in positions and known.get(key) != grade.grade:
            raise DataFileError(
                path, None, f"{what} has a grade but was not drawn; a document that a person picked has no probability"
            )
    graded = sum(pair.key in human for pair in drawn)
    gap = next((pair for pair in drawn[:graded] if pair.key not in human), None)
    if gap is not None:
        raise DataFileError(
            path,
            None,
            f"document {gap.doc_id!r} of query {gap.sample_id!r} is number {gap.position} of the draw and has no "
            "grade, but later ones have; grade in the order of the draw",
        )
    if not graded:
        raise DataFileError(path, None, f"none of the {len(drawn)} drawn pairs has a grade")
    return graded


def rescore_with_grades(
    store: RunStore,
    record: RunRecord,
    partial: PartialGrades,
    metrics: Sequence[Spec] = (),
    *,
    conventions: str | Conventions | None = None,
) -> Results:
    """Estimate metrics of a stored run from grades of some pairs by people, and store them.

    By default the metrics of the draw. The score of a query is its estimate and may lie outside 0 to 1; a difference of
    two runs with the same grades is the mean difference of these scores. A query without a relevant document counts 0.
    """
    specs: Sequence[Spec] = metrics or (DEFAULT_METRICS if partial.draw is None else partial.draw.metrics)
    rules = replace(conventions_of_run(record, conventions), match="id")  # grades name what was retrieved
    if partial.draw is not None and not metrics:
        rules = replace(rules, min_relevance=partial.draw.min_relevance)
    chosen = correctable_metrics(specs, rules)
    samples = list(iter_samples(store, record.run_id, texts=False))
    ids = [sample.sample_id for sample in samples]
    known_ids = set(ids)
    rows = [pair for pair in partial.pairs if pair.sample_id in known_ids]
    if not rows:
        raise BadValueError(f"the grades have no query of {record.run_id}; are the ids the same?")
    rankings = [
        dict(zip(ids, map(_ranked_ids, aligned_outputs(store, record.run_id, repeat=repeat, texts=False)), strict=True))
        for repeat in range(record.repeats)
    ]
    info = replace(run_info(record), gold=partial.signature)
    clusters = sample_clusters(samples)
    results = Results([], sample_ids=ids, run_id=record.run_id)
    for metric in chosen:
        assert isinstance(metric, BatchMetric)
        estimate = _Estimate.of(metric, partial, rows, rankings)
        scores = Scores.of(
            [estimate.by_query.get(sample_id, math.nan) for sample_id in ids],
            skip={"no_gold": np.array([sample_id not in estimate.by_query for sample_id in ids])},
        )
        result = make_result(metric, scores, signature=run_signature(metric, info), clusters=clusters)
        if result.interval is not None:
            result.interval = max(result.interval[0], 0.0), min(result.interval[1], 1.0)
        result.details.partial_grades = {**partial.to_dict(), **estimate.stored}
        results.append(result)
    store.put_results(
        record.run_id,
        results,
        reducers={metric.name: metric.reducer.name for metric in chosen if isinstance(metric, BatchMetric)},
    )
    return results


def partial_grades_text(results: Results) -> str:
    """The corrected metrics beside those by the model alone and by people alone."""
    rows = []
    for result in results:
        found = result.details.partial_grades
        alone = [(found[key]["value"], found[key]["interval"]) for key in ("model_only", "human_only")]
        value = min(max(result.value, 0.0), 1.0)  # as stored it is the mean of the estimates of queries
        cells = [_value_cells(*shown) for shown in ((value, result.interval), *alone)]
        rows.append([result.name, *chain.from_iterable(cells)])
    headers = ["metric", "corrected", "95 % interval", "model only", "95 % interval", "human only", "95 % interval"]
    lines = [table(rows, headers=headers, right=(1, 3, 5)), ""]
    first = results[0].details.partial_grades
    before = f", {first['known_before']:,} of them before the draw" if first["known_before"] else ""
    lines.append(
        f"people graded {first['graded']:,} of {first['pairs']:,} pairs{before}; draw: {first['draw'] or 'all pairs'}"
    )
    lines.append("intervals are about queries of this kind; a query without a relevant document counts 0")
    for result in results:
        found = result.details.partial_grades
        if found.get("these_queries"):
            low, high = map(format_value, found["these_queries"])
            lines.append(f"{result.name} of these {result.details.num_samples:,} queries alone: {low} – {high}")
        if found["num_unpooled"]:
            lines.append(
                f"{result.name}: {found['num_unpooled']:,} documents of the top are not in the pool and count 0"
            )
    return "\n".join(lines)


def _value_cells(value: float, interval: Sequence[float] | None) -> tuple[str, str]:
    return format_value(value), "" if interval is None else " – ".join(map(format_value, interval))


def _ranked_ids(output: SystemOutputs | None) -> list[str]:
    return [] if output is None or output.error is not None else [item.doc.doc_id for item in output.retrieved]


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The estimates of one metric: of each query, and by the model and by people alone."""

    by_query: Mapping[str, float]
    stored: Mapping[str, Any]
    """What the details of the result have of it."""

    @classmethod
    def of(
        cls,
        metric: BatchMetric,
        partial: PartialGrades,
        rows: Sequence[DrawnPair],
        rankings: Sequence[Mapping[str, Sequence[str]]],
    ) -> _Estimate:
        """The mean over repeats."""
        measure, lowest = ranked_measure(metric), min_relevance_of(metric)
        queries = list(dict.fromkeys(row.sample_id for row in rows))
        pooled = {row.key for row in rows}
        values, model, human, errors, outside = [], [], [], [], 0
        for ranking in rankings:
            ranks: dict[GradeKey, int] = {}
            for query in queries:
                for rank, doc_id in enumerate(ranking[query]):
                    ranks.setdefault((query, doc_id), rank)
                outside += sum((query, doc_id) not in pooled for doc_id in ranking[query][: measure.k])
            lengths = {query: len(ranking[query]) for query in queries}
            pairs = pooled_pairs(rows, partial.levels, partial.grades, ranks, lengths, min_relevance=lowest)
            corrected = graded_measure(pairs, measure)
            require_enough_grades(pairs, measure)
            values.append(corrected.by_query)
            errors.append(corrected.grading_error)
            model.append(graded_measure(pairs.with_grades_of_model(), measure).by_query)
            human.append(graded_measure(pairs, measure, use_scores=False).by_query)
        mean = np.mean(values, axis=0)
        stored = {
            "model_only": _estimate_row(np.mean(model, axis=0)),
            # Without the model the estimate of recall and nDCG has a bias that its interval does not contain.
            "human_only": _estimate_row(np.mean(human, axis=0), with_interval=measure.is_linear),
            "num_unpooled": outside,
        }
        if errors[0] is not None and len(rankings) == 1:
            half = NormalDist().inv_cdf(0.975) * errors[0]
            stored["these_queries"] = [max(float(mean.mean()) - half, 0.0), min(float(mean.mean()) + half, 1.0)]
        return cls(dict(zip(queries, mean.tolist(), strict=True)), stored)


def _estimate_row(values: Floats, *, with_interval: bool = True) -> dict[str, Any]:
    interval = mean_interval(values, lowest=0.0, highest=1.0) if with_interval else None
    bounds = None if interval is None else [max(interval.low, 0.0), min(interval.high, 1.0)]
    return {"value": min(max(float(values.mean()), 0.0), 1.0), "interval": bounds}
