"""The outcomes of a metric as columns of bytes, and back."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.family import FamilyKey
from ..core.scores import Score, Scores

__all__ = [
    "ScoreColumns",
    "columns_of",
    "key_lines",
    "keys_of_lines",
    "packed_repeats",
    "scores_of",
    "scores_of_list",
    "unpacked_repeats",
]

_VALUES, _STATUS, _CODES = np.dtype("<f8"), np.dtype("u1"), np.dtype("<i2")


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """Outcomes as a row of ``eval_scores`` has them: little-endian numbers, one after the other."""

    rows: int
    values: bytes
    status: bytes
    reason_codes: bytes
    reasons: str
    statistics: bytes | None
    width: int | None
    keys_json: str | None
    repeats: bytes | None = None
    """The columns of each repeat, one after the other as msgpack, where they were kept apart."""


_OF_A_REPEAT = tuple(name for name in ScoreColumns.__slots__ if name != "repeats")


def columns_of(scores: Scores) -> ScoreColumns:
    """The columns of some outcomes. Keys that JSON cannot hold are left out."""
    stats = scores.stats
    return ScoreColumns(
        rows=len(scores),
        values=_bytes(scores.values, _VALUES),
        status=_bytes(scores.status, _STATUS),
        reason_codes=_bytes(scores.reason_codes, _CODES),
        reasons=msgspec.json.encode(scores.reason_names).decode(),
        statistics=None if stats is None else _bytes(stats, _VALUES),
        width=None if stats is None else stats.shape[1],
        keys_json=None if scores.keys is None else _keys_to_json(scores.keys),
        repeats=None if scores.repeats is None else packed_repeats(map(columns_of, scores.repeats)),
    )


def packed_repeats(each: Iterable[ScoreColumns]) -> bytes:
    """The columns of several repeats as one."""
    return msgspec.msgpack.encode([[getattr(one, name) for name in _OF_A_REPEAT] for one in each])


def unpacked_repeats(data: bytes) -> list[ScoreColumns]:
    """The columns of each repeat."""
    return [ScoreColumns(*one) for one in msgspec.msgpack.decode(data)]


def scores_of(columns: ScoreColumns) -> Scores:
    """The outcomes of their columns."""
    stats = None
    if columns.statistics is not None:
        stats = _array(columns.statistics, _VALUES, np.float64).reshape(columns.rows, columns.width or 0)
    return Scores(
        _array(columns.values, _VALUES, np.float64),
        _array(columns.status, _STATUS, np.uint8),
        _array(columns.reason_codes, _CODES, np.int16),
        tuple(msgspec.json.decode(columns.reasons)),
        stats,
        None if columns.keys_json is None else _keys_from_json(columns.keys_json),
        None if columns.repeats is None else tuple(map(scores_of, unpacked_repeats(columns.repeats))),
    )


def scores_of_list(values: Sequence[float | None]) -> Scores:
    """Outcomes of a plain list of numbers; ``None`` was not scored."""
    numbers = [None if value is None or math.isnan(value) else value for value in values]
    return Scores.from_list([Score.skip("not_scored") if value is None else Score(value) for value in numbers])


def _bytes(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _array(data: bytes, stored: np.dtype[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(data, dtype=stored).astype(kind)  # a copy, which may be written to


# --- keys: JSON has lists only, so what is none says so in its first place --------------------------------------------


class _NoJsonError(TypeError):
    """A key that JSON cannot hold."""


def _keys_to_json(keys: tuple[Any, ...]) -> str | None:
    try:
        return msgspec.json.encode([_told(key) for key in keys]).decode()
    except (_NoJsonError, UnicodeEncodeError, RecursionError, OverflowError):
        return None


def _keys_from_json(text: str) -> tuple[Any, ...]:
    return tuple(map(_made, msgspec.json.decode(text)))


def key_lines(keys: Iterable[Any]) -> list[str] | None:
    """Each key as JSON; ``None`` where there is one that JSON cannot hold."""
    try:
        return [msgspec.json.encode(_told(key)).decode() for key in keys]
    except (_NoJsonError, UnicodeEncodeError, RecursionError, OverflowError):
        return None


def keys_of_lines(lines: Iterable[str]) -> tuple[Any, ...]:
    """The keys that ``key_lines`` wrote."""
    return tuple(_made(msgspec.json.decode(line)) for line in lines)


def _told(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if kind is FamilyKey:
        return ["family", *map(_told, value)]
    if kind is tuple or kind is list:
        return [kind.__name__, *map(_told, value)]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if kind is Scores:
        columns = columns_of(value)
        if value.keys is not None and columns.keys_json is None:
            raise _NoJsonError
        return ["scores", *(_told(getattr(columns, name)) for name in ScoreColumns.__slots__)]
    raise _NoJsonError


def _made(value: Any) -> Any:
    if type(value) is not list:
        return value
    kind, *inner = value
    if kind == "float":
        return float(inner[0])
    if kind == "bytes":
        return base64.b64decode(inner[0])
    made = list(map(_made, inner))
    if kind == "family":
        return FamilyKey(*made)
    if kind == "scores":
        return scores_of(ScoreColumns(*made))
    return tuple(made) if kind == "tuple" else made
