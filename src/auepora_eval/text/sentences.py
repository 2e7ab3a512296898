"""Sentence splitting by rules: no model, no language-specific word list."""

from __future__ import annotations

import re

__all__ = ["sentence_spans", "split_sentences"]

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
