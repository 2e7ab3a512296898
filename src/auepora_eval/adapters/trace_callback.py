"""What happens inside a LangChain chain while it runs: which retrievals, which model calls, how many tokens.

Most chains end in a text and keep to themselves what they retrieved. The framework tells its callback handlers; this is
one, known by its methods alone, so that nothing needs to be imported.
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
    begun: float
    seconds: float | None = None
    documents: Sequence[Any] | None = None


class TraceCallback:
    """Takes down what one call of a chain does. A chain may work in several threads; each event touches its own key."""

    raise_error = False
    run_inline = True
    ignore_llm = ignore_chat_model = ignore_retriever = ignore_chain = False
    ignore_agent = ignore_retry = ignore_custom_event = True

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}
        self._searches: dict[Any, RetrievalTrace] = {}
        self._models: dict[Any, tuple[float, float | None]] = {}
        self._reports: list[Any] = []

    @property
    def searches(self) -> list[RetrievalTrace]:
        """The outermost retrievals that came to an end, in the order in which they began.

        A retriever may ask others; what these found is its business.
        """
        own = [one for key, one in self._searches.items() if not self._is_within_a_search(key)]
        return [one for one in own if one.documents is not None]

    @property
    def documents(self) -> Sequence[Any] | None:
        """What the last retrieval found that found anything; ``None`` where there was no retrieval."""
        found = [one.documents for one in self.searches]
        return next((listed for listed in reversed(found) if listed), [] if found else None)

    @property
    def timings(self) -> dict[str, float]:
        """The seconds spent on retrieval and on models, where there were any."""
        models = [
            seconds
            for key, (_, seconds) in self._models.items()
            if seconds is not None and not self._is_within_a_search(key)
        ]
        parts = {"retrieval": [one.seconds for one in self.searches if one.seconds is not None], "generation": models}
        return {name: sum(seconds) for name, seconds in parts.items() if seconds}

    @property
    def usage(self) -> dict[str, Any]:
        """The tokens of all model calls."""
        return sum_token_usage(self._reports)

    def _is_within_a_search(self, key: Any) -> bool:
        parent = self._parents.get(key)
        while parent is not None and parent not in self._searches:
            parent = self._parents.get(parent)
        return parent is not None

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Events of no interest here, those that are still to be invented among them."""
        if name.startswith("on_"):
            return _ignored
        raise AttributeError(name)

    def on_chain_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A chain begins; it may lie between a retriever and another."""
        self._parents[run_id] = parent_run_id

    def on_retriever_start(self, _: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A retrieval begins."""
        self._parents[run_id] = parent_run_id
        self._searches[run_id] = RetrievalTrace(query, time.perf_counter())

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: Any, **_: Any) -> None:
        """A retrieval has found something."""
        search = self._searches[run_id]
        search.seconds, search.documents = time.perf_counter() - search.begun, documents

    def on_llm_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
        """A model is asked."""
        self._parents[run_id] = parent_run_id
        self._models[run_id] = time.perf_counter(), None

    on_chat_model_start = on_llm_start

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        """A model has answered."""
        begun, _seconds = self._models[run_id]
        self._models[run_id] = begun, time.perf_counter() - begun
        messages = [getattr(one, "message", None) for several in response.generations for one in several]
        own = [getattr(message, "usage_metadata", None) for message in messages]
        # Older models report once for the whole call instead.
        self._reports += own if any(own) else [(getattr(response, "llm_output", None) or {}).get("token_usage")]


def _ignored(*_: Any, **__: Any) -> None:
    """An event of no interest."""
