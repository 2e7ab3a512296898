"""What a terminal shows of a session: lines of cells, made of a state and a size. It knows no terminal either."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .cells import cut, one_line, width_of, wrapped
from .items import Evidence, Item
from .session import State, counted

__all__ = ["Line", "Screen", "Style", "screen_of", "text_of"]

_INDENT = 2
_WIDEST = 100
"""Longer lines are hard to read, however wide the terminal."""

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
    """How a line looks."""

    PLAIN = "plain"
    BAR = "bar"
    HEAD = "head"
    DIM = "dim"
    GOLD = "gold"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the screen."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Screen:
    """All lines of the screen, and how far it can be scrolled."""

    lines: tuple[Line, ...]
    scroll: int
    page: int
    last_scroll: int
    anchors: tuple[int, ...]
    cursor: tuple[int, int] | None = None
    """Row and column where something is being typed."""


def screen_of(state: State, width: int, height: int, *, title: str = "") -> Screen:
    """The screen of ``height`` lines of at most ``width`` cells."""
    width, height = max(1, width), max(1, height)
    body, anchors = _body(state, min(width, _WIDEST))
    room = max(0, height - 3)
    last = max(0, len(body) - max(1, room))
    scroll = max(0, min(state.scroll, last))
    shown = body[scroll : scroll + room]
    below = len(body) - scroll - len(shown)
    shown += [Line("")] * (room - len(shown))
    prompt = _prompt(state, below)
    typed = state.mode == "comment"
    cursor = None
    if typed:
        prompt = Line(_tail(prompt.text, width - 1))
        cursor = (max(0, height - 2), width_of(prompt.text))
    lines = [_top(state, width, title), *shown, prompt, Line(_keys(state, width), Style.BAR)]
    if height < 3:  # what to do is then worth more than where we are
        lines = [lines[0], lines[-1]][:height]
    fitted = tuple(Line(cut(line.text, width), line.style) for line in lines)
    return Screen(fitted, scroll, max(1, room - 1), last, anchors, cursor if height >= 3 else None)


def text_of(state: State, width: int, *, title: str = "", whole: bool = True) -> list[str]:
    """The same as lines to be read one after the other; not ``whole`` where only the keys and a message are news."""
    body, _ = _body(state, min(max(20, width), _WIDEST))
    lines = [
        "",
        f"--- {', '.join(_where(state))}{f', {one_line(title)}' if title else ''}",
        *(line.text for line in body),
        "",
    ]
    prompt = [one_line(state.message)] if state.message else []
    return [*(lines if whole else []), *prompt, "  ".join(_choices(state))]


def _top(state: State, width: int, title: str) -> Line:
    n, done = len(state.items), len(state.given)
    text = f" {'  '.join(_where(state))}"
    name = f"  {one_line(title)}" if title else ""
    bar_room = width - width_of(text) - 3
    if name and width_of(name) <= bar_room - 12:
        text, bar_room = text + name, bar_room - width_of(name)
    if bar_room >= 12:
        size = min(20, bar_room - 2)
        full = size * done // n if n else size
        bar = f"[{'#' * full}{'.' * (size - full)}] "
        text += " " * (width - width_of(text) - len(bar)) + bar
    return Line(text, Style.BAR)


def _where(state: State) -> list[str]:
    n = len(state.items)
    where = f"{state.place + 1} of {n}" if state.item is not None else f"{n} of {n}"
    return [where, f"{len(state.given)} labelled", *([f"{len(state.skipped)} skipped"] if state.skipped else [])]


def _prompt(state: State, below: int) -> Line:
    if state.mode == "comment":
        return Line(f"comment: {one_line(state.draft)}")
    if state.message:
        return Line(one_line(state.message), Style.HEAD)
    more = f"{below} more line{'s' if below > 1 else ''} below: space" if below > 0 else ""
    if state.comment:
        return Line(f"comment: {one_line(state.comment)}" + (f"  ({more})" if more else ""), Style.DIM)
    return Line(more, Style.DIM)


def _choices(state: State) -> list[str]:
    """The keys and what they do, the more important ones first."""
    if state.mode == "comment":
        return ["enter keep", "esc leave as it was", "ctrl-u empty"]
    if state.mode == "help":
        return ["any other key: back"]
    if state.item is None:
        return ["q quit", *(["s see the skipped ones again"] if state.skipped else []), "u undo", "? help"]
    judge = ["r right", "w wrong"] if state.scale is None else [f"{state.scale} score"]
    reference = [] if state.blind else ["a reference"]
    return [*judge, "s skip", "u undo", "? help", "q quit", "c comment", *reference]


def _keys(state: State, width: int) -> str:
    """As many of them as fit."""
    text = " "
    for part in _choices(state):
        if width_of(text) + width_of(part) + 1 > width:
            break
        text += f"{part}  "
    return f"{text:<{width}}"[:width]


def _tail(text: str, width: int) -> str:
    """The end of what is being typed, where there is no room for all of it."""
    text = text[-4 * max(1, width) :]
    while width_of(text) > max(0, width):
        text = text[1:]
    return text


# --- the body --------------------------------------------------------------------------------------------------------


def _body(state: State, width: int) -> tuple[list[Line], tuple[int, ...]]:
    if state.mode == "help":
        return _help(width), ()
    if state.item is None:
        return _end(state, width), ()
    item = state.item
    lines: list[Line] = []
    if item.conversation:
        lines += [*_section("Before", item.conversation, width), Line("")]
    lines += [*_section("Question", item.question, width), Line("")]
    lines += [*_section("Answer", item.answer or "(empty)", width), Line("")]
    for said in item.said:
        told = f"{said.label}" + (f": {said.comment}" if said.comment else "")
        lines += _section(f"{said.annotator} said", told, width)
    lines += [Line("")] if item.said else []
    lines += _references(state, item, width)
    return _with_evidence(state, item, lines, width)


def _references(state: State, item: Item, width: int) -> list[Line]:
    if state.blind or not item.references:
        return []
    if not state.reference_shown:
        return [Line("Reference (a shows it)", Style.DIM), Line("")]
    head = "Reference" if len(item.references) == 1 else f"Reference, one of {len(item.references)}"
    lines = [Line(head, Style.HEAD)]
    for one in item.references:
        lines += _indented(one, width)
    return [*lines, Line("")]


def _with_evidence(state: State, item: Item, lines: list[Line], width: int) -> tuple[list[Line], tuple[int, ...]]:
    shown = [one for one in item.evidence if one.rank is not None or not state.blind]
    retrieved = sum(one.rank is not None for one in shown)
    anchors = []
    if not shown:
        return [*lines, Line("Nothing was retrieved.", Style.DIM)], ()
    for one in shown:
        anchors.append(len(lines))
        lines += [_heading(state, one, retrieved), *_indented(one.text or "(its text is not stored)", width)]
    return lines, tuple(anchors)


def _heading(state: State, one: Evidence, retrieved: int) -> Line:
    where = "relevant, not retrieved" if one.rank is None else f"Document {one.rank} of {retrieved}"
    gold = one.gold and not state.blind
    mark = "  * relevant" if gold and one.rank is not None else ""
    return Line(f"{where}: {one_line(one.doc_id)}{mark}", Style.GOLD if gold else Style.HEAD)


def _section(head: str, text: str, width: int) -> list[Line]:
    return [Line(one_line(head), Style.HEAD), *_indented(text, width)]


def _indented(text: str, width: int) -> list[Line]:
    room = width - _INDENT if width > 12 else width
    return [Line(" " * (width - room) + line) for line in wrapped(text, room)]


def _help(width: int) -> list[Line]:
    lines = [Line("Keys", Style.HEAD), Line("")]
    for keys, meaning in _KEYS_HELP:
        lines += [Line(line) for line in wrapped(f"{keys:<14}{meaning}", width)]
    return lines


def _end(state: State, width: int) -> list[Line]:
    told = ", ".join(f"{count} {label}" for label, count in counted(state.given.values()).items())
    lines = ["All of them have been seen.", "", f"{len(state.given)} labelled{told and f': {told}'}."]
    if state.skipped:
        n = len(state.skipped)
        lines.append(f"{n} {'was' if n == 1 else 'were'} skipped; s shows {'it' if n == 1 else 'them'} again.")
    lines += ["", "Every label is in the file already. q leaves."]
    return [Line(part) for line in lines for part in wrapped(line, width)]
