"""Errors of databases name the store, and acknowledged data is never lost."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auepora_eval.core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.errors import MissingDependencyError, StoreError
from auepora_eval.store import RunStore, StoredOutput
from helpers.postgres_server import Server
from helpers.processes import Process
from helpers.requirements import need

SAMPLES = [EvaluationSample(f"q{number}", "?") for number in range(3)]


def outputs(count: int = 3, size: int = 10, start: int = 0) -> list[StoredOutput]:
    hits = [RetrievedDocument(Document("a", "t" * size), 0.5, 1)]
    return [StoredOutput(position, 0, f"q{position}", SystemOutputs(hits)) for position in range(start, start + count)]


def create_store(path: str | Path, count: int = 3) -> str:
    with RunStore.open(path) as store:
        run_id = store.create_run("one", SAMPLES, dataset_name="d", plan={}).run_id
        store.append(run_id, outputs(count))
    return run_id


# --- names that cannot be stores -------------------------------------------------------------------------------------

NAMES: list[tuple[str, str]] = [  # name, message
    ("nowhere/runs.sqlite", r"its folder .*nowhere does not exist; create it first"),
    (".", r"is a folder; name a file in it, such as runs.sqlite"),
    ("sqlite://", r"would be lost at the end of the process; name a file"),
    ("sqlite:///:memory:", r"would be lost at the end of the process"),
    ("mysql://host/x", r"store mysql://...: cannot be opened: a store is a file of SQLite or a postgresql:// URL"),
]


@pytest.mark.parametrize(("name", "message"), NAMES, ids=[name for name, _ in NAMES])
def test_invalid_targets(name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=message):
        RunStore.open(name)
    assert list(tmp_path.iterdir()) == []


def test_sqlite_url_and_unusual_file_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sqlite:///relative.sqlite", f"sqlite:///{tmp_path}/whole.sqlite", "od?d #1 é%20.sqlite"):
        create_store(name)
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"relative.sqlite", "whole.sqlite", "od?d #1 é%20.sqlite"}


# --- files that are broken -------------------------------------------------------------------------------------------


def test_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, and they are not a database.\n" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"notes.txt: is not a store: the file is no SQLite database"):
        RunStore.open(path)
    assert path.read_bytes() == before


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    run_id = create_store(path, 500)
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"runs.sqlite: is damaged"):
        read_and_write(path, run_id)


def test_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    run_id = create_store(path, 500)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreError, match=r"runs.sqlite: is damaged"):
        read_and_write(path, run_id)


def read_and_write(path: Path, run_id: str) -> None:
    with RunStore.open(path) as store:
        list(store.outputs(run_id))
        store.append(run_id, outputs(500, start=500))


def test_damaged_rows(store: RunStore) -> None:
    run_id = store.create_run("one", SAMPLES, dataset_name="d", plan={}).run_id
    store.append(run_id, outputs())
    with store._database.write() as connection:
        empty = "''::bytea" if store._database.is_postgresql else "X''"
        connection.execute(f"UPDATE eval_query_results SET outputs = {empty}")
        connection.execute(f"UPDATE eval_samples SET sample = {empty}")
    for read in (lambda: list(store.outputs(run_id)), lambda: store.samples(run_id), lambda: store.results(run_id)):
        with pytest.raises(StoreError, match="is damaged: what it holds cannot be read"):
            read()


def test_missing_text(store: RunStore) -> None:
    run_id = store.create_run("one", SAMPLES, dataset_name="d", plan={}).run_id
    store.append(run_id, outputs())
    with store._database.write() as connection:
        connection.execute("DELETE FROM eval_documents")
    assert len(list(store.outputs(run_id, texts=False))) == 3
    with pytest.raises(StoreError, match=r"is damaged: the text '.{22}' of a document is missing"):
        list(store.outputs(run_id))


# --- files that may not be written -----------------------------------------------------------------------------------


@contextmanager
def as_unprivileged_user() -> Iterator[Path]:
    """A folder of a user who is not root, for whom permissions apply."""
    folder = Path(tempfile.mkdtemp(prefix="auepora-rights-"))
    was_root = os.geteuid() == 0
    try:
        if was_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.parametrize("folder_too", [False, True], ids=["the file", "the file and its folder"])
def test_read_only_store(folder_too: bool) -> None:
    with as_unprivileged_user() as folder:
        path = folder / "runs.sqlite"
        run_id = create_store(path)
        path.chmod(0o444)
        if folder_too:
            folder.chmod(0o555)
        with RunStore.open(path) as store:
            assert len(list(store.outputs(run_id))) == 3
            assert store.samples(run_id) == SAMPLES
            with pytest.raises(StoreError, match=r"runs.sqlite: is read-only: nothing can be written to it"):
                store.append(run_id, outputs())
            with pytest.raises(StoreError, match=r"runs.sqlite: is read-only"):
                store.delete(run_id)


def test_unwritable_folder() -> None:
    with as_unprivileged_user() as folder:
        folder.chmod(0o555)
        with pytest.raises(StoreError, match=r"runs.sqlite: cannot be opened: check its folder, and the rights"):
            RunStore.open(folder / "runs.sqlite")


def test_unreadable_file() -> None:
    with as_unprivileged_user() as folder:
        path = folder / "runs.sqlite"
        create_store(path)
        path.chmod(0o000)
        with pytest.raises(StoreError, match=r"runs.sqlite: cannot be opened: check its folder, and the rights"):
            RunStore.open(path)


# --- others who write ------------------------------------------------------------------------------------------------

HOLD_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("free", flush=True)
"""
HOLD_POSTGRESQL = """
import psycopg, sys
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("LOCK TABLE eval_documents IN ACCESS EXCLUSIVE MODE")
    print("locked", flush=True)
    sys.stdin.readline()
print("free", flush=True)
"""


