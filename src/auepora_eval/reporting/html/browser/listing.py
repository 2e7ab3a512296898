"""The list of queries as columns: ids, questions, labels, and per run every metric's scores and outcomes, typed."""

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
"""The outcome of a query that a run was not asked."""
MAX_START_LENGTH = 200
"""So many characters of a question stand in the list."""
MAX_VALUES, MAX_LABELS = 80, 16
_MAX_DEFAULT_METRICS = 3
_T = TargetCategory
_DEFAULT_TARGETS = (_T.RETRIEVAL_RELEVANCE, _T.GENERATION_CORRECTNESS, _T.GENERATION_FAITHFULNESS)
_KINDS = ("Win", "Loss", "Draw", "Regression")

Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.intp]


class ColumnBuffer:
    """Columns one behind the other in one run of bytes, each said to be of which type and where."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, column: npt.NDArray[Any]) -> dict[str, Any]:
        """Add numbers; numbers of few different values become codes with a table."""
        if column.dtype == np.float64:
            values, codes = np.unique(column, return_inverse=True)
            if len(values) <= 0xFFFF and len(values) * 2 < max(len(column), 64):
                # NaN is last, and JSON has none: it is the code after the others.
                table = [value for value in values.tolist() if value == value]
                return {**self.put(_compact_codes(codes.reshape(-1), len(values))), "table": table}
        kind = {"float64": "f8", "uint8": "u1", "uint16": "u2"}[column.dtype.name]
        data = np.ascontiguousarray(column, dtype=f"<{kind}").tobytes()
        data += b"\x00" * (-len(data) % 8)
        told = {"type": kind, "at": self._size, "count": len(column)}
        self._parts.append(data)
        self._size += len(data)
        return told

    def data(self) -> bytes:
        """All columns."""
        return b"".join(self._parts)


def _compact_codes(codes: npt.NDArray[Any], different: int) -> npt.NDArray[Any]:
    return codes.astype(np.uint8 if different <= 0x100 else np.uint16)


def run_columns(source: RunSource, rows: Rows, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    """What is told of a run, and how every query stands in it."""
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
    """What became of each query's first expected chunk from one run to another, 1 to 4 for ``kinds``, 0 for nothing.

    ``None`` where the two cannot be compared so.
    """
    try:
        compared = compare_queries(store, base.record, other.record)
    except AueporaError:  # no query in common: there is nothing to tell
        return None
    if not compared.per_query:
        return None
    kinds = np.zeros(len(places), np.uint8)
    for one in compared.per_query:
        kinds[places[one.query_id]] = _KINDS.index(one.kind.value) + 1
    return kinds


# --- labels ----------------------------------------------------------------------------------------------------------


def label_columns(samples: Sequence[EvaluationSample], columns: ColumnBuffer) -> list[dict[str, Any]]:
    """Labels to filter by: those of few different values. A sample may have several values of one label."""
    names = dict.fromkeys(str(name) for sample in samples for name in sample.labels)
    told: list[dict[str, Any]] = []
    for name in names:
        if len(told) == MAX_LABELS:
            break
        groups = [tuple(group_names(sample.labels.get(name))) for sample in samples]
        distinct = {one: code for code, one in enumerate(dict.fromkeys(groups))}
        values = {value for group in distinct for value in group}
        if len(values) > MAX_VALUES or len(distinct) > 0xFFFF or not values:
            continue
        codes = np.fromiter((distinct[group] for group in groups), np.uint16, len(groups))
        told.append(
            {"name": name, "groups": list(distinct), "codes": columns.put(_compact_codes(codes, len(distinct)))}
        )
    return told


# --- metrics ---------------------------------------------------------------------------------------------------------


def metric_columns(sources: Sequence[RunSource], rows: Sequence[Rows], count: int, columns: ColumnBuffer) -> list[Any]:
    """Every metric that has scores per sample in any of the runs, in the order of the first run that has it."""
    found: dict[str, list[MetricResult | None]] = {}
    for number, source in enumerate(sources):
        for result in source.results:
            if result.scores is not None and len(result.scores) == len(source.samples):
                found.setdefault(result.name, [None] * len(sources))[number] = result
    told: list[dict[str, Any]] = []
    for name, results in found.items():
        number, result = next((place, one) for place, one in enumerate(results) if one is not None)
        definition = lookup_metric(result, sources[number].record, {})
        signatures = {one.signature for one in results if one is not None}
        told.append(
            {
                "name": name,
                "target": TARGETS[result.target].title,
                "higher": definition.higher_score_is_better,
                "rounding": definition.rounding,
                # Numbers by different rules are not subtracted.
                "comparable": len(signatures) == 1,
                "runs": [
                    None if one is None else _scores(one, places, count, columns)
                    for one, places in zip(results, rows, strict=True)
                ],
            }
        )
    # By target, as everywhere in a report; within one in the order of the run.
    titles = [target.title for target in TARGETS.values()]
    told.sort(key=lambda one: titles.index(one["target"]))
    for name in _default_metrics(sources, told):
        next(one for one in told if one["name"] == name)["shown"] = True
    return told


def _default_metrics(sources: Sequence[RunSource], told: Sequence[Mapping[str, Any]]) -> list[str]:
    """The metrics whose columns are there from the start: the plan's primary ones, else one for each target."""
    names = [one["name"] for one in told]
    listed = sources[0].record.plan.get("primary") if sources else None
    primary = [name for name in listed if name in names] if isinstance(listed, list) else []
    first = {one["target"]: one["name"] for one in reversed(told)}
    telling = [TARGETS[target].title for target in _DEFAULT_TARGETS]
    by_target = [first[title] for title in dict.fromkeys([*telling, *first]) if title in first]
    return (primary or by_target)[:_MAX_DEFAULT_METRICS]


def _scores(result: MetricResult, rows: Rows, count: int, columns: ColumnBuffer) -> dict[str, Any]:
    values, status, codes, names = _outcomes(result)
    told: dict[str, Any] = {"signature": result.signature}
    spread = np.full(count, np.nan)
    spread[rows] = values
    told["values"] = columns.put(spread)
    all_status = np.full(count, ABSENT, np.uint8)
    all_status[rows] = status
    if all_status.any():
        told["status"] = columns.put(all_status)
    if codes.any():
        all_codes = np.zeros(count, np.uint16)
        all_codes[rows] = codes
        told["reasons"] = columns.put(_compact_codes(all_codes, len(names)))
        told["names"] = list(names)
    return told


def _outcomes(result: MetricResult) -> tuple[Floats, Bytes, npt.NDArray[Any], Sequence[str]]:
    """Values, outcomes and reasons of a result, from its columns or from what it says in words."""
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
    for place, text in enumerate(outcomes):
        word, _, reason = text.partition(":")
        known = Status.__members__.get(word.upper())
        status[place] = Status.MEASURE_FAILED if known is None else known
        codes[place] = names.setdefault(reason if known is not None else text, len(names))
    return values, status, codes, tuple(names)
