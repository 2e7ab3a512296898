"""A system whose retriever is replaced: it answers from documents that another run has stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..calling.parts import NOT_ASKED, parts_of
from ..calling.systems import System, as_system
from ..core.errors import BadTypeError, SystemCallError
from ..core.types import EvaluationSample, RetrievedDocument, SystemOutputs

__all__ = ["Context", "replaying"]

_WANTED = (
    "a replay needs a system in two parts: a pair (retriever, generator), an object with retrieve() and generate(), "
    "one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem, or the generator alone"
)


@dataclass(frozen=True, slots=True)
class Context:
    """The documents that a run had for a sample, in their order, or why it had none."""

    retrieved: Sequence[RetrievedDocument]
    missing: str | None = None


class _Given:
    """A retriever that has one thing to give, whatever it is asked."""

    def __init__(self, retrieved: Sequence[RetrievedDocument]) -> None:
        self.retrieved = list(retrieved)
        self.asked = False

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """All of them: another run was asked for so many, and that is what is replayed."""
        self.asked = True
        return list(self.retrieved)


class _GivenLater(_Given):
    """The same for a system that awaits its retriever."""

    async def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:  # type: ignore[override]
        """All of them."""
        return super().retrieve(query, top_k=top_k)


def replaying(system: object, contexts: Mapping[str, Context]) -> System:
    """The system, given for each sample the documents of ``contexts``; ``BadTypeError`` where it has no retriever.

    Its outputs hold these documents, whatever else the system does with them.
    """
    build, later = _rebuilt(system)
    kind = _GivenLater if later else _Given
    probe = as_system(build(kind([])))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[_Given, Any]:
        context = contexts[sample.sample_id]
        if context.missing is not None:
            raise SystemCallError("no_context", context.missing)
        given = kind(context.retrieved)
        return given, as_system(build(given)).call(sample, top_k)

    def call(sample: EvaluationSample, top_k: int) -> Any:
        return _finished(*begin(sample, top_k))

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        given, waiting = begin(sample, top_k)
        return _finished(given, await waiting)

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _finished(given: _Given, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # whoever called says what is wrong with it
    extra = dict(output.extra) if given.asked else {**output.extra, NOT_ASKED: True}
    return replace(output, retrieved=given.retrieved, extra=extra)


def _rebuilt(system: object) -> tuple[Callable[[object], object], bool]:
    """How the system is put together with another retriever, and whether it awaits its retriever."""
    parts = parts_of(system, _WANTED)
    if not parts.answers:
        raise BadTypeError(f"{_WANTED}; not a {type(system).__name__}")
    # In a pair it is asked here; a system that asks by itself must be given what it expects.
    later = parts.whole and inspect.iscoroutinefunction(getattr(parts.retriever, "retrieve", None))
    return parts.build, later
