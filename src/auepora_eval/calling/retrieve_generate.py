"""A retriever and a generator called as one system, with the time of each."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..core.errors import SystemCallError
from ..core.retry import WrappedError
from ..core.types import EvaluationSample, SystemOutputs
from ..features.rankings import retrieved_problem

__all__ = ["GenerationFailedError", "combine_parts"]


class GenerationFailedError(WrappedError):
    """The generator raised; holds the exception and the ranking retrieved before. Never leaves this package."""

    def __init__(self, cause: Exception, output: SystemOutputs) -> None:
        self.cause, self.output = cause, output
        super().__init__(str(type(cause)))


def combine_parts(
    retrieve: Callable[..., Any], generate: Callable[..., Any] | None, waits: Sequence[bool]
) -> Callable[[EvaluationSample, int], Any]:
    """A function of sample and depth that retrieves, then generates. ``waits`` says which of the two are coroutines.

    If one is, the result must be awaited, and the other runs in a thread so that it does not block the loop.
    """
    retrieve_async = _awaitable(retrieve, waits[0], waits)
    generate_async = None if generate is None else _awaitable(generate, waits[1], waits)

    async def call(sample: EvaluationSample, top_k: int) -> SystemOutputs:
        begun = time.perf_counter()
        retrieved = await retrieve_async(sample.query, top_k=top_k)
        retrieved_at = time.perf_counter()
        output = SystemOutputs(retrieved, timings={"retrieval": retrieved_at - begun})
        _require_documents(output)
        if generate_async is None:
            return output
        try:
            output.response = await generate_async(sample.query, [item.doc for item in output.retrieved])
        except Exception as error:
            raise GenerationFailedError(error, output) from error
        output.timings["generation"] = time.perf_counter() - retrieved_at
        return output

    if any(waits):
        return call
    return lambda sample, top_k: _run_without_waiting(call(sample, top_k))


def _awaitable(part: Callable[..., Any], waits: bool, all_waits: Sequence[bool]) -> Callable[..., Any]:
    if waits:
        return part

    async def here(*args: Any, **options: Any) -> Any:
        return part(*args, **options)

    async def in_a_thread(*args: Any, **options: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(part, *args, **options))

    return in_a_thread if any(all_waits) else here


def _run_without_waiting(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, so that one function body serves plain and asynchronous parts."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call without waiting parts does not wait")


def _require_documents(output: SystemOutputs) -> None:
    if not isinstance(output.retrieved, (list, tuple)):
        kind = type(output.retrieved).__name__
        raise SystemCallError("bad_output", f"what retrieve() returned is a {kind}, not a list of RetrievedDocument")
    problem = retrieved_problem(output)
    if problem is not None:
        raise SystemCallError("bad_output", f"what retrieve() returned {problem}")
