"""The list of queries as typed columns: ids, questions, labels, and each run's scores and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....compare.metric_meta import lookup_metric
from ....compare.queries import compare_queries
from ....core.errors import AueporaError
from ....core.scores import Outcomes, Scores, Status
from ....core.slices import group_names
from ....core.targets import TARGETS
from ....core.types import EvaluationSample, MetricResult, TargetCategory
from ....store.runs import RunStore
from .sources import NOT_ASKED, RunSource

__all__ = ["ABSENT", "ColumnBuffer", "first_hit_kinds", "label_columns", "metric_columns", "run_columns"]

ABSENT = 255
"""The outcome of a query that is not in a run."""
MAX_START_LENGTH = 200
"""The number of characters of a question in the list."""
MAX_VALUES, MAX_LABELS = 80, 16
_MAX_DEFAULT_METRICS = 3
_T = TargetCategory
_DEFAULT_TARGETS = (_T.RETRIEVAL_RELEVANCE, _T.GENERATION_CORRECTNESS, _T.GENERATION_FAITHFULNESS)
_KINDS = ("Win", "Loss", "Draw", "Regression")

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.intp]


class ColumnBuffer:
    """A byte buffer of columns; each is described by its type, offset and length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, column: npt.NDArray[Any]) -> dict[str, Any]:
        """Append a column and return its description; floats with few distinct values become codes with a table."""
        if column.dtype == np.float64:
            values, codes = np.unique(column, return_inverse=True)
            if len(values) <= 0xFFFF and len(values) * 2 < max(len(column), 64):
                # NaN is last, and JSON has none: it is the code after the others.
                table = [value for value in values.tolist() if value == value]
                return {**self.put(_compact_codes(codes.reshape(-1), len(values))), "table": table}
        kind = {"float64": "f8", "uint8": "u1", "uint16": "u2"}[column.dtype.name]
        data = np.ascontiguousarray(column, dtype=f"<{kind}").tobytes()
        data += b"\x00" * (-len(data) % 8)
        description = {"type": kind, "at": self._size, "count": len(column)}
        self._parts.append(data)
        self._size += len(data)
        return description

    def data(self) -> bytes:
        """The bytes of all columns."""
        return b"".join(self._parts)


def _compact_codes(codes: npt.NDArray[Any], different: int) -> npt.NDArray[Any]:
    return codes.astype(np.uint8 if different <= 0x100 else np.uint16)


