"""SQLite stores that open quickly: migrating thousands of them takes a while."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import pytest

from auepora_eval.store import schema
from auepora_eval.store.connect import Database, connect
from auepora_eval.store.schema import migrate


@contextmanager
def quick_new_stores() -> Iterator[None]:
    """Give a new SQLite store the tables that the migrations make, without the migrations."""

    def fill_and_migrate(database: Database, *, create: bool) -> None:
        if create and not database.is_postgresql and not database.read_only and _is_empty(database):
            with database.write() as connection:
                if not connection.file_tables():
                    for statement in _recorded_statements():
                        connection.execute(statement)
        migrate(database, create=create)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "migrate", fill_and_migrate)
        yield


def _is_empty(database: Database) -> bool:
    with database.read() as connection:
        return not connection.file_tables()


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
