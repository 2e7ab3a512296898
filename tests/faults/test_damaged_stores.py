"""Mutated stores: every command ends with an exit code and one line, never with a traceback."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store import RunStore
from helpers import stored_runs
from helpers.faults import mutate, problem_of, rounds, run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COMMANDS = (
    ("runs",),
    ("runs", "--json"),
    ("show", "latest"),
    ("show", "base", "--sample", "q00001"),
    ("queries", "base", "other"),
    ("compare", "base", "other", "--json"),
    ("explain", "base", "recall@2", "--query", "q00002"),
    ("export", "base", "-o", "exported"),
    ("gate", "base", "-g", "recall@2 >= 0.1"),
    ("report", "base", "other", "-o", "report.html"),
    ("rescore", "base", "-m", "mrr"),
    ("samples",),
)
Damage = Callable[[Path], object]
"""Damages a store at its path."""
VALUES: tuple[Any, ...] = (None, 0, -1, 2**40, 1.5, "", "text", "é" * 50, "{}", "[]", "null", '{"a": [1]}', b"", b"\xff\xfe\x00", b"\x28\xb5\x2f\xfd\x00")  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "runs.sqlite"
    with RunStore.open(path) as store:
        for name, second in (("base", "other"), ("other", "gold")):
            answers = lambda number, second=second: [second, "gold", f"d{number}"]  # noqa: E731
            stored_runs.run(store, name, stored_runs.samples(8), answers, ["recall@2", "mrr"])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


def change_cell(path: Path, rng: random.Random) -> str:
    """Put a value of another kind into a cell, or delete a row."""
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table' ORDER BY 1")
        ]
        table = rng.choice([name for name in tables if not name.startswith("sqlite_")])
        described = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        columns = [row[1] for row in described]
        keys = [row[1] for row in described if row[5]]
        where = " AND ".join(f'"{key}" = ?' for key in keys) or "1"
        column, value = rng.choice(columns), rng.choice((*VALUES, "bytes"))
        names = ", ".join(f'"{key}"' for key in keys) or "1"
        rows = connection.execute(f'SELECT {names} FROM "{table}" ORDER BY 1').fetchall()
        if not rows:
            return "nothing"
        chosen = rng.choice(rows) if keys else ()
        try:
            if rng.random() < 0.1:
                connection.execute(f'DELETE FROM "{table}" WHERE {where}', chosen)
            elif value == "bytes":
                ((old,),) = connection.execute(f'SELECT CAST("{column}" AS BLOB) FROM "{table}" WHERE {where}', chosen)
                kind = rng.choice(("TEXT", "BLOB"))
                new = mutate(old or b"x", rng)
                connection.execute(f'UPDATE "{table}" SET "{column}" = CAST(? AS {kind}) WHERE {where}', (new, *chosen))
            else:
                connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value, *chosen))
        except (sqlite3.IntegrityError, ValueError):
            pass
    return f"{table}.{column} = {value!r:.40}"


def test_damaged_stores(
    original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    problems, refused, unexpected = [], 0, 0
    count = rounds(2000, 80)
    for number in range(count):
        rng = random.Random(number)
        path = tmp_path / "runs.sqlite"
        if number % 3:
            shutil.copyfile(original, path)
            what = change_cell(path, rng)
        else:
            path.write_bytes(mutate(original.read_bytes(), rng))
            what = "bytes"
        command = rng.choice(COMMANDS)
        try:
            code, message = run_command(capsys, *command, "--store", str(path))
        except Exception as error:  # a warning that is an error, for example
            problems.append(f"{number} {command} {what}: {type(error).__name__}: {error}")
            continue
        refused += code == 2
        unexpected += code == 4
        found = problem_of(code, message)
        if found is not None:
            problems.append(f"{number} {' '.join(command)}, {what}: {found}")
        for old in tmp_path.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    assert problems == [], f"{len(problems)} problems:\n" + "\n".join(problems[:60])
    assert refused > 10
    assert unexpected <= 0.04 * count, "values that no check finds"


def set_cell(change: str, *values: object) -> Damage:
    """Damage by a statement of SQL."""

    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(change, values)

    return damage


def set_bytes(start: int, data: bytes) -> Damage:
    """Damage of bytes at a place of the file, from its end where the place is negative."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        place = start if start >= 0 else len(content) + start
        content[place : place + len(data)] = data
        path.write_bytes(content)

    return damage


