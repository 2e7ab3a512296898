"""Normalisation for comparison: case, Unicode composition and white space are ignored."""

import re
import unicodedata

__all__ = ["casefold_text"]

# Any run of white space except a single blank, which needs no replacement.
_BLANKS = re.compile(r"[^\S ]\s*| \s+")


def casefold_text(text: str) -> str:
    """The text casefolded, in one Unicode form, with runs of white space as one blank."""
    if text.isascii():  # a third of the time, and most texts
        return _BLANKS.sub(" ", text.lower())
    caseless = unicodedata.normalize("NFD", text).casefold()  # canonical caseless matching, Unicode D145
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", caseless))
