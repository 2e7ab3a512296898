"""Connections to SQLite and PostgreSQL, with errors that name the store and give advice."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ..errors import AueporaError, MissingDependencyError, StoreError
from ..io.codec import LineError
from ..runtime.files import is_writable, open_sqlite, sqlite_error_message
from ..runtime.secrets import Secrets

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
    return _postgresql_message(error, message, timeout)


def _postgresql_message(error: BaseException, message: str, timeout: float) -> str:
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

_BEGIN_OPTION = "auepora_begin"


class Database:
    """An open database: read and write transactions, with errors that name the store."""

    def __init__(self, engine: Engine, label: str, *, timeout: float, secrets: Secrets, read_only: bool) -> None:
        self.engine, self.label, self.read_only = engine, label, read_only
        self._timeout, self._secrets = timeout, secrets
        self._writing = threading.RLock()
        assert engine.dialect.dbapi is not None
        self._driver_error: type[Exception] = engine.dialect.dbapi.Error

    @property
    def is_postgresql(self) -> bool:
        """Whether the database is PostgreSQL."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read transaction."""
        with self._translate_errors(), self.engine.connect() as connection:
            try:
                yield connection
            except _DAMAGE as error:
                if isinstance(error, AueporaError) and not isinstance(error, LineError):
                    raise
                raise self._damaged(error) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a write transaction: committed at the end of the block, rolled back on an exception. One at a time."""
        if self.read_only:
            raise StoreError(self.label, "is read-only: nothing can be written to it; copy it, or change its rights")
        with (
            self._translate_errors(),
            self._writing,
            self.engine.connect() as connection,
            connection.execution_options(**{_BEGIN_OPTION: "BEGIN IMMEDIATE"}).begin(),
        ):
            yield connection

    def execute_many(self, connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement once per row, through the driver; ``?`` is a placeholder."""
        if rows:
            with closing(connection.connection.cursor()) as cursor:
                cursor.executemany(self._driver_sql(statement), list(rows))

    def fetch_first(self, connection: Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
        """Return the first row of a statement, through the driver: ten times as fast as a SQLAlchemy query."""
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(self._driver_sql(statement), values)
            found = cursor.fetchone()
        return None if found is None else tuple(found)

    def _driver_sql(self, statement: str) -> str:
        return statement.replace("?", "%s") if self.is_postgresql else statement

    def close(self) -> None:
        """Close all connections."""
        with self._translate_errors():
            self.engine.dispose()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._store_error(error.orig if error.orig is not None else error) from error
        except SQLAlchemyError as error:
            raise self._store_error(error) from error
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
        return _open_postgresql_store(f"postgresql+psycopg://{rest}", timeout=timeout)
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

    def open_one() -> sqlite3.Connection:
        return open_sqlite(path, timeout=timeout, read_only=read_only, synchronous="FULL")

    engine = create_engine(f"sqlite:///{label}", creator=open_one, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The driver starts no transaction by itself (isolation_level=None): this event does.
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN_OPTION, "BEGIN"))

    return Database(engine, label, timeout=timeout, secrets=Secrets(), read_only=read_only)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def _open_postgresql_store(text: str, *, timeout: float) -> Database:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The URL may contain a password: neither it nor the original error is shown.
        raise StoreError("postgresql://...", "is not a URL; write postgresql://user@host:5432/database") from None
    if url.password and "@" in f"{url.host}{url.database}":
        raise StoreError("postgresql://...", "is not a URL; in a user or password write @ as %40")
    label, secrets = _redact_url(url)
    try:
        import psycopg  # noqa: F401 - imported here for a helpful error
    except ImportError as error:
        raise MissingDependencyError(
            "psycopg", purpose="a store on PostgreSQL", install="'auepora-eval[postgres]'"
        ) from error
    arguments: dict[str, Any] = {"options": f"-c lock_timeout={max(1, round(timeout * 1000))}"}
    if "options" in url.query:
        arguments["options"] += f" {url.query['options']}"
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = 10
    engine = create_engine(url, pool_pre_ping=True, hide_parameters=True, connect_args=arguments)
    return Database(engine, label, timeout=timeout, secrets=secrets, read_only=False)


def _redact_url(url: URL) -> tuple[str, Secrets]:
    """Return the URL without its password and options, and the secrets in it."""
    passwords = [url.password, *(url.query.get(key) for key in ("password", "sslpassword"))]
    hidden = {str(password) for password in passwords if password}
    redacted = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    return redacted, Secrets(hidden | {unquote(one) for one in hidden})
