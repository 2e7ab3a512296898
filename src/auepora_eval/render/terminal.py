"""Text for a terminal: blocks as plain text, escaped characters, formulas, and the progress line."""

from __future__ import annotations

import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TextIO

from .blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    DefinitionList,
    Details,
    DetailsGrid,
    Figure,
    Gallery,
    Prose,
    Report,
    Table,
    table_rows,
)

_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]
_BIDI_CONTROLS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that change the writing direction."""
_ESCAPES = {code: f"\\u{code:04x}" for code in [*_CONTROLS, *_BIDI_CONTROLS] if code not in (0x09, 0x0A)}
_SURROGATES = {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
"""Halves of characters, which no encoding can write."""
_UNPRINTABLE = _ESCAPES | _SURROGATES
_BREAKS = {ord(mark): repr(mark)[1:-1] for mark in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"}
_LOG_COMMAND = re.compile(r"^(?P<space>[^\S\n]*):(?=:)|#(?=#(?:vso)?\[)", re.MULTILINE)
"""Commands in the logs of CI services: ``::`` at the start of a line (GitHub), ``##[`` and ``##vso[`` (Azure)."""


def escape_control_characters(text: str) -> str:
    r"""Escape control characters as JSON does; newlines and tabs stay.

    >>> escape_control_characters("a\x1b[2Jb")
    'a\\u001b[2Jb'
    """
    return text.translate(_ESCAPES)


def escape_line_breaks(text: str) -> str:
    """Escape tabs and line breaks, so that a cell cannot break its row."""
    return text.translate(_BREAKS)


def printable(text: str) -> str:
    r"""A text that neither a terminal nor the log of a CI service executes; escaped as JSON does.

    >>> printable("::error::x")
    '\\u003a:error::x'
    """
    escaped = text.translate(_UNPRINTABLE)
    return _LOG_COMMAND.sub(lambda match: "\\u0023" if match[0] == "#" else f"{match['space']}\\u003a", escaped)


# --- blocks as plain text: tables aligned by columns of the terminal, closed details as one line ---------------------

MAX_CELL_WIDTH = 80


def report_text(report: Report) -> str:
    """A report as plain text."""
    verdict = report.verdict
    parts = [_one_line(report.title), _one_line(report.subtitle), _one_line(verdict.sentence), _bullets(verdict.points)]
    for section in report.sections:
        parts += _titled(section.title, [_one_line(section.lead), blocks_text(section.blocks)])
    return "\n\n".join(filter(None, [*parts, _one_line(report.build_info)]))


def blocks_text(blocks: Iterable[Block]) -> str:
    """Blocks as plain text. Figures are left out; of closed details only the summary is shown."""
    return "\n\n".join(filter(None, map(_block, blocks)))


def _block(block: Block) -> str:
    match block:
        case Prose(text=text):
            return _one_line(text)
        case Bullets(items=items):
            return _bullets(items)
        case DefinitionList(pairs=pairs):
            return aligned([[_one_line(name), _cell_text(value)] for name, value in pairs], right=())
        case Code(text=text):
            return printable(text)
        case Table():
            return _table(block)
        case Details(summary=summary, blocks=blocks, is_open=is_open):
            return "\n\n".join(_titled(summary, [blocks_text(blocks)] if is_open else [])) or _one_line(summary)
        case DetailsGrid(details=details):
            return blocks_text(details)
        case Figure() | Gallery():
            return ""


def _titled(title: str, parts: Sequence[str]) -> list[str]:
    """Texts under a title, if there is one; nothing where all texts are empty."""
    heading, (first, *rest) = _one_line(title), list(filter(None, parts)) or [""]
    rule = "-" * text_width(heading)
    return [f"{heading}\n{rule}\n{first}" if heading else first, *rest] if first else []


def _one_line(text: str) -> str:
    """A text on one line, safe to print."""
    return printable(escape_line_breaks(text))


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(map(_one_line, items))


def _table(block: Table) -> str:
    headers, rows, right = table_rows(block)
    cells = [_fitted_row(row) for row in rows]
    notes = list(chain.from_iterable(map(_notes, block.rows)))
    text = aligned([list(map(_one_line, headers)), *cells], right=right, ruled=True) if rows else ""
    return "\n\n".join(filter(None, [_one_line(block.caption), text, "\n".join(notes)]))


def _fitted_row(row: Sequence[Cell | str]) -> list[str]:
    """The cells of a row, truncated where they are very long, except in the last column."""
    texts = [_cell_text(cell) for cell in row]
    return [*(cut_text(text, MAX_CELL_WIDTH) for text in texts[:-1]), *texts[-1:]]


def _notes(row: Sequence[Cell | str]) -> Iterator[str]:
    """The notes of the cells of a row, each with the texts up to its cell."""
    texts = []
    for cell in row:
        texts.append(cell if isinstance(cell, str) else cell.text)
        if isinstance(cell, Cell) and cell.note:
            yield _one_line(f"{', '.join(filter(None, texts))}: {cell.note}")


def _cell_text(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return _one_line(cell)
    return _one_line(f"{cell.sign} {cell.text}" if cell.sign else cell.text)


def cut_text(text: str, width: int) -> str:
    """A text in at most this many columns of the terminal; one that was cut ends in an ellipsis."""
    if text_width(text) <= width:
        return text
    while text and (over := text_width(text) - width + 1) > 0:
        text = text[: -max(over // 2, 1)]
    return f"{text}…"


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int], ruled: bool = False) -> str:
    """Rows with columns of equal width; with ``ruled``, a rule below the first."""
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = []
        for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - text_width(cell))
            cells.append(space + cell if at in right else cell + space)
        return "  ".join(cells).rstrip()

    lines = list(map(line, rows))
    return "\n".join([*lines[:1], *(["  ".join("-" * width for width in widths)] if ruled else []), *lines[1:]])


def text_width(text: str) -> int:
    """The columns of a terminal that a text takes: two for wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    width, joined = 0, False
    for mark in unicodedata.normalize("NFC", text):
        if unicodedata.category(mark) in ("Mn", "Me", "Cf"):
            joined = mark == "\u200d"  # the next emoji becomes part of this one
            continue
        width += 0 if joined else 1 + (unicodedata.east_asian_width(mark) in "WF")
        joined = False
    return width


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
    terminal = is_terminal(stream)
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
            text = printable(f"{what} ... {', '.join(filter(None, parts))}")
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


def is_terminal(stream: TextIO | None) -> bool | None:
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
    text = re.sub(r"\\binom\{([^{}]*)\}\{([^{}]*)\}", r"C(\1, \2)", text)
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
