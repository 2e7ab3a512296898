"""Results of metrics in the store: one row per metric and signature, scores as columns of bytes."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, RowMapping, func, select

from ..core.family import FamilyKey
from ..core.results import Results
from ..core.scores import Outcomes, Score, Scores
from ..core.types import MetricResult, TargetCategory
from ..errors import UnknownMetricError
from ..runtime.secrets import Secrets
from .connect import Database
from .records import clean_column_text, from_iso, from_json, score_key, to_iso, to_json, utc_now
from .schema import scores as table

# --- scores as columns of bytes --------------------------------------------------------------------------------------

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


_REPEAT_FIELDS = tuple(name for name in ScoreColumns.__slots__ if name != "repeats")


def encode_scores(scores: Scores) -> ScoreColumns:
    """Encode scores as columns. Keys that are not valid JSON are omitted."""
    stats = scores.stats
    return ScoreColumns(
        rows=len(scores),
        values=_to_bytes(scores.values, _VALUES),
        status=_to_bytes(scores.status, _STATUS),
        reason_codes=_to_bytes(scores.reason_codes, _CODES),
        reasons=msgspec.json.encode(scores.reason_names).decode(),
        statistics=None if stats is None else _to_bytes(stats, _VALUES),
        width=None if stats is None else stats.shape[1],
        keys_json=None if scores.keys is None else _keys_to_json(scores.keys),
        repeats=None if scores.repeats is None else pack_repeats(map(encode_scores, scores.repeats)),
    )


def pack_repeats(each: Iterable[ScoreColumns]) -> bytes:
    """Encode the columns of several repeats."""
    return msgspec.msgpack.encode([[getattr(one, name) for name in _REPEAT_FIELDS] for one in each])


def unpack_repeats(data: bytes) -> list[ScoreColumns]:
    """Decode the columns of each repeat."""
    return [ScoreColumns(*one) for one in msgspec.msgpack.decode(data)]


def decode_scores(columns: ScoreColumns) -> Scores:
    """Decode scores from their columns."""
    stats = None
    if columns.statistics is not None:
        stats = _from_bytes(columns.statistics, _VALUES, np.float64).reshape(columns.rows, columns.width or 0)
    return Scores(
        _from_bytes(columns.values, _VALUES, np.float64),
        _from_bytes(columns.status, _STATUS, np.uint8),
        _from_bytes(columns.reason_codes, _CODES, np.int16),
        tuple(msgspec.json.decode(columns.reasons)),
        stats,
        None if columns.keys_json is None else _keys_from_json(columns.keys_json),
        None if columns.repeats is None else tuple(map(decode_scores, unpack_repeats(columns.repeats))),
    )


def scores_from_list(values: Sequence[float | None]) -> Scores:
    """Convert a list of numbers to scores; ``None`` means not scored."""
    numbers = [None if value is None or math.isnan(value) else value for value in values]
    return Scores.from_list([Score.skip("not_scored") if value is None else Score(value) for value in numbers])


def _to_bytes(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> bytes:
    return np.ascontiguousarray(array, dtype=dtype).tobytes()


def _from_bytes(data: bytes, stored: np.dtype[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.frombuffer(data, dtype=stored).astype(kind)  # a copy, which is writable


# --- keys: JSON has only lists, so other types are lists that begin with the name of the type ------------------------


class _NotJsonError(TypeError):
    """A key that is not valid JSON."""


def _keys_to_json(keys: tuple[Any, ...]) -> str | None:
    try:
        return msgspec.json.encode([_encode_key(key) for key in keys]).decode()
    except (_NotJsonError, UnicodeEncodeError, RecursionError, OverflowError):
        return None


def _keys_from_json(text: str) -> tuple[Any, ...]:
    return tuple(map(_decode_key, msgspec.json.decode(text)))


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
    items = list(map(_decode_key, inner))
    if kind == "family":
        return FamilyKey(*items)
    if kind == "scores":
        return decode_scores(ScoreColumns(*items))
    return tuple(items) if kind == "tuple" else items


# --- results: one row per metric and signature -----------------------------------------------------------------------

_COLUMNS = tuple(column.name for column in table.columns)
_KEY = ("run_id", "score_key")


def _upsert() -> str:
    quoted = ", ".join(f'"{name}"' for name in _COLUMNS)
    marks = ", ".join("?" * len(_COLUMNS))
    updates = ", ".join(f'"{name}" = excluded."{name}"' for name in _COLUMNS if name not in _KEY)
    # All names come from the table.
    return (
        f"INSERT INTO eval_scores ({quoted}) VALUES ({marks}) ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {updates}"  # noqa: S608
    )


_UPSERT = _upsert()


def write_results(
    database: Database,
    connection: Connection,
    run_id: str,
    results: Sequence[MetricResult],
    *,
    secrets: Secrets,
    reducers: Mapping[str, str],
    position: int | None = None,
) -> None:
    """Write results; one of the same name and signature is replaced. Without a position, new names are appended."""
    existing = connection.execute(
        select(table.c.name, func.min(table.c.position), func.max(table.c.computed_at))
        .where(table.c.run_id == run_id)
        .group_by(table.c.name)
    ).all()
    positions = {name: index for name, index, _ in existing}
    # Later than every existing result, whatever the clock says: the latest result of a name counts.
    computed = max([utc_now(), *(from_iso(moment) + timedelta(microseconds=1) for _, _, moment in existing)])
    for result in results:
        index = position
        if index is None:
            index = positions.setdefault(result.name, max(positions.values(), default=-1) + 1)
        reducer = reducers.get(result.name, "")
        row = _row(run_id, result, index, to_iso(computed), secrets, reducer)
        database.execute_many(connection, _UPSERT, [row])  # one by one: the scores of a row may be large
        computed += timedelta(microseconds=1)


def read_results(
    connection: Connection, run_id: str, *, every_signature: bool, sample_ids: Sequence[str] = ()
) -> Results:
    """Read the results of a run by position; the latest of each name, or all, oldest first."""
    keys = (
        select(table.c.name, table.c.signature, table.c.computed_at)
        .where(table.c.run_id == run_id)
        .order_by(table.c.position, table.c.name, table.c.computed_at)
    )
    listed = list(connection.execute(keys))
    latest = {name: max(moment for other, _, moment in listed if other == name) for name, _, _ in listed}
    chosen = [(name, signature) for name, signature, moment in listed if every_signature or moment == latest[name]]
    found = [read_one(connection, run_id, name, signature) for name, signature in chosen]
    return Results(found, sample_ids=sample_ids, run_id=run_id)


def read_summaries(connection: Connection, run_id: str) -> list[MetricResult]:
    """Read all results of a run without their scores, by position, those of a name oldest first."""
    columns = [column for column in table.columns if column.name not in ScoreColumns.__slots__]
    query = (
        select(*columns).where(table.c.run_id == run_id).order_by(table.c.position, table.c.name, table.c.computed_at)
    )
    return [_result_from_row(row) for row in connection.execute(query).mappings()]


def read_result(connection: Connection, run_id: str, name: str) -> MetricResult:
    """Read the result of that name (the latest) or signature."""
    keys = (
        select(table.c.name, table.c.signature)
        .where(table.c.run_id == run_id)
        .order_by(table.c.computed_at.desc(), table.c.name)
    )
    listed = [(one, signature) for one, signature in connection.execute(keys)]
    for key in listed:
        if name == key[0] or (name and name == key[1]):
            return read_one(connection, run_id, *key)
    raise UnknownMetricError(name, {one for one, _ in listed})


def read_one(connection: Connection, run_id: str, name: str, signature: str) -> MetricResult:
    """Read the result of that name and signature, which must exist."""
    where = (table.c.run_id == run_id) & (table.c.score_key == score_key(name, signature))
    return _result_from_row(connection.execute(select(table).where(where)).mappings().one())


# --- one result ------------------------------------------------------------------------------------------------------


def _row(
    run_id: str, result: MetricResult, position: int, computed_at: str, secrets: Secrets, reducer: str
) -> tuple[Any, ...]:
    document = secrets.value(_to_document(result))
    columns = None
    if result.scores is not None:
        scores = result.scores if isinstance(result.scores, Scores) else scores_from_list(result.scores)
        columns = encode_scores(scores)
        if not _same_outcomes(result.outcomes, scores):
            document["outcomes"] = None if result.outcomes is None else secrets.value(list(result.outcomes))
    name, signature = (clean_column_text(secrets.text(one)) for one in (result.name, result.signature or ""))
    values = {
        "run_id": run_id,
        "score_key": score_key(name, signature),
        "name": name,
        "signature": signature,
        "target": result.target.name,
        "reducer": reducer,
        "position": position,
        "computed_at": computed_at,
        "result_json": to_json(document),
        "rows": 0,
    }
    if columns is not None:
        columns = _redact(columns, secrets)
        values.update((name, getattr(columns, name)) for name in ScoreColumns.__slots__)
    return tuple(values.get(name) for name in _COLUMNS)


def _redact(columns: ScoreColumns, secrets: Secrets) -> ScoreColumns:
    """Redact secrets in the keys of the columns and of their repeats."""
    if columns.keys_json is not None and secrets.in_bytes(columns.keys_json.encode()):
        columns = replace(columns, keys_json=to_json(secrets.value(from_json(columns.keys_json))))
    if columns.repeats is not None and secrets.in_bytes(columns.repeats):
        each = (_redact(one, secrets) for one in unpack_repeats(columns.repeats))
        columns = replace(columns, repeats=pack_repeats(each))
    return columns


def _same_outcomes(outcomes: Sequence[str] | None, scores: Scores) -> bool:
    """Whether outcomes equal those of the scores; not compared if they were derived from these scores."""
    if isinstance(outcomes, Outcomes) and getattr(outcomes, "_scores", None) is scores:
        return True
    return outcomes is not None and list(outcomes) == list(scores.outcomes)


def _result_from_row(row: RowMapping) -> MetricResult:
    document = from_json(row["result_json"])
    result = _from_document(document, row["name"], TargetCategory[row["target"]], row["signature"] or None)
    if row.get("values") is not None:
        scores = decode_scores(ScoreColumns(*(row[name] for name in ScoreColumns.__slots__)))
        result.scores = scores
        result.outcomes = document.get("outcomes", scores.outcomes)
    return result


def _to_document(result: MetricResult) -> dict[str, Any]:
    """Return a result as JSON values, without its scores."""
    (rendered,) = Results([MetricResult(result.name, result.target, 0.0, result.details)]).to_dict()["results"]
    document: dict[str, Any] = {"value": _number(result.value), "defined": bool(result.defined)}
    if rendered["details"]:
        document["details"] = rendered["details"]
    if result.interval is not None:
        document["interval"] = [_number(end) for end in result.interval]
    if result.slices:
        document["slices"] = {
            name: {str(group): _slice_to_document(result, inner) for group, inner in groups.items()}
            for name, groups in result.slices.items()
        }
    return document


def _slice_to_document(whole: MetricResult, inner: Any) -> dict[str, Any]:
    """Return one group of a slice: a result, or any other value of a user."""
    if not isinstance(inner, MetricResult):
        (rendered,) = Results([MetricResult("", whole.target, 0.0, {"other": inner})]).to_dict()["results"]
        return {"other": rendered["details"]["other"]}
    document = _to_document(inner)
    if inner.name != whole.name:
        document["name"] = inner.name
    if inner.target is not whole.target:
        document["target"] = inner.target.name
    if inner.signature != whole.signature:
        document["signature"] = inner.signature
    return document


def _from_document(
    document: Mapping[str, Any], name: str, target: TargetCategory, signature: str | None
) -> MetricResult:
    interval = document.get("interval")
    return MetricResult(
        name,
        target,
        float(document["value"]),
        document.get("details", {}),
        signature=signature,
        defined=document["defined"],
        interval=None if interval is None else (float(interval[0]), float(interval[1])),
        slices={
            slice_name: {group: _slice_from_document(part, name, target, signature) for group, part in groups.items()}
            for slice_name, groups in document.get("slices", {}).items()
        },
    )


def _slice_from_document(part: Mapping[str, Any], name: str, target: TargetCategory, signature: str | None) -> Any:
    if "other" in part:
        return part["other"]
    own = TargetCategory[part["target"]] if "target" in part else target
    return _from_document(part, part.get("name", name), own, part.get("signature", signature))


def _number(value: Any) -> float | str:
    """Return a number, as a string if it is not finite."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else repr(number)
