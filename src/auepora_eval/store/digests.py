"""The digest of the outputs of a run, stored when the run ends, so that answers that no metric reads can be checked."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection

from .rows import read_output_chunk


def outputs_digest(connection: Connection, run_id: str) -> str:
    """The digest of all outputs of a run as they are stored: documents have hashes in place of texts."""
    found = hashlib.sha256()
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        chunk, after = read_output_chunk(connection, run_id, after)
        for repeat, position, _, data in chunk:
            found.update(f"{repeat} {position} {len(data)} ".encode() + data)
    return found.hexdigest()
