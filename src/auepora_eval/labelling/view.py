"""The screen of a session: lines of text from a state and a size; independent of the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .items import LabelItem, ShownDocument
from .session import FormState, count_labels
from .terminal_text import cell_width, one_line, truncate, wrap

__all__ = ["Screen", "ScreenLine", "Style", "render_lines", "render_screen"]

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


# --- the body --------------------------------------------------------------------------------------------------------


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
