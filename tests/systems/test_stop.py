"""Ending an asking: politely, at once, by too many failures, by Ctrl-C."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import SystemCallError
from auepora_eval.systems.calls import Stop, TaskOutput
from helpers.calls import KINDS, Book, asked, in_kind, number, own
from helpers.processes import Process


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def later(call: Any) -> None:
    """Call it from another thread in a moment."""
    timer = threading.Timer(0.2, call)
    timer.daemon = True
    timer.start()


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_finish_waits_for_calls_in_flight(kind: str) -> None:
    stop, started = Stop(), 0

    def note() -> None:
        nonlocal started
        started += 1
        if started == 6:
            stop.finish()

    def plain(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        note()
        time.sleep(0.1)
        return own(sample)

    async def waiting(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        note()
        await asyncio.sleep(0.1)
        return own(sample)

    result, book = asked(waiting if kind == "loop" else plain, 500, concurrency=3, stop=stop, total=500)
    assert 6 <= started <= 8
    assert (result.delivered, result.failed, result.ended) == (started, 0, "stopped")
    assert result.message == f"stopped after {started} of 500 answers"
    assert len(book) == started


def test_finish_from_deliver() -> None:
    stop = Stop()
    kept: list[TaskOutput] = []

    def deliver(answers: list[TaskOutput]) -> None:
        kept.extend(answers)
        if len(kept) == 3:
            stop.finish()

    result, _ = asked(in_kind("inline", own), 10, deliver=deliver, stop=stop)
    assert (result.delivered, result.ended, result.message) == (3, "stopped", "stopped after 3 answers")


def test_finish_after_the_last_output_is_done() -> None:
    stop = Stop()

    def deliver(answers: list[TaskOutput]) -> None:
        if answers[-1].task.position == 2:
            stop.finish()

    assert asked(in_kind("inline", own), 3, deliver=deliver, stop=stop, total=3)[0].ended == "done"


def test_stop_before_the_start_makes_no_calls() -> None:
    stop = Stop()
    stop.finish()
    assert asked(in_kind("threads", own), 3, concurrency=2, stop=stop)[0].delivered == 0


@pytest.mark.parametrize("kind", ["inline", "threads", "loop"])
def test_pending_retries_are_dropped_on_finish(kind: str) -> None:
    stop = Stop()

    def run(sample: EvaluationSample) -> SystemOutputs:
        if number(sample) == 1:
            later(stop.finish)
            raise SystemCallError("busy", retry=True, retry_after=250)
        return own(sample)

    options = {} if kind == "inline" else {"concurrency": 2}
    begun = time.monotonic()
    result, book = asked(in_kind(kind, run), 2, retries=3, stop=stop, total=2, **options)
    assert time.monotonic() - begun < 60
    assert (result.delivered, result.failed, result.ended) == (1, 0, "stopped")
    assert [answer.task.position for answer in book] == [0]


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_now_does_not_wait_and_delivers_what_arrived(kind: str, release: threading.Event) -> None:
    def plain(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) % 4 == 3:
            release.wait(timeout=60)
        return own(sample)

    async def waiting(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) % 4 == 3:
            await asyncio.sleep(60)
        return own(sample)

    stop, book = Stop(), Book()

    def deliver(answers: list[TaskOutput]) -> None:
        book.extend(answers)
        if len(book) == 9:  # three hang by now
            later(stop.now)

    begun = time.monotonic()
    result, _ = asked(waiting if kind == "loop" else plain, 100, deliver=deliver, concurrency=3, stop=stop)
    assert time.monotonic() - begun < 30
    assert (result.delivered, result.failed, result.ended) == (9, 0, "stopped")
    assert sorted(answer.task.position for answer in book) == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_now_by_a_signal_interrupts_a_call_in_the_calling_thread() -> None:
    stop = Stop()

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 2:
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(60)
        return own(sample)

    before = signal.signal(signal.SIGUSR1, lambda *_: stop.now())
    try:
        begun = time.monotonic()
        result, _ = asked(run, 9, stop=stop)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - begun < 30
    assert (result.delivered, result.ended) == (2, "stopped")


def test_signal_handler_may_finish_during_a_wait(release: threading.Event) -> None:
    stop = Stop()

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 2:
            os.kill(os.getpid(), signal.SIGUSR1)
            release.wait(timeout=60)
        return own(sample)

    def finish(*_: object) -> None:
        stop.finish()
        release.set()

    before = signal.signal(signal.SIGUSR1, finish)
    try:
        result, book = asked(run, 1000, stop=stop, timeout=60)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (result.delivered, result.ended, book.errors()) == (3, "stopped", [None] * 3)


def test_failure_during_a_stop_is_not_recorded() -> None:
    stop = Stop()

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 2:
            try:
                stop.now()  # as a signal handler would
            except KeyboardInterrupt:
                raise RuntimeError("interrupted") from None
        return own(sample)

    result, book = asked(run, 9, stop=stop)
    assert (result.delivered, result.failed, result.ended, len(book)) == (2, 0, "stopped", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_failures_end_it(kind: str) -> None:
    def run(sample: EvaluationSample) -> SystemOutputs:
        if number(sample) % 2:
            raise ValueError("no index")
        return own(sample)

    result, _ = asked(in_kind(kind, run), 1000, max_failures=5, **KINDS[kind])
    assert result.ended == "max_failures"
    assert 6 <= result.failed <= 6 + 4
    assert re.fullmatch(
        r"stopped after \d+ of \d+ answers failed \(max_failures is 5\); the last error: raised: ValueError: no index",
        result.message,
    )


def test_exactly_as_many_failures_as_allowed_do_not_end_it() -> None:
    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) < 3:
            raise ValueError("no index")
        return own(sample)

    assert asked(run, 9, max_failures=3)[0].ended == "done"
    assert asked(run, 9, max_failures=2)[0].ended == "max_failures"
    assert asked(run, 3, max_failures=2, total=3)[0].ended == "done"  # nothing was left to ask


def test_ctrl_c_during_hanging_calls_keeps_delivered_outputs(release: threading.Event) -> None:
    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) >= 4:
            release.wait(timeout=60)
        return own(sample)

    book = Book()

    def deliver(answers: list[TaskOutput]) -> None:
        book.extend(answers)
        if len(book) == 4:
            later(lambda: os.kill(os.getpid(), signal.SIGINT))

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asked(run, 100, deliver=deliver, concurrency=4)
    assert time.monotonic() - begun < 30
    assert sorted(answer.task.position for answer in book) == [0, 1, 2, 3]


HANGING = """
import asyncio, sys, threading, time
from auepora_eval.systems.calls import call_system
from auepora_eval.systems.calls import CallPolicy, Task
from auepora_eval.core.types import EvaluationSample, SystemOutputs

