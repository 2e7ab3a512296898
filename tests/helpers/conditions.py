"""What every test may rely on, however it was started: a time limit, and signals that are not ignored."""

import signal

import pytest

SLOW_LIMIT = 300
"""Seconds that a slow test may take. For other tests the limit is ``timeout`` in pyproject.toml."""


def limit_slow_test(item: pytest.Item) -> None:
    """Give a slow test its time limit, unless it has one of its own."""
    if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(SLOW_LIMIT))


def restore_ignored(*numbers: signal.Signals) -> list[signal.Signals]:
    """Give these signals their default handlers where they are ignored, and return those that were.

    A shell without job control starts processes in the background with an ignored SIGINT, ``nohup`` with an ignored
    SIGHUP, and child processes inherit it.
    """
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    return ignored
