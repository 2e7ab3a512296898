"""The base of ``RunStore``: opening, transactions, secrets; the digest of the outputs of a run beside its usage."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from ..runtime.secrets import Secrets
from .connect import Database, DatabaseConnection
from .records import clean_column_text, from_json, to_json
from .rows import get_run, named_run_id, read_output_chunk, require_run
from .schema import open_database
from .texts import KnownTexts, TextKeys, block_deletions


class OpenStore:
    """An open store: its database, the secrets that are not written, and the transactions of its methods."""

    records_decisions = True
    """Whether comparisons and gates that are computed with this object enter the register of decisions."""

    def __init__(
        self, target: str | Path | Database, *, secrets: Iterable[str] = (), create: bool = True, timeout: float = 30.0
    ) -> None:
        """Open the store at a path or a ``postgresql://`` URL, and apply migrations.

        ``secrets`` are strings that are written as ``***``, except in the ids of documents, citations and samples, on
        which scores depend. Without ``create`` a missing store is an error. ``timeout`` is the number of seconds to
        wait for another process that writes.
        """
        self._database = open_database(target, create=create, timeout=timeout)
        self._hidden: frozenset[str] = frozenset()
        self._known_texts = KnownTexts()
        self._lock = threading.RLock()
        self.hide(secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        """Add secrets that must not be written."""
        self._hidden |= frozenset(secrets)
        self._secrets = Secrets(self._hidden)
        self._record_secrets = Secrets(self._hidden, hide_passwords=True)
        self._keys = TextKeys(self._secrets)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._database.label!r})"

    @contextmanager
    def _reading(self, run_id: str) -> Iterator[tuple[DatabaseConnection, str]]:
        """Open a read transaction on an existing run, and give its id where it is named otherwise."""
        with self._database.read() as connection:
            yield connection, named_run_id(connection, run_id)

    @contextmanager
    def _writing(self, run_id: str | None = None, *, block_writers: bool = False) -> Iterator[DatabaseConnection]:
        """Open a write transaction, on an existing run if one is named, that blocks deletions of runs.

        With ``block_writers`` other writers of texts wait, too.
        """
        with self._database.write() as connection:
            block_deletions(connection, and_writers=block_writers)
            if run_id is not None:
                require_run(connection, run_id)
            yield connection

    @contextmanager
    def _writing_texts(self, run_id: str | None = None, *, block_writers: bool = False) -> Iterator[DatabaseConnection]:
        """Open a write transaction that may write texts; texts that are not in sorted order block other writers."""
        with self._writing(run_id, block_writers=block_writers) as connection:
            self._known_texts.begin(connection)
            yield connection
        self._known_texts.mark_committed()

    def _text(self, text: str) -> str:
        return clean_column_text(self._record_secrets.message(text))

    def _json(self, value: Any) -> str:
        return to_json(self._record_secrets.value(value))


# --- the judge usage of a run, and the digest of its outputs: answers that no metric reads can be checked -------------


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
