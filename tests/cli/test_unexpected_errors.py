"""An unexpected exception is one line on stderr and exit code 4; its traceback is printed on request."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import pytest

from auepora_eval.cli.main import cli
from auepora_eval.store import RunStore
from helpers.stored_runs import run, samples

Call = Callable[..., tuple[int, str, str]]

ERRORS: list[tuple[BaseException, int, str]] = [  # what the command raises, exit code, a part of the line
    (TypeError("a bytes-like object is required, not 'str'"), 4, "TypeError: a bytes-like object is required"),
    (ValueError("first line\nsecond line"), 4, "ValueError: first line second line"),
    (MemoryError(), 4, "unexpected MemoryError. "),
    (RecursionError("maximum recursion depth exceeded"), 4, "RecursionError"),
    (PermissionError(13, "Permission denied", "/some/file"), 4, "PermissionError: [Errno 13]"),
    (OSError(28, "No space left on device"), 2, "the output cannot be written: No space left on device"),
    (RuntimeError("postgresql://me:pass/word@host/runs"), 4, "postgresql://me:***@host/runs"),
    (RuntimeError("x" * 10_000), 4, "xxx…"),
]


def _fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "get_command", lambda *_: click.command(name="runs")(fail))


@pytest.mark.parametrize(("error", "code", "part"), ERRORS, ids=[type(error).__name__ for error, _, _ in ERRORS])
def test_unexpected_error_is_one_line(
    auepora: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, part: str
) -> None:
    _fail_with(monkeypatch, error)
    found, out, err = auepora("runs")
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith("Error: ")
    assert part in err
    assert len(err) < 700


@pytest.mark.parametrize("way", ["option", "variable"])
def test_debug_prints_the_traceback(auepora: Call, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    _fail_with(monkeypatch, TypeError("at http://me:se/cret@host"))
    if way == "variable":
        monkeypatch.setenv("AUEPORA_DEBUG", "1")
    code, out, err = auepora(*(["--debug"] if way == "option" else []), "runs")
    assert (code, out) == (4, "")
    assert "Traceback (most recent call last)" in err
    assert "in fail" in err
    assert "se/cret" not in err


def _stored(path: Path) -> Path:
    with RunStore.open(path) as store:
        run(store, "base", samples(3), lambda number: ["gold", "other"], ["recall@1"])
    return path


DAMAGES = [  # statement, why
    ("UPDATE eval_runs SET plan_json = CAST(x'ff00' AS TEXT)", "text that is not UTF-8"),
    ("UPDATE eval_scores SET \"values\" = 'text'", "text in place of bytes"),
    ("UPDATE eval_scores SET status = 3", "a number in place of bytes"),
    ("UPDATE eval_scores SET result_json = x'00ff'", "bytes in place of text"),
    ("UPDATE eval_runs SET created_at = 'yesterday'", "a text that is no time"),
]


@pytest.mark.parametrize(("statement", "why"), DAMAGES, ids=[why for _, why in DAMAGES])
def test_damaged_store_is_a_line_that_names_it(auepora: Call, tmp_path: Path, statement: str, why: str) -> None:
    path = _stored(tmp_path / "runs.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    for command in (["runs"], ["show", "latest"]):
        code, _, err = auepora(*command, "--store", str(path))
        assert code in (0, 2), err
        assert "Traceback" not in err
        if code:
            assert err.startswith(f"Error: store {path}")
            assert "is damaged" in err


def test_message_of_sqlite_that_is_not_utf_8(auepora: Call, tmp_path: Path) -> None:
    """SQLite's message quotes the damaged schema, and Python cannot decode it."""
    path = _stored(tmp_path / "runs.sqlite")
    data = bytearray(path.read_bytes())
    place = data.index(b"CREATE TABLE eval_runs")
    data[place : place + 12] = b"CREATE \xff\xfeBLE"[:12].ljust(12)
    path.write_bytes(bytes(data))
    code, _, err = auepora("runs", "--store", str(path))
    assert (code, err.count("\n")) == (2, 1), err
    assert "is damaged" in err
