"""Data frames of pandas, polars or Arrow from columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .errors import BadValueError, MissingDependencyError

__all__ = ["ColumnKind", "FrameColumn", "FrameKind", "make_frame"]

FrameKind = Literal["pandas", "polars", "arrow"]
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
    _require(kind)
    plain = {name: FrameColumn(column.kind, list(_plain_values(column))) for name, column in columns.items()}
    return {"pandas": _pandas, "polars": _polars, "arrow": _arrow}[kind](plain)


def _require(kind: str) -> None:
    from importlib import import_module

    package = _PACKAGES[kind]
    try:
        import_module(package)
    except ImportError as error:
        raise MissingDependencyError(package, purpose=f"to_frame('{kind}')", install=_INSTALL[kind]) from error


def _plain_values(column: FrameColumn) -> Iterable[Any]:
    makers = {"text": str, "number": float, "count": int, "flag": bool}
    make = makers[column.kind]
    for value in column.values:
        none = value is None or (isinstance(value, float) and math.isnan(value))
        yield None if none else make(value)


def _pandas(columns: Mapping[str, FrameColumn]) -> Any:
    import pandas as pd

    return pd.DataFrame({name: pd.array(one.values, dtype=_PANDAS[one.kind]) for name, one in columns.items()})


def _polars(columns: Mapping[str, FrameColumn]) -> Any:
    import polars as pl

    types = {"text": pl.String, "number": pl.Float64, "count": pl.Int64, "flag": pl.Boolean}
    return pl.DataFrame([pl.Series(name, one.values, types[one.kind]) for name, one in columns.items()])


def _arrow(columns: Mapping[str, FrameColumn]) -> Any:
    import pyarrow as pa

    types = {"text": pa.string(), "number": pa.float64(), "count": pa.int64(), "flag": pa.bool_()}
    return pa.table({name: pa.array(one.values, types[one.kind]) for name, one in columns.items()})
