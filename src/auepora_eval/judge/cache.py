"""Cache of judgements in a SQLite file, keyed by a digest of everything that was sent."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import StoreError
from ..core.secrets import Secrets
from ..core.sqlite_files import is_writable, open_sqlite, sqlite_error_message
from .critic import Critic, Judgement, JudgeRequest, LLMCritic, Usage, critic_name

__all__ = ["JudgementCache", "critic_cache_key", "request_digest"]

_APPLICATION = 0x4A554447  # marks the file as a cache of judgements
_VERSION = 1
_BUSY_TIMEOUT_S = 10.0
"""Seconds to wait for another process that writes."""
_KEY_VERSION = 1
"""Part of every digest: raised when what is sent for a request changes without showing in the request."""
_TABLE = """
CREATE TABLE IF NOT EXISTS judgements (
    digest BLOB PRIMARY KEY,
    critic TEXT NOT NULL,
    prompt_id TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    answer TEXT NOT NULL,
    raw TEXT NOT NULL,
    weighted REAL,
    mass REAL,
    repaired INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    created_at TEXT NOT NULL
)
"""
_FIND = """
SELECT answer, raw, weighted, mass, repaired, prompt_tokens, completion_tokens FROM judgements WHERE digest = ?
"""
_LATEST = "SELECT created_at FROM judgements WHERE critic = ? ORDER BY created_at DESC LIMIT 1000"
_MAX_PAUSE_S = 60.0
"""A longer pause between judgements ends the period whose throughput is measured."""
_MIN_JUDGEMENTS = 10
"""Fewer judgements do not show how fast a critic is."""


def critic_cache_key(critic: Critic, request: JudgeRequest) -> Any | None:
    """What the critic's reply depends on besides the request; ``None`` if the critic must not be cached."""
    key = getattr(critic, "cache_key", None)
    return key(request) if callable(key) else key


def request_digest(critic: Critic, request: JudgeRequest, known: Any | None) -> bytes | None:
    """A digest of everything the reply depends on; ``None`` if JSON cannot represent it."""
    sent = {
        "version": _KEY_VERSION,
        "critic": critic_name(critic),
        "known": known,
        "system": request.system,
        "prompt": request.prompt,
        "prompt_id": request.prompt_id,
        "schema": request.schema,
        "weighted": request.weighted,
        "repeat": request.repeat,
        "metadata": request.metadata if isinstance(critic, LLMCritic) else None,
    }
    try:
        text = _CANONICAL.encode(sent)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode()).digest()


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON can write")


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_as_dict)


class JudgementCache:
    """An open cache file. Several processes may share it; within a process only one thread may use it at a time.

    ``put`` only queues a judgement; ``flush`` writes the queue. Prompts are stored as digests only, and secrets are
    masked in what is stored.
    """

    def __init__(self, path: Path, *, secrets: Secrets | None = None) -> None:
        self._path, self._secrets = path, secrets or Secrets()
        self._pending: dict[bytes, tuple[Any, ...]] = {}
        if path.is_dir():
            raise StoreError(str(path), "is a folder; name a file in it, such as judgements.sqlite")
        if not path.absolute().parent.is_dir():
            raise StoreError(str(path), f"its folder {path.absolute().parent} does not exist; create it first")
        read_only = path.exists() and not is_writable(path)
        with self._store_errors():
            self._file = open_sqlite(path, timeout=_BUSY_TIMEOUT_S, read_only=read_only)
        try:
            with self._store_errors():
                self._prepare()
        except BaseException:
            self._file.close()
            raise

    def get(self, digest: bytes) -> Judgement | None:
        """The judgement with this digest, or ``None``."""
        row = self._pending.get(digest)
        if row is not None:
            row = row[4:11]
        else:
            with self._store_errors():
                row = self._file.execute(_FIND, (digest,)).fetchone()
        if row is None:
            return None
        answer, raw, weighted, mass, repaired, prompt_tokens, completion_tokens = row
        try:
            answer = json.loads(answer)
        except ValueError as error:
            raise StoreError(str(self._path), "is damaged: an answer in it is not JSON; delete the file") from error
        return Judgement(
            answer, Usage(prompt_tokens, completion_tokens), raw, weighted, mass, repaired=bool(repaired), cached=True
        )

    def put(self, digest: bytes, critic: Critic, request: JudgeRequest, judgement: Judgement) -> None:
        """Add a judgement: ``get`` finds it at once, and the next ``flush`` writes it."""
        answer = json.dumps(dict(judgement.answer), ensure_ascii=False, default=_as_dict)
        self._pending[digest] = (
            digest,
            critic_name(critic),
            request.prompt_id,
            request.repeat,
            self._secrets.text(answer),
            self._secrets.text(judgement.raw),
            judgement.weighted,
            judgement.mass,
            int(judgement.repaired),
            judgement.usage.prompt_tokens,
            judgement.usage.completion_tokens,
            datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def throughput(self, critic: str) -> float | None:
        """Judgements per second in the critic's last active period; ``None`` if there are too few."""
        with self._store_errors():
            rows = self._file.execute(_LATEST, (critic,)).fetchall()
        times = [datetime.fromisoformat(at) for (at,) in rows]
        count = 1
        while count < len(times) and (times[count - 1] - times[count]).total_seconds() <= _MAX_PAUSE_S:
            count += 1
        seconds = (times[0] - times[count - 1]).total_seconds() if times else 0.0
        return count / seconds if count >= _MIN_JUDGEMENTS and seconds > 1 else None

    @property
    def num_pending(self) -> int:
        """Number of judgements not written yet."""
        return len(self._pending)

    def flush(self, *, wait: bool = False) -> None:
        """Write pending judgements; without ``wait``, return at once if another process holds the lock."""
        if not self._pending:
            return
        with self._store_errors():
            if not wait:
                self._file.execute("PRAGMA busy_timeout = 0")
            try:
                self._file.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if wait or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                return
            finally:
                if not wait:
                    self._file.execute(f"PRAGMA busy_timeout = {int(1000 * _BUSY_TIMEOUT_S)}")
            try:
                # The first entry stays, so that repeated requests always get the same judgement.
                placeholders = ", ".join("?" * 12)
                self._file.executemany(
                    f"INSERT OR IGNORE INTO judgements VALUES ({placeholders})",  # noqa: S608 -- question marks alone
                    self._pending.values(),
                )
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise
        self._pending.clear()

    def close(self) -> None:
        """Write pending judgements and close the file."""
        try:
            self.flush(wait=True)
        finally:
            self._file.close()

    def _prepare(self) -> None:
        # One read transaction: a schema that another process is creating is seen complete or not at all.
        self._file.execute("BEGIN")
        try:
            tables, version, application = (
                self._file.execute(query).fetchone()[0]
                for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id")
            )
        finally:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
        if application != _APPLICATION and (tables or version or application):
            raise StoreError(str(self._path), "is a database without judgements; name another file")
        if version > _VERSION:
            raise StoreError(
                str(self._path), "was written by a newer version of this library; use that version, or another file"
            )
        if version == 0:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute(_TABLE)
            self._file.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._file.execute(f"PRAGMA user_version = {_VERSION}")
            self._file.execute("COMMIT")

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                str(self._path), sqlite_error_message(" ".join(str(error).split()), _BUSY_TIMEOUT_S)
            ) from error
