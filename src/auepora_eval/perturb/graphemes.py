"""Grapheme clusters: texts split into user-perceived characters, so that no edit splits one."""

from __future__ import annotations

import unicodedata

__all__ = ["grapheme_clusters", "word_ranges"]

_ZWJ = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me", "Cn"})  # one that this Python does not know yet may be a mark
# What Unicode joins to the character before it, although its category does not say so: a joiner's opposite, the tails
# of Thai and Lao vowels, half-width voicing marks.
_JOINED = frozenset("\u200c\u0e33\u0eb3\uff9e\uff9f")
_PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U000113d1\U0001193f\U00011941\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46"
    "\U00011f02"
)
_VIRAMA = 9
"""The combining class of signs that bind the consonant before them to the one that follows."""
_SYLLABLES, _LAST_SYLLABLE = 0xAC00, 0xD7A3
_KIRAT_RAI_VOWELS = frozenset({0x16D63, 0x16D67, 0x16D68, 0x16D69, 0x16D6A})  # which Unicode joins by the same rule


def grapheme_clusters(text: str) -> list[str]:
    """Split a text into grapheme clusters: letters with their marks, emoji sequences, flags, Hangul syllables.

    Every break is allowed by Unicode's rules for extended grapheme clusters. Where the rules need tables that Python
    does not have, clusters are too long rather than too short.
    """
    if text.isascii() and "\r" not in text:
        return list(text)
    pieces: list[str] = []
    flag_half = False
    """Whether the last piece ends in an indicator that waits for its other half."""
    for character in text:
        half = "\U0001f1e6" <= character <= "\U0001f1ff"
        if pieces and ((half and flag_half) or _joins(pieces[-1], character)):
            pieces[-1] += character
            flag_half = False
        else:
            pieces.append(character)
            flag_half = half
    return pieces


def _joins(piece: str, character: str) -> bool:
    """Whether a character belongs to the piece before it."""
    last = piece[-1]
    if last in "\r\n":
        return piece == "\r" and character == "\n"
    if unicodedata.category(character) == "Cc" or unicodedata.category(last) in ("Cc", "Zl", "Zp"):
        return False
    if _extends(character) or last in _PREPENDED:
        return True
    if last == _ZWJ:  # what it joins: emoji, and letters that take their joined form
        return not character.isspace()
    if unicodedata.category(character) == "Lo" and _bound_by_virama(piece):
        return True
    return _same_syllable(_hangul(last), _hangul(character))


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in _MARKS
        or character == _ZWJ
        or character in _JOINED
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # the tags that spell out flags of regions
    )


def _bound_by_virama(piece: str) -> bool:
    """Whether a piece ends in a sign that binds the next consonant, whatever other marks stand between."""
    for character in reversed(piece):
        if unicodedata.combining(character) == _VIRAMA:
            return True
        if not _extends(character):
            return False
    return False


def _hangul(character: str) -> str:
    """Which part of a syllable this is: leading (L), vowel (V), trailing (T), or LV and LVT; else empty."""
    code = ord(character)
    if _SYLLABLES <= code <= _LAST_SYLLABLE:
        return "LVT" if (code - _SYLLABLES) % 28 else "LV"
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6 or code in _KIRAT_RAI_VOWELS:
        return "V"
    return "T" if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB else ""


def _same_syllable(before: str, after: str) -> bool:
    if not before or not after:
        return False
    if before == "L":
        return after != "T"
    return after == "T" or (after == "V" and before[-1] == "V")


def word_ranges(cells: list[str]) -> list[range]:
    """The ranges of clusters between spaces."""
    ranges, start = [], None
    for position, cell in enumerate([*cells, " "]):
        if cell.isspace():
            if start is not None:
                ranges.append(range(start, position))
            start = None
        elif start is None:
            start = position
    return ranges
