"""Conditions of every test: its time limit, and signals that are not ignored."""

import os
import signal
import subprocess
import sys

import pytest

from helpers.conditions import limit_slow_test
from helpers.processes import Process

ROWS = [  # markers, seconds, why
    ([], None, "the limit of pyproject.toml"),
    ([pytest.mark.slow], 300, "a slow test has more time"),
    ([pytest.mark.slow, pytest.mark.timeout(7)], 7, "its own limit counts"),
    ([pytest.mark.timeout(7)], 7, "its own limit counts, slow or not"),
]


@pytest.mark.parametrize(("markers", "seconds", "why"), ROWS)
def test_limit(
    request: pytest.FixtureRequest, markers: list[pytest.MarkDecorator], seconds: int | None, why: str
) -> None:
    item = pytest.Function.from_parent(request.node.parent, name="test_anything", callobj=lambda: None)
    for marker in markers:
        item.add_marker(marker)
    limit_slow_test(item)
    found = item.get_closest_marker("timeout")
    assert (found and found.args[0]) == seconds, why


def test_limits_of_this_session(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) == 60
    assert request.config.getini("timeout_method") == "signal"
    slow = [item for item in request.session.items if item.get_closest_marker("slow")]
    assert all(item.get_closest_marker("timeout") for item in slow)


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CHILD = """
import signal, sys
from helpers.conditions import restore_ignored
print(*(signal.getsignal(getattr(signal, name)) is signal.SIG_IGN for name in sys.argv[1:]))
print(*(number.name for number in restore_ignored(*(getattr(signal, name) for name in sys.argv[1:]))))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
sys.stdout.flush()
signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_ignored_in_a_test(number: signal.Signals) -> None:
    """Started in the background of a shell script, pytest inherits an ignored SIGINT."""
    # Ray installs a handler of its own in the process of its tests.
    assert signal.getsignal(number) is not signal.SIG_IGN


def test_an_ignored_signal_is_restored() -> None:
    """As in the background of a shell without job control."""
    names = [number.name for number in SIGNALS]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT TERM HUP; exec "$@"', "sh", sys.executable, "-c", CHILD, *names],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines() == ["True True True", "SIGINT SIGTERM SIGHUP", "True"], done.stderr
    assert (done.returncode, done.stderr.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")


def test_a_process_does_not_outlast_the_test() -> None:
    """``Popen`` would wait for its end, and the time limit would end nothing."""
    with pytest.raises(KeyError), Process(["sleep", "600"]) as process:
        raise KeyError
    assert process.returncode == -signal.SIGKILL
    with Process([sys.executable, "-c", ""]) as process:
        pass
    assert process.returncode == 0