def test_store_locked_by_another_process(url: str) -> None:
    run_id = create_store(url)
    script = HOLD_POSTGRESQL if url.startswith("postgres") else HOLD_SQLITE
    command = [sys.executable, "-c", script, url]
    with (
        RunStore.open(url, timeout=0.2) as store,
        Process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StoreError, match=r"is locked by another process \(waited 0.2 s\); nothing was written"):
            store.append(run_id, outputs(3, start=3))
        other.stdin.write("go\n")
        other.stdin.flush()
        assert other.stdout.readline() == "free\n"
        assert store.counts(run_id) == (3, 0)
        store.append(run_id, outputs(3, start=3))
        assert len(list(store.outputs(run_id))) == 6


# --- no room ---------------------------------------------------------------------------------------------------------


def limit_pages(store: RunStore, pages: int) -> None:
    """Limit the size of the file, for the connection that is used again below."""
    with store._database.read() as connection:
        connection.driver.execute(f"PRAGMA max_page_count={pages}")


def test_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    run_id = create_store(path)
    with RunStore.open(path) as store:
        limit_pages(store, 40)
        with pytest.raises(StoreError, match=r"cannot grow: the disk is full; free some space and repeat"):
            store.append(run_id, outputs(1, 500_000, start=3))
        assert len(list(store.outputs(run_id))) == 3
        limit_pages(store, 1_000_000)
        store.append(run_id, outputs(1, 500_000, start=3))
        assert len(list(store.outputs(run_id))) == 4


LIMITED = """
import sys
from auepora_eval.errors import StoreError
sys.path.insert(0, sys.argv[3])
from test_driver_errors import outputs, RunStore
with RunStore.open(sys.argv[1]) as store:
    stored = 0
    try:
        for start in range(3, 100_000, 3):
            store.append(sys.argv[2], outputs(3, 20_000 + start, start=start))
            stored += 3
    except StoreError as error:
        print(stored, error)
"""


def test_file_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    run_id = create_store(path)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    command = [sys.executable, "-c", LIMITED, str(path), run_id, str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False, env=environment)
    found = re.fullmatch(r"(\d+) store .*runs.sqlite: cannot (grow|be read or written): .*\n", done.stdout)
    assert found, done.stdout + done.stderr
    with RunStore.open(path) as store:
        assert store.counts(run_id) == (3 + int(found[1]), 0)
        assert len(list(store.outputs(run_id))) == 3 + int(found[1])


# --- servers ---------------------------------------------------------------------------------------------------------


def test_server_restart(postgres_server: Server, postgres_url: str) -> None:
    run_id = create_store(postgres_url)
    with RunStore.open(postgres_url) as store:
        postgres_server.stop("immediate")
        try:
            with pytest.raises(StoreError, match=r"cannot be reached: is the server running\?"):
                store.append(run_id, outputs(3, start=3))
            with pytest.raises(
                StoreError, match=r"store postgresql://tester:\*\*\*@127.0.0.1:\d+/\w+: cannot be reached"
            ):
                RunStore.open(postgres_url)
        finally:
            postgres_server.start()
        assert store.counts(run_id) == (3, 0)
        store.append(run_id, outputs(3, start=3))
        assert len(list(store.outputs(run_id))) == 6


def test_server_that_aborts_a_transaction(postgres_server: Server, postgres_url: str) -> None:
    run_id = create_store(postgres_url)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'DATABASE'"

    def cut_off(store: RunStore) -> None:
        with store._database.write() as connection:
            postgres_server.execute(end.replace("DATABASE", postgres_url.rpartition("/")[2]))
            connection.execute("UPDATE eval_runs SET name = 'other'")

    with RunStore.open(postgres_url) as store:
        with pytest.raises(StoreError, match="cannot be reached"):
            cut_off(store)
        assert store.get(run_id).name == "one"


def test_wrong_password(postgres_server: Server, postgres_url: str) -> None:
    with pytest.raises(StoreError, match="rejected the login: check user and password") as caught:
        RunStore.open(postgres_server.url(postgres_url.rpartition("/")[2], password="wr0ng"))
    assert "wr0ng" not in str(caught.value)


def test_missing_database(postgres_server: Server) -> None:
    with pytest.raises(StoreError, match="does not exist: create the database first"):
        RunStore.open(postgres_server.url("nowhere"))


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_url_variants(postgres_server: Server, postgres_url: str, scheme: str) -> None:
    with RunStore.open(postgres_server.url(postgres_url.rpartition("/")[2], scheme=scheme)) as store:
        assert store.runs() == []
        assert repr(store) == f"RunStore({store.label!r})"
        assert "p4ss" not in repr(store)


def test_user_without_write_permission(postgres_server: Server, postgres_url: str) -> None:
    create_store(postgres_url)
    database = postgres_url.rpartition("/")[2]
    psycopg = need("psycopg")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'r34d'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    try:
        with RunStore.open(f"postgresql://reader:r34d@127.0.0.1:{postgres_server.port}/{database}") as store:
            run = store.find("latest")
            assert len(list(store.outputs(run.run_id))) == 3
            with pytest.raises(StoreError, match="denied permission: grant the user the right"):
                store.finish(run.run_id)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY reader")
            connection.execute("DROP ROLE reader")


def test_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'auepora-eval\[postgres\]'"):
        RunStore.open("postgresql://me@127.0.0.1/x")
