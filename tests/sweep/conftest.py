"""A project with a system to sweep over."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.swept_project import SweepProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SweepProject]]:
    """Makes a project with so many samples, and goes to its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    sys.modules.pop("swept_rag", None)
    yield lambda samples=40: SweepProject(tmp_path, samples)
    sys.modules.pop("swept_rag", None)
