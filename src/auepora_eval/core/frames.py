"""Data frames of pandas, polars or Arrow from columns, and the columns of results. Imported only when one is made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, get_args

from ..errors import BadValueError, MissingDependencyError
from .details import ResultDetails
from .types import FrameKind, MetricResult, QueryTexts

# --- data frames of pandas, polars or Arrow from columns -------------------------------------------------------------

ColumnKind = Literal["text", "number", "count", "flag"]

_PACKAGES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
_INSTALL = {"pandas": "pandas", "polars": "polars", "arrow": "'auepora-eval[parquet]'"}
# pandas: numbers use NaN for missing values, as most code expects; other kinds use NA.
_PANDAS = {"text": "string", "number": "float64", "count": "Int64", "flag": "boolean"}


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """The values of a column (``None`` where missing) and their kind."""

    kind: ColumnKind
    values: Sequence[Any]


def make_frame(columns: Mapping[str, FrameColumn], kind: str = "pandas") -> Any:
    """A frame of these columns.

    Missing values and NaN are null in polars and Arrow; in pandas NaN for numbers and NA for all else.
    """
    if kind not in get_args(FrameKind):
        raise BadValueError(f"unknown kind of frame {kind!r}; choose one of: {', '.join(get_args(FrameKind))}")
    MissingDependencyError.import_module(_PACKAGES[kind], purpose=f"to_frame('{kind}')", install=_INSTALL[kind])
    plain = {name: FrameColumn(column.kind, list(_plain_values(column))) for name, column in columns.items()}
    return {"pandas": _pandas, "polars": _polars, "arrow": _arrow}[kind](plain)


def _plain_values(column: FrameColumn) -> Iterable[Any]:
    makers = {"text": str, "number": float, "count": int, "flag": bool}
    make = makers[column.kind]
    for value in column.values:
        none = value is None or (isinstance(value, float) and math.isnan(value))
        yield None if none else make(value)


def _pandas(columns: Mapping[str, FrameColumn]) -> Any:
    import pandas as pd

    return pd.DataFrame({name: pd.array(column.values, dtype=_PANDAS[column.kind]) for name, column in columns.items()})


def _polars(columns: Mapping[str, FrameColumn]) -> Any:
    import polars as pl

    types = {"text": pl.String, "number": pl.Float64, "count": pl.Int64, "flag": pl.Boolean}
    return pl.DataFrame([pl.Series(name, column.values, types[column.kind]) for name, column in columns.items()])


def _arrow(columns: Mapping[str, FrameColumn]) -> Any:
    import pyarrow as pa

    types = {"text": pa.string(), "number": pa.float64(), "count": pa.int64(), "flag": pa.bool_()}
    return pa.table({name: pa.array(column.values, types[column.kind]) for name, column in columns.items()})


# --- results as columns: a row per metric (and optionally per group of a slice), or a row per sample -----------------

METRIC_COLUMNS: dict[str, ColumnKind] = {
    "metric": "text",
    "target": "text",
    "slice": "text",
    "group": "text",
    "value": "number",
    "low": "number",
    "high": "number",
    "num_samples": "count",
    "coverage": "number",
    "skipped": "count",
    "failed": "count",
    "signature": "text",
}
"""The columns of a metric, or of one group of a slice, and their kinds."""


def metric_columns(results: Sequence[MetricResult], *, slices: bool = False) -> dict[str, FrameColumn]:
    """A row per metric; with ``slices`` also one per group of each slice, which the columns slice and group name."""
    rows = list(chain.from_iterable(_rows(result, slices=slices) for result in results))
    kinds = {name: kind for name, kind in METRIC_COLUMNS.items() if slices or name not in ("slice", "group")}
    return {name: FrameColumn(kind, [row[name] for row in rows]) for name, kind in kinds.items()}


def sample_columns(
    results: Sequence[MetricResult], sample_ids: Sequence[str], texts: Sequence[QueryTexts] = ()
) -> dict[str, FrameColumn]:
    """A row per sample: its id, its texts if known, and per metric its score (none where it has none) and outcome."""
    columns = {"sample_id": FrameColumn("text", list(sample_ids))}
    if texts:
        columns["query"] = FrameColumn("text", [query for query, _ in texts])
        columns["answer"] = FrameColumn("text", [answer for _, answer in texts])
    for result in results:
        if result.scores is None:
            continue
        scores = list(result.scores)
        if len(scores) != len(sample_ids):
            raise BadValueError(
                f"{result.name} has {len(scores)} scores for {len(sample_ids)} sample ids; the numbers must be equal"
            )
        # Scores of a user's own metric have no outcomes: they are scored or skipped.
        outcomes = list(result.outcomes or ["skipped" if score is None else "scored" for score in scores])
        columns[result.name] = FrameColumn("number", scores)
        columns[f"{result.name}.outcome"] = FrameColumn("text", outcomes)
    return columns


def _rows(result: MetricResult, *, slices: bool) -> Iterator[dict[str, Any]]:
    yield _row(result, result, None, None)
    if slices:
        for name, groups in result.slices.items():
            for group, part in groups.items():
                if isinstance(part, MetricResult):
                    yield _row(result, part, name, str(group))


def _row(whole: MetricResult, part: MetricResult, name: str | None, group: str | None) -> dict[str, Any]:
    low, high = (None, None) if part.interval is None or not part.defined else part.interval
    details = part.details
    return {
        "metric": whole.name,
        "target": whole.target.name,
        "slice": name,
        "group": group,
        "value": part.known_value,
        "low": low,
        "high": high,
        "num_samples": details.num_samples if details.counts_samples else None,
        "coverage": _coverage(details),
        "skipped": details.num_skipped if details.counts_outcomes else None,
        "failed": details.num_failed if details.counts_outcomes else None,
        "signature": whole.signature,
    }


def _coverage(details: ResultDetails) -> float | None:
    """The proportion of samples that the value is a mean of; None for a metric without outcomes."""
    if not (details.counts_samples and details.counts_outcomes and details.num_outcomes):
        return None
    return details.num_samples / details.num_outcomes
