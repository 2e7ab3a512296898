"""SQLite stores that open quickly: migrating thousands of them, and compiling their statements, takes a minute."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine

from auepora_eval.store import runs
from auepora_eval.store.connect import Database, connect
from auepora_eval.store.schema import migrate


@contextmanager
def quick_new_stores() -> Iterator[None]:
    """Give a new SQLite store the tables that the migrations make, without the migrations."""

    def fill_and_migrate(database: Database, *, create: bool) -> None:
        if create and not database.is_postgresql and not database.read_only and _is_empty(database):
            with database.write() as connection:
                if not connection.exec_driver_sql(_COUNT).scalar_one():
                    with closing(connection.connection.cursor()) as cursor:  # the driver's own, which is faster
                        for statement in _recorded_statements():
                            cursor.execute(statement)
        migrate(database, create=create)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "migrate", fill_and_migrate)
        patch.setattr("auepora_eval.store.connect.create_engine", _make_engine)
        yield


def _make_engine(url: str, **options: Any) -> Engine:
    """An engine that shares its dialect and its compiled statements with those made before, as engines of one file do."""
    engine = create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        first = _first_engine()
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
    return engine


@cache
def _first_engine() -> Engine:
    engine = create_engine("sqlite://")
    engine.connect().close()  # reads the version of the driver into the dialect
    return engine


_COUNT = "SELECT count(*) FROM sqlite_master"


def _is_empty(database: Database) -> bool:
    with database.read() as connection:
        return not connection.exec_driver_sql(_COUNT).scalar_one()


@cache
def _recorded_statements() -> list[str]:
    """What makes the tables and rows of a migrated store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new.sqlite")
        database = connect(path, create=True, timeout=30.0)
        migrate(database, create=True)
        database.close()
        with closing(sqlite3.connect(path)) as connection:
            return [line for line in connection.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
