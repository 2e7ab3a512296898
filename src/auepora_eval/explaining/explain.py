"""The explanation of a stored metric: its card, its reduction, and its derivation for one query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .._version import __version__
from ..core.errors import UnknownMetricError
from ..core.exact import exact_sum
from ..core.metrics_base import BatchMetric, Metric
from ..core.reduce import Mean, Reducer, counted_values
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import MetricResult
from ..store.records import RunRecord
from ..store.runs import RunStore
from .cards import card
from .metric_lookup import ResolvedMetric, resolve_result_metric
from .option_help import describe_reducer
from .query import explain_query
from .types import Explanation, Influence, RecomputationCheck, Reduction

__all__ = ["explain"]

MAX_SHOWN = 5
"""The number of lowest and of highest scores listed."""
_TOLERANCE = 1e-12
"""The relative difference that another order of summation may cause."""


def explain(
    store: str | Path | RunStore,
    run: str,
    name: str,
    *,
    query: str | None = None,
    metrics: Mapping[str, Metric] | None = None,
    models: bool = False,
) -> Explanation:
    """What the metric ``name`` of a stored run is; with ``query``, the derivation of that sample's score.

    Everything is recomputed from the store and compared with the stored value. ``name`` may be a signature.
    ``metrics`` are objects of unregistered metrics. With ``models``, models are called again; judges never are.
    """
    if not isinstance(store, RunStore):
        with RunStore.open(store, create=False) as opened:
            return explain(opened, run, name, query=query, metrics=metrics, models=models)
    record = store.find(run)
    result = _result(store.results(record.run_id, every_signature=True), name)
    found = resolve_result_metric(result, record, metrics or {})
    notes = _notes(found, record)
    return Explanation(
        record.run_id,
        record.name,
        f"{record.dataset_name}, {record.num_samples} samples",
        card(result, found.metric),
        None if query is not None else _reduction(store, record, result, found),
        None if query is None else explain_query(store, record, result, found, query, models=models),
        notes,
    )


def _result(results: Results, name: str) -> MetricResult:
    """The latest result of that name, or of that signature."""
    for one in reversed(results):  # of one name the latest is the last
        if name in (one.name, one.signature):
            return one
    raise UnknownMetricError(name, {one.name for one in results})


def _notes(found: ResolvedMetric, record: RunRecord) -> list[str]:
    notes = []
    if found.metric is None:
        notes.append("The metric is not known in this process, so that nothing can be computed again.")
    elif found.differs:
        notes.append(
            f"The metric at hand is not the one that computed the number: they differ in {', '.join(found.differs)}."
        )
    if record.version != __version__:
        notes.append(f"The run was made with version {record.version}; this is {__version__}.")
    return notes


def _reduction(store: RunStore, record: RunRecord, result: MetricResult, found: ResolvedMetric) -> Reduction | None:
    """How the scores become the value; ``None`` where no scores are stored."""
    scores = result.scores
    if not isinstance(scores, Scores):
        return None
    reducer = found.metric.reducer if isinstance(found.metric, BatchMetric) else None
    values = counted_values(scores)
    is_mean = reducer is None or (isinstance(reducer, Mean) and type(reducer).value is Mean.value)
    total = exact_sum(values) if is_mean else None
    lowest, highest = _influences(scores, store.sample_ids(record.run_id))
    return Reduction(
        words=describe_reducer("mean" if reducer is None else reducer.name),
        n=len(values),
        total=total,
        check=_check_value(result, scores, reducer, record),
        lowest=lowest,
        highest=highest,
    )


def _check_value(
    result: MetricResult, scores: Scores, reducer: Reducer | None, record: RunRecord
) -> RecomputationCheck:
    stored = result.value if result.defined else None
    if record.repeats > 1 and not isinstance(reducer, Mean):
        return RecomputationCheck(
            stored, None, "not computed", "it is the mean of the repeats' values, each over all its answers"
        )
    try:
        value = (reducer or Mean()).value(scores)
    except Exception:  # it may read more than the scores, such as whole answers
        return RecomputationCheck(stored, None, "not computed", "it does not follow from the stored scores alone")
    computed = None if math.isnan(value) else value
    if computed == stored:
        return RecomputationCheck(stored, computed, "equal")
    if computed is not None and stored is not None and abs(computed - stored) <= _TOLERANCE * max(1.0, abs(stored)):
        return RecomputationCheck(stored, computed, "rounding", "another order of the same sum")
    if reducer is None:
        return RecomputationCheck(stored, None, "not computed", "nobody here knows how the scores become the value")
    return RecomputationCheck(
        stored, computed, "differs", "the stored value is not what this metric makes of the stored scores"
    )


def _influences(scores: Scores, ids: list[str]) -> tuple[tuple[Influence, ...], tuple[Influence, ...]]:
    """The lowest and the highest scores; each query once."""
    rows = np.flatnonzero(scores.counted)
    order = rows[np.argsort(scores.values[rows], kind="stable")].tolist()
    count = min(MAX_SHOWN, len(order) // 2) or len(order)
    outcomes = scores.outcomes

    def influence(row: int) -> Influence:
        return Influence(ids[row], float(scores.values[row]), outcomes[row])

    best = rows[np.argsort(-scores.values[rows], kind="stable")].tolist()  # equal ones in the order of the dataset
    return tuple(map(influence, order[:count])), tuple(map(influence, best[:count])) if len(order) > count else ()
