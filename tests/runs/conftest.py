"""A user's project to run plans in, and the command line as a function."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.user_project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Project]]:
    """Makes the folder of a user's project, with so many samples, and goes there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    yield lambda samples: Project(tmp_path, samples)
    for module in [name for name in sys.modules if name.endswith("_rag") and "." not in name]:
        del sys.modules[module]  # the next project has one of the same name
