"""Write the runs of the recorded store, and read every row of a store in a form that is the same on every machine."""

import contextlib
import gzip
import hashlib
import importlib
import io
import json
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from auepora_eval import RunStore, run_system
from auepora_eval.cli.main import main
from auepora_eval.compare import compute_aggregate, store_aggregate
from auepora_eval.io.join import load_dataset
from helpers.golden import GOLDEN

DATA = GOLDEN / "store"
MODULE = "store_rag"
"""The user's code of the recorded runs."""

Row = dict[str, Any]
Tables = dict[str, list[Row]]

KEYS = {  # every table of a store, and the columns that order its rows
    "eval_schema": ("version",),
    "eval_runs": ("created_at", "run_id"),
    "eval_query_results": ("run_id", "repeat", "position"),
    "eval_samples": ("fingerprint", "position"),
    "eval_documents": ("hash",),
    "eval_scores": ("run_id", "position", "computed_at"),
    "eval_judgements": ("run_id", "score_key", "repeat", "position", "judge_repeat", "request"),
    "eval_decisions": ("recorded_at", "runs_json"),
}


# --- the project -----------------------------------------------------------------------------------------------------


def copy_project(folder: Path) -> None:
    """Copy the data, the plans and the code of the recorded runs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((DATA / "project").iterdir()):
        shutil.copyfile(path, folder / path.name.removesuffix(".txt" if path.name.endswith(".py.txt") else ""))


@contextlib.contextmanager
def in_project(folder: Path) -> Iterator[None]:
    """Work in the folder of a project; afterwards its module is forgotten, since the next project has it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [str(folder), *sys.path])
        for name in ("AUEPORA_STORE", "COLUMNS"):
            patch.delenv(name, raising=False)
        sys.modules.pop(MODULE, None)
        try:
            yield
        finally:
            sys.modules.pop(MODULE, None)


def auepora(*arguments: str) -> tuple[int, str]:
    """Run the command line in this process: exit code and standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue()


def calls() -> list[str]:
    """What the system and the critic were asked since the last call of this function."""
    log = Path("calls.log")
    found = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return found


def result(store: str, *arguments: str, measured: Sequence[str] = ("seconds",)) -> dict[str, Any]:
    """The exit code of a command, what was asked, and its JSON without the keys whose values are measured."""
    code, out = auepora(*arguments, "--store", store, "--json")
    asked = calls()
    return {"exit": code, **({"calls": asked} if asked else {}), "json": without(json.loads(out or "null"), measured)}


def without(value: Any, measured: Sequence[str] = ("seconds",)) -> Any:
    """A JSON value with ``None`` under every key whose value is measured: by default the seconds that a judge took."""
    if isinstance(value, dict):
        return {key: None if key in measured else without(inner, measured) for key, inner in value.items()}
    return [without(inner, measured) for inner in value] if isinstance(value, list) else value


# --- writing the runs ------------------------------------------------------------------------------------------------

COMMANDS: dict[str, list[str]] = {  # in this order
    "nightly": ["run", "nightly.yaml"],
    "nightly, worse": ["run", "nightly_worse.yaml", "--tag", "candidate", "--tag", "kept"],
    "another definition": ["rescore", "nightly", "-m", "ndcg@5", "-m", "chrf", "--conventions", "trec"],
    "some failed": ["run", "some_failed.yaml"],
    "all failed": ["run", "all_failed.yaml", "--keep-going"],
    "repeated": ["run", "repeated.yaml"],
    "interrupted": ["run", "interrupted.yaml"],
    "saved outputs": ["run", "saved.yaml"],
    "judged": ["run", "judged.yaml", "--limit", "5"],
    "golden queries": ["run", "chunks_1.yaml"],
    "golden queries, other chunks": ["run", "chunks_2.yaml"],
    "retriever and generator": ["run", "pair.yaml", "--limit", "6"],
    "another retriever and generator": ["run", "pair_b.yaml", "--limit", "6"],
    "swap replay": ["replay", "pair-a", "pair-b", "pair_b.yaml"],
    "noise among documents": ["run", "pair.yaml", "--perturb", "noise=0,0.5", "--limit", "4"],
    "false documents": ["run", "pair.yaml", "--perturb", "arms=none,original,edited", "--limit", "2"],
    "variants of queries": ["run", "variants.yaml"],
    "TREC files": ["run", "trec.yaml"],
    "a limit": ["run", "nightly.yaml", "--limit", "3", "--name", "short", "--no-gates"],
}
FIRST_COMMANDS = list(COMMANDS)[:11]
"""Those of the recorded PostgreSQL store."""
FIRST_RUNS = 10
"""How many runs they make."""


def write_runs(store: str, names: Sequence[str] = tuple(COMMANDS)) -> dict[str, Any]:
    """Write recorded runs into a store, in the current folder: exit codes, and how often something was asked."""
    done: dict[str, Any] = {}
    variants = ["--typo", "0.1", "--drop-words", "0.2", "--case", "upper", "--seed", "5"]
    code, _ = auepora("perturb", "few.jsonl", *variants, "-o", "variants.jsonl")
    done["perturb"] = {"exit": code, "sha256": sha256(Path("variants.jsonl").read_bytes())}
    for name in names:
        code, _ = auepora(*COMMANDS[name], "--store", store, "--json")
        done[name] = {"exit": code, "calls": len(calls())}
    with RunStore.open(store) as opened:
        for name in ("chunks-1", "chunks-2"):
            store_aggregate(name, compute_aggregate(name, store=opened), store=opened)
        if len(names) == len(COMMANDS):
            write_own_metric(opened)
            done["own metric"] = {"calls": len(calls())}
    return done


def write_own_metric(store: RunStore) -> None:
    """Write the run of a live system with a user's own metric, which no plan can name."""
    user = importlib.import_module(MODULE)
    run_system(
        user.Rag(model="quote-3"),
        load_dataset("questions.jsonl"),
        ["recall@3", user.AnswerLength(limit=12)],
        store=store,
        name="own-metric",
        top_k=3,
        slices=["labels.topic"],
        tags=["python"],
        config={"prompt_version": 4},
    )