def cut(proportion: float) -> Damage:
    """Only the beginning of the file is left."""
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * proportion)])


OUTPUTS = "UPDATE eval_query_results SET outputs = "
MOVE = "UPDATE eval_query_results SET position = 99 WHERE position = 7"


def move_and_delete(path: Path) -> None:
    """An output at another position, and one that is missing."""
    for statement in (MOVE, "DELETE FROM eval_query_results WHERE position = 5"):
        set_cell(statement)(path)


PAST_FINDS: list[tuple[Damage, str, int, str]] = [  # damage of a new store, command, exit code, why
    (set_cell("UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = 'eval_runs'", b"CREATE \xff\xfe"), "runs", 2, "a message of SQLite that is no UTF-8"),
    (set_cell(OUTPUTS + "CAST(outputs AS TEXT)"), "show base --sample q00001", 2, "outputs as TEXT, where a BLOB is expected"),
    (set_cell(OUTPUTS + "zeroblob(0) WHERE position = 1"), "export base -o exported", 2, "no outputs"),
    (set_cell(OUTPUTS + "?", b"\x28\xb5\x2f\xfd\x00"), "show base --sample q00001", 2, "compressed outputs that end at once"),
    (set_cell("UPDATE eval_samples SET sample = CAST(sample AS TEXT)"), "queries base other", 2, "samples as TEXT"),
    (set_cell("UPDATE eval_samples SET sample = ?", b"[" * 5000), "show base --sample q00001", 2, "a sample of nested lists"),
    (set_cell("UPDATE eval_scores SET \"values\" = 'text'"), "compare base other --json", 2, "scores as TEXT"),
    (set_cell("UPDATE eval_scores SET result_json = CAST(? AS TEXT)", b'{"a": "\xed\xa0\x80"}'), "gate base -g recall@2>=0.1", 2, "half of a surrogate pair"),
    (set_cell("UPDATE eval_runs SET plan_json = '[]'"), "rescore base -m mrr", 4, "a plan that is a list"),
    (set_cell("UPDATE eval_runs SET created_at = CAST(? AS TEXT)", b"\xff"), "runs --json", 2, "a time that is no text"),
    (set_cell("DELETE FROM eval_samples WHERE position = 3"), "queries base other", 4, "a sample that is missing"),
    (set_cell(MOVE), "compare base other", 2, "an output at a position that the run does not have"),
    (set_cell(MOVE), "gate other --against base -g better(mrr)", 2, "the same in a gate"),
    (set_cell(MOVE), "rescore other -m mrr", 2, "the same scored again"),
    (move_and_delete, "compare base other", 2, "the same, and outputs are missing"),
    (set_bytes(0, b"SQLite format 4"), "runs", 2, "another format"),
    (set_bytes(16, b"\x00\x00"), "runs", 2, "a page size of 0"),
    (cut(0.5), "report base other -o report.html", 2, "half of a file"),
    (lambda path: path.write_bytes(b""), "show latest", 2, "an empty file"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "command", "code", "why"), PAST_FINDS, ids=[row[3] for row in PAST_FINDS])
def test_past_finds(
    original: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    damage: Damage,
    command: str,
    code: int,
    why: str,
) -> None:
    """Stores such as once ended a command with a traceback: an error of one line."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs.sqlite"
    shutil.copyfile(original, path)
    damage(path)
    found, message = run_command(capsys, *command.split(), "--store", str(path))
    assert (found, problem_of(found, message)) == (code, None), message
    assert code == 4 or "runs.sqlite" in message or "base" in message, message
