"""Stores to test with: a SQLite file, and a PostgreSQL server where one is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from auepora_eval.store import RunStore


@pytest.fixture(scope="module", autouse=True)
def new_stores() -> None:
    """New stores are made by migrations."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.part("postgres"))])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that does not exist yet, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.sqlite")
    empty: str = request.getfixturevalue("postgres_url")
    return empty


@pytest.fixture
def store(url: str) -> Iterator[RunStore]:
    """An empty store."""
    with RunStore.open(url) as opened:
        yield opened
