"""Deleting runs, with the samples and texts that nobody else refers to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, delete, select, update

from .connect import Database
from .output_rows import read_output_chunk
from .packing import decode_packed, sample_text_keys
from .run_rows import require_run
from .sample_rows import sample_chunks
from .schema import documents, judgements, query_results, runs, samples, scores, versions

__all__ = ["delete_runs"]

_CHUNK_SIZE = 500


def delete_runs(database: Database, connection: Connection, run_ids: Sequence[str]) -> None:
    """Delete these runs and what only they refer to, while nobody else writes."""
    if database.is_postgresql:
        # Waits for every transaction that writes texts, and makes new ones wait; SQLite has one writer anyway.
        connection.exec_driver_sql("LOCK TABLE eval_documents IN SHARE ROW EXCLUSIVE MODE")
    for run_id in run_ids:
        require_run(connection, run_id)
    orphans = _orphaned_fingerprints(connection, run_ids)
    keys = {key for run_id in run_ids for key in _output_keys(connection, run_id)}
    keys |= {key for fingerprint in orphans for key in _sample_keys(connection, fingerprint)}
    for table in (query_results, scores, judgements, runs):
        for part in _chunks(run_ids):
            connection.execute(delete(table).where(table.c.run_id.in_(part)))
    for part in _chunks(orphans):
        connection.execute(delete(samples).where(samples.c.fingerprint.in_(part)))
    for part in _chunks(sorted(_unreferenced_keys(connection, keys))):
        connection.execute(delete(documents).where(documents.c.hash.in_(part)))
    connection.execute(update(versions).values(deletions=versions.c.deletions + 1))


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _CHUNK_SIZE] for start in range(0, len(items), _CHUNK_SIZE))


def _orphaned_fingerprints(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    gone = set(run_ids)
    known = list(connection.execute(select(runs.c.run_id, runs.c.fingerprint)))
    kept = {fingerprint for run_id, fingerprint in known if run_id not in gone}
    return sorted({fingerprint for run_id, fingerprint in known if run_id in gone} - kept)


def _unreferenced_keys(connection: Connection, keys: set[str]) -> set[str]:
    """Those of the keys that nothing in the store refers to; looks no further once all of them are found in use."""
    left = set(keys)
    if left:
        for (fingerprint,) in connection.execute(select(samples.c.fingerprint).distinct()).all():
            left.difference_update(_sample_keys(connection, fingerprint))
    for (run_id,) in connection.execute(select(runs.c.run_id)).all() if left else ():
        for key in _output_keys(connection, run_id):
            left.discard(key)
        if not left:
            break
    return left


def _sample_keys(connection: Connection, fingerprint: str) -> Iterator[str]:
    for rows in sample_chunks(connection, fingerprint):
        for data in rows:
            yield from sample_text_keys(data)


def _output_keys(connection: Connection, run_id: str) -> Iterator[str]:
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        rows, after = read_output_chunk(connection, run_id, after)
        for _, _, _, data in rows:
            yield from filter(None, decode_packed(data).texts or ())
