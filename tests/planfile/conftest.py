"""What is imported for one plan is gone after it."""

import sys

import pytest


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans put their folder on the path; it is taken back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
