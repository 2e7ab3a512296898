"""Texts with marks: words of the reference, words that differ between two answers, gold passages; cut where long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from ..text.scripts import word_bounds
from ..text.tokenizers import STOP_WORDS

TEXT_LENGTH = 1_200
"""The number of characters shown at first."""
COMPARED_LENGTH = 1_000
"""The number of characters of two answers that are compared word by word."""
PIECE_LENGTH = 4_000
"""Very long texts are laid out in pieces of about this length."""
MAX_UNFOLDED = 2 * PIECE_LENGTH
"""The number of characters up to which a page has all of a text that it cuts."""
SIMILAR_FROM = 0.4
"""The proportion of words that two answers share from which their differences are marked."""


class Mark(NamedTuple):
    """A marked part of a text."""

    start: int
    end: int
    kind: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text; ``kind`` is the classes of its marks, empty without one."""

    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownText:
    """The beginning of a text as parts; ``address`` has all of it, and so has ``whole`` where the page unfolds it."""

    parts: Sequence[TextPart]
    length: int
    is_cut: bool
    address: str
    whole: Sequence[TextPart] = ()


def show_text(
    text: str, address: str, *, limit: int = TEXT_LENGTH, marks: Sequence[Mark] = (), unfolds: bool = False
) -> ShownText:
    """The beginning of a text, or all of it where it is little longer than ``limit``.

    With ``unfolds`` the page gets all of a text that is cut, unless it is very long.
    """
    end = shown_end(text, limit)
    whole = split_marks(text, 0, len(text), marks) if unfolds and end < len(text) <= MAX_UNFOLDED else ()
    return ShownText(split_marks(text, 0, end, marks), len(text), end < len(text), address, whole)


def shown_end(text: str, limit: int) -> int:
    """Where the shown beginning of a text ends."""
    return len(text) if len(text) <= limit * 1.25 else limit


def split_marks(text: str, start: int, end: int, marks: Iterable[Mark]) -> list[TextPart]:
    """The text between two places, split where a mark starts or ends; a part has the kinds of all marks on it."""
    inside = sorted(mark for mark in marks if mark.start < end and mark.end > start)
    edges = {start, end}
    for mark in inside:
        edges |= {max(mark.start, start), min(mark.end, end)}
    parts: list[TextPart] = []
    current: list[Mark] = []
    coming = iter([*inside, Mark(end, end, "")])
    following = next(coming)
    for first, last in pairwise(sorted(edges)):
        current = [mark for mark in current if mark.end > first]
        while following.start <= first:
            current.append(following)
            following = next(coming)
        kinds = dict.fromkeys(mark.kind for mark in current)
        notes = dict.fromkeys(mark.note for mark in current if mark.note)
        parts.append(TextPart(text[first:last], " ".join(kinds), "; ".join(notes)))
    return parts


def split_pieces(text: str) -> list[tuple[int, int]]:
    """Start and end of pieces of a text, which end after a line or a word where one ends nearby."""
    pieces, at = [], 0
    while len(text) - at > PIECE_LENGTH * 1.5:
        nearest = at + PIECE_LENGTH // 2
        cut = max(text.rfind(mark, nearest, at + PIECE_LENGTH) for mark in "\n ")
        end = at + PIECE_LENGTH if cut < 0 else cut + 1
        pieces.append((at, end))
        at = end
    return [*pieces, (at, len(text))] if at < len(text) or not text else pieces


# --- marks of words --------------------------------------------------------------------------------------------------


def content_words(text: str) -> set[str]:
    """The words of a text that are no stop words, in lower case."""
    return set(_words(text)) - STOP_WORDS


def _words(text: str) -> list[str]:
    return [text[start:end].casefold() for start, end in zip(*word_bounds(text), strict=True)]


def reference_marks(text: str, words: Set[str]) -> list[Mark]:
    """The marks of those words of a text that the reference has."""
    return place_marks(text, [place for place, word in enumerate(_words(text)) if word in words], "word")


def place_marks(text: str, places: Iterable[int], kind: str) -> list[Mark]:
    """The marks of words by their numbers; words with nothing but space between them have one mark."""
    starts, ends = word_bounds(text)
    marks: list[Mark] = []
    for place in places:
        start, end = starts[place], ends[place]
        if marks and not text[marks[-1].end : start].strip():
            marks[-1] = marks[-1]._replace(end=end)
        else:
            marks.append(Mark(start, end, kind))
    return marks


def changed_words(first: str, second: str) -> tuple[set[int], set[int]]:
    """The places of words that only one of two texts has; none where they share too few words."""
    before, after = _words(first), _words(second)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    changed: tuple[set[int], set[int]] = (set(), set())
    if before == after or matcher.ratio() < SIMILAR_FROM:
        return changed
    for tag, *places in matcher.get_opcodes():
        if tag != "equal":
            changed[0].update(range(places[0], places[1]))
            changed[1].update(range(places[2], places[3]))
    return changed


def difference_marks(texts: Sequence[str]) -> list[list[Mark]]:
    """The marks of the words of each text that the other one does not have; none for one text alone."""
    if len(texts) < 2:
        return [[] for _ in texts]
    changed = changed_words(*texts)
    return [
        place_marks(text, sorted(places), kind) for text, places, kind in zip(texts, changed, ("wa", "wb"), strict=True)
    ]
