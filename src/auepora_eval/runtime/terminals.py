"""Terminals: input that was typed too early."""

import sys
from contextlib import suppress


def discard_typed_input() -> None:
    """Discard lines typed or pasted into a terminal before a question was shown: they are not about it."""
    with suppress(AttributeError, OSError, ValueError):  # no terminal, or none whose input can be discarded
        if not sys.stdin.isatty():
            return
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()
        else:
            import termios

            termios.tcflush(sys.stdin, termios.TCIFLUSH)
