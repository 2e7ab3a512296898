"""Settings of Hypothesis, time limits, groups of tests for the workers, and fixtures that all tests share."""

import gc
import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from auepora_eval.cli.main import main
from auepora_eval.compare import analysis
from auepora_eval.stats.bootstrap import bootstrap_interval, bootstrap_interval_of
from helpers import requirements
from helpers.browser_page import chromium
from helpers.conditions import limit_slow_test, restore_ignored
from helpers.new_stores import quick_new_stores
from helpers.postgres_server import Server, binaries, make_server
from helpers.ray_cases import SHARED_CLUSTER, ray_or_skip

# Frameworks that some tests adapt send usage data unless these are set before they are imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # no test downloads a model

# The models of the tests are tiny: more threads only add waiting on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadlines, because they measure the machine; derandomised, so that a failure can be repeated.
for name, max_examples in {"fast": 20, "thorough": 30}.items():
    settings.register_profile(name, deadline=None, derandomize=True, max_examples=max_examples)
settings.load_profile(requirements.profile())

# Fixtures that start a part which is expensive to start: the part, which is also the group of the test.
PART_FIXTURES = {
    "postgres_server": "postgres",
    "postgres_url": "postgres",
    "ray_cluster": "ray",
    "no_ray_connection": "ray",
    "browser": "chromium",
}
# Modules that take longest: they start first, so that no worker is left alone with one of them at the end.
LONGEST = (
    "test_missing_outputs",
    "test_common",
    "test_command_system",
    "test_docs",
    "test_shards",
    "test_timeouts",
    "test_report_page",
    "test_sharded",
    "test_metric_comparisons",
    "test_document_sweeps",
)
TESTS = Path(__file__).parent
# Folders of tests about intervals, and of tests that compare them with recorded or printed ones.
WITH_ALL_DRAWS = ("project", "redteam", "regression", "stats")
_DATABASES = itertools.count(1)
_FOLDERS = itertools.count(1)
gc.disable()  # until all tests are collected: what that makes is kept


def pytest_configure() -> None:
    """Let Ctrl-C end tests and what they start, also where pytest was started in the background of a shell script.

    An ignored SIGHUP stays so: whoever uses ``nohup`` wants the tests to go on without the terminal.
    """
    restore_ignored(signal.SIGINT, signal.SIGTERM)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a part as slow, and send those of one part to one worker, so that it starts once.

    The other tests go to the workers module by module, so that what a module sets up is set up once. Parts and the
    longest modules come first.
    """
    order = {name: place for place, name in enumerate(LONGEST)}
    places: dict[pytest.Item, int] = {}
    for item in items:
        parts = [str(marker.args[0]) for marker in item.iter_markers("part")]
        parts += [part for name, part in PART_FIXTURES.items() if name in getattr(item, "fixturenames", ())]
        if parts:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group(parts[0]))
        elif item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        limit_slow_test(item)
        places[item] = -1 if parts else order.get(item.path.stem, len(order))
    items.sort(key=places.__getitem__)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check that groups are known to pytest-xdist; let the garbage collector run seldom and skip thousands of tests."""
    grouped = getattr(session.config.option, "loadgroup", False)  # set in workers
    if grouped and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist does not group tests: its version does not fit this version of pytest")
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let helpers see whether the running test is marked slow."""
    requirements.running_test = item
    try:
        return (yield)
    finally:
        requirements.running_test = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave out of the report of a passed step what nobody reads: workers would spend seconds on sending it."""
    report = yield
    if report.passed:
        report.keywords = {}
    return report


@pytest.fixture
def auepora(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``auepora`` with these arguments: exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, captured.out, captured.err

    return call


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder. That of pytest looks through the folders of all earlier tests for a free number."""
    folder = tmp_path_factory.getbasetemp() / f"folder{next(_FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="module", autouse=True)
def new_stores() -> Iterator[None]:
    """How new stores get their tables: quickly, except in tests of the store and in golden tests."""
    with quick_new_stores():
        yield


@pytest.fixture(scope="module", autouse=True)
def interval_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bootstrap intervals of metrics are made from 50 draws, not 1000, in tests that are not about their ends."""
    folder = request.path.relative_to(TESTS).parts[0]
    if folder in WITH_ALL_DRAWS:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for function in (bootstrap_interval, bootstrap_interval_of):
            defaults = function.__kwdefaults__
            assert defaults is not None
            assert defaults["draws"] == 1000
            patch.setitem(defaults, "draws", 50)
        yield


@pytest.fixture
def few_comparison_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons of runs draw a tenth as often, for tests that are not about p-values or the ends of intervals."""
    for name in ("_DRAWS", "_FOLD_DRAWS"):
        monkeypatch.setattr(analysis, name, getattr(analysis, name) // 10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser. It is closed after each module: while it is open, an event loop runs in this thread."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def _stop_ray() -> Iterator[None]:
    yield
    SHARED_CLUSTER.stop()


@pytest.fixture(scope="module")
def ray_cluster(_stop_ray: None) -> None:
    """A Ray cluster that all tests share."""
    SHARED_CLUSTER.start()


@pytest.fixture
def no_ray_connection() -> None:
    """This process is connected to no cluster."""
    ray_or_skip()
    SHARED_CLUSTER.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for all tests of a session."""
    requirements.need("psycopg")
    folder = binaries()
    if folder is None:
        requirements.missing("PostgreSQL")
        raise AssertionError
    requirements.check_marked_slow("PostgreSQL")
    data = Path(tempfile.mkdtemp(prefix="auepora-postgres-"))
    data.chmod(0o755)
    try:
        running = make_server(data, folder)
        yield running
        running.stop("immediate")
    finally:
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"store{next(_DATABASES)}"
    postgres_server.execute(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")