# --- rows ------------------------------------------------------------------------------------------------------------


def sqlite_tables(path: Path) -> Tables:
    """Every row of a store in a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return _tables(connection.execute)


def postgres_tables(url: str) -> Tables:
    """Every row of a store on a server."""
    import psycopg

    with psycopg.connect(url) as connection:
        return _tables(connection.execute)


def _tables(execute: Callable[..., Any]) -> Tables:
    found: Tables = {}
    for table, keys in KEYS.items():
        cursor = execute(f"SELECT * FROM {table}")
        names = [one[0] for one in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        rows = [
            {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}
            for row in rows
        ]
        found[table] = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
    return found


_ID = re.compile(r"(?:run_)?[0-9A-HJKMNP-TV-Z]{26}")
_SWEEP = re.compile(r'"sweep":"(\w{26})"')
_SECONDS = re.compile(r'"seconds":[-+0-9.e]+')
_TIMINGS = re.compile(r'"t":\{[^{}]*\}')


def run_id(number: int) -> str:
    """The id that the run of this number has in the recorded store."""
    return f"run_{number:02d}{0:024d}"


def fixed(tables: Tables) -> Tables:
    """The same rows without what differs from one writing to the next.

    That is: ids of runs, times, the process, the version, the commit, seconds that a judge took, and the timings of
    calls that were measured, with the digest of outputs. Everything else stays as it was written.
    """
    ids = {row["run_id"]: run_id(number) for number, row in enumerate(tables["eval_runs"], 1)}
    sweeps = {found: None for row in tables["eval_runs"] for found in _SWEEP.findall(row["plan_json"])}
    ids.update({sweep: f"{number:026d}" for number, sweep in enumerate(sweeps, 1)})

    def text(value: str) -> str:
        value = _ID.sub(lambda found: ids.get(found[0], found[0]), value)
        return _SECONDS.sub('"seconds":0.0', value)

    def cell(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, bytes) and value[:1] in (b"{", b"["):
            return text(value.decode()).encode()
        return value

    made = {name: [{key: cell(value) for key, value in row.items()} for row in rows] for name, rows in tables.items()}
    for number, row in enumerate(made["eval_runs"], 1):
        row["created_at"] = f"2026-01-01T00:{number:02d}:00.000000+00:00"
        row["finished_at"] = row["finished_at"] and f"2026-01-01T00:{number:02d}:30.000000+00:00"
        row.update(process="recorded:1", version="0.0.0", commit_hash=None)
        usage = json.loads(row["usage_json"] or "{}")
        usage.pop("outputs_digest", None)  # of timings, too
        row["usage_json"] = json.dumps(usage, separators=(",", ":"), ensure_ascii=False) if usage else None
    numbers: dict[str, int] = {}
    for row in sorted(made["eval_scores"], key=lambda row: (row["run_id"], row["computed_at"])):
        number = numbers[row["run_id"]] = numbers.get(row["run_id"], 0) + 1
        row["computed_at"] = f"2026-01-01T01:00:00.{number:06d}+00:00"
    for number, row in enumerate(made["eval_decisions"], 1):
        row.update(recorded_at=f"2026-01-01T02:{number:02d}:00.000000+00:00", decision_key=f"{number:032d}")
    for row in made["eval_query_results"]:
        output = json.loads(row["outputs"])
        timings = output.get("t", {})
        if "f" in output or "generation" in timings:  # the others were given by the system and are fixed
            same = json.dumps(dict.fromkeys(timings, 0.5), separators=(",", ":"))
            row["outputs"] = _TIMINGS.sub(f'"t":{same}', row["outputs"].decode()).encode()
    return made


# --- a readable dump -------------------------------------------------------------------------------------------------


def readable(tables: Tables) -> dict[str, Any]:
    """The rows as plain JSON: numbers decoded, columns of JSON parsed, every other blob as the text it is."""
    return {
        name: [{key: _shown(key, value) for key, value in row.items()} for row in rows] for name, rows in tables.items()
    }


def sha256(data: bytes) -> str:
    """The first 16 digits of a digest."""
    return hashlib.sha256(data).hexdigest()[:16]


def _shown(column: str, value: Any) -> Any:
    if value is None:
        return None
    if column == "repeats" and isinstance(value, bytes):
        return [_repeat(one) for one in msgspec.msgpack.decode(value)]
    if column in ("values", "statistics"):
        return np.frombuffer(value, "<f8").tolist()
    if column == "status" and isinstance(value, bytes):
        return " ".join(map(str, np.frombuffer(value, "u1").tolist()))
    if column == "reason_codes":
        return " ".join(map(str, np.frombuffer(value, "<i2").tolist()))
    if column.endswith("_json") and column != "keys_json":
        return json.loads(value)
    if isinstance(value, bytes):
        return value.decode()
    return value


_OF_A_REPEAT = ("rows", "values", "status", "reason_codes", "reasons", "statistics", "width", "keys_json")
"""The order in which the columns of a repeat are stored."""


def _repeat(columns: Sequence[Any]) -> Row:
    return {name: _shown(name, value) for name, value in zip(_OF_A_REPEAT, columns, strict=True)}


# --- recording -------------------------------------------------------------------------------------------------------


def replace_rows(path: Path, tables: Mapping[str, Sequence[Row]]) -> None:
    """Put these rows in the place of those of a store in a file, and make it small."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for name, rows in tables.items():
            connection.execute(f"DELETE FROM {name}")
            for row in rows:
                insert_row(connection.execute, name, row)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")  # without files beside it
        connection.execute("VACUUM")


def insert_row(execute: Callable[..., Any], table: str, row: Row, mark: str = "?") -> None:
    """Insert one row into a table."""
    names, marks = ", ".join(f'"{key}"' for key in row), ", ".join([mark] * len(row))
    execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def save_store(path: Path) -> None:
    """Record a store in a file."""
    (DATA / "runs.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def copy_store(path: Path) -> None:
    """Copy the recorded store to a file."""
    path.write_bytes(gzip.decompress((DATA / "runs.db.gz").read_bytes()))


def sqlite_schema(path: Path) -> dict[str, Any]:
    """The tables and indexes of a store in a file, as SQL."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        version = connection.execute("SELECT version, deletions FROM eval_schema").fetchall()
        user_version = connection.execute("PRAGMA user_version").fetchone()[0]
    entries = [{"type": kind, "name": name, "table": table, "sql": sql} for kind, name, table, sql in rows]
    return {"user_version": user_version, "eval_schema": version, "sqlite_master": entries}
