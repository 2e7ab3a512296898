"""A system, or another object, named by its import path, such as ``my_rag.system:MySystem``."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import BadTypeError, BadValueError, did_you_mean
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
    module_name, attribute = _parts(path)
    folder = Path(folder).resolve()
    module = _import_module(module_name, folder)
    found = _attribute(module, attribute, module_name)
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
    module_name, attribute = _parts(path)
    folder = Path(folder).resolve()
    found = _attribute(_import_module(module_name, folder), attribute, module_name)
    makes = inspect.isclass(found) or (inspect.isfunction(found) and not inspect.signature(found).parameters)
    return _call(found, {}, path, folder) if makes else found


def _parts(path: object) -> tuple[str, str]:
    text = path.strip() if isinstance(path, str) else ""
    module, colon, attribute = text.partition(":")
    if not colon:
        nearest = ":".join(text.rsplit(".", 1)) if "." in text else f"{text or 'my_module'}:MySystem"
        raise BadValueError(f"{path!r:.100} names no object: write module:name, such as '{nearest}'")
    for name in (*module.split("."), *attribute.split(".")):
        if not name.isidentifier():
            hint = "; name the module, not its file" if module.endswith(".py") or "/" in module else ""
            raise BadValueError(f"{path!r:.100}: '{name}' is no name in Python{hint}")
    return module, attribute


def _import_module(name: str, folder: Path) -> ModuleType:
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()  # the file may have been written a moment ago
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise BadValueError(
                f"there is no module '{missing}' in {folder}, nor is one installed{_near(missing, folder)}"
            ) from None
        raise BadValueError(
            f"module '{name}' needs '{missing}', which is not installed{_where(error, folder)}"
        ) from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadValueError(f"importing '{name}' raised {_error_text(error)}{_where(error, folder)}") from error
    _refuse_namesake(module, name, folder)
    return module


def _near(missing: str, folder: Path) -> str:
    if "." in missing or not folder.is_dir():
        return ""
    return did_you_mean(missing, [entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()])


def _refuse_namesake(module: ModuleType, name: str, folder: Path) -> None:
    """Raise if a file of the plan's folder is shadowed by a module of the same name that was imported before."""
    first = name.partition(".")[0]
    own = [path for path in (folder / f"{first}.py", folder / first / "__init__.py") if path.exists()]
    file = getattr(sys.modules.get(first, module), "__file__", None)
    if own and (file is None or Path(file).resolve() not in [path.resolve() for path in own]):
        place = file or "Python itself"
        raise BadValueError(f"'{first}' is already the name of another module ({place}); rename {own[0]}")


def _attribute(module: ModuleType, attribute: str, module_name: str) -> Any:
    found: Any = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            public = {key: value for key, value in getattr(found, "__dict__", {}).items() if not key.startswith("_")}
            own = sorted(key for key, value in public.items() if getattr(value, "__module__", None) == module_name)
            listing = f"; it has: {', '.join(own[:10])}" if own else ""
            hint = did_you_mean(name, public, otherwise=listing)
            raise BadValueError(f"'{module_name}' has no '{name}'{hint}") from None
    return found


def _has_method(found: object) -> bool:
    """Whether this is a system or a part of one, rather than a function."""
    return any(callable(getattr(found, name, None)) for name in ("run", "arun", "retrieve", "generate"))


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
        raise BadValueError(f"{path} raised {_error_text(error)}{_where(error, folder)}") from error


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


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _where(error: BaseException, folder: Path) -> str:
    """The last line of the user's own code that an error passed through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame.filename, folder)]
    if not frames:
        return ""
    last = frames[-1]
    return f" ({Path(last.filename).name}, line {last.lineno}: {last.line})" if last.line else f" ({last.filename})"


def _is_theirs(filename: str, folder: Path) -> bool:
    path = Path(filename)
    return path.is_absolute() and path.is_relative_to(folder) and "site-packages" not in path.parts
