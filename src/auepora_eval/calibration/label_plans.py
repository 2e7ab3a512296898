"""Planning labels: of answers that a judge has scored, and of answers of two runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import AueporaError, BadValueError
from ..labels.agreement import read_annotations
from ..labels.batch import BatchEntry
from ..labels.batch_plans import BatchOptions, BatchPlan, sample_positions
from ..labels.draws import (
    ASSUMED_ERROR,
    PEOPLE_ONLY,
    LabelDraw,
    describe_forecast,
    draw_comparison,
    draw_samples,
    read_all_draws,
)
from ..labels.items import answer_text, load_population
from ..stats.agreement import expected_kappa_half_width
from ..stats.sampling import expected_errors, forecast
from ..store.records import RunRecord
from ..store.runs import RunStore, packed_outputs
from .earlier_labels import fit_earlier_labels, predict_labels
from .scores import judge_metrics, load_run_scores


def plan_calibration(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the labels of random answers of a run, and forecast the calibration of its judge."""
    (record,) = records
    population = load_population(store, record.run_id, options.stratify)
    draw = draw_samples(
        population.strata,
        options.n,
        run=record.run_id,
        seed=options.seed,
        stratify=options.stratify,
        left_out=population.left_out,
    )
    positions = sample_positions(store, record)
    entries = tuple(BatchEntry(sample_id, (positions[sample_id],)) for sample_id in draw.sample_ids)
    sentences, figures = _forecast_calibration(store, record, options, draw, population.strata)
    return BatchPlan(
        options,
        store,
        runs=records,
        metric=options.metric,
        entries=entries,
        draw=draw,
        forecast=sentences,
        figures=figures,
    )


