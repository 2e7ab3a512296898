"""The terminal screen: taken over for the form and restored in every case."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ..core.errors import BadValueError
from .keys import KeyDecoder, PastedText
from .view import Screen, Style

__all__ = ["Terminal", "require_terminal"]

_CSI = "\x1b["
# The other screen, no wrapping (a width that we and the terminal disagree about must not push lines down), bracketed
# paste, no cursor.
_ENTER_SCREEN = f"{_CSI}?1049h{_CSI}?7l{_CSI}?2004h{_CSI}?25l"
_LEAVE_SCREEN = f"{_CSI}0m{_CSI}?25h{_CSI}?2004l{_CSI}?7h{_CSI}?1049l"
_STYLES = {Style.PLAIN: "", Style.BAR: f"{_CSI}7m", Style.HEAD: f"{_CSI}1m", Style.DIM: f"{_CSI}2m"}
_GOLD, _GOLD_COLOURLESS = f"{_CSI}1;33m", f"{_CSI}1;4m"
_ESCAPE_WAIT = 0.05
"""Seconds to wait for the rest of an escape sequence."""


def require_terminal() -> None:
    """Raise unless stdin and stdout are a terminal."""
    try:
        import termios  # noqa: F401 -- only whether it is there
    except ImportError:
        raise BadValueError("labelling needs a terminal of Linux or macOS; on Windows run it within WSL") from None
    missing = [name for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)) if not _is_terminal(stream)]
    if missing:
        raise BadValueError(
            f"labelling needs a terminal, and {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} none; run "
            "the command in one (ssh -t, docker run -it), without pipes, or with --plain, which asks line by line"
        )
    if os.environ.get("TERM", "dumb") == "dumb":
        raise BadValueError(
            "labelling needs a terminal on which lines can be placed, and $TERM says that this one is not; "
            "--plain asks line by line"
        )


def _is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # it was closed
        return False


class Terminal:
    """The terminal of stdin and stdout, within ``with``: shows screens, gives keys."""

    def __init__(self) -> None:
        require_terminal()
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._gold = _GOLD_COLOURLESS if os.environ.get("NO_COLOR") else _GOLD
        self._keys = KeyDecoder()
        self._saved_mode: list[Any] | None = None
        self._wake_pipe: tuple[int, int] = (-1, -1)
        self._handlers: dict[int, Any] = {}
        self._wake_before = -1

    def __enter__(self) -> Terminal:
        self._wake_pipe = os.pipe()
        for end in self._wake_pipe:
            os.set_blocking(end, False)
        try:
            # A signal must end the wait for a key: the window was resized, or the process should exit.
            self._wake_before = signal.set_wakeup_fd(self._wake_pipe[1], warn_on_full_buffer=False)
            for number, handler in (
                (signal.SIGWINCH, _ignore),
                (signal.SIGTSTP, self._stop),
                (signal.SIGTERM, _exit),
                (signal.SIGHUP, _exit),
                (signal.SIGQUIT, _exit),
            ):
                self._handlers[number] = signal.signal(number, handler)
            self._take_over()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._restore()
        finally:
            signal.set_wakeup_fd(self._wake_before)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            for end in self._wake_pipe:
                os.close(end)

    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 by 24 if the terminal does not report them."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def show(self, screen: Screen) -> None:
        """Draw all lines."""
        parts = [f"{_CSI}?25l"]
        for row, line in enumerate(screen.lines, start=1):
            style = self._gold if line.style is Style.GOLD else _STYLES[line.style]
            parts.append(f"{_CSI}{row};1H{_CSI}0m{_CSI}2K{style}{line.text}")
        parts.append(f"{_CSI}0m{_CSI}0J" if len(screen.lines) < self.size()[1] else f"{_CSI}0m")
        if screen.cursor is not None:
            row, column = screen.cursor
            parts.append(f"{_CSI}{row + 1};{column + 1}H{_CSI}?25h")
        self._write("".join(parts))

    def read_keys(self) -> Iterator[str | PastedText | None]:
        """Wait for input and yield keys; ``None`` if the screen must be redrawn."""
        wait = _ESCAPE_WAIT if self._keys.is_incomplete else None
        ready, _, _ = select.select([self._in, self._wake_pipe[0]], [], [], wait)
        if not ready:
            yield from self._keys.flush()
        if self._wake_pipe[0] in ready:
            with suppress(BlockingIOError):
                os.read(self._wake_pipe[0], 1024)
            yield None
        if self._in in ready:
            data = os.read(self._in, 4096)
            if not data:
                raise EOFError("the terminal is gone")
            yield from self._keys.feed(data)

    def discard_input(self) -> None:
        """Discard typed input that was not read yet."""
        import termios

        self._keys = KeyDecoder()
        with suppress(termios.error):
            termios.tcflush(self._in, termios.TCIFLUSH)

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._out, data) :]

    def _take_over(self) -> None:
        import termios

        sys.stdout.flush()
        self._saved_mode = termios.tcgetattr(self._in)
        mode = termios.tcgetattr(self._in)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        mode[0] &= ~(termios.IXON | termios.ICRNL)
        # Input typed before the first screen is not meant for the form.
        termios.tcsetattr(self._in, termios.TCSAFLUSH, mode)
        self._write(_ENTER_SCREEN)

    def _restore(self) -> None:
        import termios

        if self._saved_mode is None:
            return
        before, self._saved_mode = self._saved_mode, None
        with suppress(OSError):  # the terminal is gone
            self._write(_LEAVE_SCREEN)
        # Unread input is not meant for the shell.
        with suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSAFLUSH, before)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: restore the terminal, stop, and take it over again on resume."""
        self._restore()
        with _default(signal.SIGTSTP):
            os.kill(os.getpid(), signal.SIGTSTP)
        self._take_over()


@contextmanager
def _default(number: int) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A handler must be there for the signal to end the wait."""


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
