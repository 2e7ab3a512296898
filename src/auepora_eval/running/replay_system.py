"""A system with a replaced retriever: it answers from stored documents of another run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..calling.system_parts import RETRIEVER_NOT_CALLED, split_system
from ..calling.systems import System, as_system
from ..core.errors import BadTypeError, SystemCallError
from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs

__all__ = ["ReplayContext", "make_replay_system"]

_REQUIREMENTS = (
    "a replay needs a system in two parts: a pair (retriever, generator), an object with retrieve() and generate(), "
    "one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem, or the generator alone"
)


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """The documents that a run retrieved for a sample, in order, or why there are none."""

    retrieved: Sequence[RetrievedDocument]
    missing: str | None = None


class _FixedRetriever:
    """A retriever that returns the same documents for every query."""

    def __init__(self, retrieved: Sequence[RetrievedDocument]) -> None:
        self.retrieved = list(retrieved)
        self.called = False

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """All documents, whatever ``top_k`` is: a replay uses what the other run retrieved."""
        self.called = True
        return list(self.retrieved)


class _AsyncFixedRetriever(_FixedRetriever):
    """``_FixedRetriever`` for a system that awaits its retriever."""

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:  # type: ignore[override]
        """All documents."""
        return super().retrieve(query, top_k=top_k)


def make_replay_system(system: object, contexts: Mapping[str, ReplayContext]) -> System:
    """The system with the documents of ``contexts`` for each sample; raises ``BadTypeError`` if it has no retriever.

    Its outputs contain these documents, whatever else the system does with them.
    """
    build, awaits = _system_builder(system)
    kind = _AsyncFixedRetriever if awaits else _FixedRetriever
    probe = as_system(build(kind([])))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[_FixedRetriever, Any]:
        context = contexts[sample.sample_id]
        if context.missing is not None:
            raise SystemCallError("no_context", context.missing)
        retriever = kind(context.retrieved)
        return retriever, as_system(build(retriever)).call(sample, top_k)

    def call(sample: EvaluationSample, top_k: int) -> Any:
        return _with_documents(*begin(sample, top_k))

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        retriever, pending = begin(sample, top_k)
        return _with_documents(retriever, await pending)

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _with_documents(retriever: _FixedRetriever, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # the caller reports the error
    extra = dict(output.extra) if retriever.called else {**output.extra, RETRIEVER_NOT_CALLED: True}
    return replace(output, retrieved=retriever.retrieved, extra=extra)


def _system_builder(system: object) -> tuple[Callable[[object], object], bool]:
    """A function that builds the system with another retriever, and whether the system awaits its retriever."""
    parts = split_system(system, _REQUIREMENTS)
    if not parts.answers:
        raise BadTypeError(f"{_REQUIREMENTS}; not a {type(system).__name__}")
    # The retriever of a pair is called here; a system that calls it itself may expect a coroutine.
    awaits = parts.whole and inspect.iscoroutinefunction(getattr(parts.retriever, "retrieve", None))
    return parts.build, awaits
