"""A user's project whose runs are checked against gates, and the command line as a function."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.user_project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The folder of a user's project with 60 samples, which is where we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    _forget_systems()
    yield Project(tmp_path, 60)
    _forget_systems()


def _forget_systems() -> None:
    """The next project has a module of the same name."""
    for module in [name for name in sys.modules if name.endswith("_rag") and "." not in name]:
        del sys.modules[module]
