"""Results of metrics in the store: one row per metric and signature, scores as columns of bytes.

``score_columns`` is imported where scores are read or written: listings need none, and so no NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from ..core.results import Results, to_json_value
from ..core.types import MetricResult, TargetCategory
from ..errors import UnknownMetricError
from ..runtime.secrets import Secrets
from .connect import Database
from .records import clean_column_text, from_iso, from_json, score_key, to_iso, to_json, utc_now
from .schema import insert_statement
from .schema import scores as table

_COLUMNS = tuple(column.name for column in table.columns)
_SUMMARY = (table.c.name, table.c.signature, table.c.target, table.c.result_json)
"""The columns of a result without its scores."""
_UPSERT = insert_statement(table, replace=True)


def write_results(
    database: Database,
    connection: Connection,
    run_id: str,
    results: Sequence[MetricResult],
    secrets: Secrets,
    reducers: Mapping[str, str],
    position: int | None,
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
    connection: Connection,
    run_id: str,
    *,
    every_signature: bool,
    sample_ids: Sequence[str] = (),
    with_scores: bool = True,
) -> Results:
    """Read the results of a run by position; the latest of each name, or all, oldest first."""
    query = (
        select(*_SUMMARY, table.c.computed_at)
        .where(table.c.run_id == run_id)
        .order_by(table.c.position, table.c.name, table.c.computed_at)
    )
    rows = connection.execute(query).mappings().all()
    latest = {row["name"]: max(other["computed_at"] for other in rows if other["name"] == row["name"]) for row in rows}
    chosen = [row for row in rows if every_signature or row["computed_at"] == latest[row["name"]]]
    found = [
        read_one(connection, run_id, row["name"], row["signature"]) if with_scores else _result_from_row(row)
        for row in chosen
    ]
    return Results(found, sample_ids=sample_ids, run_id=run_id)


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
    columns: dict[str, Any] = {}
    if result.scores is not None:
        from .score_columns import encode_result

        columns, derived = encode_result(result, secrets)
        if not derived:
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
        **columns,
    }
    return tuple(values.get(name) for name in _COLUMNS)


def _result_from_row(row: RowMapping) -> MetricResult:
    document = from_json(row["result_json"])
    result = _from_document(document, row["name"], TargetCategory[row["target"]], row["signature"] or None)
    if row.get("values") is not None:
        from .score_columns import ScoreColumns, decode_scores

        scores = decode_scores(ScoreColumns(*(row[name] for name in ScoreColumns.__slots__)))
        result.scores = scores
        result.outcomes = document.get("outcomes", scores.outcomes)
    return result


def _to_document(result: MetricResult) -> dict[str, Any]:
    """Return a result as JSON values, without its scores."""
    document: dict[str, Any] = {"value": _number(result.value), "defined": bool(result.defined)}
    if result.details:
        document["details"] = to_json_value(result.details)
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
        return {"other": to_json_value(inner)}
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
