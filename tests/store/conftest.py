"""Stores to test with: a real file, and a real server where one is installed."""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from auepora_eval.store import RunStore
from helpers.postgres_server import Server, binaries, make_server
from helpers.requirements import missing, need

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server for all tests of a session."""
    need("psycopg")
    found = binaries()
    if found is None:
        missing("PostgreSQL")
        raise AssertionError
    folder = Path(tempfile.mkdtemp(prefix="auepora-postgres-"))
    folder.chmod(0o755)
    try:
        made = make_server(folder, found)
        yield made
        made.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(server: Server) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"store{next(_NUMBERS)}"
    server.execute(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store may be made, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.sqlite")
    made: str = request.getfixturevalue("postgres_url")
    return made


@pytest.fixture
def store(url: str) -> Iterator[RunStore]:
    """An empty store."""
    with RunStore.open(url) as opened:
        yield opened
