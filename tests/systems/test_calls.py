"""Asking: every task answered once, as many calls in flight as wanted, delivery in one thread."""

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import BadValueError, SystemCallError
from auepora_eval.systems.calls import CallSummary, Task, TaskOutput
from auepora_eval.systems.policy import CallPolicy
from helpers.builders import output, sample
from helpers.calls import KINDS, Book, asked, in_kind, number, own, tasks
from helpers.requirements import examples

EACH = pytest.mark.parametrize("kind", KINDS)


@EACH
def test_every_task_is_answered_once_by_its_own_output(kind: str) -> None:
    result, book = asked(in_kind(kind, own), 50, **KINDS[kind])
    assert result == CallSummary(50, 0, "done")
    assert [one.retrieved[0].doc.doc_id for one in book.by_position()] == [f"q{n}" for n in range(50)]


@EACH
def test_no_tasks_is_done(kind: str) -> None:
    assert asked(in_kind(kind, own), 0, **KINDS[kind])[0] == CallSummary(0, 0, "done")


def test_serial_calls_without_timeout_stay_in_the_calling_thread() -> None:
    threads: list[int] = []

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        threads.append(threading.get_ident())
        return own(sample)

    _, book = asked(run, 5)
    assert set(threads) == {threading.get_ident()}
    assert [answer.task.position for answer in book] == [0, 1, 2, 3, 4]


@EACH
def test_deliver_is_called_in_the_calling_thread_and_never_empty(kind: str) -> None:
    seen: list[tuple[int, int]] = []
    asked(in_kind(kind, own), 20, deliver=lambda some: seen.append((threading.get_ident(), len(some))), **KINDS[kind])
    assert {thread for thread, _ in seen} == {threading.get_ident()}
    assert min(count for _, count in seen) >= 1
    assert sum(count for _, count in seen) == 20


def test_as_many_threads_as_wanted_call_at_once_and_no_more() -> None:
    together = threading.Barrier(6)  # opens only if six calls are in flight
    counted = threading.Lock()
    running = most = 0

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        nonlocal running, most
        with counted:
            running += 1
            most = max(most, running)
        together.wait(timeout=60)
        with counted:
            running -= 1
        return own(sample)

    result, _ = asked(run, 36, concurrency=6)
    assert (result.delivered, result.failed, most) == (36, 0, 6)


