"""Stores of earlier versions are migrated with their data; those of later versions are rejected."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.errors import StoreError
from auepora_eval.store import RunStore, schema as migrations
from auepora_eval.store.connect import DatabaseConnection, connect
from auepora_eval.store.schema import (
    MIGRATIONS,
    StoredTable,
    decisions,
    documents,
    insert_statement,
    judgements,
    migrate,
    query_results,
    runs,
    samples,
    schema_version,
    scores,
)
from helpers.forks import forked


def test_migrations_give_the_current_schema(store: RunStore) -> None:
    with store._database.read() as connection:
        for table in (runs, query_results, samples, documents, scores, judgements, decisions):
            columns, key = columns_and_key(connection, table)
            assert columns == set(table.columns)
            assert key == list(table.key)


def columns_and_key(connection: DatabaseConnection, table: StoredTable) -> tuple[set[str], list[str]]:
    if not connection.is_postgresql:
        found = connection.records(f"PRAGMA table_info({table.name})")
        key = sorted((row["pk"], row["name"]) for row in found if row["pk"])
        return {row["name"] for row in found}, [name for _, name in key]
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = ?"
    parts = "SELECT column_name FROM information_schema.key_column_usage WHERE table_name = ? ORDER BY ordinal_position"
    names = {name for (name,) in connection.rows(columns, (table.name,))}
    return names, [name for (name,) in connection.rows(parts, (table.name,))]


def _older(connection: DatabaseConnection) -> None:
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.execute("INSERT INTO things VALUES ('kept')")


def _newer(connection: DatabaseConnection) -> None:
    connection.execute("ALTER TABLE things ADD COLUMN size INTEGER")


def _broken(connection: DatabaseConnection) -> None:
    connection.execute("CREATE TABLE half_done (name TEXT)")
    connection.execute("SELECT * FROM nowhere")


def test_older_store_is_migrated_with_its_data(url: str) -> None:
    database = connect(url, create=True, timeout=5)
    migrate(database, create=True, steps=[_older])
    with pytest.raises(StoreError):
        migrate(database, create=True, steps=[_older, _newer, _broken])
    with database.read() as connection:  # each step on its own: what worked stays, what did not leaves nothing
        assert schema_version(connection) == 2
        assert not connection.has_table("half_done")
        assert connection.rows("SELECT name, size FROM things") == [("kept", None)]
    migrate(database, create=True, steps=[_older, _newer])
    database.close()


def test_older_store_opens(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore.open(url) as store:
        run_id = store.create_run("old", [], dataset_name="d", plan={}).run_id
    later: Callable[[DatabaseConnection], None] = _older
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    monkeypatch.setattr(migrate, "__kwdefaults__", {"steps": (*MIGRATIONS, later)})
    with RunStore.open(url) as store:
        assert store.get(run_id).name == "old"
        with store._database.read() as connection:
            assert schema_version(connection) == len(MIGRATIONS) + 1


def test_results_of_schema_1(url: str) -> None:
    """Schema 1 keyed results by name and signature; they are kept by the migration, and can be replaced."""
    database = connect(url, create=True, timeout=5)
    migrate(database, create=True, steps=MIGRATIONS[:1])
    kept = [("recall@5", "recall@5|v1", 0.25), ("recall@5", "recall@5|empty:zero|v1", 0.5), ("mrr", "mrr|v1", 0.75)]
    insert = (
        'INSERT INTO eval_scores (run_id, name, signature, target, reducer, "position", computed_at, result_json, '
        "\"rows\", \"values\", status, reason_codes, reasons) VALUES ('run_old', ?, ?, 'RETRIEVAL_RELEVANCE', "
        "'mean', ?, ?, ?, 1, ?, ?, ?, '[\"\"]')"
    )
    with database.write() as connection:
        old = runs._replace(columns=tuple(OLD_RUN))
        connection.execute(insert_statement(old), list(OLD_RUN.values()))
        for position, (name, signature, value) in enumerate(kept):
            columns = (np.array([value]).tobytes(), b"\0", b"\0\0")
            result = f'{{"value": {value}, "defined": true}}'
            at = f"2026-01-01T00:00:0{position}.000000+00:00"
            connection.execute(insert, (name, signature, position, at, result, *columns))
    database.close()
    with RunStore.open(url) as store:
        with store._database.read() as connection:
            assert schema_version(connection) == len(MIGRATIONS)
        every = store.results("run_old", every_signature=True)
        assert sorted((one.name, one.signature, one.value) for one in every) == sorted(kept)
        assert [list(one.scores or ()) for one in every] == [[one.value] for one in every]
        assert [(one.name, one.value) for one in store.results("run_old")] == [("recall@5", 0.5), ("mrr", 0.75)]
        again = MetricResult("mrr", TargetCategory.RETRIEVAL_ACCURACY, 1.0, signature="mrr|v1")
        store.put_result("run_old", again)
        assert store.result("run_old", "mrr").value == 1.0
        assert len(store.results("run_old", every_signature=True)) == 3


OLD_RUN = {
    "run_id": "run_old",
    "name": "old",
    "status": "finished",
    "created_at": "2026-01-01T00:00:00.000000+00:00",
    "plan_json": "{}",
    "config_json": "{}",
    "dataset_name": "d",
    "fingerprint": "f",
    "num_samples": 0,
    "repeats": 1,
    "tags_json": "[]",
    "version": "0",
    "process": "elsewhere:1",
}


def test_newer_schema_is_rejected(url: str) -> None:
    with RunStore.open(url) as store, store._database.write() as connection:
        connection.execute("UPDATE eval_schema SET version = 7")
    with pytest.raises(
        StoreError, match=f"has schema 7, this version knows up to {len(MIGRATIONS)}: upgrade auepora_eval"
    ):
        RunStore.open(url)


def test_missing_store_without_create(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"does not exist; check the name|holds no runs; check the name"):
        RunStore.open(url, create=False)
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    with pytest.raises(StoreError, match="holds no runs; check the name, or make a run first"):
        RunStore.open(empty, create=False)
    RunStore.open(empty).close()
    RunStore.open(empty, create=False).close()


def _open_and_write(url: str, number: int) -> None:
    with RunStore.open(url) as store:
        store.create_run(f"run {number}", [], dataset_name="d", plan={})


def test_concurrent_creation(url: str) -> None:
    workers = [forked(partial(_open_and_write, url, number)) for number in range(5)]
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0] * 5
    with RunStore.open(url) as store:
        assert sorted(record.name for record in store.runs()) == [f"run {number}" for number in range(5)]


def test_foreign_database_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "app.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE customers (name TEXT)")
        other.commit()
    with pytest.raises(StoreError, match="something else"):
        RunStore.open(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
