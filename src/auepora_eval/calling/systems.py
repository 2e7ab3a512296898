"""The supported forms of a system (object, function, retriever and generator), and one interface to call them all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..adapters.auto_adapt import adapt, adapt_generator
from ..core.errors import BadTypeError
from ..core.rag_interface import SimpleRAGSystem
from ..core.types import EvaluationSample
from .retrieve_generate import combine_parts

__all__ = ["System", "as_system", "is_async"]

_EXPECTED = "a system is an object with a method run(sample, *, top_k)"
_OR = "or arun, or with retrieve and generate, or a function of the same form"


@dataclass(frozen=True, slots=True)
class System:
    """A system in the form in which it is called."""

    called: str
    """What is called, as messages name it: ``run()``."""
    is_async: bool
    """Whether ``call`` gives something to await."""
    call: Callable[[EvaluationSample, int], Any]
    """Takes the sample and how many documents are wanted; gives the output, or what to await for it."""


def as_system(system: object) -> System:
    """Any supported object as a system; ``BadTypeError`` for others.

    Supported are, in this order: an object with ``run(sample, *, top_k)``, plain or ``async def``, or with an
    ``async def arun`` of that form, which goes first; one with ``retrieve(query, *, top_k)``, and ``generate(query,
    documents)`` if there are to be answers; a pair of a retriever and a generator; a function ``f(sample, *, top_k)``.
    An object of LangChain, LlamaIndex or Haystack is wrapped by its adapter first.
    """
    if isinstance(system, System):
        return system
    if type(system) is SimpleRAGSystem:
        return _from_parts(adapt(system.retriever), adapt_generator(system.generator))
    if isinstance(system, type):
        raise BadTypeError(f"{_EXPECTED}, and {system.__name__} is a class: give an object of it")
    system = adapt(system)
    arun, run = getattr(system, "arun", None), getattr(system, "run", None)
    if callable(arun) and is_async(arun):
        return _from_function(arun, f"{type(system).__name__}.arun", "arun()")
    if callable(run):
        return _from_function(run, f"{type(system).__name__}.run", "run()")
    if callable(arun):
        raise BadTypeError(f"{_EXPECTED}; {type(system).__name__}.arun must be an 'async def', or be called run")
    if callable(getattr(system, "retrieve", None)):
        return _from_parts(system, system if callable(getattr(system, "generate", None)) else None)
    if callable(getattr(system, "generate", None)):
        raise BadTypeError(
            f"{_EXPECTED}; {type(system).__name__} has generate() and no retrieve(): give a pair (retriever, generator)"
        )
    if isinstance(system, (tuple, list)) and len(system) == 2:
        return _from_parts(*system)
    if callable(system):
        name = getattr(system, "__name__", type(system).__name__)
        return _from_function(system, name, f"{name}()")
    raise BadTypeError(f"{_EXPECTED}, {_OR}, not {_shown(system)}")


def _from_function(function: Callable[..., Any], name: str, called: str) -> System:
    _require_form(function, name, "(sample, *, top_k)", (None,), {"top_k": 5})
    if _first_annotation(function) in (str, "str"):
        raise BadTypeError(f"{name} takes a text, but is given the whole sample: write {name}(sample, *, top_k)")

    def call(sample: EvaluationSample, top_k: int) -> Any:
        return function(sample, top_k=top_k)

    return System(called, is_async(function), call)


def _from_parts(retriever: object, generator: object | None) -> System:
    retrieve = _part(retriever, "retrieve", "(query, *, top_k)", ("",), {"top_k": 5})
    generate = None if generator is None else _part(generator, "generate", "(query, documents)", ("", []), {})
    parts = [part for part in (retrieve, generate) if part is not None]
    waits = [is_async(part) for part in parts]
    called = "retrieve()" if generate is None else "the retriever and the generator"
    return System(called, any(waits), combine_parts(retrieve, generate, waits))


def _part(holder: object, name: str, form: str, args: tuple[Any, ...], options: dict[str, Any]) -> Callable[..., Any]:
    what = "retriever" if name == "retrieve" else "generator"
    if isinstance(holder, type):
        raise BadTypeError(f"the {what} {holder.__name__} is a class: give an object of it")
    method = getattr(holder, name, None)
    if not callable(method):
        raise BadTypeError(f"a {what} is an object with a method {name}{form}, not {_shown(holder)}")
    _require_form(method, f"{type(holder).__name__}.{name}", form, args, options)
    return method  # type: ignore[no-any-return]


def _require_form(
    function: Callable[..., Any], name: str, form: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Raise if calls would fail, before the first of them."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadTypeError(f"{name} must return what it finds, and it is a generator: it has a 'yield'")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some built-in callables do not say
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        raise BadTypeError(f"{name} must accept {form}, and it is {name}{signature}: {error}") from None


def _first_annotation(function: Callable[..., Any]) -> Any:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    return parameters[0].annotation if parameters else None


def is_async(function: Any) -> bool:
    """Whether calling this gives something to await."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"a {type(value).__name__}"