def test_a_thousand_coroutines_are_in_flight_at_once() -> None:
    class Gathering:
        """Answers nobody before a thousand have asked."""

        def __init__(self) -> None:
            self.running = self.most = 0
            self.all_here = asyncio.Event()

        async def arun(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
            self.running += 1
            self.most = max(self.most, self.running)
            if self.running == 1000:
                self.all_here.set()
            await self.all_here.wait()
            self.running -= 1
            return own(sample)

    system = Gathering()
    result, _ = asked(system, 2500, concurrency=1000)
    assert (result.delivered, result.failed, system.most) == (2500, 0, 1000)


@EACH
def test_tasks_are_drawn_up_to_the_concurrency_after_delivery(kind: str) -> None:
    taken = delivered = 0
    furthest = 0

    def some() -> Iterator[Task]:
        nonlocal taken, furthest
        for task in tasks(40):
            taken += 1
            furthest = max(furthest, taken - delivered)
            yield task

    def deliver(answers: list[TaskOutput]) -> None:
        nonlocal delivered, furthest
        furthest = max(furthest, taken - delivered)
        delivered += len(answers)

    asked(in_kind(kind, own), some(), deliver=deliver, **KINDS[kind])
    assert (taken, delivered) == (40, 40)
    assert furthest == CallPolicy(**KINDS[kind]).concurrency


@EACH
def test_error_of_the_tasks_is_raised_after_delivery(kind: str) -> None:
    def some() -> Iterator[Task]:
        yield from tasks(3)
        raise OSError("the file is gone")

    kept: list[TaskOutput] = []
    with pytest.raises(OSError, match="the file is gone"):
        asked(in_kind(kind, own), some(), deliver=kept.extend, **KINDS[kind])
    assert sorted(answer.task.position for answer in kept) == [0, 1, 2]


@EACH
def test_exception_of_deliver_ends_the_calls(kind: str) -> None:
    calls: list[str] = []

    def run(sample: EvaluationSample) -> SystemOutputs:
        calls.append(sample.sample_id)
        return own(sample)

    def full(_: list[TaskOutput]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        asked(in_kind(kind, run), 1000, deliver=full, **KINDS[kind])
    assert len(calls) <= CallPolicy(**KINDS[kind]).concurrency


def test_a_slow_delivery_does_not_make_punctual_answers_late() -> None:
    book = Book()

    def slow(answers: list[TaskOutput]) -> None:
        time.sleep(1.2)
        book.extend(answers)

    def quick(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(0.1 * number(sample))
        return own(sample)

    asked(quick, 3, deliver=slow, timeout=1.0, concurrency=3)  # the second and third arrive during a delivery
    assert book.errors() == [None, None, None]


@EACH
def test_timings_have_start_and_duration(kind: str) -> None:
    before = time.time()
    _, book = asked(in_kind(kind, own), 3, **KINDS[kind])
    for one in book.by_position():
        assert before - 0.1 <= one.timings["started"] <= time.time() + 0.1
        assert 0 <= one.timings["end_to_end"] < 30


@EACH
def test_timings_of_the_system_itself_are_kept(kind: str) -> None:
    _, book = asked(in_kind(kind, lambda s: output(timings={"end_to_end": 9.0, "started": 3.0})), 1, **KINDS[kind])
    assert book[0].output.timings == {"end_to_end": 9.0, "started": 3.0}


@EACH
def test_shared_output_object_is_copied_per_repeat(kind: str) -> None:
    cached = output(["a"])
    twice = [Task(0, sample(sample_id="q0"), repeat) for repeat in (0, 1)]
    _, book = asked(in_kind(kind, lambda _: cached), twice, **KINDS[kind])
    first, second = book.by_position()
    assert (first.repeat, second.repeat) == (0, 1)
    assert first is not second
    assert first.retrieved is not second.retrieved
    assert (cached.timings, cached.extra, cached.repeat) == ({}, {}, 0)


def test_depth_reaches_the_system() -> None:
    seen: list[int] = []

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        seen.append(top_k)
        return own(sample)

    asked(run, 2, top_k=17)
    assert seen == [17, 17]


def test_no_thread_is_left_over() -> None:
    before = set(threading.enumerate())
    asked(in_kind("threads", own), 40, concurrency=8)
    asked(in_kind("loop", own), 40, concurrency=8)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
    assert set(threading.enumerate()) <= before
    gc.collect()  # an event loop that was not closed would complain here


def test_error_if_no_more_threads_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def few(thread: threading.Thread) -> None:
        if threading.active_count() > before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    before = threading.active_count()
    monkeypatch.setattr(threading.Thread, "start", few)
    together = threading.Event()
    with pytest.raises(BadValueError, match=r"threads can be started here .* lower the concurrency"):
        asked(lambda sample, *, top_k: together.wait(), 100, concurrency=100)
    together.set()


# What a system does at each attempt at one sample: answers, fails for good, fails for now, returns nonsense.
ACTS = st.lists(st.sampled_from(["busy"]), max_size=3).flatmap(
    lambda busy: st.sampled_from(["fine", "wrong", "nothing", "exit"]).map(lambda last: [*busy, last])
)
WANTED = {"fine": None, "wrong": "raised: ValueError: no", "exit": "raised: SystemExit: 3", "busy": "busy: later"}


@EACH
@settings(max_examples=examples(40))
@given(scripts=st.lists(ACTS, max_size=25), concurrency=st.integers(1, 9), retries=st.integers(0, 3), data=st.data())
def test_any_schedule_ends_with_the_outcome_of_each_script(
    kind: str, scripts: list[list[str]], concurrency: int, retries: int, data: Any
) -> None:
    most = data.draw(st.none() | st.integers(0, 30), label="max_failures")
    calls: Counter[int] = Counter()
    guard = threading.Lock()
    running = 0

    def run(sample: EvaluationSample) -> Any:
        nonlocal running
        with guard:
            running += 1
            assert running <= concurrency
            n = number(sample)
            act = scripts[n][min(calls[n], len(scripts[n]) - 1)]
            calls[n] += 1
        try:
            if act == "busy":
                raise SystemCallError("busy", "later", retry=True)
            if act == "wrong":
                raise ValueError("no")
            if act == "exit":
                raise SystemExit(3)
            return None if act == "nothing" else own(sample)
        finally:
            with guard:
                running -= 1

    options = {} if kind == "inline" else {"concurrency": concurrency, "timeout": 60.0}
    result, book = asked(
        in_kind(kind, run), len(scripts), retries=retries, max_failures=most, total=len(scripts), **options
    )
    positions = [answer.task.position for answer in book]
    assert len(set(positions)) == len(positions) == result.delivered
    assert result.failed == sum(answer.output.error is not None for answer in book)
    for answer in book:
        script = scripts[answer.task.position]
        attempts = min(len(script), retries + 1)
        last = script[attempts - 1]
        assert calls[answer.task.position] == attempts
        assert answer.output.extra.get("attempts", 1) == attempts
        if last == "nothing":
            assert (answer.output.error or "").startswith("bad_output: what run() returned is a NoneType")
        else:
            assert answer.output.error == WANTED[last]
    if result.ended == "done":
        assert len(book) == len(scripts)
    else:
        assert most is not None
        assert (result.ended, result.failed > most) == ("max_failures", True)
        # Once too many have failed only what was in flight is still delivered.
        assert result.failed <= most + max(1, concurrency)
