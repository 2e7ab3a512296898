"""Deletion of runs, with the samples and texts that no other run references."""

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
    """Delete these runs and the samples and texts that only they reference; other writers wait."""
    if database.is_postgresql:
        # Blocks transactions that write texts; SQLite has only one writer.
        connection.exec_driver_sql("LOCK TABLE eval_documents IN SHARE ROW EXCLUSIVE MODE")
    for run_id in run_ids:
        require_run(connection, run_id)
    orphans = _orphaned_fingerprints(connection, run_ids)
    keys = {key for run_id in run_ids for key in _output_keys(connection, run_id)}
    keys |= {key for fingerprint in orphans for key in _sample_keys(connection, fingerprint)}
    for table in (query_results, scores, judgements, runs):
        for chunk in _chunks(run_ids):
            connection.execute(delete(table).where(table.c.run_id.in_(chunk)))
    for chunk in _chunks(orphans):
        connection.execute(delete(samples).where(samples.c.fingerprint.in_(chunk)))
    for chunk in _chunks(sorted(_unreferenced_keys(connection, keys))):
        connection.execute(delete(documents).where(documents.c.hash.in_(chunk)))
    connection.execute(update(versions).values(deletions=versions.c.deletions + 1))


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    return (items[start : start + _CHUNK_SIZE] for start in range(0, len(items), _CHUNK_SIZE))


def _orphaned_fingerprints(connection: Connection, run_ids: Sequence[str]) -> list[str]:
    deleted = set(run_ids)
    known = list(connection.execute(select(runs.c.run_id, runs.c.fingerprint)))
    kept = {fingerprint for run_id, fingerprint in known if run_id not in deleted}
    return sorted({fingerprint for run_id, fingerprint in known if run_id in deleted} - kept)


def _unreferenced_keys(connection: Connection, keys: set[str]) -> set[str]:
    """Return the keys that nothing in the store references; stops when all of them are referenced."""
    remaining = set(keys)
    if remaining:
        for (fingerprint,) in connection.execute(select(samples.c.fingerprint).distinct()).all():
            remaining.difference_update(_sample_keys(connection, fingerprint))
    for (run_id,) in connection.execute(select(runs.c.run_id)).all() if remaining else ():
        for key in _output_keys(connection, run_id):
            remaining.discard(key)
        if not remaining:
            break
    return remaining


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
