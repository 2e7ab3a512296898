"""Fixtures that undo the imports of a plan."""

import sys

import pytest


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore ``sys.path``, to which plans add their folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
