"""Stores of earlier versions are brought up to date with what they hold; later ones are refused."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, update

from auepora_eval.core.errors import StoreError
from auepora_eval.store import RunStore, migrations
from auepora_eval.store.connect import connect
from auepora_eval.store.migrations import MIGRATIONS, bring_up_to_date, schema_version
from auepora_eval.store.schema import metadata, versions
from forks import forked


def test_the_steps_lead_to_the_tables_of_today(store: RunStore) -> None:
    with store._database.read() as connection:
        found = inspect(connection)
        for table in metadata.sorted_tables:
            there = {column["name"]: column["nullable"] for column in found.get_columns(table.name)}
            assert there == {column.name: column.nullable for column in table.columns}
            keys = found.get_pk_constraint(table.name)["constrained_columns"]
            assert keys == [column.name for column in table.primary_key]


def _older(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE things (name TEXT)")
    connection.exec_driver_sql("INSERT INTO things VALUES ('kept')")


def _newer(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE things ADD COLUMN size INTEGER")


def _broken(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE half_done (name TEXT)")
    connection.exec_driver_sql("SELECT * FROM nowhere")


def test_an_older_store_is_brought_up_to_date_with_its_data(url: str) -> None:
    database = connect(url, create=True, timeout=5)
    bring_up_to_date(database, create=True, steps=[_older])
    with pytest.raises(StoreError):
        bring_up_to_date(database, create=True, steps=[_older, _newer, _broken])
    with database.read() as connection:  # each step on its own: what worked stays, what did not leaves nothing
        assert schema_version(connection) == 2
        assert not inspect(connection).has_table("half_done")
        assert connection.exec_driver_sql("SELECT name, size FROM things").all() == [("kept", None)]
    bring_up_to_date(database, create=True, steps=[_older, _newer])
    database.close()


def test_an_older_store_opens_as_any_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore.open(url) as store:
        run_id = store.create_run("old", [], dataset_name="d", plan={}).run_id
    later: Callable[[Connection], None] = _older
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, later))
    monkeypatch.setattr(bring_up_to_date, "__kwdefaults__", {"steps": (*MIGRATIONS, later)})
    with RunStore.open(url) as store:
        assert store.get(run_id).name == "old"
        with store._database.read() as connection:
            assert schema_version(connection) == 2


def test_a_newer_store_is_refused(url: str) -> None:
    with RunStore.open(url) as store, store._database.write() as connection:
        connection.execute(update(versions).values(version=7))
    with pytest.raises(StoreError, match="has schema 7, this version knows up to 1: upgrade auepora_eval"):
        RunStore.open(url)


def test_no_store_where_none_may_be_made(url: str, tmp_path: Path) -> None:
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


def test_several_processes_open_a_fresh_store_at_once(url: str) -> None:
    workers = [forked(partial(_open_and_write, url, number)) for number in range(5)]
    assert [os.waitpid(worker, 0)[1] for worker in workers] == [0] * 5
    with RunStore.open(url) as store:
        assert sorted(record.name for record in store.runs()) == [f"run {number}" for number in range(5)]
