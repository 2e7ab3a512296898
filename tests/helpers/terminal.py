"""A terminal that remembers what was written to it, in the place of stderr."""

import io
import sys
import threading

import pytest

from auepora_eval.render import terminal as module


class Terminal(io.StringIO):
    """A terminal that tells when something was written."""

    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.tty

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


def terminal(
    monkeypatch: pytest.MonkeyPatch, *, tty: bool = True, patience: float = 0.0, line_every: float = 3600.0
) -> Terminal:
    stream = Terminal(tty)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "SHOW_AFTER_S", patience)
    monkeypatch.setattr(module, "REFRESH_EVERY_S", 0.001)
    monkeypatch.setattr(module, "LOG_EVERY_S", line_every)
    return stream
