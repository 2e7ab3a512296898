"""The terminal form: keys, screen, text in cells, and a form line by line for screen readers."""

from __future__ import annotations

import codecs
import os
import re
import select
import shutil
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from types import FrameType
from typing import Any

from ..errors import AueporaError, BadValueError
from ..render.terminal import escape_control_characters
from .session import (
    FormState,
    LabelFile,
    LabelItem,
    ShownDocument,
    count_labels,
    paste,
    press,
    set_comment,
    with_layout,
)

# --- keys: keyboard bytes as characters, named keys and pasted text --------------------------------------------------

_ESCAPE = "\x1b"
_PASTE, _PASTE_END = f"{_ESCAPE}[200~", f"{_ESCAPE}[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|O[ -~]|[^\[O\x1b])")
_PREFIX = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*|O)?")
_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x04": "ctrl-d",
    "\x15": "ctrl-u",
    "\x17": "ctrl-w",
}
_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERED = {"1": "home", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end", "11": "f1"}


@dataclass(frozen=True, slots=True)
class PastedText:
    """Text that was pasted, not typed."""

    text: str


class KeyDecoder:
    """Decodes bytes, in chunks of any size, into keys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether the buffer may be the beginning of an escape sequence."""
        return bool(self._buffer) and not self._buffer.startswith(_PASTE)

    def feed(self, data: bytes) -> list[str | PastedText]:
        """The keys completed by these bytes."""
        self._buffer += self._decoder.decode(data)
        keys: list[str | PastedText] = []
        while self._buffer:
            if self._buffer.startswith(_PASTE):
                text, end, rest = self._buffer[len(_PASTE) :].partition(_PASTE_END)
                if not end:
                    break
                self._buffer = rest
                keys.append(PastedText(text))
                continue
            if self._buffer[0] != _ESCAPE:
                keys += self._plain(self._buffer[0])
                self._buffer = self._buffer[1:]
                continue
            if _PREFIX.fullmatch(self._buffer):
                break
            sequence = _SEQUENCE.match(self._buffer)
            keys += _decode_sequence(sequence[0]) if sequence else ["escape"]
            self._buffer = self._buffer[sequence.end() if sequence else 1 :]
        return keys

    def flush(self) -> list[str | PastedText]:
        """The buffered key when no more bytes follow: a lone escape."""
        if not self.is_incomplete:
            return []
        lone, self._buffer = self._buffer == _ESCAPE, ""
        return ["escape"] if lone else []

    @staticmethod
    def _plain(character: str) -> list[str]:
        if character in _NAMES:
            return [_NAMES[character]]
        return [character] if character.isprintable() else []


def _decode_sequence(sequence: str) -> list[str]:
    """The key of an escape sequence; empty for an unknown one."""
    final = sequence[-1]
    if sequence[1:2] in ("[", "O"):
        if final == "~":
            number = sequence[2:-1].partition(";")[0]
            return [_NUMBERED[number]] if number in _NUMBERED else []
        if sequence == f"{_ESCAPE}OP":
            return ["f1"]
        return [_FINALS[final]] if final in _FINALS else []
    return []  # alt and a letter: neither a known key nor that letter


# --- text in terminal cells: width, wrapping and truncation, without control characters ------------------------------

_TAB = "    "
_LINE_ENDS = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\t": _TAB})
_SOFT_HYPHEN = "\u00ad"


def sanitise(text: str) -> str:
    """The text with control characters escaped and lone surrogates replaced; its only line end is ``\\n``."""
    plain = text.replace("\r\n", "\n").translate(_LINE_ENDS)
    return escape_control_characters(plain.encode("utf-8", "replace").decode() if not plain.isascii() else plain)


def one_line(text: str) -> str:
    """The sanitised text on one line."""
    return sanitise(text).replace("\n", " ")


@lru_cache(maxsize=1 << 12)
def _width(character: str) -> int:
    if character == _SOFT_HYPHEN:
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cell_width(text: str) -> int:
    """Width of a text in cells."""
    return len(text) if text.isascii() else sum(map(_width, text))


def truncate(text: str, width: int) -> str:
    """The text in at most ``width`` cells, with an ellipsis if it is truncated."""
    if cell_width(text) <= width:
        return text
    return _prefix(text, width - 1) + "…" if width > 0 else ""


def _prefix(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:index]
    return text


@lru_cache(maxsize=1 << 9)
def wrap(text: str, width: int) -> tuple[str, ...]:
    """The lines of a text, each of at most ``width`` cells, broken between words if possible.

    The text is sanitised first. A character wider than the line is dropped.
    """
    paragraphs = sanitise(text).split("\n")
    return tuple(line for paragraph in paragraphs for line in _paragraph(paragraph.rstrip(), max(1, width)))


def _paragraph(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in _words(text):
        size = cell_width(word)
        if cell_width(line) + size <= width:
            line += word
            continue
        if line.strip():
            yield line.rstrip()
            line, word_left = "", word.lstrip(" ")
        else:
            line, word_left = "", line + word
        *whole, line = _split_word(word_left, width)
        yield from whole
    yield line.rstrip()


def _split_word(word: str, width: int) -> list[str]:
    """Pieces of a word that is too long for a line; a character wider than a line is dropped."""
    pieces, start, used = [], 0, 0
    for index, character in enumerate(word):
        size = _width(character)
        if used + size > width:
            if used:
                pieces.append(word[start:index])
            start, used = index, 0
            if size > width:
                start = index + 1
                continue
        used += size
    return [*pieces, word[start:]]


def _words(text: str) -> Iterator[str]:
    """Units between which a line may break: a word with its leading blanks, or a wide character."""
    start, inside = 0, False
    for index, character in enumerate(text):
        wide = _width(character) == 2
        begins = (character == " " and inside) or (wide and index > start)
        if begins:
            yield text[start:index]
            start, inside = index, False
        if character != " ":
            inside = True
    yield text[start:]


# --- the screen as lines of text, from a state and a size; independent of the terminal -------------------------------

_INDENT = 2
_MAX_WIDTH = 100
"""Longer lines are hard to read."""

_KEYS_HELP = (
    ("r  w", "the answer is right, is wrong"),
    ("0 … 9", "a score, where the session has a scale"),
    ("s", "skip: nothing is written, and it comes again at the end"),
    ("u  backspace", "undo: back to the one before, its label is taken back"),
    ("c", "a comment, written with the label that follows"),
    ("a", "show or hide the reference answer"),
    ("space  b", "a page down, a page up; also the arrow keys"),
    ("tab", "the next document"),
    ("g  G", "to the top, to the end"),
    ("q", "leave; all that was said is on the disk already"),
)


class Style(Enum):
    """Style of a line."""

    PLAIN = "plain"
    BAR = "bar"
    HEAD = "head"
    DIM = "dim"
    GOLD = "gold"


@dataclass(frozen=True, slots=True)
class ScreenLine:
    """One line of the screen."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Screen:
    """All lines of the screen, and how far it can be scrolled."""

    lines: tuple[ScreenLine, ...]
    scroll: int
    page: int
    last_scroll: int
    anchors: tuple[int, ...]
    cursor: tuple[int, int] | None = None
    """Row and column of the text cursor, while typing."""


def render_screen(state: FormState, width: int, height: int, *, title: str = "") -> Screen:
    """The screen of ``height`` lines of at most ``width`` cells."""
    width, height = max(1, width), max(1, height)
    body, anchors = _body(state, min(width, _MAX_WIDTH))
    room = max(0, height - 3)
    last = max(0, len(body) - max(1, room))
    scroll = max(0, min(state.scroll, last))
    shown = body[scroll : scroll + room]
    below = len(body) - scroll - len(shown)
    shown += [ScreenLine("")] * (room - len(shown))
    prompt = _prompt(state, below)
    typed = state.mode == "comment"
    cursor = None
    if typed:
        prompt = ScreenLine(_visible_tail(prompt.text, width - 1))
        cursor = (max(0, height - 2), cell_width(prompt.text))
    lines = [_top(state, width, title), *shown, prompt, ScreenLine(_keys(state, width), Style.BAR)]
    if height < 3:  # then the keys matter more than the progress
        lines = [lines[0], lines[-1]][:height]
    fitted = tuple(ScreenLine(truncate(line.text, width), line.style) for line in lines)
    return Screen(fitted, scroll, max(1, room - 1), last, anchors, cursor if height >= 3 else None)


def render_lines(state: FormState, width: int, *, title: str = "", whole: bool = True) -> list[str]:
    """The screen as plain lines; without ``whole`` only the message and the keys."""
    body, _ = _body(state, min(max(20, width), _MAX_WIDTH))
    lines = [
        "",
        f"--- {', '.join(_progress(state))}{f', {one_line(title)}' if title else ''}",
        *(line.text for line in body),
        "",
    ]
    prompt = [one_line(state.message)] if state.message else []
    return [*(lines if whole else []), *prompt, "  ".join(_key_hints(state))]


def _top(state: FormState, width: int, title: str) -> ScreenLine:
    n, done = len(state.items), len(state.labels)
    text = f" {'  '.join(_progress(state))}"
    name = f"  {one_line(title)}" if title else ""
    bar_room = width - cell_width(text) - 3
    if name and cell_width(name) <= bar_room - 12:
        text, bar_room = text + name, bar_room - cell_width(name)
    if bar_room >= 12:
        size = min(20, bar_room - 2)
        full = size * done // n if n else size
        bar = f"[{'#' * full}{'.' * (size - full)}] "
        text += " " * (width - cell_width(text) - len(bar)) + bar
    return ScreenLine(text, Style.BAR)


def _progress(state: FormState) -> list[str]:
    n = len(state.items)
    where = f"{state.position + 1} of {n}" if state.item is not None else f"{n} of {n}"
    return [where, f"{len(state.labels)} labelled", *([f"{len(state.skipped)} skipped"] if state.skipped else [])]


def _prompt(state: FormState, below: int) -> ScreenLine:
    if state.mode == "comment":
        return ScreenLine(f"comment: {one_line(state.draft)}")
    if state.message:
        return ScreenLine(one_line(state.message), Style.HEAD)
    more = f"{below} more line{'s' if below > 1 else ''} below: space" if below > 0 else ""
    if state.comment:
        return ScreenLine(f"comment: {one_line(state.comment)}" + (f"  ({more})" if more else ""), Style.DIM)
    return ScreenLine(more, Style.DIM)


def _key_hints(state: FormState) -> list[str]:
    """Key hints, most important first."""
    if state.mode == "comment":
        return ["enter keep", "esc leave as it was", "ctrl-u empty"]
    if state.mode == "help":
        return ["any other key: back"]
    if state.item is None:
        return ["q quit", *(["s see the skipped ones again"] if state.skipped else []), "u undo", "? help"]
    judge = ["r right", "w wrong"] if state.scale is None else [f"{state.scale} score"]
    reference = [] if state.blind else ["a reference"]
    return [*judge, "s skip", "u undo", "? help", "q quit", "c comment", *reference]


def _keys(state: FormState, width: int) -> str:
    """As many key hints as fit."""
    text = " "
    for part in _key_hints(state):
        if cell_width(text) + cell_width(part) + 1 > width:
            break
        text += f"{part}  "
    return f"{text:<{width}}"[:width]


def _visible_tail(text: str, width: int) -> str:
    """The end of a line that is too long while typing."""
    text = text[-4 * max(1, width) :]
    while cell_width(text) > max(0, width):
        text = text[1:]
    return text


# --- the body of the screen ------------------------------------------------------------------------------------------


def _body(state: FormState, width: int) -> tuple[list[ScreenLine], tuple[int, ...]]:
    if state.mode == "help":
        return _help(width), ()
    if state.item is None:
        return _end(state, width), ()
    item = state.item
    lines: list[ScreenLine] = []
    if item.conversation:
        lines += [*_section("Before", item.conversation, width), ScreenLine("")]
    lines += [*_section("Question", item.question, width), ScreenLine("")]
    lines += [*_section("Answer", item.answer or "(empty)", width), ScreenLine("")]
    for previous in item.previous_labels:
        text = f"{previous.label}" + (f": {previous.comment}" if previous.comment else "")
        lines += _section(f"{previous.annotator} said", text, width)
    lines += [ScreenLine("")] if item.previous_labels else []
    lines += _references(state, item, width)
    return _with_evidence(state, item, lines, width)


def _references(state: FormState, item: LabelItem, width: int) -> list[ScreenLine]:
    if state.blind or not item.references:
        return []
    if not state.reference_shown:
        return [ScreenLine("Reference (a shows it)", Style.DIM), ScreenLine("")]
    head = "Reference" if len(item.references) == 1 else f"Reference, one of {len(item.references)}"
    lines = [ScreenLine(head, Style.HEAD)]
    for one in item.references:
        lines += _indented(one, width)
    return [*lines, ScreenLine("")]


def _with_evidence(
    state: FormState, item: LabelItem, lines: list[ScreenLine], width: int
) -> tuple[list[ScreenLine], tuple[int, ...]]:
    shown = [one for one in item.evidence if one.rank is not None or not state.blind]
    retrieved = sum(one.rank is not None for one in shown)
    anchors = []
    if not shown:
        return [*lines, ScreenLine("Nothing was retrieved.", Style.DIM)], ()
    for one in shown:
        anchors.append(len(lines))
        lines += [_heading(state, one, retrieved), *_indented(one.text or "(its text is not stored)", width)]
    return lines, tuple(anchors)


def _heading(state: FormState, one: ShownDocument, retrieved: int) -> ScreenLine:
    where = "relevant, not retrieved" if one.rank is None else f"Document {one.rank} of {retrieved}"
    gold = one.gold and not state.blind
    mark = "  * relevant" if gold and one.rank is not None else ""
    return ScreenLine(f"{where}: {one_line(one.doc_id)}{mark}", Style.GOLD if gold else Style.HEAD)


def _section(head: str, text: str, width: int) -> list[ScreenLine]:
    return [ScreenLine(one_line(head), Style.HEAD), *_indented(text, width)]


def _indented(text: str, width: int) -> list[ScreenLine]:
    room = width - _INDENT if width > 12 else width
    return [ScreenLine(" " * (width - room) + line) for line in wrap(text, room)]


def _help(width: int) -> list[ScreenLine]:
    lines = [ScreenLine("Keys", Style.HEAD), ScreenLine("")]
    for keys, meaning in _KEYS_HELP:
        lines += [ScreenLine(line) for line in wrap(f"{keys:<14}{meaning}", width)]
    return lines


def _end(state: FormState, width: int) -> list[ScreenLine]:
    counts_text = ", ".join(f"{count} {label}" for label, count in count_labels(state.labels.values()).items())
    lines = ["All of them have been seen.", "", f"{len(state.labels)} labelled{counts_text and f': {counts_text}'}."]
    if state.skipped:
        n = len(state.skipped)
        lines.append(f"{n} {'was' if n == 1 else 'were'} skipped; s shows {'it' if n == 1 else 'them'} again.")
    lines += ["", "Every label is in the file already. q leaves."]
    return [ScreenLine(part) for line in lines for part in wrap(line, width)]


# --- the terminal: taken over for the form and restored in every case ------------------------------------------------

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


# --- the form: each label is on disk before the next answer is shown -------------------------------------------------


def run_form(state: FormState, label_file: LabelFile, *, title: str = "") -> FormState:
    """Run the form until the annotator leaves; the labels are in the label file."""
    with Terminal() as terminal:
        while not state.is_over:
            screen = render_screen(state, *terminal.size(), title=title)
            terminal.show(screen)
            state = with_layout(
                state,
                scroll=screen.scroll,
                page=screen.page,
                last_scroll=screen.last_scroll,
                anchors=screen.anchors,
            )
            for key in terminal.read_keys():
                if key is None:
                    continue
                position, state = state.position, handle_key(state, label_file, key)
                if state.position != position or state.is_over:
                    # A key pressed before an answer was shown does not label it.
                    terminal.discard_input()
                    break
    return state


def handle_key(state: FormState, label_file: LabelFile, key: str | PastedText) -> FormState:
    """The state after a key, with the label file updated; unchanged if writing failed."""
    if isinstance(key, PastedText):
        return paste(state, key.text)
    next_state, change = press(state, key)
    if change is not None:
        try:
            label_file.apply(change)
        except AueporaError as error:
            return replace(state, message=f"not written: {error}")
    return next_state


# --- the form line by line, for screen readers and pipes: the same keys, each with Enter -----------------------------


def run_line_form(
    state: FormState, label_file: LabelFile, *, lines: Iterator[str], echo: Callable[[str], None], title: str = ""
) -> FormState:
    """Run the form until the annotator leaves or the input ends; otherwise like ``run_form``."""
    last_shown: tuple[object, ...] = ()
    while not state.is_over:
        shown_state = (state.position, state.mode, state.reference_shown)
        width = shutil.get_terminal_size().columns
        parts = render_lines(state, width, title=title, whole=shown_state != last_shown)
        echo("\n".join(parts))
        last_shown = shown_state
        if state.mode == "help":
            state = replace(state, mode="form")
            continue
        typed = next(lines, None)
        state = replace(state, mode="over") if typed is None else _handle_line(state, label_file, typed.strip())
    return state


def _handle_line(state: FormState, label_file: LabelFile, typed: str) -> FormState:
    """The state after one line: a key, or ``c`` and a comment."""
    key, _, rest = typed.partition(" ")
    if key == "c" and state.item is not None:
        return set_comment(state, rest)
    if len(key) == 1 and not rest:
        return handle_key(state, label_file, key)
    return replace(state, message="type one key and Enter; ? and Enter tells which" if typed else "")