def run_columns(source: RunSource, rows: Rows, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    """The header of a run, and the columns of its query states."""
    record = source.record
    states = np.full(count, NOT_ASKED, np.uint8)
    states[rows] = source.states
    first_hits = np.full(count, np.nan)
    first_hits[rows] = source.first_hits
    return {
        "id": record.run_id,
        "name": record.name,
        "dataset": record.dataset_name,
        "created": record.created_at.isoformat(timespec="seconds"),
        "repeats": record.repeats,
        "states": columns.put(states),
        "first_hits": columns.put(first_hits),
    }


def first_hit_kinds(store: RunStore, base: RunSource, other: RunSource, places: Mapping[str, int]) -> Bytes | None:
    """The comparison kind of each query's first expected chunk between two runs, 1 to 4, or 0 for none.

    ``None`` where the two runs cannot be compared by it.
    """
    try:
        compared = compare_queries(store, base.record, other.record)
    except AueporaError:  # no common query
        return None
    if not compared.per_query:
        return None
    kinds = np.zeros(len(places), np.uint8)
    for one in compared.per_query:
        kinds[places[one.query_id]] = _KINDS.index(one.kind.value) + 1
    return kinds


# --- labels ----------------------------------------------------------------------------------------------------------


def label_columns(samples: Sequence[EvaluationSample], columns: ColumnBuffer) -> list[dict[str, Any]]:
    """The columns of labels with few distinct values, for filters. A sample may have several values of one label."""
    names = dict.fromkeys(str(name) for sample in samples for name in sample.labels)
    entries: list[dict[str, Any]] = []
    for name in names:
        if len(entries) == MAX_LABELS:
            break
        groups = [tuple(group_names(sample.labels.get(name))) for sample in samples]
        distinct = {one: code for code, one in enumerate(dict.fromkeys(groups))}
        values = {value for group in distinct for value in group}
        if len(values) > MAX_VALUES or len(distinct) > 0xFFFF or not values:
            continue
        codes = np.fromiter((distinct[group] for group in groups), np.uint16, len(groups))
        entries.append(
            {"name": name, "groups": list(distinct), "codes": columns.put(_compact_codes(codes, len(distinct)))}
        )
    return entries


# --- metrics ---------------------------------------------------------------------------------------------------------


def metric_columns(sources: Sequence[RunSource], rows: Sequence[Rows], count: int, columns: ColumnBuffer) -> list[Any]:
    """The columns of every metric with scores per sample in any of the runs."""
    results_by_name: dict[str, list[MetricResult | None]] = {}
    for number, source in enumerate(sources):
        for result in source.results:
            if result.scores is not None and len(result.scores) == len(source.samples):
                results_by_name.setdefault(result.name, [None] * len(sources))[number] = result
    entries: list[dict[str, Any]] = []
    for name, results in results_by_name.items():
        number, result = next((index, one) for index, one in enumerate(results) if one is not None)
        definition = lookup_metric(result, sources[number].record, {})
        signatures = {one.signature for one in results if one is not None}
        entries.append(
            {
                "name": name,
                "target": TARGETS[result.target].title,
                "higher": definition.higher_score_is_better,
                "rounding": definition.rounding,
                # Scores with different signatures are not subtracted.
                "comparable": len(signatures) == 1,
                "runs": [
                    None if one is None else _scores(one, places, count, columns)
                    for one, places in zip(results, rows, strict=True)
                ],
            }
        )
    # By target, as in the whole report; within a target in the order of the run.
    titles = [target.title for target in TARGETS.values()]
    entries.sort(key=lambda one: titles.index(one["target"]))
    for name in _default_metrics(sources, entries):
        next(one for one in entries if one["name"] == name)["shown"] = True
    return entries


def _default_metrics(sources: Sequence[RunSource], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics whose columns are shown initially: the plan's primary ones, else one per target."""
    names = [one["name"] for one in entries]
    listed = sources[0].record.plan.get("primary") if sources else None
    primary = [name for name in listed if name in names] if isinstance(listed, list) else []
    first = {one["target"]: one["name"] for one in reversed(entries)}
    default_titles = [TARGETS[target].title for target in _DEFAULT_TARGETS]
    by_target = [first[title] for title in dict.fromkeys([*default_titles, *first]) if title in first]
    return (primary or by_target)[:_MAX_DEFAULT_METRICS]


def _scores(result: MetricResult, rows: Rows, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    values, status, codes, names = _outcomes(result)
    entry: dict[str, Any] = {"signature": result.signature}
    spread = np.full(count, np.nan)
    spread[rows] = values
    entry["values"] = columns.put(spread)
    all_status = np.full(count, ABSENT, np.uint8)
    all_status[rows] = status
    if all_status.any():
        entry["status"] = columns.put(all_status)
    if codes.any():
        all_codes = np.zeros(count, np.uint16)
        all_codes[rows] = codes
        entry["reasons"] = columns.put(_compact_codes(all_codes, len(names)))
        entry["names"] = list(names)
    return entry


def _outcomes(result: MetricResult) -> tuple[Floats, Bytes, npt.NDArray[Any], Sequence[str]]:
    """Values, statuses and reasons of a result, from its columns or from its outcome strings."""
    scores, outcomes = result.scores, result.outcomes
    assert scores is not None
    if isinstance(scores, Scores) and (outcomes is None or isinstance(outcomes, Outcomes)):
        return scores.values, scores.status, scores.reason_codes, scores.reason_names
    values = np.array([np.nan if one is None else one for one in scores], np.float64)
    if outcomes is None or len(outcomes) != len(values):
        missing = np.isnan(values)
        return values, np.where(missing, Status.SKIPPED, 0).astype(np.uint8), np.zeros(len(values), np.int16), ("",)
    names = {"": 0}
    status, codes = np.zeros(len(values), np.uint8), np.zeros(len(values), np.uint16)
    for index, text in enumerate(outcomes):
        word, _, reason = text.partition(":")
        known = Status.__members__.get(word.upper())
        status[index] = Status.MEASURE_FAILED if known is None else known
        codes[index] = names.setdefault(reason if known is not None else text, len(names))
    return values, status, codes, tuple(names)
