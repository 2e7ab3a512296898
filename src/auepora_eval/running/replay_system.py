"""A system whose retriever is replaced: it answers from documents that another run has stored."""

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
    """The documents that a run had for a sample, in their order, or why it had none."""

    retrieved: Sequence[RetrievedDocument]
    missing: str | None = None


class _FixedRetriever:
    """A retriever that has one thing to give, whatever it is asked."""

    def __init__(self, retrieved: Sequence[RetrievedDocument]) -> None:
        self.retrieved = list(retrieved)
        self.asked = False

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """All of them: another run was asked for so many, and that is what is replayed."""
        self.asked = True
        return list(self.retrieved)


class _AsyncFixedRetriever(_FixedRetriever):
    """The same for a system that awaits its retriever."""

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:  # type: ignore[override]
        """All of them."""
        return super().retrieve(query, top_k=top_k)


def make_replay_system(system: object, contexts: Mapping[str, ReplayContext]) -> System:
    """The system, given for each sample the documents of ``contexts``; ``BadTypeError`` where it has no retriever.

    Its outputs hold these documents, whatever else the system does with them.
    """
    build, later = _system_builder(system)
    kind = _AsyncFixedRetriever if later else _FixedRetriever
    probe = as_system(build(kind([])))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[_FixedRetriever, Any]:
        context = contexts[sample.sample_id]
        if context.missing is not None:
            raise SystemCallError("no_context", context.missing)
        given = kind(context.retrieved)
        return given, as_system(build(given)).call(sample, top_k)

    def call(sample: EvaluationSample, top_k: int) -> Any:
        return _with_documents(*begin(sample, top_k))

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        given, waiting = begin(sample, top_k)
        return _with_documents(given, await waiting)

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _with_documents(given: _FixedRetriever, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # whoever called says what is wrong with it
    extra = dict(output.extra) if given.asked else {**output.extra, RETRIEVER_NOT_CALLED: True}
    return replace(output, retrieved=given.retrieved, extra=extra)


def _system_builder(system: object) -> tuple[Callable[[object], object], bool]:
    """How the system is put together with another retriever, and whether it awaits its retriever."""
    parts = split_system(system, _REQUIREMENTS)
    if not parts.answers:
        raise BadTypeError(f"{_REQUIREMENTS}; not a {type(system).__name__}")
    # In a pair it is asked here; a system that asks by itself must be given what it expects.
    later = parts.whole and inspect.iscoroutinefunction(getattr(parts.retriever, "retrieve", None))
    return parts.build, later
