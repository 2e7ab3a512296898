"""SQLite files: how they are opened, and what its errors mean."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

_ERROR_MESSAGES: tuple[tuple[str, str], ...] = (
    ("file is not a database", "is not a store: the file is no SQLite database; name another file"),
    ("malformed", "is damaged: restore it from a copy, or save what `sqlite3 FILE .recover` still finds"),
    ("could not decode", "is damaged: a text in it is not UTF-8; restore it from a copy"),
    ("disk is full", "cannot grow: the disk is full; free some space and repeat, what was stored before is safe"),
    ("readonly", "is read-only: nothing can be written to it; copy it, or change its rights"),
    ("unable to open", "cannot be opened: check its folder, and the rights to read and write it"),
    ("disk i/o error", "cannot be read or written: the disk reports an error; check its space and its health"),
)


def sqlite_error_message(message: str, timeout: float) -> str:
    """The error message for a problem reported by SQLite, after a wait of ``timeout`` seconds."""
    lower = message.lower()
    if "locked" in lower or "busy" in lower:
        return (
            f"is locked by another process (waited {timeout:g} s); nothing was written, "
            "repeat it when the other is done"
        )
    for sign, text in _ERROR_MESSAGES:
        if sign in lower:
            return text
    return f"cannot be used: {message}"


def open_sqlite(
    path: Path, *, timeout: float, read_only: bool = False, synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
) -> sqlite3.Connection:
    """Open the database in a file, which is created if necessary; readers and a writer do not block each other.

    The driver starts no transaction by itself. ``timeout`` is the number of seconds to wait for locks. A committed
    transaction survives the end of the process; with ``synchronous="FULL"`` also a power failure.
    """
    address = f"file:{quote(str(path.absolute()))}"
    if not read_only:
        connection = _connect(address, timeout, _enable_wal)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        return connection
    try:
        return _connect(f"{address}?mode=ro", timeout, _probe)
    except sqlite3.OperationalError:
        # Readers share a file next to the store, which may not be creatable here. Without a log there is no writer.
        if path.with_name(f"{path.name}-wal").exists():
            raise
        return _connect(f"{address}?mode=ro&immutable=1", timeout, _probe)


def _connect(address: str, timeout: float, prepare: Callable[[sqlite3.Connection, float], None]) -> sqlite3.Connection:
    connection = sqlite3.connect(
        address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True, cached_statements=256
    )
    try:
        prepare(connection, timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def _probe(connection: sqlite3.Connection, timeout: float) -> None:
    """Read something, since SQLite opens the file on first access."""
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _enable_wal(connection: sqlite3.Connection, timeout: float) -> None:
    """Enable write-ahead logging, so that readers and a writer do not block each other.

    SQLite's own timeout does not cover the moment when this is set on a new file.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