def _forecast_calibration(
    store: RunStore, record: RunRecord, options: BatchOptions, draw: LabelDraw, population: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The expected intervals of the corrected mean and of kappa, if the judge errs on one answer in ten."""
    n = len(draw.drawn_items)
    figures: dict[str, Any] = {"n": n, "population": draw.population, "left_out": dict(draw.left_out)}
    left_out = sum(draw.left_out.values())
    others = f"; {left_out:,} without an answer {'is' if left_out == 1 else 'are'} left out" if left_out else ""
    sentences = [f"{n:,} of {draw.population:,} answers are drawn at random{others}."]
    try:
        scored = load_run_scores(store, record, options.metric)
    except AueporaError:
        if options.metric is not None:
            raise
        return (*sentences, "Choose the metric of the judge for a forecast of its corrected mean."), figures
    values = [scored.probability(score) for sample_id, score in scored.scores.items() if sample_id in population]
    if n == draw.population:
        return (*sentences, "All answers are labelled, so that their mean is known without an interval."), figures
    reason = None
    if not scored.bounded:
        reason = "its scores have no fixed range"
    elif len(values) < n:
        reason = f"it has scores of {len(values):,} answers only"
    elif n < 4:
        reason = f"{n} labels are too few"
    if reason is not None:
        return (*sentences, f"There is no forecast for {scored.metric}: {reason}."), figures
    predictions = np.array(values)
    errors = np.maximum(expected_errors(predictions, calibrated=False), ASSUMED_ERROR)
    found = forecast(errors, predictions, np.full(len(values), n / len(values)))
    figures |= {**found.to_dict(), "metric": scored.metric, "calibrated": False}
    if found.half_width >= 0.5:
        few = f"{n} labels decide nothing: the interval of the mean of {scored.metric} would be as wide as its range."
        return (*sentences, few), figures
    sentences.append(
        f"Forecast, if the judge errs on one answer in ten: the interval of the corrected mean of {scored.metric} is "
        f"about ±{found.half_width:.3f} (±{found.labels_half_width:.3f} from the labels alone), and a distance of "
        f"{found.decidable_difference:.3f} from a threshold is decided with probability {found.power:g}."
    )
    if options.scale is None:
        kappa = expected_kappa_half_width(n, agreement=1 - ASSUMED_ERROR, proportion=float(predictions.mean()))
        if kappa is not None:
            figures["kappa_half_width"] = kappa
            sentences.append(
                f"The interval of kappa, the agreement of judge and people beyond chance, is about ±{kappa:.2f}."
                if kappa < 1
                else "So few labels show nothing about kappa, the agreement of judge and people beyond chance."
            )
    return tuple(sentences), figures


def plan_comparison(
    store: RunStore,
    records: tuple[RunRecord, RunRecord],
    *,
    metric: str | None = None,
    n: int = 100,
    seed: int = 0,
    delta: float | None = None,
    looks: int = 0,
    history: Sequence[str | Path] = (),
    before: LabelDraw | None = None,
) -> LabelDraw:
    """The draw for the difference of two runs, from the scores of the judge metric.

    Without a metric it is that of the only judge; people alone decide where there is no judge, or for ``PEOPLE_ONLY``.
    A draw that was recorded ``before`` is repeated; those of earlier versions have samples with equal answers.
    """
    if records[0].run_id == records[1].run_id:
        raise BadValueError(f"runs: the same run is given twice, {records[0].run_id}")
    if metric is None and not judge_metrics(store, records[0]):
        metric = PEOPLE_ONLY
    if metric == PEOPLE_ONLY and history:
        raise BadValueError("history: labels of earlier runs predict labels by the scores of a metric: choose one")
    scored = load_run_scores(store, records[0], metric)
    name = scored.metric
    if looks and scored.clusters is not None:
        raise BadValueError("looks: samples share clusters, and looks test them one by one; leave them out")
    calibrator = None
    if history:
        calibrator = fit_earlier_labels(store, records, name, read_annotations(history), read_all_draws(history))
    first, second = (predict_labels(store, record, name, *(calibrator or ())) for record in records)
    answered = [load_population(store, record.run_id).strata for record in records]
    known = second.keys() & answered[0].keys() & answered[1].keys()
    both = [sample_id for sample_id in first if sample_id in known]
    if records[0].fingerprint != records[1].fingerprint:
        asked = [_queries(store, record) for record in records]
        if other := next((sample_id for sample_id in both if asked[0][sample_id] != asked[1][sample_id]), None):
            raise BadValueError(f"the runs are of different datasets: sample '{other}' has another question in each")
    num_others = max(len(first), len(second)) - len(both)
    equal = before.equal_answers if before else find_equal_answers(store, [record.run_id for record in records])
    return draw_comparison(
        {sample_id: (first[sample_id], second[sample_id]) for sample_id in both},
        n,
        runs=(records[0].run_id, records[1].run_id),
        metric=None if name == PEOPLE_ONLY else name,
        seed=seed,
        delta=delta,
        looks=looks,
        calibrator=calibrator,
        left_out={"not_in_both": num_others} if num_others else {},
        equal_answers=equal,
    )


def _queries(store: RunStore, record: RunRecord) -> dict[str, str]:
    return {sample.sample_id: sample.query for sample in store.samples(record.run_id, texts=False)}


def find_equal_answers(store: RunStore, runs: Sequence[str]) -> Collection[str]:
    """The samples whose answers have the same text in two runs, but for spaces around it."""
    first, second = (_answer_texts(store, run) for run in runs)
    return {sample_id for sample_id, text in second.items() if first.get(sample_id) == text}


def _answer_texts(store: RunStore, run_id: str) -> dict[str, str]:
    ids, found = store.sample_ids(run_id), {}
    for position, repeat, output in packed_outputs(store, store.get(run_id)):
        if repeat:
            break  # they are ordered by repeat
        if output.answer is not None:
            found[ids[position]] = answer_text(output.answer, output.structured).strip()
    return found


def plan_comparison_batch(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the labels of the answers of two runs, and forecast what they can decide."""
    first, second = records
    draw = plan_comparison(
        store,
        (first, second),
        metric=options.metric,
        n=options.n,
        seed=options.seed,
        delta=options.delta,
        looks=options.looks,
        history=options.history,
    )
    assert draw.comparison is not None
    places = [sample_positions(store, record) for record in records]
    entries = tuple(
        BatchEntry(sample_id, (places[0][sample_id], places[1][sample_id])) for sample_id in draw.sample_ids
    )
    figures = {**draw.comparison.forecast, "n": draw.comparison.n, "looks": list(draw.comparison.looks)}
    return BatchPlan(
        options,
        store,
        runs=records,
        metric=draw.comparison.metric,
        entries=entries,
        draw=draw,
        forecast=tuple(describe_forecast(draw)),
        figures=figures,
    )
