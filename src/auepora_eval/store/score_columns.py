"""Scores as columns of bytes: what a row of ``eval_scores`` contains beside the summary of the result."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..core.family import FamilyKey
from ..core.scores import AnswerSpans, MarkedSpan, Outcomes, Scores
from ..core.types import MetricResult
from ..runtime.secrets import Secrets
from .records import from_json, to_json

_VALUES, _STATUS, _CODES = np.dtype("<f8"), np.dtype("u1"), np.dtype("<i2")


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """Scores as stored in a row of ``eval_scores``: arrays of little-endian numbers."""

    rows: int
    values: bytes
    status: bytes
    reason_codes: bytes
    reasons: str
    statistics: bytes | None
    width: int | None
    keys_json: str | None
    repeats: bytes | None = None
    """The columns of each repeat as msgpack, if they are stored separately."""


_repeat_columns = attrgetter(*(name for name in ScoreColumns.__slots__ if name != "repeats"))


def encode_scores(scores: Scores) -> ScoreColumns:
    """Encode scores as columns. Keys that are not valid JSON are omitted."""
    stats = scores.stats
    keys = None if scores.keys is None else encode_keys(scores.keys)
    return ScoreColumns(
        rows=len(scores),
        values=_to_bytes(scores.values, _VALUES),
        status=_to_bytes(scores.status, _STATUS),
        reason_codes=_to_bytes(scores.reason_codes, _CODES),
        reasons=msgspec.json.encode(scores.reason_names).decode(),
        statistics=None if stats is None else _to_bytes(stats, _VALUES),
        width=None if stats is None else stats.shape[1],
        keys_json=None if keys is None else f"[{','.join(keys)}]",
        repeats=None if scores.repeats is None else pack_repeats(map(encode_scores, scores.repeats)),
    )


def pack_repeats(each: Iterable[ScoreColumns]) -> bytes:
    """Encode the columns of several repeats."""
    return msgspec.msgpack.encode([_repeat_columns(columns) for columns in each])


def unpack_repeats(data: bytes) -> list[ScoreColumns]:
    """Decode the columns of each repeat."""
    return [ScoreColumns(*values) for values in msgspec.msgpack.decode(data)]


def decode_scores(columns: ScoreColumns) -> Scores:
    """Decode scores from their columns."""
    table = _from_bytes(columns.statistics or b"", _VALUES, np.float64)
    stats = None if columns.statistics is None else table.reshape(columns.rows, columns.width or 0)
    return Scores(
        _from_bytes(columns.values, _VALUES, np.float64),
        _from_bytes(columns.status, _STATUS, np.uint8),
        _from_bytes(columns.reason_codes, _CODES, np.int16),
        tuple(msgspec.json.decode(columns.reasons)),
        stats=stats,
        keys=None if columns.keys_json is None else tuple(map(_decode_key, msgspec.json.decode(columns.keys_json))),
        repeats=None if columns.repeats is None else tuple(map(decode_scores, unpack_repeats(columns.repeats))),
    )


def encode_result(result: MetricResult, secrets: Secrets) -> tuple[dict[str, Any], bool]:
    """Encode the scores of a result, and tell whether its outcomes are those of the scores."""
    assert result.scores is not None
    scores = result.scores if isinstance(result.scores, Scores) else scores_from_list(result.scores)
    columns = _redact(encode_scores(scores), secrets)
    values = {name: getattr(columns, name) for name in ScoreColumns.__slots__}
    return values, _same_outcomes(result.outcomes, scores)


def _redact(columns: ScoreColumns, secrets: Secrets) -> ScoreColumns:
    """Redact secrets in the keys of the columns and of their repeats."""
    if columns.keys_json is not None and secrets.in_bytes(columns.keys_json.encode()):
        columns = replace(columns, keys_json=to_json(secrets.value(from_json(columns.keys_json))))
    if columns.repeats is not None and secrets.in_bytes(columns.repeats):
        each = (_redact(repeat, secrets) for repeat in unpack_repeats(columns.repeats))
        columns = replace(columns, repeats=pack_repeats(each))
    return columns


def _same_outcomes(outcomes: Sequence[str] | None, scores: Scores) -> bool:
    """Whether outcomes equal those of the scores; not compared if they were derived from these scores."""
    if isinstance(outcomes, Outcomes) and getattr(outcomes, "_scores", None) is scores:
        return True
    return outcomes is not None and list(outcomes) == list(scores.outcomes)


def scores_from_list(values: Sequence[float | None]) -> Scores:
    """Convert a list of numbers to scores; ``None`` means not scored."""
    numbers = np.array(values, dtype=np.float64)  # NaN for None
    return Scores.of(numbers, skip={"not_scored": np.isnan(numbers)})


def _to_bytes(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _from_bytes(data: bytes, stored: np.dtype[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(data, dtype=stored).astype(kind)  # a copy, which is writable


# --- keys: JSON has only lists, so other types are lists that begin with the name of the type ------------------------


class _NotJsonError(TypeError):
    """A key that is not valid JSON."""


def encode_keys(keys: Iterable[Any]) -> list[str] | None:
    """Encode each key as JSON; ``None`` if one is not valid JSON."""
    try:
        return [msgspec.json.encode(_encode_key(key)).decode() for key in keys]
    except (_NotJsonError, UnicodeEncodeError, RecursionError, OverflowError):
        return None


def decode_keys(lines: Iterable[str]) -> tuple[Any, ...]:
    """Decode the keys of ``encode_keys``."""
    return tuple(_decode_key(msgspec.json.decode(line)) for line in lines)


def _encode_key(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if kind is FamilyKey:
        return ["family", *map(_encode_key, value)]
    if kind is AnswerSpans:
        return ["spans", *map(list, value.spans)]
    if kind is tuple or kind is list:
        return [kind.__name__, *map(_encode_key, value)]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if kind is Scores:
        columns = encode_scores(value)
        if value.keys is not None and columns.keys_json is None:
            raise _NotJsonError
        return ["scores", *(_encode_key(getattr(columns, name)) for name in ScoreColumns.__slots__)]
    raise _NotJsonError


def _decode_key(value: Any) -> Any:
    if type(value) is not list:
        return value
    kind, *inner = value
    if kind == "float":
        return float(inner[0])
    if kind == "bytes":
        return base64.b64decode(inner[0])
    if kind == "spans":
        return AnswerSpans(tuple(MarkedSpan(*span) for span in inner))
    items = list(map(_decode_key, inner))
    if kind == "family":
        return FamilyKey(*items)
    if kind == "scores":
        return decode_scores(ScoreColumns(*items))
    return tuple(items) if kind == "tuple" else items
