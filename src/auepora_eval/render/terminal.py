"""Text for a terminal: escaped control characters, formulas, and the progress line."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_KEPT = (0x09, 0x0A)
_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]
_BIDI_CONTROLS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that change the writing direction."""
_ESCAPES = {code: f"\\u{code:04x}" for code in [*_CONTROLS, *_BIDI_CONTROLS] if code not in _KEPT}


def escape_control_characters(text: str) -> str:
    r"""Escape control characters as JSON does; newlines and tabs stay.

    >>> printable("a\x1b[2Jb")
    'a\\u001b[2Jb'
    """
    return text.translate(_ESCAPES)


# --- the progress line on stderr: one line rewritten in place on a terminal, periodic lines elsewhere ----------------

SHOW_AFTER_S = 1.0
"""Seconds of work before the line appears."""
REFRESH_EVERY_S = 0.2
LOG_EVERY_S = 30.0
"""Seconds between two lines where stderr is not a terminal, such as a CI log."""


class _ProgressLine:
    """The current line; rewritten in place, and cleared when the work ends or something else is printed."""

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
        # A closed terminal must not stop the work.
        with suppress(OSError, ValueError):
            stream.write(f"\r{text:<{self._shown}}" + ("" if text else "\r"))
            stream.flush()


_line = _ProgressLine()
_quiet = 0
"""The number of enclosing ``silenced`` blocks."""


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress progress lines and messages inside the block."""
    global _quiet  # noqa: PLW0603 -- one terminal, one state
    _quiet += 1
    try:
        yield
    finally:
        _quiet -= 1


def is_quiet() -> bool:
    """Whether only results and errors are shown."""
    return _quiet > 0


def clear() -> None:
    """Clear the line before something else is written to stderr; the next tick restores it."""
    _line.clear(sys.stderr)


@contextmanager
def progress(
    what: str,
    total: int | Callable[[], int] | None = None,
    *,
    keep_until_exit: bool = True,
    rate: bool = False,
    suffix: Callable[[], str] = str,
) -> Iterator[Callable[[int], None]]:
    """Show a progress line for ``what`` and, where ``total`` is known, the count; yields a function that advances it.

    ``total`` may be a function if it becomes known later. With ``rate`` the line shows items per second and the
    remaining time; ``suffix`` returns more text for its end. The line is cleared at the end of the block or, without
    ``keep_until_exit``, as soon as everything is counted, since the rest of the block may print. Where stderr is not
    a terminal, plain lines are written periodically and stay.
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
        if not keep_until_exit and done == of_all():
            end()

    def tick() -> None:
        # A thread, because reading a file is one long call without callbacks.
        pause = SHOW_AFTER_S if terminal else LOG_EVERY_S
        while not over.wait(pause):
            pause = REFRESH_EVERY_S if terminal else LOG_EVERY_S
            seconds = time.monotonic() - began
            known = of_all()
            parts = [f"{done:,} of {known:,}" if known is not None else f"{seconds:.0f} s"]
            if rate and done:
                parts.append(_rate_text(done, known, seconds))
            parts.append(suffix())
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
    """Items per second, and the estimated remaining time."""
    speed = done / max(seconds, 1e-9)
    text = f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"
    return text if total is None else f"{text}, {format_duration((total - done) / speed)} left"


def format_duration(seconds: float) -> str:
    """Seconds for display: ``45 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _is_terminal(stream: TextIO | None) -> bool | None:
    """Whether the stream is a terminal; ``None`` where it cannot be written to."""
    try:
        return None if stream is None else stream.isatty()
    except ValueError:  # it was closed
        return None


# --- formulas for a terminal: the LaTeX subset of the docstrings as plain characters ---------------------------------

_SYMBOLS = {
    r"\cap": "∩", r"\cup": "∪", r"\sum": "Σ", r"\le": "≤", r"\ge": "≥", r"\ne": "≠", r"\emptyset": "∅", r"\beta": "β",
    r"\cdot": "·", r"\times": "×", r"\log": "log", r"\min": "min", r"\max": "max", r"\in": "∈", r"\mid": "|",
    r"\subseteq": "⊆", r"\nsubseteq": "⊈", r"\exists": "∃", r"\forall": "∀", r"\wedge": "∧", r"\models": "⊨",
    r"\exp": "exp", r"\ln": "ln", r"\_": "_", r"\Big": "",
    r"\prod": "Π", r"\quad": "   ", r"\qquad": "     ", r"\,": "", r"\;": " ", r"\{": "{", r"\}": "}",
}  # fmt: skip
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")


def plain_math(latex: str) -> str:
    r"""Convert a formula to plain characters.

    >>> plain_math(r"\frac{|G \cap R_k|}{\min(k, |R|)}")
    '|G ∩ R_k| / min(k, |R|)'
    """
    text = re.sub(r"\\(?:text|mathrm)\s*\{([^{}]*)\}", r"\1", latex).replace(r"\tfrac", r"\frac")
    while r"\frac" in text:
        start = text.index(r"\frac")
        top, after = _read_braces(text, start + len(r"\frac"))
        bottom, end = _read_braces(text, after)
        text = f"{text[:start]}{_parenthesize(top)} / {_parenthesize(bottom)}{text[end:]}"
    text = _COMMAND.sub(lambda match: _SYMBOLS.get(match[0], match[0]), text)
    text = re.sub(r"([_^])\{([^{}]*)\}", lambda m: f"{m[1]}{m[2] if ' ' not in m[2] else f'({m[2]})'}", text)
    return re.sub(r"(?<=\S) {2}(?=\S)", " ", text).strip()


def _read_braces(text: str, start: int) -> tuple[str, int]:
    """The content of the braces that open at ``start``, and where they end."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + 1 : position], position + 1
    raise ValueError(f"unbalanced braces in {text!r}")


def _parenthesize(part: str) -> str:
    """The part in parentheses where a bar would otherwise be ambiguous."""
    inner = re.sub(r"\([^()]*\)|\|[^|]*\|", "", part)
    return f"({part})" if re.search(r"[-+/ ]|\\sum|\\frac", inner.strip()) else part
