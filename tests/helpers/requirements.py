"""Parts that a plain machine may lack (packages, programs, data), and how thorough the tests are."""

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).resolve().parents[2]
DATA = REPO.parent / "shared" / "data"

running_test: pytest.Item | None = None  # set by conftest


def profile() -> str:
    """The Hypothesis profile: ``fast``, or ``thorough`` if the environment says so."""
    return os.environ.get("AUEPORA_HYPOTHESIS", "fast")


def examples(thorough: int, name: str | None = None) -> int:
    """How many examples Hypothesis tries: this many in the thorough profile, a fifth (at least 10) in the fast one."""
    return thorough if (name or profile()) == "thorough" else min(thorough, max(10, thorough // 5))


def missing(what: str) -> None:
    """Skip the running test because ``what`` is absent; with ``AUEPORA_REQUIRE_ALL=1`` that is a failure."""
    if os.environ.get("AUEPORA_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is missing and AUEPORA_REQUIRE_ALL=1")
    pytest.skip(f"{what} is missing")


def check_marked_slow(part: str) -> None:
    """Fail if a test that is not marked slow starts a part such as a server or a model."""
    if running_test is not None and running_test.get_closest_marker("slow") is None:
        pytest.fail(f"this test starts {part}: mark it with @pytest.mark.part(...)", pytrace=False)


def need(module: str) -> ModuleType:
    """Import ``module``, or skip the running test."""
    try:
        return importlib.import_module(module)
    except ImportError:
        missing(f"package {module}")
        raise


def need_program(name: str) -> str:
    """The path of a program, or skip the running test."""
    path = shutil.which(name)
    if path is None:
        missing(f"program {name}")
    assert path is not None
    return path


def need_data(*parts: str) -> Path:
    """The path of public test data beside the checkout, or skip the running test."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        # Data never comes with an installation, so its absence is a skip everywhere.
        pytest.skip(f"public test data {'/'.join(parts)} is not beside this checkout")
    return path
