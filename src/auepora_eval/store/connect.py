"""Connections to SQLite and PostgreSQL, with errors that name the store and give advice."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from ..errors import AueporaError, MissingDependencyError, StoreError
from ..io.codec import LineError
from ..runtime.files import is_writable
from ..runtime.secrets import Secrets
from ..runtime.sqlite_files import open_sqlite, sqlite_error_message

# --- messages for driver errors, with advice -------------------------------------------------------------------------

_CONNECTION_ERRORS = ("OperationalError", "InterfaceError")
"""Errors of a driver that cannot reach the server; other errors without a code concern the arguments."""
_DAMAGE = (ValueError, TypeError, AttributeError, LookupError)
"""Errors of reading a row whose values are not what was written: a text in place of bytes, a missing value."""


def driver_error_message(error: BaseException, *, timeout: float, secrets: Secrets) -> str:
    """Return the problem as one clause, without secrets."""
    message = secrets.text(" ".join(str(error).split()))
    if isinstance(error, sqlite3.Error):
        return sqlite_error_message(message, timeout)
    state = str(getattr(error, "sqlstate", None) or "")
    if state == "55P03":
        return f"is locked by another process (waited {timeout:g} s); nothing was written, repeat it later"
    if state.startswith("28") or "password authentication failed" in message or "no password supplied" in message:
        return f"rejected the login: check user and password ({message})"
    if state == "3D000" or ("database" in message and "does not exist" in message):
        return f"does not exist: create the database first ({message})"
    if state in ("53100", "53200"):
        return f"cannot grow: the server is out of space; what was stored before is safe ({message})"
    if state == "25006":
        return "is read-only: nothing can be written to it"
    if state == "42501":
        return f"denied permission: grant the user the right to create and write tables ({message})"
    unreachable = not state and any(kind.__name__ in _CONNECTION_ERRORS for kind in type(error).__mro__)
    if unreachable or state.startswith(("08", "57P")):
        return f"cannot be reached: is the server running? What was stored before is safe ({message})"
    return f"cannot be used: {message}"


# --- connections, with errors that name the store --------------------------------------------------------------------

_MAX_IDLE = 5
"""Number of connections that are kept open for the next transaction."""


@lru_cache(maxsize=256)
def _psycopg_statement(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


class DatabaseConnection:
    """A connection of a driver, in a transaction. ``?`` in a statement is the place of a value."""

    def __init__(self, driver: Any, *, is_postgresql: bool) -> None:
        self.driver, self.is_postgresql = driver, is_postgresql

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement that changes something; returns the number of rows that it changed."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self._driver_statement(statement), values)
            return int(cursor.rowcount)

    def execute_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement once per row."""
        if rows:
            with closing(self.driver.cursor()) as cursor:
                cursor.executemany(self._driver_statement(statement), list(rows))

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self._driver_statement(statement), values)
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def first(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query, if it has any."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self._driver_statement(statement), values)
            found: tuple[Any, ...] | None = cursor.fetchone()
        return found

    def records(self, statement: str, values: Sequence[Any] = ()) -> list[Record]:
        """Return the rows of a query as mappings from column to value."""
        with closing(self.driver.cursor()) as cursor:
            cursor.execute(self._driver_statement(statement), values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def has_table(self, name: str) -> bool:
        """Whether there is a table with this name."""
        if self.is_postgresql:
            found = "SELECT 1 FROM pg_catalog.pg_class WHERE relname = ? AND pg_catalog.pg_table_is_visible(oid)"
            return self.first(found, (name,)) is not None
        return name in self.file_tables()

    def file_tables(self) -> list[str]:
        """The tables of an SQLite file."""
        found = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in found if not name.startswith("sqlite_")]

    def _driver_statement(self, statement: str) -> str:
        return _psycopg_statement(statement) if self.is_postgresql else statement


Record = dict[str, Any]
"""A row as a mapping from column to value."""


class Database:
    """An open database: read and write transactions, with errors that name the store.

    Connections are reused; each is used by one thread at a time.
    """

    def __init__(
        self,
        open_driver: Callable[[], Any],
        label: str,
        *,
        driver_error: type[Exception],
        timeout: float,
        secrets: Secrets,
        read_only: bool = False,
    ) -> None:
        self.label, self.read_only = label, read_only
        self.is_postgresql = driver_error is not sqlite3.Error
        self._open_driver, self._driver_error = open_driver, driver_error
        self._timeout, self._secrets = timeout, secrets
        self._idle: list[Any] = []
        self._writing = threading.RLock()

    @contextmanager
    def read(self) -> Iterator[DatabaseConnection]:
        """Open a read transaction."""
        with self._translate_errors(), self._transaction("BEGIN") as connection:
            try:
                yield connection
            except _DAMAGE as error:
                if isinstance(error, AueporaError) and not isinstance(error, LineError):
                    raise
                raise self._damaged(error) from error

    @contextmanager
    def write(self) -> Iterator[DatabaseConnection]:
        """Open a write transaction: committed at the end of the block, rolled back on an exception. One at a time."""
        if self.read_only:
            raise StoreError(self.label, "is read-only: nothing can be written to it; copy it, or change its rights")
        with self._translate_errors(), self._writing, self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection
            connection.driver.commit()

    def close(self) -> None:
        """Close all connections that are not in use; others are closed at the end of their transaction."""
        with self._translate_errors():
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[DatabaseConnection]:
        """A connection in a transaction, which is rolled back unless the block commits it."""
        driver = self._take()
        try:
            if not self.is_postgresql:  # psycopg begins a transaction by itself
                driver.execute(begin)
            yield DatabaseConnection(driver, is_postgresql=self.is_postgresql)
        finally:
            self._put_back(driver)

    def _take(self) -> Any:
        """A connection that was used before, or a new one."""
        with suppress(IndexError):
            while True:
                driver = self._idle.pop()
                if self._is_alive(driver):
                    return driver
        return self._open_driver()

    def _is_alive(self, driver: Any) -> bool:
        """Whether the server still answers; files always do."""
        if not self.is_postgresql:
            return True
        try:
            driver.execute("SELECT 1")
            driver.rollback()
        except self._driver_error:
            driver.close()
            return False
        return True

    def _put_back(self, driver: Any) -> None:
        try:
            driver.rollback()
        except self._driver_error:  # it lost its server, or its file cannot be written
            driver.close()
            return
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(driver)
        else:
            driver.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except self._driver_error as error:
            raise self._store_error(error) from error
        except UnicodeDecodeError as error:  # the message of SQLite quotes what is damaged
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreError:
        return StoreError(self.label, f"is damaged: what it holds cannot be read ({error})")

    def _store_error(self, error: BaseException) -> StoreError:
        return StoreError(self.label, driver_error_message(error, timeout=self._timeout, secrets=self._secrets))


DEFAULT_STORE = "runs.sqlite"


def default_store(given: str | Path | None = None, planned: str | None = None) -> str:
    """The store to use: ``given``, else that of the plan, else ``$AUEPORA_STORE``, else ``runs.sqlite``.

    ``${NAME}`` in an address is replaced by an environment variable, as in plans.
    """
    if given is None and planned is not None:
        return planned
    chosen = str(given or os.environ.get("AUEPORA_STORE") or DEFAULT_STORE)
    return os.path.expandvars(chosen) if "://" in chosen else chosen


def store_file(target: str | Path) -> Path | None:
    """The file of a store at a path or URL; ``None`` for a server."""
    scheme, colon, rest = os.fspath(target).partition("://")
    if not colon:
        return Path(scheme)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def default_labels(where: str | Path) -> Path:
    """The labels folder of a store: ``$AUEPORA_LABELS``, else ``labels`` next to its file, or in the current folder."""
    if folder := os.environ.get("AUEPORA_LABELS"):
        return Path(folder).absolute()
    file = store_file(where)
    return (Path.cwd() if file is None else file.absolute().parent) / "labels"


def connect(target: str | Path, *, create: bool, timeout: float) -> Database:
    """Open the database at a path or URL; ``create``: whether a missing file may be created."""
    text = os.fspath(target)
    scheme, colon, rest = text.partition("://")
    if not colon:
        return _open_sqlite_store(Path(text), create=create, timeout=timeout)
    if scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        return _open_postgresql_store(rest, timeout=timeout)
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not path or path == ":memory:":
            raise StoreError(text, "would be lost at the end of the process; name a file, such as runs.sqlite")
        return _open_sqlite_store(Path(path), create=create, timeout=timeout)
    raise StoreError(f"{scheme}://...", "cannot be opened: a store is a file of SQLite or a postgresql:// URL")


# --- SQLite ----------------------------------------------------------------------------------------------------------


def _open_sqlite_store(path: Path, *, create: bool, timeout: float) -> Database:
    label = str(path)
    if path.is_dir():
        raise StoreError(label, "is a folder; name a file in it, such as runs.sqlite")
    if not path.exists():
        if not create:
            raise StoreError(label, "does not exist; check the name, or make a run first")
        if not path.absolute().parent.is_dir():
            raise StoreError(label, f"its folder {path.absolute().parent} does not exist; create it first")
    if path.exists() and not create and not path.stat().st_size:  # opening it would write a header
        raise StoreError(label, "is an empty file and holds no runs; check the name, or make a run first")
    read_only = path.exists() and not is_writable(path)

    connect = partial(open_sqlite, path, timeout=timeout, read_only=read_only, synchronous="FULL")
    return Database(connect, label, driver_error=sqlite3.Error, timeout=timeout, secrets=Secrets(), read_only=read_only)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


_ADDRESS = re.compile(
    r"(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?(?:\[(?P<ipv6>[^\]/?]+)\]|(?P<host>[^/:?]*))"
    r"(?::(?P<port>\d*))?(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
"""What follows ``postgresql://``. A password may hold any character but an @."""


def _open_postgresql_store(address: str, *, timeout: float) -> Database:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        # The address may contain a password: neither it nor the original error is shown.
        raise StoreError("postgresql://...", "is not a URL; write postgresql://user@host:5432/database")
    parts = found.groupdict(default="")
    parts["host"] += parts.pop("ipv6")
    if parts["password"] and "@" in parts["host"] + parts["database"]:
        raise StoreError("postgresql://...", "is not a URL; in a user or password write @ as %40")
    psycopg = MissingDependencyError.import_module(
        "psycopg", purpose="a store on PostgreSQL", install="'auepora-eval[postgres]'"
    )
    given = dict(parse_qsl(parts["query"]))
    lock_timeout = f"-c lock_timeout={max(1, round(timeout * 1000))}"
    settings = {
        "user": unquote(parts["user"]),
        "password": unquote(parts["password"]),
        "host": parts["host"],
        "port": parts["port"],
        "dbname": parts["database"],
        "connect_timeout": "10",
        **given,
        "options": f"{lock_timeout} {given.get('options', '')}",
    }
    arguments: dict[str, Any] = {key: value for key, value in settings.items() if value}
    passwords = [parts["password"], given.get("password"), given.get("sslpassword")]
    hidden = {password for password in passwords if password}
    return Database(
        partial(psycopg.connect, **arguments),
        _redacted_address(parts),
        driver_error=psycopg.Error,
        timeout=timeout,
        secrets=Secrets(hidden | {unquote(password) for password in hidden}),
    )


def _redacted_address(parts: Mapping[str, str]) -> str:
    """The address without its password and parameters."""
    password = ":***" if parts["password"] else ""
    user = f"{parts['user']}{password}@" if parts["user"] else ""
    host = f"[{parts['host']}]" if ":" in parts["host"] else parts["host"]
    port = f":{parts['port']}" if parts["port"] else ""
    return f"postgresql://{user}{host}{port}/{parts['database']}"
