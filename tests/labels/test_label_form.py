"""The form as a user meets it: over pipes, killed, interrupted, resumed, and in a terminal."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.io.labels import read_labels
from auepora_eval.labels.terminal_form import read_input_lines, run_form
from auepora_eval.store.runs import RunStore
from helpers.labelling import open_form

Command = Callable[..., tuple[int, str, str]]
LABEL = ("label", "latest", "--n", "5", "--stratify", "labels.scenario")


def rows(path: str = "labels.jsonl") -> list[dict[str, Any]]:
    return [one.to_dict() for one in read_labels(path)] if Path(path).exists() else []


def labels_of(path: str = "labels.jsonl") -> list[tuple[str, Any]]:
    return [(one["sample_id"], one["label"]) for one in rows(path)]


def numbers_shown(out: str) -> list[str]:
    return [f"q{int(number):05}" for number in re.findall(r"question (\d+)\?", out)]


class Session:
    """A command that reads a pipe, as a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "auepora_eval", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "dumb"},
        )

    def read_until(self, text: str) -> str:
        assert self._process.stdout is not None
        seen = b""
        while text.encode() not in seen or not seen.endswith(b"> "):
            data = os.read(self._process.stdout.fileno(), 4096)
            assert data, seen.decode()
            seen += data
        return seen.decode()

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self._process.send_signal(number)
        _, err = self._process.communicate(timeout=20)
        return self._process.returncode, err.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "message"),
    [(signal.SIGKILL, -9, ""), (signal.SIGINT, 130, "Interrupted."), (signal.SIGTERM, 143, "")],
    ids=["killed", "interrupted", "terminated"],
)
def test_an_interrupted_session_resumes(
    auepora: Command,
    labelled_run: str,
    type_lines: Callable[..., None],
    number: signal.Signals,
    status: int,
    message: str,
) -> None:
    session = Session(*LABEL, "--annotator", "ann")
    first = numbers_shown(session.read_until("1 of 5, 0 labelled"))
    session.type("r")
    session.read_until("2 of 5, 1 labelled")
    assert labels_of() == [(first[0], "right")]  # on the disk as soon as the next is shown
    session.type("w")
    third = numbers_shown(session.read_until("3 of 5, 2 labelled"))
    code, err = session.end(number)
    assert (code, message in err) == (status, True)
    assert [label for _, label in labels_of()] == ["right", "wrong"]

    type_lines("u", "r")  # undo across the end of the process
    code, out, err = auepora(*LABEL, "--annotator", "ann")
    assert code == 0
    assert numbers_shown(out)[0] == third[0]
    assert "--- 3 of 5, 2 labelled" in out
    assert "taken back: wrong" in out
    assert [label for _, label in labels_of()] == ["right", "right"]
    assert "the same command continues with the others" in err


def test_a_whole_session(auepora: Command, labelled_run: str, type_lines: Callable[..., None]) -> None:
    type_lines("r", "c nö source 東", "w", "u", "r", "s", "w", "w", "s", "w", "q")
    code, out, _ = auepora(*LABEL, "--annotator", "ann")
    assert code == 0
    assert "\x1b" not in out
    assert "  | answer" in out
    assert "\\u001b[31mred\\u001b[0m 東京" in out  # written out, not obeyed
    assert "Is the answer right? r = right, w = wrong, x = cannot tell" in out
    assert "comment for the next label: nö source 東" in out
    assert "saved: wrong, with the comment: nö source 東" in out
    assert "--- 4 of 5, 2 labelled, 1 skipped" in out
    assert "1 was skipped; s shows it again." in out
    assert "5 labelled: 2 right, 3 wrong." in out
    assert out.endswith("labels.jsonl: 5 of 5 labelled by ann: 2 right, 3 wrong\n")
    assert [label for _, label in labels_of()] == ["right", "right", "wrong", "wrong", "wrong"]
    assert rows()[1]["comment"] == "nö source 東"  # undo gives the comment back
    assert (rows()[1]["annotator"], rows()[1]["run"], rows()[1]["provenance"]) == ("ann", labelled_run, "human")

    draw = json.loads(Path("labels.draw.json").read_text())["draws"][0]
    assert (draw["run"], draw["population"], draw["left_out"]) == (labelled_run, 11, {"failed": 1})
    assert {name: one["population"] for name, one in draw["strata"].items()} == {"rare": 3, "usual": 8}
    assert {one["sample_id"] for one in draw["drawn"]} == {sample for sample, _ in labels_of()}


