"""A user's project whose runs are checked against gates, and the command line as a function."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.user_project import Project, own_systems


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The folder of a user's project with 60 samples, which is where we are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    with own_systems():
        yield Project(tmp_path, 60)
