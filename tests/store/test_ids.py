"""Ids of runs sort by time and never repeat; times are of one width, in UTC."""

import os
import re
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from auepora_eval.store import records as ids
from auepora_eval.store.records import from_iso, new_run_id, to_iso, utc_now
from helpers.forks import forked

SHAPE = re.compile(r"run_[0-7][0-9A-HJKMNP-TV-Z]{25}")


def test_ids_are_ulids_and_increase() -> None:
    made = [new_run_id() for _ in range(2000)]
    assert all(map(SHAPE.fullmatch, made))
    assert made == sorted(set(made))


def test_id_contains_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_last", (0, 0))
    moment = 1_700_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: moment * 1_000_000)
    letters = new_run_id().removeprefix("run_")[:10]
    assert sum(ids._DIGITS.index(letter) * 32**place for place, letter in enumerate(reversed(letters))) == moment


def test_clock_set_back_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_run_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert new_run_id() > first


def test_ids_are_unique_across_threads_and_forks() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(new_run_id() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2000
    reading, writing = os.pipe()
    process = forked(lambda: os.write(writing, new_run_id().encode()))
    mine = new_run_id()
    os.waitpid(process, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert SHAPE.fullmatch(theirs)
    assert theirs != mine


def test_times_sort_as_strings() -> None:
    moments = [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2024, 1, 2, 3, 4, 5, 7, tzinfo=UTC), utc_now()]
    texts = [to_iso(moment) for moment in moments]
    assert texts == sorted(texts)
    assert len({len(text) for text in texts}) == 1
    assert [from_iso(text) for text in texts] == moments
    elsewhere = datetime(2024, 1, 2, 5, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    assert to_iso(elsewhere) == texts[0]
