"""Objects of the user's code by import path, such as ``my_metrics:StartsUpper``."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import BadValueError, did_you_mean

IMPORT_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""The form of an import path: ``my_metrics:StartsUpper``."""
_FOLDERS: ContextVar[tuple[Path, ...]] = ContextVar("auepora_folders", default=())
_MAY_LOAD: ContextVar[bool] = ContextVar("auepora_may_load", default=True)


class CodeNotLoadedError(BadValueError):
    """Code of the user is named where none may be imported."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"'{path}' is not imported here")


@contextmanager
def search_folders(*folders: Path, load: bool = True) -> Iterator[None]:
    """Within the context, modules and relative paths in specs are searched in these folders, the first one first.

    Without ``load``, ``import_object`` raises ``CodeNotLoadedError`` instead of importing anything.
    """
    tokens = _FOLDERS.set(folders), _MAY_LOAD.set(load)
    try:
        yield
    finally:
        _FOLDERS.reset(tokens[0])
        _MAY_LOAD.reset(tokens[1])


def _current_folders() -> tuple[Path, ...]:
    """The folders of ``search_folders``; outside of it, the current folder."""
    return _FOLDERS.get() or (Path(),)


def store_folders(file: Path | None) -> tuple[Path, ...]:
    """The folders for the plans of stored runs, which have no folder: that of the store's file, and the current one."""
    return (Path.cwd(),) if file is None else (file.parent, Path.cwd())


def find_file(path: str | Path) -> Path:
    """A file by its path in one of the folders of ``search_folders``; in the first one where none has it."""
    found = [folder / Path(path).expanduser() for folder in _current_folders()]
    return next((path for path in found if path.exists()), found[0])


def import_object(path: str, *folders: Path) -> Any:
    """The object at ``path`` (``package.module:name``), from one of these folders or an installed package.

    Without folders they are those of ``search_folders``. The folder stays first on ``sys.path``, so that the code may
    import more modules later, also in worker processes.
    """
    module_name, attribute = _parts(path)
    if not _MAY_LOAD.get():
        raise CodeNotLoadedError(path)
    searched = [folder.resolve() for folder in folders or _current_folders()]
    first = module_name.partition(".")[0]
    folder = next((place for place in searched if _module_files(place, first) or (place / first).is_dir()), searched[0])
    return _attribute(_import_module(module_name, folder, searched), attribute, module_name)


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


def _import_module(name: str, folder: Path, searched: list[Path]) -> ModuleType:
    if sys.path[:1] != [str(folder)]:
        sys.path[:] = [str(folder), *(path for path in sys.path if path != str(folder))]
    if name not in sys.modules:
        importlib.invalidate_caches()  # the file may have been written a moment ago
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            places = " or ".join(map(str, dict.fromkeys(searched)))
            raise BadValueError(
                f"there is no module '{missing}' in {places}, nor is one installed{_near(missing, folder)}"
            ) from None
        raise BadValueError(
            f"module '{name}' needs '{missing}', which is not installed{_where(error, folder)}"
        ) from error
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise BadValueError(f"importing '{name}' raised {error_text(error, folder)}") from error
    _refuse_namesake(module, name, folder)
    return module


def _near(missing: str, folder: Path) -> str:
    if "." in missing or not folder.is_dir():
        return ""
    return did_you_mean(missing, [entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()])


def _module_files(folder: Path, name: str) -> list[Path]:
    """The files of a folder that define a module of that name."""
    return [path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.exists()]


def _refuse_namesake(module: ModuleType, name: str, folder: Path) -> None:
    """Raise if a file of the plan's folder is shadowed by a module of the same name that was imported before."""
    first = name.partition(".")[0]
    own = _module_files(folder, first)
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


def error_text(error: BaseException, folder: Path) -> str:
    """The class and message of an error of the user's code, with the line of that code in ``folder`` that raised it."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{message}{_where(error, folder)}"


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
