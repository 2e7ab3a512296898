"""Output of results: files by suffix, stdout under any name, devices and pipes."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.cli.options import output_format

Run = Callable[..., tuple[int, str, str]]

SUFFIXES = [  # name, format
    (None, "table"),
    ("-", "table"),
    ("r.txt", "table"),
    ("r", "table"),
    ("r.json", "json"),
    ("R.JSON", "json"),
    ("r.json.gz", "json"),
    ("r.csv", "csv"),
    ("r.CSV.gz", "csv"),
    ("r.md", "markdown"),
    ("r.markdown", "markdown"),
]


@pytest.mark.parametrize(("name", "want"), SUFFIXES, ids=[str(row[0]) for row in SUFFIXES])
def test_suffix_selects_the_format(name: str | None, want: str) -> None:
    assert output_format(name) == want


WRITTEN = [  # arguments, file, how it starts
    (("-o", "r.json"), "r.json", '{\n  "schema": 1'),
    (("-o", "r.json", "--per-query"), "r.json", '{\n  "schema": 1'),
    (("-o", "r.csv"), "r.csv", "metric,target,slice,group,value,low,high,num_samples,skipped,failed,signature"),
    (("-o", "r.md"), "r.md", "| target | metric | value |"),
    (("-o", "r.md", "--json"), "r.md", '{\n  "schema": 1'),
    (("-o", "r.txt"), "r.txt", "target "),
]


@pytest.mark.parametrize(("arguments", "name", "start"), WRITTEN, ids=[" ".join(row[0]) for row in WRITTEN])
def test_files(files: Path, arguments: tuple[str, ...], name: str, start: str, run: Run) -> None:
    code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "mrr", *arguments)
    text = Path(name).read_text()
    assert (code, out) == (0, "")
    assert f"wrote {name}\n" in err
    assert text.startswith(start)
    if start.startswith("{"):
        assert ("per_query" in json.loads(text)) == ("--per-query" in arguments)
    elif not name.endswith(".csv"):
        assert text.endswith("\n\nconventions: auepora (auto)\n")


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_stdout_by_name(files: Path, name: str, run: Run) -> None:
    plain = run("score", "data.jsonl", "out.jsonl", "-m", "mrr")
    assert run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "-o", name) == plain
    assert not Path("-").exists()


def test_input_is_not_overwritten(files: Path, run: Run) -> None:
    before = Path("data.jsonl").read_bytes()
    for name in ("data.jsonl", "link.jsonl"):
        assert run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "-o", name)[0] == 2
    assert Path("data.jsonl").read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_written_to_and_not_replaced(files: Path, run: Run) -> None:
    os.mkfifo("pipe")
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_text()))
    reader.start()
    code, _, _ = run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "-o", "pipe")
    reader.join(timeout=30)
    assert code == 0
    assert received[0].startswith("target ")
    assert Path("pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_device_is_a_one_line_error(files: Path, run: Run) -> None:
    code, out, err = run("score", "data.jsonl", "out.jsonl", "-m", "mrr", "-o", "/dev/full")
    assert (code, out) == (2, "")
    assert err.endswith("Error: /dev/full: cannot be written: No space left on device\n")
