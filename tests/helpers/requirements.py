"""Parts a plain machine may lack: where one is missing the test skips, saying so, or fails if all are required."""

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).resolve().parents[2]
DATA = REPO.parent / "shared" / "data"


def missing(what: str) -> None:
    """Skip the running test because ``what`` is absent; with ``AUEPORA_REQUIRE_ALL=1`` that is a failure."""
    if os.environ.get("AUEPORA_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing and AUEPORA_REQUIRE_ALL=1")
    pytest.skip(f"{what} is missing")


def need(module: str) -> ModuleType:
    """Import ``module``, or skip the running test."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"package {module}")
        raise


def need_program(name: str) -> str:
    """The path of a program, or skip the running test."""
    found = shutil.which(name)
    if found is None:
        missing(f"program {name}")
    assert found is not None
    return found


def need_data(*parts: str) -> Path:
    """The path of public test data beside the checkout, or skip the running test."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        # Data never comes with an installation, so its absence is a skip everywhere.
        pytest.skip(f"public test data {'/'.join(parts)} is not beside this checkout")
    return path
