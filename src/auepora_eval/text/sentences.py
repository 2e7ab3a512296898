"""Sentences of a text by rules, and the citations of each sentence of an answer."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import BadTypeError

# Where a sentence may end: marks of the end with what closes behind them, then a space; or a full stop of a script that
# is written without spaces; or a new line.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|\n+|[।॥؟]+(?=\s)")
_WORD = re.compile(r"\w")
_LAST_WORD = re.compile(r"(?:^|[\s(\[\"'“‘])((?:\w\.)*\w+)\.$")
_OPENS = re.compile(r"\s*[\"'“‘«(\[]*[^\Wa-z_]")
_ABBREVIATIONS = """
mr mrs ms dr prof sr jr st vs e.g i.e cf fig figs eq nos vol eds pp al approx ca inc ltd corp dept univ gen col sgt capt
rev hon jan feb apr jun jul aug sep sept oct nov dec z.b d.h u.a bzw nr abb bd
"""
_SHORT = frozenset(_ABBREVIATIONS.split())


def split_sentences(text: str) -> list[str]:
    """The sentences of a text that contain a letter or a digit, stripped of spaces.

    A full stop ends no sentence after an initial, the number of an item or a usual abbreviation, nor before a small
    letter.

    >>> split_sentences("Dr. Ito left at 5 p.m. on Monday. Why? Nobody knows...")
    ['Dr. Ito left at 5 p.m. on Monday.', 'Why?', 'Nobody knows...']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of the sentences of ``split_sentences``."""
    found, start = [], 0
    for end in _END.finditer(text):
        if _continues(text[start : end.end()], text[end.end() :], end.group()):
            continue
        found.append((start, end.end()))
        start = end.end()
    found.append((start, len(text)))
    return [_strip_span(text, *span) for span in found if _WORD.search(text, *span)]


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _continues(so_far: str, rest: str, mark: str) -> bool:
    """Whether a sentence continues after an apparent end."""
    if not mark.startswith("."):
        return False
    if rest.strip() and not _OPENS.match(rest) and "\n" not in rest[: len(rest) - len(rest.lstrip())]:
        return True
    if mark != ".":
        return False
    last = _LAST_WORD.search(so_far)
    if last is None:
        return False
    word = last.group(1)
    initial = len(word) == 1 and word.isalpha() and word.isupper() and word != "I"
    numbered = word.isdigit() and not so_far[: last.start(1)].strip()
    return initial or numbered or word.lower() in _SHORT


# --- citations of sentences: from marks such as ``[1]`` in the text, or from a list ----------------------------------

Style = Literal["auto", "sentences", "brackets", "hash", "ids"]
"""Where citations are looked for: in the list of sentences if there is one and else in the text (``auto``), in the list
alone, or in the text alone, as ``[1]``, as ``[#1]`` or as the id of a document."""

_BRACKET = r"(?:\[[^\[\]\n]{1,200}\]|【[^【】\n]{1,200}】)"
_LINK = r"(?:\(\s*https?://[^\s()]*\s*\))?"
_MARK = re.compile(rf"(?<![ \t])[ \t]*({_BRACKET}){_LINK}")
_BETWEEN = re.compile(r"[ \t]*[,;]?")
"""Separators of marks that belong together: ``[1], [2]``."""
_NUMBER = re.compile(r"[#^]?(\d{1,9})")
_RANGE = re.compile(r"([#^]?)(\d{1,9})\s*[-\u2010-\u2014]\s*[#^]?(\d{1,9})")
_LONGEST_RANGE = 100
"""A longer range names no documents: it is one citation of an unknown document."""


@dataclass(frozen=True, slots=True)
class Citation:
    """What a sentence cites."""

    written: str
    """As written in the answer: ``2`` or the id of a document."""
    place: int | None
    """The index of the cited document; ``None`` where there is no such document."""


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence, without its marks, and what it cites: each document once, in the order of the marks."""

    text: str
    citations: tuple[Citation, ...] = ()


def cited_sentences(
    text: str, sentences: object, ids: Sequence[str], style: Style = "auto"
) -> tuple[CitedSentence, ...] | None:
    """The sentences of an answer with what they cite.

    ``sentences`` is the list that came with the answer, if any, and ``ids`` are those of the documents in the order in
    which marks count them. ``None`` where ``style`` asks for the list and there is none.
    """
    if style in ("auto", "sentences"):
        listed = None if sentences is None else listed_sentences(sentences, ids)
        if listed is not None or style == "sentences":
            return listed
    return marked_sentences(text, ids, style)


def listed_sentences(sentences: object, ids: Sequence[str]) -> tuple[CitedSentence, ...] | None:
    """The sentences of a list ``[{"text": ..., "citations": [ids]}]`` that contain a letter or a digit.

    ``None`` where none of them has the key ``citations``. Raises ``BadTypeError`` for anything else.
    """
    if not isinstance(sentences, (list, tuple)) or not all(isinstance(sentence, Mapping) for sentence in sentences):
        raise BadTypeError("sentences are a list of objects with 'text' and 'citations'")
    places = _places(ids)
    found, any_cites = [], False
    for sentence in sentences:
        text, cited = sentence.get("text"), sentence.get("citations")
        if not isinstance(text, str):
            raise BadTypeError(f"a sentence is an object with a string as 'text', not {sentence!r:.80}")
        any_cites = any_cites or cited is not None
        citations = (Citation(doc_id, places.get(doc_id)) for doc_id in require_ids([] if cited is None else cited))
        if split_sentences(text):
            found.append(CitedSentence(text.strip(), _deduplicate(citations)))
    return None if sentences and not any_cites else tuple(found)


def require_ids(cited: object) -> Sequence[str]:
    """The cited ids; raises unless they are a list of strings."""
    if not isinstance(cited, (list, tuple, set, frozenset)) or not all(isinstance(doc_id, str) for doc_id in cited):
        raise BadTypeError(f"citations are a list of document ids, not {cited!r:.80}")
    return cited if isinstance(cited, (list, tuple)) else sorted(cited)


def marked_sentences(text: str, ids: Sequence[str], style: Style = "auto") -> tuple[CitedSentence, ...]:
    """The sentences of a text with the marks in it: ``[1]``, ``[1, 2]``, ``[1][2]``, ``[1-3]``, ``[#1]``, ``[id]``.

    A number counts the documents from 1; one that names none is the id of a document if there is such an id, and else a
    citation of nothing. A mark belongs to the sentence it stands in or follows, before or after the full stop; at the
    beginning of a line, to the sentence that begins there. Brackets around anything else are part of the text.

    >>> for one in marked_sentences("Faust is by Goethe [1]. It has two parts. [2, 7]", ["a", "b"]):
    ...     print(one.text, [citation.place for citation in one.citations])
    Faust is by Goethe. [0]
    It has two parts. [1, None]
    """
    plain, marks = _strip_marks(text, _MarkReader(ids, style))
    spans = sentence_spans(plain)
    if not spans:
        return ()
    cited: list[list[Citation]] = [[] for _ in spans]
    starts = [start for start, _ in spans]
    for offset, opens_line, citations in marks:
        before = bisect_left(starts, offset)
        cited[min(before, len(spans) - 1) if opens_line else max(before - 1, 0)] += citations
    return tuple(
        CitedSentence(plain[start:end], _deduplicate(citations))
        for (start, end), citations in zip(spans, cited, strict=True)
    )


def _strip_marks(text: str, reader: _MarkReader) -> tuple[str, list[tuple[int, bool, list[Citation]]]]:
    """The text without its marks, and per mark its position, whether it opens a line, and its citations."""
    kept: list[str] = []
    marks: list[tuple[int, bool, list[Citation]]] = []
    length = last = 0
    for match in _MARK.finditer(text):
        citations = reader.citations(match[1])
        if citations is None:
            continue
        before, end = text[last : match.start()], match.end()
        if last and _BETWEEN.fullmatch(before):
            before = ""
        glued = " " if text[end : end + 1].isalnum() else ""
        kept += [before, glued]
        marks.append((length + len(before), _opens_line(text, match.start(), end), citations))
        length += len(before) + len(glued)
        last = end
    return "".join([*kept, text[last:]]), marks


def _opens_line(text: str, start: int, end: int) -> bool:
    """Whether a mark is the first thing on its line and followed by a sentence."""
    before = text.rfind("\n", 0, start) + 1
    if text[before:start].strip():
        return False
    line_end = text.find("\n", end)
    return bool(split_sentences(text[end : len(text) if line_end < 0 else line_end]))


class _MarkReader:
    """Parses the content of brackets."""

    def __init__(self, ids: Sequence[str], style: Style) -> None:
        self._style, self._count, self._places = style, len(ids), _places(ids)

    def citations(self, bracket: str) -> list[Citation] | None:
        """The citations of a bracket; ``None`` where it is part of the text."""
        inside = bracket[1:-1].strip()
        if self._style != "hash" and inside in self._places and not self._is_place(inside):
            return [Citation(inside, self._places[inside])]
        found: list[Citation] = []
        for part in re.split(r"[,;]", inside):
            cited = self._part(part.strip())
            if cited is None:
                return None
            found += cited
        return found

    def _part(self, part: str) -> list[Citation] | None:
        if self._style == "ids":
            return [Citation(part, self._places[part])] if part in self._places else None
        span = _RANGE.fullmatch(part)
        if span is not None and self._reads(part):
            return self._range(part, int(span[2]), int(span[3]))
        number = _NUMBER.fullmatch(part)
        if number is not None and self._reads(part):
            return [self._numbered(part, int(number[1]))]
        known = self._style != "hash" and part in self._places
        return [Citation(part, self._places[part])] if known else None

    def _reads(self, part: str) -> bool:
        return self._style == "auto" or part.startswith("#") == (self._style == "hash")

    def _is_place(self, inside: str) -> bool:
        number = None if self._style == "ids" else _NUMBER.fullmatch(inside)
        return number is not None and 1 <= int(number[1]) <= self._count

    def _numbered(self, written: str, number: int) -> Citation:
        return Citation(written, number - 1 if 1 <= number <= self._count else self._places.get(written))

    def _range(self, written: str, first: int, last: int) -> list[Citation]:
        if not first <= last < first + _LONGEST_RANGE:
            return [Citation(written, None)]
        return [self._numbered(str(number), number) for number in range(first, last + 1)]


def _places(ids: Sequence[str]) -> dict[str, int]:
    """The first index of each id."""
    return {doc_id: place for place, doc_id in reversed(list(enumerate(ids)))}


def _deduplicate(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """Each document once, at its first mark; likewise each mark without a document."""
    found: dict[object, Citation] = {}
    for citation in citations:
        found.setdefault(citation.written if citation.place is None else citation.place, citation)
    return tuple(found.values())