def plain(sample, *, top_k):
    time.sleep(600)

async def in_a_thread(sample, *, top_k):
    await asyncio.to_thread(time.sleep, 600)

async def blocking(sample, *, top_k):
    time.sleep(600)

async def stubborn(sample, *, top_k):
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

tasks = [Task(n, EvaluationSample(str(n), "q")) for n in range(3)]
answers = []


def some():
    yield from tasks
    print("all are asked", flush=True)


timeout = float(sys.argv[2])
try:
    asked = call_system(globals()[sys.argv[1]], some(), CallPolicy(concurrency=4, timeout=timeout), answers.extend)
except KeyboardInterrupt:
    print("interrupted")
else:
    print(asked.delivered, asked.failed, {a.output.error for a in answers})
"""
SYSTEMS = ["plain", "in_a_thread", "blocking", "stubborn"]


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_hanging_calls_do_not_block_the_exit(system: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING, system, "0.2"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "all are asked\n3 3 {'timeout: no answer within 0.2 s'}\n"


@pytest.mark.parametrize("system", SYSTEMS)
def test_hanging_calls_do_not_block_ctrl_c(system: str) -> None:
    with Process(
        [sys.executable, "-c", HANGING, system, "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "all are asked\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120) == ("interrupted\n", "")
        assert process.returncode == 0
