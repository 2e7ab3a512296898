"""The supported forms of a system, one interface to call them, and systems named by an import path."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.rag_interface import SimpleRAGSystem, reported_usage
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, SystemCallError, did_you_mean
from ..features.rankings import retrieved_problem
from ..net.retry import WrappedError
from ..runtime.imports import error_text, import_object
from .adapters import LANGCHAIN, LLAMAINDEX, detect_framework, display_class_name

# --- a retriever and a generator as one system, with the time of each ------------------------------------------------


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
        output.usage = reported_usage(output.response)
        return output

    if any(waits):
        return call
    return lambda sample, top_k: run_without_waiting(call(sample, top_k))


def _awaitable(part: Callable[..., Any], waits: bool, all_waits: Sequence[bool]) -> Callable[..., Any]:
    if waits:
        return part

    async def here(*args: Any, **options: Any) -> Any:
        return part(*args, **options)

    async def in_a_thread(*args: Any, **options: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, functools.partial(part, *args, **options))

    return in_a_thread if any(all_waits) else here


def run_without_waiting(coroutine: Coroutine[Any, Any, Any]) -> Any:
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


# --- parts of a system: the retriever, and the rest as a function of a retriever -------------------------------------

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
    uses its attribute ``retriever``, a generator alone, and a system whose ``run`` takes ``documents`` to answer from.
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
    if (build := _documents_slot(system)) is not None:
        return SystemParts(None, build)
    if runs:
        known = display_class_name(system)
        if getattr(system, "takes_documents", None) is False:
            raise BadTypeError(f"{wanted}; {known} does not take documents: {_DOCUMENTS_OPTION}")
        if known != type(system).__name__:
            raise BadTypeError(f"{wanted}; a {known} answers as a whole: give its retriever and its generator apart")
        raise BadTypeError(f"{wanted}; {known} has a run() of its own and no 'retriever'")
    retrieves, answers = (callable(getattr(system, name, None)) for name in ("retrieve", "generate"))
    if retrieves or answers:
        return _pair(system if retrieves else None, system if answers else None)
    raise BadTypeError(f"{wanted}; not a {type(system).__name__}")


_DOCUMENTS_OPTION = (
    "where it can answer from documents that a request contains, write 'documents: true' in its 'system:' section, or "
    '"{documents}" in its request'
)


def _documents_slot(system: object) -> Callable[[object], object] | None:
    """A function that builds the system with a retriever, if its ``run`` takes ``documents``; else ``None``.

    Without documents such a system retrieves by itself.
    """
    arun, own_run = getattr(system, "arun", None), getattr(system, "run", None)
    run: Any = arun if callable(arun) and is_async(arun) else own_run or system
    if not callable(run) or not getattr(system, "takes_documents", True) or "documents" not in _parameters(run):
        return None

    def build(retriever: Any) -> System:
        def call(sample: EvaluationSample, top_k: int) -> Any:
            found = retriever.retrieve(sample.query, top_k=top_k)
            return run(sample, top_k=top_k, documents=[retrieved.doc for retrieved in found])

        return System("run()", is_async(run), call)

    return build


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


# --- adapters for objects of a supported framework -------------------------------------------------------------------


def adapt(value: Any) -> Any:
    """Wrap an object, or a pair of retriever and generator, in the adapter of its framework.

    Other objects are returned as they are, and so are objects that implement the system interface: a method ``run`` or
    ``arun`` whose first parameter is ``sample``.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and any(map(detect_framework, value)):
        return adapt(value[0]), adapt_generator(value[1])
    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is None or _is_system(value):
        return value
    from .haystack import from_haystack
    from .langchain import from_langchain
    from .llamaindex import from_llamaindex

    if framework is LANGCHAIN:
        return from_langchain(value)
    return from_llamaindex(value) if framework is LLAMAINDEX else from_haystack(value)


def adapt_generator(value: Any) -> Any:
    """Wrap the generator of a pair, if its framework supports generators with given documents."""
    from .langchain import langchain_generator
    from .llamaindex import llamaindex_generator

    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is LANGCHAIN:
        return langchain_generator(value)
    return llamaindex_generator(value) if framework is LLAMAINDEX else value


def _is_system(value: object) -> bool:
    methods = [_parameters(getattr(value, name, None)) for name in ("run", "arun")]
    return any(next(iter(parameters), None) == "sample" for parameters in methods)


