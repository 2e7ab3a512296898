"""Names and texts of annotators: how they are normalised, and what cannot be stored."""

from __future__ import annotations

from unicodedata import category, normalize

from ..errors import BadValueError

MAX_NAME = 100
MAX_TEXT = 10_000
"""The number of characters of a comment, or of the reason of a skip."""
_CONTROL = ("Cc", "Cs", "Zl", "Zp")
"""Categories of characters that a name must not contain: control characters, surrogates and ends of lines."""


def check_annotator(name: str) -> str:
    """The name of an annotator without spaces around it; ``BadValueError`` for one that cannot be stored."""
    return check_name(normalize("NFC", name).strip(), "annotator")  # another keyboard may write é as two characters


def check_name(text: str, field: str) -> str:
    """A text of one line that can be stored; ``BadValueError`` for another one."""
    if not text or len(text) > MAX_NAME or any(category(one) in _CONTROL for one in text):
        raise BadValueError(f"{field}: 1 to {MAX_NAME} characters on one line are possible")
    return text


def check_text(text: str, field: str) -> None:
    """Raise ``BadValueError`` for a comment or reason that cannot be stored."""
    if len(text) > MAX_TEXT:
        raise BadValueError(f"{field}: {len(text):,} characters; at most {MAX_TEXT:,} are possible")
    if any(category(one) == "Cs" for one in text):
        raise BadValueError(f"{field}: it contains half of a surrogate pair, which cannot be stored")
