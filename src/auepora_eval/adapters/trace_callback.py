"""A LangChain callback that records the retrievals, model calls and tokens of a chain.

Most chains return a string and not the retrieved documents, but callback handlers see them. This handler is duck-typed,
so that nothing needs to be imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .replies import sum_token_usage

__all__ = ["RetrievalTrace", "TraceCallback"]


@dataclass(slots=True)
class RetrievalTrace:
    """One retrieval."""

    query: str
    began: float
    seconds: float | None = None
    documents: Sequence[Any] | None = None


class TraceCallback:
    """Records one call of a chain. A chain may use several threads; each event has its own key."""

    raise_error = False
    run_inline = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_chain = False
    ignore_agent = ignore_retry = ignore_custom_event = True

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}
        self._retrievals: dict[Any, RetrievalTrace] = {}
        self._model_calls: dict[Any, tuple[float, float | None]] = {}
        self._reports: list[Any] = []

    @property
    def retrievals(self) -> list[RetrievalTrace]:
        """The outermost completed retrievals, in the order in which they began.

        A retriever may call others; nested retrievals are left out.
        """
        own = [one for key, one in self._retrievals.items() if not self._is_inside_retrieval(key)]
        return [one for one in own if one.documents is not None]

    @property
    def documents(self) -> Sequence[Any] | None:
        """The documents of the last non-empty retrieval; ``None`` if there was no retrieval."""
        found = [one.documents for one in self.retrievals]
        return next((listed for listed in reversed(found) if listed), [] if found else None)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds spent on retrieval and generation, if any."""
        models = [
            seconds
            for key, (_, seconds) in self._model_calls.items()
            if seconds is not None and not self._is_inside_retrieval(key)
        ]
        parts = {"retrieval": [one.seconds for one in self.retrievals if one.seconds is not None], "generation": models}
        return {name: sum(seconds) for name, seconds in parts.items() if seconds}

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of all model calls."""
        return sum_token_usage(self._reports)

    def _is_inside_retrieval(self, key: Any) -> bool:
        parent = self._parents.get(key)
        while parent is not None and parent not in self._retrievals:
            parent = self._parents.get(parent)
        return parent is not None

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Ignore all other events, including future ones."""
        if name.startswith("on_"):
            return _ignore_event
        raise AttributeError(name)

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A chain begins; it may be nested in a retrieval."""
        self._parents[run_id] = parent_run_id

    def on_retriever_start(self, _: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A retrieval begins."""
        self._parents[run_id] = parent_run_id
        self._retrievals[run_id] = RetrievalTrace(query, time.perf_counter())

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **_: Any) -> None:
        """A retrieval has finished."""
        search = self._retrievals[run_id]
        search.seconds, search.documents = time.perf_counter() - search.began, documents

    def on_llm_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A model call begins."""
        self._parents[run_id] = parent_run_id
        self._model_calls[run_id] = time.perf_counter(), None

    on_chat_model_start = on_llm_start

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """A model call has finished."""
        began, _seconds = self._model_calls[run_id]
        self._model_calls[run_id] = began, time.perf_counter() - began
        messages = [getattr(one, "message", None) for several in response.generations for one in several]
        own = [getattr(message, "usage_metadata", None) for message in messages]
        # Older models report once for the whole call instead.
        self._reports += own if any(own) else [(getattr(response, "llm_output", None) or {}).get("token_usage")]


def _ignore_event(*_: Any, **__: Any) -> None:
    """Do nothing."""
