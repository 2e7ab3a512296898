"""Outputs in the store: written as they arrive, read in the order of the dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, select, tuple_

from ..core.secrets import Secrets
from ..core.types import SystemOutputs, UnknownRanking
from .connect import Database
from .packing import decode_packed, normalize_output, pack_output, unpack_output
from .records import StoredOutput, clean_column_text
from .schema import query_results as table
from .texts import TextKeys, TextReader

__all__ = [
    "count_outputs",
    "encode_output_rows",
    "read_output_chunk",
    "read_outputs",
    "stored_positions",
    "write_outputs",
]

_CHUNK = 1000
_MAX_ERROR_LENGTH = 500
_ID_FIELDS = ("sample_id", "doc_id", "parent_id", "citations")
"""Fields with ids, which are never redacted: scores depend on them."""
_INSERT_OUTPUT = (
    'INSERT INTO eval_query_results (run_id, "position", repeat, sample_id, error, outputs) VALUES (?, ?, ?, ?, ?, ?)'
)
_INSERT_NEW_OUTPUT = f"{_INSERT_OUTPUT} ON CONFLICT DO NOTHING"
_UPSERT_OUTPUT = (
    f'{_INSERT_OUTPUT} ON CONFLICT (run_id, repeat, "position") DO UPDATE '
    "SET sample_id = excluded.sample_id, error = excluded.error, outputs = excluded.outputs"
)
Row = tuple[str, int, int, str, str | None, bytes]
RepeatPosition = tuple[int, int]


def encode_output_rows(run_id: str, outputs: Iterable[StoredOutput], secrets: Secrets, keys: TextKeys) -> list[Row]:
    """Encode outputs as rows."""
    rows: list[Row] = []
    for stored in outputs:
        sample_id, output = stored.sample_id, stored.output
        if output.error is not None and (message := secrets.message(output.error)) != output.error:
            output = replace(output, error=message)
        data = pack_output(sample_id, output, keys)
        if secrets.in_bytes(data):
            data = pack_output(sample_id, _redact(secrets, output), keys)
        error = None if output.error is None else clean_column_text(output.error[:_MAX_ERROR_LENGTH])
        rows.append((run_id, stored.position, stored.repeat, clean_column_text(sample_id), error, data))
    return rows


def _redact(secrets: Secrets, output: SystemOutputs) -> SystemOutputs:
    redacted = secrets.value(normalize_output(output), but=_ID_FIELDS)
    if isinstance(output.retrieved, UnknownRanking):
        redacted.retrieved = UnknownRanking()
    return redacted


def write_outputs(database: Database, connection: Connection, rows: list[Row], *, replace: bool) -> None:
    """Write rows; an existing one is kept, or replaced."""
    database.execute_many(connection, _UPSERT_OUTPUT if replace else _INSERT_NEW_OUTPUT, rows)


def read_output_chunk(
    connection: Connection,
    run_id: str,
    after: RepeatPosition,
    *,
    repeat: int | None = None,
    position: int | None = None,
) -> tuple[list[tuple[int, int, str, bytes]], RepeatPosition | None]:
    """Return the next rows after a (repeat, position): repeat, position, id, bytes; and the next cursor."""
    query = (
        select(table.c.repeat, table.c.position, table.c.sample_id, table.c.outputs)
        .where(table.c.run_id == run_id, tuple_(table.c.repeat, table.c.position) > after)
        .order_by(table.c.repeat, table.c.position)
        .limit(_CHUNK)
    )
    if repeat is not None:
        query = query.where(table.c.repeat == repeat)
    if position is not None:
        query = query.where(table.c.position == position)
    rows = [(number, position, name, bytes(data)) for number, position, name, data in connection.execute(query)]
    return rows, (rows[-1][0], rows[-1][1]) if len(rows) == _CHUNK else None


def read_outputs(
    database: Database, run_id: str, *, repeat: int | None, texts: bool, position: int | None = None
) -> Iterator[StoredOutput]:
    """Yield the outputs of a run by repeat and position. No transaction is open between chunks."""
    reader = TextReader(database)
    after: RepeatPosition | None = (-1, -1)
    while after is not None:
        with database.read() as connection:
            rows, after = read_output_chunk(connection, run_id, after, repeat=repeat, position=position)
            packed = [decode_packed(data) for _, _, _, data in rows]
            found: Any = None
            if texts:
                found = reader.read(connection, (key for one in packed for key in one.texts or ()))
        for (number, index, name, _), one in zip(rows, packed, strict=True):
            yield StoredOutput(index, number, one.sample_id or name, unpack_output(one, found), one.texts)


def stored_positions(connection: Connection, run_id: str, *, failed: bool = False) -> set[RepeatPosition]:
    """Return the (position, repeat) of all outputs, or of the failed ones."""
    query = select(table.c.position, table.c.repeat).where(table.c.run_id == run_id)
    if failed:
        query = query.where(table.c.error.is_not(None))
    return {(position, repeat) for position, repeat in connection.execute(query)}


def count_outputs(connection: Connection, run_id: str, *, failed: bool = False) -> int:
    """Return the number of outputs, or of the failed ones."""
    query = select(func.count()).select_from(table).where(table.c.run_id == run_id)
    if failed:
        query = query.where(table.c.error.is_not(None))
    return int(connection.execute(query).scalar_one())
