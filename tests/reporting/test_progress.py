"""Progress: a line that goes on a terminal, lines that stay elsewhere, and only after a while."""

import io
import sys

import pytest

from auepora_eval.cli.judge_options import ScoringProgress
from auepora_eval.reporting.progress import clear, progress, silenced
from helpers.terminal import terminal


@pytest.mark.parametrize(("total", "want"), [(5, "\rscoring ... 3 of 5"), (None, "\rscoring ... 0 s")])
def test_long_work_shows_a_line_and_takes_it_away(
    monkeypatch: pytest.MonkeyPatch, total: int | None, want: str
) -> None:
    stream = terminal(monkeypatch, patience=0.01)
    with progress("scoring", total) as advance:
        advance(3)
        assert stream.written.wait(30)
    assert stream.getvalue().startswith(want)
    assert stream.getvalue().endswith("\r" + " " * (len(want) - 1) + "\r")


def test_a_total_may_be_found_out_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, patience=0.01)
    with ScoringProgress() as line:
        line.start_scoring(5)  # which goes when judging begins
        tell = line.start_judging()
        tell(3, 8, 1)
        stream.written.clear()
        assert stream.written.wait(30)
    shown = stream.getvalue()
    assert "judging ... 3 of 8, " in shown
    assert ", 1 failed" in shown


@pytest.mark.parametrize(("tty", "patience"), [(False, 0.0), (True, 3600.0)], ids=["no terminal", "short work"])
def test_nothing_is_shown(monkeypatch: pytest.MonkeyPatch, tty: bool, patience: float) -> None:
    stream = terminal(monkeypatch, tty=tty, patience=patience)
    with progress("scoring", 5) as advance:
        advance(5)
    clear()
    assert stream.getvalue() == ""


def test_long_work_without_a_terminal_writes_lines_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, tty=False, line_every=0.01)
    with progress("judging", 8, rate=True, remark=lambda: "1 failed") as advance:
        advance(2)
        assert stream.written.wait(30)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("judging ... 2 of 8, ")
    assert lines[0].endswith(" left, 1 failed")
    assert "\r" not in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_quiet_work_without_a_terminal_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch, tty=False, line_every=0.0)
    with silenced(), progress("judging", 8) as advance:
        advance(8)
    assert stream.getvalue() == ""


def test_an_error_takes_the_line_away_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)

    def work() -> None:
        with progress("reading x"):
            assert stream.written.wait(30)
            raise KeyError("x")

    with pytest.raises(KeyError):
        work()
    assert stream.getvalue().endswith(" \r")


def test_a_line_that_may_not_linger_goes_with_the_last_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with progress("asking", 2, linger=False) as advance:
        assert stream.written.wait(30)
        advance(1)
        advance(1)
        assert stream.getvalue().endswith(" \r")  # gone, and what is printed from here on stands alone
        shown = stream.getvalue()
    assert stream.getvalue() == shown


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "no console"])
def test_without_a_usable_stderr_nothing_happens(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    with progress("asking", 2) as advance:
        advance(2)
