"""Deadlines: a call past its own is a recorded failure, and what hangs is left behind."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import auepora_eval.systems.calls as loops
from auepora_eval.core.types import EvaluationSample, SystemOutputs
from helpers.calls import asked, number, own


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Hanging calls wait for this, so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


def hanging(release: threading.Event, *, every: int, times: int = 10**9) -> Any:
    calls: Counter[int] = Counter()

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        n = number(sample)
        calls[n] += 1
        if n % every == 0 and calls[n] <= times:
            release.wait(timeout=60)
        return own(sample)

    return run


def hanging_async(*, every: int, times: int = 10**9, stubborn: bool = False) -> Any:
    calls: Counter[int] = Counter()

    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        n = number(sample)
        calls[n] += 1
        if n % every == 0 and calls[n] <= times:
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if not stubborn:
                        raise
        return own(sample)

    return run


@pytest.mark.parametrize("kind", ["threads", "coroutines", pytest.param("stubborn coroutines", marks=pytest.mark.slow)])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_hanging_call_is_a_failure_and_frees_its_slot(kind: str, concurrency: int, release: threading.Event) -> None:
    system = hanging(release, every=5) if kind == "threads" else hanging_async(every=5, stubborn="stubborn" in kind)
    result, book = asked(system, 12, timeout=0.5, concurrency=concurrency)
    assert (result.delivered, result.failed, result.ended) == (12, 3, "done")
    late = "timeout: no answer within 0.5 s"
    assert book.errors() == [late if n % 5 == 0 else None for n in range(12)]
    assert book.by_position()[0].timings["end_to_end"] >= 0.5
    assert "started" in book.by_position()[0].timings


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
def test_a_call_that_hung_once_is_repeated(kind: str, release: threading.Event) -> None:
    system = hanging(release, every=4, times=1) if kind == "threads" else hanging_async(every=4, times=1)
    result, book = asked(system, 8, timeout=0.5, concurrency=3, retries=1)
    assert (result.failed, result.ended) == (0, "done")
    assert [one.extra.get("attempts") for one in book.by_position()] == [2, None, None, None, 2, None, None, None]
    # The time is that of the attempt which succeeded.
    assert book.by_position()[0].timings["end_to_end"] < 0.5


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    gone = threading.Event()

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 0:
            gone.wait(timeout=60)
            return own(sample)
        if number(sample) == 3:
            gone.set()  # by now the first is given up; its answer arrives while others are asked
        return own(sample)

    result, book = asked(run, 50, timeout=2, concurrency=1)
    assert (result.delivered, result.failed) == (50, 1)
    assert book.errors()[0] == "timeout: no answer within 2 s"


def test_late_output_is_a_timeout() -> None:
    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(0.8 if number(sample) == 1 else 0)
        return own(sample)

    _, book = asked(run, 2, timeout=0.5, concurrency=2)
    assert book.errors() == [None, "timeout: no answer within 0.5 s"]


def test_system_that_only_hangs_ends_the_calls(release: threading.Event) -> None:
    result, book = asked(hanging(release, every=1), 10_000, timeout=0.02, concurrency=4)
    assert result.ended == "hung"
    assert "calls hang that were given up after 0.02 s each" in result.message
    assert 65 <= result.delivered == result.failed == len(book) <= 65 + 2 * 4


def test_calls_that_come_back_late_do_not_count_as_hanging() -> None:
    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(0.02)
        return own(sample)

    result, _ = asked(run, 200, timeout=0.005, concurrency=4)
    assert (result.ended, result.delivered) == ("done", 200)
    assert result.failed > 65


def test_a_blocked_event_loop_is_noticed(monkeypatch: pytest.MonkeyPatch, release: threading.Event) -> None:
    monkeypatch.setattr(loops, "GRACE", 0.3)

    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 5:
            release.wait(timeout=60)  # a mistake: nothing else can run meanwhile
        await asyncio.sleep(0.01)
        return own(sample)

    result, book = asked(run, 100, timeout=0.5, concurrency=3, retries=2, total=100)
    assert result.ended == "hung"
    assert result.message.startswith("the event loop is blocked by a coroutine that does not yield")
    assert 6 <= result.delivered <= 8  # all that had been begun, the one to blame too
    errors = {answer.task.position: answer.output.error for answer in book}
    assert errors[0] is None
    assert errors[5] == "timeout: no answer within 0.5 s"
    assert set(errors.values()) == {None, errors[5]}


def test_a_loop_blocked_for_a_moment_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "GRACE", 30.0)

    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 5:
            time.sleep(1.0)
        await asyncio.sleep(0.001)
        return own(sample)

    result, book = asked(run, 30, timeout=0.5, concurrency=3)
    assert (result.ended, result.delivered) == ("done", 30)
    assert book.errors()[5] == "timeout: no answer within 0.5 s"
    assert book.errors()[15:] == [None] * 15


@pytest.mark.slow
def test_coroutines_that_compute_make_each_other_late_but_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "GRACE", 0.05)  # shorter than one of them computes

    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(0.4)
        return own(sample)

    result, book = asked(run, 12, timeout=2, concurrency=6)
    assert (result.ended, result.delivered) == ("done", 12)
    assert set(book.errors()) <= {None, "timeout: no answer within 2 s"}


@pytest.mark.slow
def test_calls_given_up_before_they_began_do_not_count_as_hanging() -> None:
    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(0.02)  # three at once cannot be done within the deadline
        return own(sample)

    result, book = asked(run, 300, timeout=0.03, concurrency=3)
    assert (result.ended, result.delivered) == ("done", 300)
    assert result.failed > 65
    assert set(book.errors()) <= {None, "timeout: no answer within 0.03 s"}
