"""A system decomposed into its retriever and the rest, so that the retriever can be replaced."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from ..adapters.systems import display_class_name
from ..core.errors import BadTypeError
from ..core.rag_interface import SimpleRAGSystem

__all__ = ["RETRIEVER_NOT_CALLED", "SystemParts", "split_system"]

RETRIEVER_NOT_CALLED = "retriever_not_asked"
"""The key in an output's ``extra`` for an answer that was given without calling the retriever."""


@dataclass(frozen=True, slots=True)
class SystemParts:
    """The retriever of a system, and the rest of the system as a function of a retriever."""

    retriever: object | None
    """``None`` if there is only a generator."""
    build: Callable[[object], object]
    """The same system with this retriever."""
    answers: bool = True
    """Whether there is anything but a retriever."""
    whole: bool = False
    """Whether the system's own ``run`` calls the retriever."""


def split_system(system: object, wanted: str) -> SystemParts:
    """The parts of a system; ``BadTypeError`` if it has none, with a message that begins with ``wanted``.

    Supported are a pair (retriever, generator), an object with ``retrieve`` and maybe ``generate``, one whose ``run``
    uses its attribute ``retriever``, and a generator alone.
    """
    if isinstance(system, type):
        raise BadTypeError(f"{wanted}; {system.__name__} is a class: give an object of it")
    if isinstance(system, (tuple, list)) and len(system) == 2:
        return _pair(*system)
    if type(system) is SimpleRAGSystem:
        return _pair(system.retriever, system.generator)
    runs = any(callable(getattr(system, name, None)) for name in ("run", "arun"))
    retriever = getattr(system, "retriever", None)
    if runs and callable(getattr(retriever, "retrieve", None)):
        return SystemParts(retriever, _copy_with_retriever(system, wanted), whole=True)
    if runs:
        known = display_class_name(system)
        if known != type(system).__name__:
            raise BadTypeError(f"{wanted}; a {known} answers as a whole: give its retriever and its generator apart")
        raise BadTypeError(f"{wanted}; {known} has a run() of its own and no 'retriever'")
    retrieves, answers = (callable(getattr(system, name, None)) for name in ("retrieve", "generate"))
    if retrieves or answers:
        return _pair(system if retrieves else None, system if answers else None)
    raise BadTypeError(f"{wanted}; not a {type(system).__name__}")


def _pair(retriever: object | None, generator: object | None) -> SystemParts:
    return SystemParts(retriever, lambda other: (other, generator), answers=generator is not None)


def _copy_with_retriever(system: object, wanted: str) -> Callable[[object], object]:
    """Copies that share everything but the retriever: calls may be in flight at the same time."""

    def build(retriever: object) -> object:
        twin = copy.copy(system)
        try:
            twin.retriever = retriever  # type: ignore[attr-defined]
        except AttributeError as error:
            raise BadTypeError(f"{wanted}; that of {type(system).__name__} cannot be replaced: {error}") from None
        return twin

    return build
