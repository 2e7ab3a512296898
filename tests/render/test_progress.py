"""The progress line: rewritten on a terminal, permanent lines elsewhere, shown only after a while."""

import io
import re
import sys

import pytest

from auepora_eval.cli.judge_options import ScoringProgress
from auepora_eval.render.terminal import clear, progress, silenced
from helpers.terminal import terminal


@pytest.mark.parametrize(("total", "want"), [(5, r"\rscoring \.\.\. 3 of 5"), (None, r"\rscoring \.\.\. \d+ s")])
def test_long_work_shows_and_clears_line(monkeypatch: pytest.MonkeyPatch, total: int | None, want: str) -> None:
    stream = terminal(monkeypatch, patience=0.01)
    with progress("scoring", total) as advance:
        advance(3)
        while True:  # on a busy machine the line may be shown before the work goes on
            stream.written.clear()
            if re.search(want, stream.getvalue()):
                break
            assert stream.written.wait(30)
    shown, cleared = stream.getvalue().rsplit("\r", 2)[:2]
    assert re.search(want + "$", shown)
    assert cleared == " " * (len(shown.rpartition("\r")[2]))


def test_total_may_be_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience=0.01)
    with ScoringProgress() as line:
        line.start_scoring(5)  # which goes when judging begins
        report_judging = line.start_judging()
        report_judging(3, 8, 1)
        stream.written.clear()
        assert stream.written.wait(30)
    shown = stream.getvalue()
    assert "judging ... 3 of 8, " in shown
    assert ", 1 failed" in shown


@pytest.mark.parametrize(("tty", "patience"), [(False, 0.0), (True, 3600.0)], ids=["no terminal", "short work"])
def test_no_line_for_short_work_or_without_terminal(
    monkeypatch: pytest.MonkeyPatch, tty: bool, patience: float
) -> None:
    stream = terminal(monkeypatch, tty=tty, patience=patience)
    with progress("scoring", 5) as advance:
        advance(5)
    clear()
    assert stream.getvalue() == ""


def test_without_terminal_lines_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, tty=False, line_every=0.01)
    with progress("judging", 8, rate=True, suffix=lambda: "1 failed") as advance:
        advance(2)
        assert stream.written.wait(30)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("judging ... 2 of 8, ")
    assert lines[0].endswith(" left, 1 failed")
    assert "\r" not in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_silenced_work_without_terminal_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, tty=False, line_every=0.0)
    with silenced(), progress("judging", 8) as advance:
        advance(8)
    assert stream.getvalue() == ""


def test_error_clears_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)

    def work() -> None:
        with progress("reading x"):
            assert stream.written.wait(30)
            raise KeyError("x")

    with pytest.raises(KeyError):
        work()
    assert stream.getvalue().endswith(" \r")


def test_line_is_cleared_with_the_last_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress("asking", 2, keep_until_exit=False) as advance:
        assert stream.written.wait(30)
        advance(1)
        advance(1)
        assert stream.getvalue().endswith(" \r")  # cleared, so that later output starts on an empty line
        shown = stream.getvalue()
    assert stream.getvalue() == shown


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "no console"])
def test_unusable_stderr(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    with progress("asking", 2) as advance:
        advance(2)
