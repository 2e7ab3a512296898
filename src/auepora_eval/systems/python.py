"""A system, or another object, named by its import path, such as ``my_rag.system:MySystem``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import BadTypeError, BadValueError, did_you_mean
from ..runtime.imports import error_text, import_object
from .adapters import detect_framework
from .interfaces import adapt, as_system


def load_python(path: str, args: Mapping[str, Any] | None = None, *, folder: Path) -> object:
    """The system at ``path`` (``package.module:name``), imported with ``folder`` first on ``sys.path``.

    A class is called with ``args``, and so is a function, as a factory; a function ``(sample, *, top_k)`` without
    ``args`` is the system itself; any other object is used as it is. The result must be one of the forms that
    ``interfaces.as_system`` takes; objects of a framework are wrapped by their adapter. ``folder`` stays on
    ``sys.path``, so that the system may import more modules later.
    """
    given = dict(args or {})

    def is_system(found: Any) -> bool:
        return _has_method(found) or detect_framework(found) is not None or (not given and _answers(found))

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


def _has_method(found: object) -> bool:
    """Whether this is a system or a part of one, rather than a function."""
    return any(callable(getattr(found, name, None)) for name in ("run", "arun", "retrieve", "generate"))


def needs_arguments(function: Callable[..., Any]) -> bool:
    """Whether it cannot be called without arguments."""
    try:
        return not _binds(inspect.signature(function))
    except ValueError:  # some built-ins have no signature
        return False


def _answers(function: Callable[..., Any]) -> bool:
    """Whether a function is a system: it takes a sample and ``top_k``, and cannot be called without."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return False
    return _binds(signature, object(), top_k=1) and not _binds(signature)


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
    try:
        signature = inspect.signature(maker)
    except (ValueError, TypeError):  # some built-ins have no signature; then the call itself raises
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