# --- the supported forms of a system, and one interface to call them -------------------------------------------------

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
    load: Callable[[], None] | None = None
    """Imports what calls need, before the deadline of the first one begins."""


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
        found = _from_function(arun, f"{type(system).__name__}.arun", "arun()")
        return replace(found, load=getattr(system, "load_client", None))
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
    parameters = _require_form(function, name, "(sample, *, top_k)", (None,), {"top_k": 5})
    if parameters and parameters[0].annotation in (str, "str"):
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
) -> list[inspect.Parameter]:
    """The parameters of a function, as far as they are known; raises if calls would fail, before the first of them."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BadTypeError(f"{name} must return what it finds, and it is a generator: it has a 'yield'")
    signature = _signature(function)
    if signature is None:
        return []
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        raise BadTypeError(f"{name} must accept {form}, and it is {name}{signature}: {error}") from None
    return list(signature.parameters.values())


def _signature(function: Any) -> inspect.Signature | None:
    """The signature of a function; ``None`` where it is not known, as of some built-in callables."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a function, as far as they are known."""
    signature = _signature(function)
    return {} if signature is None else signature.parameters


def is_async(function: Any) -> bool:
    """Whether calling this gives something to await."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"a {type(value).__name__}"


# --- systems and other objects named by an import path, such as ``my_rag.system:MySystem`` ---------------------------


def load_python(path: str, args: Mapping[str, Any] | None = None, *, folder: Path) -> object:
    """The system at ``path`` (``package.module:name``), imported with ``folder`` first on ``sys.path``.

    A class is called with ``args``, and so is a function, as a factory; a function ``(sample, *, top_k)`` without
    ``args`` is the system itself; any other object is used as it is. The result must be one of the forms that
    ``interfaces.as_system`` takes; objects of a framework are wrapped by their adapter. ``folder`` stays on
    ``sys.path``, so that the system may import more modules later.
    """
    given = dict(args or {})

    def is_system(found: Any) -> bool:
        has_method = any(callable(getattr(found, name, None)) for name in ("run", "arun", "retrieve", "generate"))
        return has_method or detect_framework(found) is not None or (not given and _answers(found))

    found, made = load_or_build(path, given, folder=folder, as_is=is_system)
    return _require_system(found, path, made_by=made)


def load_or_build(
    path: str, args: Mapping[str, Any] | None = None, *, folder: Path, as_is: Callable[[Any], bool]
) -> tuple[Any, bool]:
    """The object at ``path``, imported with ``folder`` first on ``sys.path``; and whether it was built by a call.

    A class is called with ``args``, and so is any other callable unless ``as_is`` accepts it; any other object is used
    as it is.
    """
    found = import_object(path, Path(folder))
    given = dict(args or {})
    if inspect.isclass(found) or (callable(found) and not as_is(found)):
        return _call(found, given, path, folder), True
    if given:
        raise BadValueError(f"{path} is neither a class nor a function but an object: it takes no args")
    return found, False


def load_object(path: str, *, folder: Path) -> Any:
    """The object at ``path`` (``package.module:name``), imported with ``folder`` first on ``sys.path``.

    A class, and a function that takes no arguments, is called; anything else is taken as it is.
    """

    def is_ready(found: Any) -> bool:
        return not inspect.isfunction(found) or bool(inspect.signature(found).parameters)

    return load_or_build(path, folder=folder, as_is=is_ready)[0]


def needs_arguments(function: Callable[..., Any]) -> bool:
    """Whether it cannot be called without arguments."""
    signature = _signature(function)
    return signature is not None and not _binds(signature)


def _answers(function: Callable[..., Any]) -> bool:
    """Whether a function is a system: it takes a sample and ``top_k``, and cannot be called without."""
    signature = _signature(function)
    return signature is not None and _binds(signature, object(), top_k=1) and not _binds(signature)


def _binds(signature: inspect.Signature, *positional: object, **named: object) -> bool:
    try:
        signature.bind(*positional, **named)
    except TypeError:
        return False
    return True


def _call(maker: Callable[..., Any], args: dict[str, Any], path: str, folder: Path) -> Any:
    _check_args(maker, args, path)
    try:
        return maker(**args)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadValueError(f"{path} raised {error_text(error, folder.resolve())}") from error


def _check_args(maker: Callable[..., Any], args: dict[str, Any], path: str) -> None:
    signature = _signature(maker)
    if signature is None:  # then the call itself raises
        return
    try:
        signature.bind(**args)
    except TypeError as error:
        names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        unknown = [name for name in args if name not in names]
        listing = f"; it takes: {', '.join(names)}" if names else "; it takes none"
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            hint = did_you_mean(unknown[0], names, otherwise=listing)
            raise BadValueError(f"{path} takes no argument '{unknown[0]}'{hint}") from None
        raise BadValueError(f"the args do not fit {path}: {error}{listing}") from None


def _require_system(found: object, path: str, *, made_by: bool = False) -> object:
    """The object as a system; an error if it cannot be called."""
    if inspect.iscoroutine(found):
        found.close()
        raise BadValueError(f"{path} is an async function that makes a system; make it in a plain function")
    try:
        system: object = adapt(found)
        as_system(system)
    except BadTypeError as error:
        verb = "gave" if made_by else "is"
        what = "None" if found is None else f"an object of type {type(found).__name__}"
        raise BadValueError(f"{path} {verb} {what}: {error}") from None
    return system
