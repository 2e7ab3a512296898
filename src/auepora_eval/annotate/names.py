"""Names and texts of annotators: how they are normalised, and what cannot be stored."""

from __future__ import annotations

import re
from unicodedata import category, normalize

from ..errors import BadValueError

MAX_NAME = 100
MAX_TEXT = 10_000
"""The number of characters of a comment, or of the reason of a skip."""
_REFUSED = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that a name must not contain: control characters, surrogates, ends of lines, and what is
invisible. Two names that look the same would be two annotators."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""Invisible characters of other categories: variation selectors, fillers, the empty Braille pattern."""


def check_annotator(name: str) -> str:
    """The name of an annotator, normalised; ``BadValueError`` for one that cannot be stored.

    Another keyboard may write é as two characters, or a letter in full width.
    """
    words = normalize("NFKC", name).strip().split(" ")
    return check_name(" ".join(word for word in words if word), "annotator")


def check_name(text: str, field: str) -> str:
    """A text of one line that can be stored; ``BadValueError`` for another one."""
    if not text or len(text) > MAX_NAME or any(_is_refused(letter) for letter in text):
        raise BadValueError(f"{field}: 1 to {MAX_NAME} characters on one line are possible, and no invisible ones")
    return text


def _is_refused(letter: str) -> bool:
    return category(letter) in _REFUSED or _INVISIBLE.match(letter) is not None


def check_text(text: str, field: str) -> None:
    """Raise ``BadValueError`` for a comment or reason that cannot be stored."""
    if len(text) > MAX_TEXT:
        raise BadValueError(f"{field}: {len(text):,} characters; at most {MAX_TEXT:,} are possible")
    if any(category(one) == "Cs" for one in text):
        raise BadValueError(f"{field}: it contains half of a surrogate pair, which cannot be stored")
