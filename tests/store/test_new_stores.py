"""The stores that other tests begin with are those that the migrations make."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from auepora_eval.errors import StoreError
from auepora_eval.store import RunStore
from helpers.new_stores import quick_new_stores


def _description(path: Path) -> tuple[list[object], list[object]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
        pragmas = [
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "user_version", "page_size")
        ]
        return tables, [*pragmas, *connection.execute("SELECT * FROM eval_schema")]


def test_quick_stores_equal_migrated_ones(tmp_path: Path) -> None:
    migrated, quick = tmp_path / "migrated.sqlite", tmp_path / "quick.sqlite"
    RunStore.open(migrated).close()
    with quick_new_stores():
        RunStore.open(quick).close()
        RunStore.open(quick).close()
    assert _description(quick) == _description(migrated)
    assert _description(quick)[0]


def test_a_path_opens_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with RunStore(path) as store:
        assert store.file == path
        assert store.runs() == []
    with pytest.raises(StoreError, match=r"missing\.sqlite"):
        RunStore(str(tmp_path / "missing.sqlite"), create=False)
