"""The recorded PostgreSQL store: the same rows are written as in SQLite, and a recorded dump is read as before."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.golden import check_golden, differences, write_golden
from helpers.golden_store import (
    DATA,
    FIRST_COMMANDS,
    FIRST_RUNS,
    Tables,
    copy_project,
    fixed,
    in_project,
    insert_row,
    postgres_tables,
    readable,
    result,
    run_id,
    write_runs,
)
from helpers.postgres_server import PASSWORD, Server

MEASURED = ("seconds", "finished_at")
"""The seconds that a judge took, and the end of a resumed run."""
DUMP = DATA / "postgres.sql.gz"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The folder of the project; the current folder."""
    copy_project(tmp_path / "project")
    with in_project(tmp_path / "project"):
        yield tmp_path / "project"


def test_the_same_rows_are_written(postgres_server: Server, postgres_url: str, project: Path) -> None:
    write_runs(postgres_url, FIRST_COMMANDS)
    tables = fixed(postgres_tables(postgres_url))
    if write_golden():
        _record(postgres_server, postgres_url, tables)
    _check_rows(tables)


def test_the_recorded_dump(postgres_url: str, project: Path) -> None:
    """Show, compare, rescore and resume give the recorded JSON; only what is missing is asked."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(gzip.decompress(DUMP.read_bytes()))
    _check_rows(postgres_tables(postgres_url))
    Path("mended").touch()
    found = {name: result(postgres_url, *arguments, measured=MEASURED) for name, arguments in COMMANDS.items()}
    check_golden("store/postgres.json", found)


COMMANDS: dict[str, list[str]] = {
    "runs": ["runs", "--status", "stopped"],
    "show": ["show", "run_01", "-m", "ndcg@5", "--per-query"],
    "show repeated": ["show", "repeated", "-m", "bleu", "--per-query"],
    "show judged": ["show", "judged", "--sample", "q02"],
    "show failures": ["show", "some-failed", "--failures"],
    "compare": ["compare", "run_01", "run_02", "-m", "token_f1", "--why"],
    "compare chunks": ["compare", "chunks-1", "chunks-2"],
    "rescore": ["rescore", "run_01", "-m", "rouge1_answer"],
    "rescore judged": ["rescore", "judged", "-m", "llm_faithfulness"],
    "resume": ["run", "interrupted.yaml", "--resume"],
    "show resumed": ["show", "interrupted", "-m", "recall@3", "--per-query"],
}


def _check_rows(tables: Tables) -> None:
    """Fail if the rows differ from those recorded of SQLite."""
    if write_golden():
        return
    recorded = json.loads((DATA / "rows.json").read_text(encoding="utf-8"))
    last = run_id(FIRST_RUNS)
    for name in ("eval_runs", "eval_query_results", "eval_scores", "eval_judgements"):
        recorded[name] = [row for row in recorded[name] if row["run_id"] <= last]
    actual = json.loads(json.dumps(readable(tables)).replace("NaN", '"nan"'))
    for name, column in (("eval_samples", "fingerprint"), ("eval_documents", "hash")):
        there = {row[column] for row in actual[name]}
        recorded[name] = [row for row in recorded[name] if row[column] in there]
    # Columns that a migration added stand in another order there.
    actual = {name: [dict(sorted(row.items())) for row in rows] for name, rows in actual.items()}
    recorded = {name: [dict(sorted(row.items())) for row in rows] for name, rows in recorded.items()}
    assert not list(differences(recorded, actual))


def _record(server: Server, url: str, tables: Tables) -> None:
    """Record the store as SQL that any version since 13 can load."""
    import psycopg

    with psycopg.connect(url) as connection:
        for name, rows in tables.items():
            connection.execute(f"DELETE FROM {name}")
            for row in rows:
                insert_row(connection.execute, name, row, "%s")
    command = [str(server.bin / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PGPASSWORD": PASSWORD})
    unwanted = ("SET ", "SELECT pg_catalog.set_config", "\\", "--")
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith(unwanted)]
    DUMP.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))
