"""Supported forms of a system are called, and others are refused with a reason."""

import asyncio
import functools
import threading
from typing import Any

import pytest

from auepora_eval.core.rag_interface import RAGSystem, SimpleRAGSystem
from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadTypeError
from auepora_eval.systems.interfaces import System, as_system
from helpers.calls import asked, own


class Run:
    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return own(sample)


class RunByPosition:
    def run(self, sample: EvaluationSample, top_k: int = 3) -> SystemOutputs:
        return own(sample)


class AsyncRun:
    async def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        await asyncio.sleep(0)
        return own(sample)


class Both:
    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        raise AssertionError("arun goes first")

    async def arun(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return own(sample)


class PlainArun:
    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return own(sample)

    def arun(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        raise AssertionError("is no coroutine function")


class Called:
    def __call__(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return own(sample)


class AsyncCalled:
    async def __call__(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return own(sample)


def hits() -> list[RetrievedDocument]:
    return [RetrievedDocument(Document("a", "alpha"), 1.0, 1), RetrievedDocument(Document("b", "beta"), 0.5, 2)]


class Retrieving:
    def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
        return hits()[:top_k]


class AsyncRetrieving:
    async def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
        await asyncio.sleep(0)
        return hits()[:top_k]


class Generating:
    def generate(self, query: str, context_docs: list[Document]) -> Response:
        return Response(f"{query} {context_docs[0].text}")


class AsyncGenerating:
    async def generate(self, query: str, context_docs: list[Document]) -> Response:
        await asyncio.sleep(0)
        return Response(f"{query} {context_docs[0].text}")


class Whole(Retrieving, Generating):
    pass


def function(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    return own(sample)


def with_more(extra: int, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    return own(sample)


async def with_more_async(extra: int, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    return own(sample)


FITTING: list[tuple[str, object, bool, str]] = [
    ("run", Run(), False, "run()"),
    ("top_k by position", RunByPosition(), False, "run()"),
    ("async run", AsyncRun(), True, "run()"),
    ("arun goes first", Both(), True, "arun()"),
    ("arun that is no coroutine function", PlainArun(), False, "run()"),
    ("a function", function, False, "function()"),
    ("a bound method", Run().run, False, "run()"),
    ("a partial function", functools.partial(with_more, 1), False, "partial()"),
    ("a partial coroutine function", functools.partial(with_more_async, 1), True, "partial()"),
    ("an object to call", Called(), False, "Called()"),
    ("an object to call and await", AsyncCalled(), True, "AsyncCalled()"),
]
SPLIT: list[tuple[str, object, bool, bool]] = [  # what, system, whether it waits, whether it answers
    ("retrieve and generate", Whole(), False, True),
    ("a retriever alone", Retrieving(), False, False),
    ("an async retriever alone", AsyncRetrieving(), True, False),
    ("a pair", (Retrieving(), Generating()), False, True),
    ("a pair as list", [Retrieving(), Generating()], False, True),
    ("an async pair", (AsyncRetrieving(), AsyncGenerating()), True, True),
    ("a plain retriever, an async generator", (Retrieving(), AsyncGenerating()), True, True),
    ("an async retriever, a plain generator", (AsyncRetrieving(), Generating()), True, True),
    ("SimpleRAGSystem", SimpleRAGSystem(Retrieving(), Generating()), False, True),  # type: ignore[arg-type]
    ("SimpleRAGSystem of coroutines", SimpleRAGSystem(AsyncRetrieving(), AsyncGenerating()), True, True),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize(("system", "waits", "called"), [r[1:] for r in FITTING], ids=[r[0] for r in FITTING])
def test_supported_systems_are_called(system: object, waits: bool, called: str, concurrency: int) -> None:
    made = as_system(system)
    assert (made.is_async, made.called) == (waits, called)
    result, book = asked(system, 5, concurrency=concurrency)
    assert result.failed == 0, book.errors()
    assert [one.retrieved[0].doc.doc_id for one in book.by_position()] == [f"q{n}" for n in range(5)]


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize(("system", "waits", "answers"), [r[1:] for r in SPLIT], ids=[r[0] for r in SPLIT])
def test_parts_are_called_one_after_the_other_and_timed(
    system: object, waits: bool, answers: bool, concurrency: int
) -> None:
    assert as_system(system).is_async is waits
    _, book = asked(system, 5, concurrency=concurrency, top_k=1)
    for one in book.by_position():
        assert one.error is None
        assert [item.doc.doc_id for item in one.retrieved] == ["a"]
        assert one.response == (Response("why? alpha") if answers else None)
        parts = {"retrieval", "generation"} if answers else {"retrieval"}
        assert set(one.timings) == {"end_to_end", "started", *parts}
        assert sum(one.timings[part] for part in parts) <= one.timings["end_to_end"]


def test_plain_part_does_not_block_the_loop() -> None:
    together = threading.Barrier(40)  # opens only if forty retrievals run at once

    class Meeting:
        def retrieve(self, query: str, *, top_k: int) -> list[RetrievedDocument]:
            together.wait(timeout=60)
            return hits()

    result, _ = asked((Meeting(), AsyncGenerating()), 80, concurrency=40)
    assert (result.delivered, result.failed) == (80, 0)


def test_a_system_is_itself() -> None:
    made = as_system(Run())
    assert isinstance(made, System)
    assert as_system(made) is made


class NoDepth:
    def run(self, sample: EvaluationSample) -> SystemOutputs:
        return own(sample)


class TakesText:
    def run(self, query: str, *, top_k: int) -> SystemOutputs:
        raise AssertionError


class Yielding:
    def run(self, sample: EvaluationSample, *, top_k: int) -> Any:
        yield own(sample)


class Odd:
    run = 5

    def __repr__(self) -> str:
        return "x" * 200


class OnlyPlainArun:
    def arun(self, sample: EvaluationSample, *, top_k: int) -> None: ...


class ShortRetriever:
    def retrieve(self, query: str) -> None: ...


class ShortGenerator:
    def generate(self, query: str) -> None: ...


class Half(RAGSystem):
    """Abstract still: a class, and not one to make objects of."""


UNFIT: list[tuple[str, object, str]] = [
    (
        "nothing",
        None,
        "a system is an object with a method run(sample, *, top_k), or arun, or with retrieve and generat",
    ),
    ("a text", "my_module:system", "a function of the same form, not 'my_module:system'"),
    ("a list", [1], "not [1]"),
    ("an odd object", Odd(), "not a Odd"),
    ("a class", Run, "and Run is a class: give an object of it"),
    ("an abstract class", Half, "and Half is a class"),
    ("no top_k", NoDepth(), "NoDepth.run must accept (sample, *, top_k), and it is NoDepth.run(sample: "),
    ("a query", TakesText(), "TakesText.run takes a text, but is given the whole sample"),
    ("a generator", Yielding(), "Yielding.run must return what it finds, and it is a generator"),
    ("a function of nothing", lambda: None, "must accept (sample, *, top_k)"),
    ("arun that is not async", OnlyPlainArun(), "OnlyPlainArun.arun must be an 'async def', or be called run"),
    ("a generator alone", Generating(), "Generating has generate() and no retrieve(): give a pair"),
    ("a retriever without depth", ShortRetriever(), "ShortRetriever.retrieve must accept (query, *, top_k)"),
    ("a pair the wrong way round", (Generating(), Retrieving()), "a retriever is an object with a method retrieve("),
    ("a pair of one", (Retrieving(), 5), "a generator is an object with a method generate(query, documents), not 5"),
    ("a pair with a class", (Retrieving, Generating()), "the retriever Retrieving is a class: give an object of it"),
    (
        "a generator without documents",
        (Retrieving(), ShortGenerator()),
        "ShortGenerator.generate must accept (query, d",
    ),
]


@pytest.mark.parametrize(("system", "want"), [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_unsupported_systems_are_refused_with_a_reason(system: object, want: str) -> None:
    with pytest.raises(BadTypeError) as caught:
        as_system(system)
    assert want in str(caught.value)
