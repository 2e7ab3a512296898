"""How far the work is, on stderr: one line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["clear", "format_duration", "is_quiet", "progress", "silenced"]

SHOW_AFTER_S = 1.0
"""Seconds of work that need no line."""
REFRESH_EVERY_S = 0.2
LOG_EVERY_S = 30.0
"""Seconds between two lines where stderr is no terminal, such as a log of a CI job."""


class _ProgressLine:
    """The one line there is; it is rewritten in place and wiped when the work ends or something else is printed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown = 0

    def show(self, stream: TextIO, text: str) -> None:
        with self._lock:
            self._write(stream, text)
            self._shown = len(text)

    def clear(self, stream: TextIO) -> None:
        with self._lock:
            if self._shown:
                self._write(stream, "")
                self._shown = 0

    def _write(self, stream: TextIO, text: str) -> None:
        # A terminal that went away is no reason to stop the work.
        with suppress(OSError, ValueError):
            stream.write(f"\r{text:<{self._shown}}" + ("" if text else "\r"))
            stream.flush()


_line = _ProgressLine()
_quiet = 0
"""How many blocks there are around us in which nothing is to be shown."""


@contextmanager
def silenced() -> Iterator[None]:
    """Within it no line is shown, and no remark is made."""
    global _quiet  # noqa: PLW0603 -- one terminal, one state
    _quiet += 1
    try:
        yield
    finally:
        _quiet -= 1


def is_quiet() -> bool:
    """Whether nothing besides results and errors is to be shown."""
    return _quiet > 0


def clear() -> None:
    """Take the line away before something else is written to stderr; the next tick brings it back."""
    _line.clear(sys.stderr)


@contextmanager
def progress(
    what: str,
    total: int | Callable[[], int] | None = None,
    *,
    linger: bool = True,
    rate: bool = False,
    remark: Callable[[], str] = str,
) -> Iterator[Callable[[int], None]]:
    """Show ``what`` is being done and, where ``total`` is known, how much of it; yields what counts it up.

    A ``total`` that is found out on the way is a function.

    With ``rate`` the line tells how much is done a second and how long the rest will take; ``remark`` is asked for what
    else there is to say. The line goes at the end of the block, or, where it may not ``linger``, as soon as all is
    counted: what follows may print something of its own. Where stderr is no terminal, a plain line is written now and
    then and stays.
    """
    stream = sys.stderr
    terminal = _is_terminal(stream)
    if is_quiet() or terminal is None:
        yield lambda _: None
        return

    def of_all() -> int | None:
        return total() if callable(total) else total

    done, began, over = 0, time.monotonic(), threading.Event()

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if not linger and done == of_all():
            end()

    def tick() -> None:
        # A thread, because reading a file is one long call that reports nothing on its way.
        pause = SHOW_AFTER_S if terminal else LOG_EVERY_S
        while not over.wait(pause):
            pause = REFRESH_EVERY_S if terminal else LOG_EVERY_S
            seconds = time.monotonic() - began
            known = of_all()
            parts = [f"{done:,} of {known:,}" if known is not None else f"{seconds:.0f} s"]
            if rate and done:
                parts.append(_rate_text(done, known, seconds))
            parts.append(remark())
            text = f"{what} ... {', '.join(filter(None, parts))}"
            if terminal:
                _line.show(stream, text)
            else:
                with suppress(OSError, ValueError):
                    stream.write(f"{text}\n")
                    stream.flush()

    def end() -> None:
        over.set()
        ticker.join()
        if terminal:
            _line.clear(stream)

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield advance
    finally:
        end()


def _rate_text(done: int, total: int | None, seconds: float) -> str:
    """How fast it goes, and how long the rest will take if it goes on like this."""
    speed = done / max(seconds, 1e-9)
    text = f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"
    return text if total is None else f"{text}, {format_duration((total - done) / speed)} left"


def format_duration(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _is_terminal(stream: TextIO | None) -> bool | None:
    """Whether somebody may be watching; ``None`` where there is nothing to write to."""
    try:
        return None if stream is None else stream.isatty()
    except ValueError:  # it was closed
        return None
