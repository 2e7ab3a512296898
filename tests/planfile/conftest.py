"""Systems for plans: those of the library, or stand-ins of the same form where it has none."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from auepora_eval.core.errors import BadTypeError, BadValueError


def load_python(path: str, args: Mapping[str, Any], *, folder: Path) -> object:
    module, _, name = path.partition(":")
    sys.path.insert(0, str(folder))
    try:
        return getattr(importlib.import_module(module), name)(**args)
    except ModuleNotFoundError as error:
        raise BadValueError(f"there is no module '{error.name}' in {folder}") from error


class HttpSystem:
    def __init__(self, url: str, **options: Any) -> None:
        self.url, self.options = url, options

    def run(self, sample: object, *, top_k: int) -> object:
        raise NotImplementedError


class CommandSystem(HttpSystem):
    pass


def as_system(system: object) -> object:
    if not hasattr(system, "run"):
        raise BadTypeError(f"a {type(system).__name__} cannot be asked: it has no run(sample, *, top_k)")
    return system


STAND_INS: dict[str, Any] = {
    "systems.python": load_python,
    "systems.http": HttpSystem,
    "systems.command": CommandSystem,
    "calling.systems": as_system,
}


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sees to it that systems can be built, and that what was imported for one test is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, part in STAND_INS.items():
        full = f"auepora_eval.{name}"
        if importlib.util.find_spec(full) is None:
            module = ModuleType(full)
            setattr(module, part.__name__, part)
            monkeypatch.setitem(sys.modules, full, module)
