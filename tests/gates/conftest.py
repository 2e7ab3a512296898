"""A user's project whose runs are held against gates, and the command line as a function."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auepora_eval.cli.main import main
from user_project import Project


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
    for module in [name for name in sys.modules if name.endswith("_rag")]:
        del sys.modules[module]


@pytest.fixture
def auepora(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``auepora`` with these arguments: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, captured.out, captured.err

    return call