def test_agreement_and_adjudication(auepora: Command, labelled_run: str, type_lines: Callable[..., None]) -> None:
    for annotator, keys in (("ann", "rrwrw"), ("bob", "rwwrr")):
        type_lines(*keys)
        assert auepora(*LABEL, "--annotator", annotator, "--labels", f"{annotator}.jsonl")[0] == 0
    samples = [sample for sample, _ in labels_of("ann.jsonl")]
    assert [sample for sample, _ in labels_of("bob.jsonl")] == samples  # the same seed, the same samples

    code, out, _ = auepora("label", "--agreement", "ann.jsonl", "bob.jsonl", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["pairs"][0]["agreement"]["value"] == 3 / 5
    # Both say right 3 times of 5: chance agrees in 13/25; (15/25 - 13/25) / (12/25) = 1/6.
    assert report["pairs"][0]["kappa"]["value"] == pytest.approx(1 / 6)
    disputed = sorted([samples[1], samples[4]])
    assert [one["sample_id"] for one in report["disputes"]] == disputed

    type_lines("w", "r", "q")
    settle = ("label", "latest", "--adjudicate", "ann.jsonl", "bob.jsonl", "--labels", "settled.jsonl")
    code, out, _ = auepora(*settle, "--annotator", "eve")
    assert code == 0
    assert numbers_shown(out) == disputed
    labels = r"Label of ann\n  \| (\w+)\nLabel of bob\n  \| (\w+)\n"
    assert re.findall(labels, out) == [("right", "wrong"), ("wrong", "right")]
    assert [(one["sample_id"], one["label"], one["adjudicated"]) for one in rows("settled.jsonl")] == [
        (disputed[0], "wrong", True),
        (disputed[1], "right", True),
    ]


def test_a_blind_session_with_a_scale(auepora: Command, labelled_run: str, type_lines: Callable[..., None]) -> None:
    type_lines("r", "6", "a", "4")
    code, out, _ = auepora(*LABEL, "--scale", "1-5", "--blind", "--annotator", "ann")
    assert code == 0
    assert "How good is the answer? 1 = worst, 2, 3, 4, 5 = best, x = cannot tell" in out
    assert "'r' was not understood; type a grade from 1 to 5, or ? for help" in out
    assert "this session is blind: references are not shown" in out
    assert not {"nightly", "relevant", "Reference"} & set(re.findall(r"\w+", out))
    assert [label for _, label in labels_of()] == [4]


@pytest.mark.slow
def test_bytes_that_are_no_text(labelled_run: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "auepora_eval", *LABEL, "--annotator", "ann"],
        input=b"\xff\xfe\nc caf\xe9\nr\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [(one["label"], one["comment"]) for one in rows()] == [("right", "caf\ufffd")]


class Typist:
    """Sits at the other end of a pseudo-terminal: as soon as something is shown, types what comes next."""

    def __init__(self, turns: Sequence[tuple[bytes, bytes]]) -> None:
        self.master, self.slave = pty.openpty()
        self._turns = list(turns)
        self._thread = threading.Thread(target=self._sit, daemon=True)
        self._thread.start()

    def _sit(self) -> None:
        seen = b""
        while True:
            try:
                seen += os.read(self.master, 4096)
            except OSError:
                return
            while self._turns and self._turns[0][0] in seen and seen.endswith(b"> "):
                seen = b""
                os.write(self.master, self._turns.pop(0)[1])

    def leave(self) -> None:
        os.close(self.slave)
        self._thread.join()
        os.close(self.master)


def test_lines_pasted_into_a_terminal_label_one_answer(
    monkeypatch: pytest.MonkeyPatch, label_store: RunStore, tmp_path: Path
) -> None:
    form = open_form(label_store, tmp_path / "labels.jsonl", 5)
    typist = Typist([(b"question 0?", b"r\nr\nr\nr\n"), (b"question 1?", b"w\nw\n"), (b"question 2?", b"\x04")])
    try:
        with (
            open(typist.slave, closefd=False) as stdin,
            open(typist.slave, "w", closefd=False) as stdout,
            monkeypatch.context() as patched,
        ):
            patched.setattr(sys, "stdin", stdin)
            patched.setattr(sys, "stdout", stdout)
            run_form(form, lines=read_input_lines())
    finally:
        typist.leave()
    assert [one.label for one in read_labels(form.batch.journal)] == ["right", "wrong"]
