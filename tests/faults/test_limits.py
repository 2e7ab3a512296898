"""Limits of the machine: too little memory while reading, and stores of earlier schemas that two processes open."""

import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from auepora_eval.store import RunStore
from auepora_eval.store.schema import MIGRATIONS, schema_version
from helpers.faults import IS_COMPLETE, problem_of, rounds
from helpers.forks import forked
from helpers.requirements import REPO

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GOLDEN = REPO / "tests" / "golden" / "store"
MEGABYTE = 2**20
LIMITS = range(260, 1060, 80) if IS_COMPLETE else (300,)
"""Megabytes of memory."""


def write_large(path: Path, size: int) -> None:
    """A dataset with few samples and long texts."""
    with path.open("w") as file:
        for number in range(size // MEGABYTE):
            text = f"word{number} " * (MEGABYTE // 8)
            file.write(
                f'{{"sample_id": "q{number}", "query": "Who?", "relevant_docs": [{{"doc_id": "d", "text": "{text}"}}]}}\n'
            )


def test_too_little_memory_while_reading(tmp_path: Path) -> None:
    """Whatever the limit, a command ends with a line, and with a result that another run would give, too."""
    size = 60 if IS_COMPLETE else 20
    write_large(tmp_path / "data.jsonl", size * MEGABYTE)
    outputs = "".join(f'{{"sample_id": "q{number}", "retrieved": ["d"]}}\n' for number in range(size))
    (tmp_path / "outputs.jsonl").write_text(outputs)
    command = [sys.executable, "-m", "auepora_eval", "score", "data.jsonl", "outputs.jsonl", "-m", "recall@2"]
    codes = set()
    for limit in LIMITS:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit * MEGABYTE,) * 2),  # type: ignore[misc]
        )
        codes.add(done.returncode)
        if "import" in done.stderr and "Traceback" in done.stderr:
            continue  # not even the program itself has room
        assert problem_of(done.returncode, done.stderr) is None, (limit, done.stderr[-2000:])
    assert codes


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_two_processes_open_an_old_store(version: int, tmp_path: Path) -> None:
    """Each step of the migration is applied once, and both see the runs."""
    for attempt in range(rounds(10, 2)):
        path = tmp_path / f"store-{attempt}.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((GOLDEN / f"schema_{version}.sql").read_text())
        reading, writing = os.pipe()

        def look(path: Path = path, writing: int = writing) -> None:
            with RunStore.open(path) as store:
                os.write(writing, f"{sorted(record.run_id for record in store.runs())}\n".encode())

        children = [forked(look) for _ in range(2)]
        os.close(writing)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
        with os.fdopen(reading) as lines:
            first, second = lines.read().splitlines()
        assert first == second
        with RunStore.open(path) as store, store._database.read() as current:
            assert schema_version(current) == len(MIGRATIONS)
