"""The digest of the outputs of a run, stored when the run ends, so that answers that no metric reads can be checked."""

from __future__ import annotations

import hashlib
from typing import Any

from .connect import DatabaseConnection
from .records import from_json
from .rows import get_run, read_output_chunk


def outputs_digest(connection: DatabaseConnection, run_id: str) -> str:
    """The digest of all outputs of a run as they are stored: documents have hashes in place of texts."""
    found = hashlib.sha256()
    after: tuple[int, int] | None = (-1, -1)
    while after is not None:
        chunk, after = read_output_chunk(connection, run_id, after)
        for repeat, position, _, data in chunk:
            found.update(f"{repeat} {position} {len(data)} ".encode() + data)
    return found.hexdigest()


def stored_usage(connection: DatabaseConnection, run_id: str, *, to_change: bool = True) -> tuple[dict[str, Any], Any]:
    """The judge usage of a run with the digest that is stored beside it, and the scoring in progress."""
    get_run(connection, run_id, to_change=to_change)
    found = connection.rows("SELECT usage_json FROM eval_runs WHERE run_id = ?", (run_id,))
    usage = from_json(found[0][0] or "{}")
    return usage, usage.pop("in_progress", None)
