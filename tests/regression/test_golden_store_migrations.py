"""Recorded stores of earlier schemas are brought up to date, and their runs are read as before.

The stores are SQL text: the tables that the first migrations make, with runs of the recorded store. Each is written
once and not again: it is what an earlier version wrote.
"""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from auepora_eval.store.connect import connect
from auepora_eval.store.schema import MIGRATIONS, migrate
from helpers.golden import check_golden, write_golden
from helpers.golden_store import (
    DATA,
    auepora,
    copy_store,
    in_project,
    insert_row,
    readable,
    sqlite_schema,
    sqlite_tables,
)

RUNS = {1: ("trec", "short"), 2: ("trec",), 3: ("judged",), 4: ("trec",)}
"""Which runs a store of each schema has."""


@pytest.mark.parametrize("version", list(RUNS))
def test_an_earlier_store_is_brought_up_to_date(version: int, tmp_path: Path) -> None:
    if write_golden() and not (DATA / f"schema_{version}.sql").exists():
        _record(version, tmp_path / "made.sqlite", tmp_path)
    old = tmp_path / "runs.sqlite"
    with contextlib.closing(sqlite3.connect(old)) as connection:
        connection.executescript((DATA / f"schema_{version}.sql").read_text(encoding="utf-8"))
    with in_project(tmp_path):
        shown = {run: json.loads(auepora("show", run, "--json")[1]) for run in RUNS[version]}
    schema = sqlite_schema(old)
    found = {
        "schema": schema["eval_schema"],
        "names": [entry["name"] for entry in schema["sqlite_master"]],
        "eval_scores": next(one["sql"] for one in schema["sqlite_master"] if one["name"] == "eval_scores"),
        "keys": [[row["name"], row["score_key"]] for row in readable(sqlite_tables(old))["eval_scores"]],
        "show": shown,
    }
    check_golden(f"store/schema_{version}.json", found)


def _record(version: int, path: Path, folder: Path) -> None:
    """Write the SQL of a store that has seen so many migrations."""
    database = connect(path, create=True, timeout=5)
    migrate(database, create=True, steps=MIGRATIONS[:version])
    database.close()
    copy_store(folder / "recorded.sqlite")
    tables = sqlite_tables(folder / "recorded.sqlite")
    chosen = [row for row in tables["eval_runs"] if row["name"] in RUNS[version]]
    ids, prints = {row["run_id"] for row in chosen}, {row["fingerprint"] for row in chosen}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name, rows in tables.items():
            if name in there and name != "eval_schema":
                known = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
                for row in rows:
                    if (
                        row.get("run_id", next(iter(ids))) in ids
                        and row.get("fingerprint", next(iter(prints))) in prints
                    ):
                        insert_row(connection.execute, name, {key: value for key, value in row.items() if key in known})
        connection.commit()
        (DATA / f"schema_{version}.sql").write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
