"""Calls of a perturber for many questions: sequential, threaded, as coroutines, or as a batch."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

from ..core.errors import BadTypeError

__all__ = ["PerturberCaller", "PerturberReply"]

PerturberReply = str | Exception
"""The perturbed question, or the error of the call."""


class PerturberCaller:
    """Calls perturbers with up to ``concurrency`` questions in flight; an exception takes the place of a text.

    Coroutines all run in one event loop, since a client that was opened in one cannot be used in another. The loop has
    a thread of its own: the caller may be in a loop already, as in a notebook.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def call(self, perturber: Any, queries: Sequence[str], rngs: Sequence[Random]) -> list[PerturberReply]:
        """The perturber's reply to each question, in order."""
        if not queries:
            return []
        perturb_batch = getattr(perturber, "perturb_batch", None)
        if callable(perturb_batch):
            return self._call_batch(perturb_batch, queries, rngs)

        def call(query: str, rng: Random) -> Any:
            try:
                return perturber.perturb(query, rng)
            except Exception as error:  # the user's code may raise anything
                return error

        first = call(queries[0], rngs[0])
        if inspect.isawaitable(first):  # only the result shows it: a plain function may return a coroutine
            return list(map(_validate_text, self._gather(first, call, queries[1:], rngs[1:])))
        if self._concurrency == 1:
            rest = list(map(call, queries[1:], rngs[1:]))
        else:
            with ThreadPoolExecutor(self._concurrency) as pool:
                rest = list(pool.map(call, queries[1:], rngs[1:]))
        return list(map(_validate_text, [first, *rest]))

    def _call_batch(
        self, perturb_batch: Callable[..., Any], queries: Sequence[str], rngs: Sequence[Random]
    ) -> list[PerturberReply]:
        try:
            replies = perturb_batch(list(queries), list(rngs))
            texts = list(self._run(replies) if inspect.isawaitable(replies) else replies)
        except Exception as error:  # the user's code may raise anything
            return [error] * len(queries)
        if len(texts) != len(queries):
            return [BadTypeError(f"perturb_batch returned {len(texts)} texts for {len(queries)} questions")] * len(
                queries
            )
        return list(map(_validate_text, texts))

    def _gather(
        self,
        first: Awaitable[Any],
        call: Callable[[str, Random], Any],
        queries: Sequence[str],
        rngs: Sequence[Random],
    ) -> list[Any]:
        async def one(start: Callable[[], Any]) -> Any:
            async with semaphore:
                reply = start()
                try:
                    return await reply if inspect.isawaitable(reply) else reply
                except Exception as error:  # the user's code may raise anything
                    return error

        async def gather_all() -> list[Any]:
            rest = (one(partial(call, query, rng)) for query, rng in zip(queries, rngs, strict=True))
            return await asyncio.gather(one(lambda: first), *rest)

        semaphore = asyncio.Semaphore(self._concurrency)
        replies: list[Any] = self._run(gather_all())
        return replies

    def _run(self, work: Awaitable[Any]) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="auepora-perturb", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(_await_result(work), self._loop).result()


async def _await_result(work: Awaitable[Any]) -> Any:
    return await work


def _validate_text(text: Any) -> PerturberReply:
    if isinstance(text, Exception):
        return text
    if not isinstance(text, str):
        return BadTypeError(f"it gave {type(text).__name__} where a text is wanted")
    return text if text.strip() else BadTypeError("it returned an empty string")
