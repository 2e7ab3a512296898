"""A store to read queries from."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from auepora_eval.store.runs import RunStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    """An empty store in a file."""
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened
