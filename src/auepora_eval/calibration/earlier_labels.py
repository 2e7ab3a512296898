"""Predicted labels of two runs, from the scores of a judge or from labels of earlier runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..compare.pairing import lookup_metric
from ..core.scores import Scores
from ..errors import BadValueError
from ..io.labels import Label
from ..labels.agreement import aggregate_labels, select_labels
from ..labels.draws import LabelDraw
from ..labels.sample_weights import weigh_samples
from ..stats.stacking import ENOUGH_LABELS, Calibrator, fit_calibrator
from ..store.records import RunRecord
from ..store.runs import RunStore
from .scores import load_run_scores


def predict_labels(
    store: RunStore, record: RunRecord, metric: str, features: Sequence[str] = (), coefficients: Sequence[float] = ()
) -> dict[str, float]:
    """The predicted label of each answer: the score of the metric from 0 to 1, or a calibrator on several metrics."""
    if not features:
        scored = load_run_scores(store, record, metric)
        if not scored.bounded:
            raise BadValueError(
                f"{metric} has no finite range, so that its scores do not predict labels; choose another"
            )
        return {sample_id: scored.probability(score) for sample_id, score in scored.scores.items()}
    table = _feature_table(store, record, features)
    if not table:
        return {}
    found = Calibrator(tuple(coefficients)).predict(list(table.values()))
    return dict(zip(table, found.tolist(), strict=True))


def fit_earlier_labels(
    store: RunStore,
    records: Sequence[RunRecord],
    metric: str,
    labels: Iterable[Label],
    draws: Mapping[str, list[LabelDraw]] | None = None,
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Metrics and coefficients of a calibrator, from labels of earlier runs; the labels of ``records`` are not used.

    The features are the metric and all other bounded metrics that the runs have in common. The calibrator decides which
    samples are drawn and how narrow an interval gets, and never whether it is valid. Labels need a draw, recorded or
    named, or must cover all answers of their run: the forecast depends on them.
    """
    compared = {record.run_id for record in records} | {record.name for record in records}
    by_run: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        if label.run is not None and label.run not in compared:
            by_run[label.run].append(label)
    earlier = {run: store.find(run) for run in by_run}
    names = [_bounded_metrics(store, record) for record in (*records, *earlier.values())]
    features = (metric, *sorted(set.intersection(*names) - {metric}))
    labelled = []
    for run, record in earlier.items():
        kept, _ = select_labels(by_run[run], names=(record.run_id, record.name), metric=metric)
        table, human = _feature_table(store, record, features), aggregate_labels(kept)
        labelled.append(
            (record, kept, table, {sample_id: value for sample_id, value in human.values.items() if sample_id in table})
        )
    count = sum(len(values) for *_, values in labelled)
    if count < ENOUGH_LABELS:
        raise BadValueError(
            f"there are {count} labels of answers of earlier runs with a score; a calibrator needs at least "
            f"{ENOUGH_LABELS}: leave --history out, or label more of an earlier run"
        )
    rows: list[list[float]] = []
    target: list[float] = []
    weights: list[float] = []
    for record, kept, table, values in labelled:
        try:
            usable = weigh_samples(kept, values, table, draws, (record.run_id, record.name))
        except BadValueError as error:
            raise BadValueError(
                f"the labels of {record.name} are not of a random sample, so that they predict no others; leave "
                "--history out, or draw samples of it with `auepora label`"
            ) from error
        rows += [table[value] for value in values if value in usable.ids]
        target += [value for sample_id, value in values.items() if sample_id in usable.ids]
        weights += [usable.relative_weights.get(value, 1.0) for value in values if value in usable.ids]
    return features, fit_calibrator(rows, target, weights=weights).coefficients


def _bounded_metrics(store: RunStore, record: RunRecord) -> set[str]:
    scored = [result for result in store.results(record.run_id) if isinstance(result.scores, Scores)]
    return {run.name for run in scored if all(map(math.isfinite, lookup_metric(run, record, {}).range))}


def _feature_table(store: RunStore, record: RunRecord, features: Sequence[str]) -> dict[str, list[float]]:
    """The scores from 0 to 1 of the samples with a score of the first metric; another one that is missing is 0.5."""
    first, *others = (load_run_scores(store, record, name) for name in features)
    table = {sample_id: [first.probability(score)] for sample_id, score in first.scores.items()}
    for other in others:
        for sample_id, row in table.items():
            row.append(other.probability(other.scores[sample_id]) if sample_id in other.scores else 0.5)
    return table
