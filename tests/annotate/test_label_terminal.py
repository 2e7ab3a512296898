"""The terminal driver on a pseudo-terminal, with control over what arrives together."""

import os
import pty
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from auepora_eval.annotate.session import FormState, LabelFile, LabelItem, new_form
from auepora_eval.annotate.terminal import require_terminal, run_form
from auepora_eval.errors import BadValueError


class Typist:
    """Sits at the other end of the terminal: as soon as something is shown, types what comes next."""

    def __init__(self, turns: Sequence[tuple[bytes, bytes]]) -> None:
        self.master, self.slave = pty.openpty()
        self._turns = list(turns)
        self.seen = b""
        self._thread = threading.Thread(target=self._sit, daemon=True)
        self._thread.start()

    def _sit(self) -> None:
        start = 0
        while True:
            try:
                data = os.read(self.master, 4096)
            except OSError:
                return
            self.seen += data
            while self._turns and (place := self.seen.find(self._turns[0][0], start)) >= 0:
                start = place + len(self._turns[0][0])
                os.write(self.master, self._turns.pop(0)[1])

    def leave(self) -> None:
        os.close(self.slave)
        self._thread.join()
        os.close(self.master)


@pytest.fixture
def sheet(tmp_path: Path) -> LabelFile:
    return LabelFile(tmp_path / "labels.jsonl", "ann", "run_1")


def filled(
    monkeypatch: pytest.MonkeyPatch, sheet: LabelFile, turns: Sequence[tuple[bytes, bytes]]
) -> tuple[FormState, bytes]:
    """How a session ends in which this is typed, and all that was written to its terminal."""
    typist = Typist(turns)
    try:
        with (
            open(typist.slave, closefd=False) as stdin,
            open(typist.slave, "w", closefd=False) as stdout,
            monkeypatch.context() as patched,
        ):
            patched.setattr(sys, "stdin", stdin)
            patched.setattr(sys, "stdout", stdout)
            patched.setenv("TERM", "xterm")
            items = [LabelItem(f"q{number}", f"question {number}?", "answer") for number in range(5)]
            end = run_form(new_form(items), sheet)
    finally:
        typist.leave()
    return end, typist.seen


def test_early_keys_are_discarded(monkeypatch: pytest.MonkeyPatch, sheet: LabelFile) -> None:
    turns = [(b"question 0?", b"rrrr"), (b"question 1?", b"ww"), (b"question 2?", b"q")]
    end, _ = filled(monkeypatch, sheet, turns)
    assert [one.label for one in end.labels.values()] == ["right", "wrong"]
    assert [one.label for one in sheet.labels()] == ["right", "wrong"]


def test_the_screen_is_restored(monkeypatch: pytest.MonkeyPatch, sheet: LabelFile) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGTSTP, signal.SIGWINCH)}
    monkeypatch.setenv("NO_COLOR", "1")
    _, seen = filled(monkeypatch, sheet, [(b"question 0?", b"q")])
    for taken, back in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?7l", b"\x1b[?7h"), (b"\x1b[?2004h", b"\x1b[?2004l")):
        assert 0 <= seen.index(taken) < seen.index(back)
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.set_wakeup_fd(-1) == -1


def test_the_end_of_input_leaves_too(monkeypatch: pytest.MonkeyPatch, sheet: LabelFile) -> None:
    turns = [(b"question 0?", b"r"), (b"question 1?", b"\x04")]  # ctrl-d
    end, _ = filled(monkeypatch, sheet, turns)
    assert end.is_over
    assert len(sheet.labels()) == 1


def test_a_closed_stream_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    closed = (tmp_path / "closed").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stdin", closed)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(BadValueError, match="stdin and stdout are none"):
        require_terminal()
