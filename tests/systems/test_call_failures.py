"""Whatever a system does is an answer with a reason, and the others are not disturbed."""

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import SystemCallError
from helpers.builders import output
from helpers.calls import KINDS, asked, in_kind, number, own


class OddError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[[EvaluationSample], Any]:
    def act(_: EvaluationSample) -> Any:
        raise error

    return act


def printing(sample: EvaluationSample) -> SystemOutputs:
    print("thinking", sample.sample_id)
    sys.stderr.write("hm\n")
    return own(sample)


async def _coroutine() -> None:
    """Is never awaited."""


FAULTS: list[tuple[str, Callable[[EvaluationSample], Any], str | None]] = [
    ("raises", raising(ValueError("no index")), "raised: ValueError: no index"),
    ("raises without a word", raising(ValueError()), "raised: ValueError"),
    ("raises what cannot be shown", raising(OddError()), "raised: OddError: (its message cannot be had: RuntimeError)"),
    ("raises at length", raising(ValueError("x" * 9999)), "raised: ValueError: " + "x" * (2000 - 20) + "…"),
    ("raises bytes no store takes", raising(ValueError("a\0b\ud800")), r"raised: ValueError: a\0b\ud800"),
    ("exits", lambda _: sys.exit(3), "raised: SystemExit: 3"),
    ("exits politely", lambda _: sys.exit(), "raised: SystemExit"),
    ("raises GeneratorExit", raising(GeneratorExit()), "raised: GeneratorExit"),
    ("raises BaseException", raising(BaseException("deep")), "raised: BaseException: deep"),
    ("raises StopIteration", raising(StopIteration(1)), "raised: "),  # a coroutine makes a RuntimeError of it
    ("says why", raising(SystemCallError("http_500", "down")), "http_500: down"),
    ("returns None", lambda _: None, "bad_output: what run() returned is a NoneType, not a SystemOutputs"),
    ("returns a dict", lambda _: {"retrieved": []}, "bad_output: what run() returned is a dict, not a SystemOutputs"),
    ("returns a coroutine", lambda _: _coroutine(), "bad_output: what run() returned is a coroutine"),
    (
        "returns another's result",
        lambda _: output(extra={"sample_id": "q999"}),
        "bad_output: what run() returned is the result of sample 'q999'",
    ),
    ("scores with NaN", lambda _: _scored(float("nan")), "bad_output: what run() returned cannot be used: the score"),
    ("has no extra", lambda _: SystemOutputs([], extra=None), "bad_output: what run() returned has None as 'extra'"),  # type: ignore[arg-type]
    ("cites a text", lambda _: SystemOutputs([], citations="a"), "bad_output: what run() returned has 'a' as 'cit"),  # type: ignore[arg-type]
    ("admits a failure", lambda _: output(error="overloaded: try later"), "overloaded: try later"),
    ("prints", printing, None),
    ("names its sample", lambda s: output(extra={"sample_id": s.sample_id}), None),
]


def _scored(score: float) -> SystemOutputs:
    made = output(["a"])
    made.retrieved[0].score = score
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("act", "want"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_failure_is_recorded_and_others_continue(
    kind: str, act: Callable[[EvaluationSample], Any], want: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    system = in_kind(kind, lambda s: act(s) if number(s) % 3 == 1 else own(s))
    result, book = asked(system, 9, retries=2, **KINDS[kind])
    assert (result.delivered, result.ended) == (9, "done")
    errors = book.errors()
    assert [errors[n] for n in (0, 2, 3, 5, 6, 8)] == [None] * 6
    for n in (1, 4, 7):
        assert errors[n] is None if want is None else (errors[n] or "").startswith(want), errors[n]
    assert all(set(one.timings) == {"end_to_end", "started"} for one in book.by_position())
    assert all("attempts" not in one.extra for one in book.by_position())  # none of these may pass
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_interrupt_raised_in_another_thread_is_a_failure(kind: str) -> None:
    _, book = asked(in_kind(kind, raising(KeyboardInterrupt())), 3, **KINDS[kind])
    assert book.errors() == ["raised: KeyboardInterrupt"] * 3


def test_interrupt_in_the_calling_thread_is_raised() -> None:
    kept: list[Any] = []

    def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        if number(sample) == 2:
            raise KeyboardInterrupt
        return own(sample)

    with pytest.raises(KeyboardInterrupt):
        asked(run, 5, deliver=kept.extend)
    assert len(kept) == 2


def test_a_task_of_the_systems_own_that_exits_does_not_end_the_loop() -> None:
    async def leave() -> None:
        sys.exit(1)

    tasks = []

    async def run(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        task = asyncio.get_running_loop().create_task(leave())
        tasks.append(task)
        await asyncio.wait([task])
        assert isinstance(task.exception(), SystemExit)
        return own(sample)

    result, _ = asked(run, 5, concurrency=2)
    assert (result.delivered, result.failed) == (5, 0)


def test_traceback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="auepora_eval.systems"):
        asked(in_kind("threads", raising(ValueError("no index"))), 1, concurrency=2)
    (record,) = caplog.records
    assert record.getMessage() == "sample 'q0', attempt 1"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def test_ranking_is_kept_if_the_generator_fails() -> None:
    class Half:
        def retrieve(self, query: str, *, top_k: int) -> Any:
            return output(["a", "b"]).retrieved

        def generate(self, query: str, documents: list[Any]) -> Any:
            raise ConnectionError("model down")

    _, book = asked(Half(), 1, retries=1)
    (one,) = book.by_position()
    assert one.error == "raised: ConnectionError: model down"
    assert [item.doc.doc_id for item in one.retrieved] == ["a", "b"]
    assert one.extra == {"attempts": 2}
    assert set(one.timings) == {"end_to_end", "started", "retrieval"}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (None, "bad_output: what retrieve() returned is a NoneType, not a list of RetrievedDocument"),
        (["a"], "bad_output: what retrieve() returned cannot be used: position 1 of 'retrieved' is a str"),
    ],
    ids=["nothing", "bare ids"],
)
def test_a_retriever_that_returns_nonsense_is_named(found: Any, want: str) -> None:
    class Wrong:
        def retrieve(self, query: str, *, top_k: int) -> Any:
            return found

    _, book = asked(Wrong(), 1)
    assert (book.errors()[0] or "").startswith(want)
