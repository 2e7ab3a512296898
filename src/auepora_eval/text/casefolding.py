"""Texts compared whatever their case, composition and white space."""

import re
import unicodedata

__all__ = ["casefold_text"]

# Any run of white space but a single blank, which would be replaced by itself.
_BLANKS = re.compile(r"[^\S ]\s*| \s+")


def casefold_text(text: str) -> str:
    """A text as it is compared: no case, one form of every accented letter, any run of white space as one blank."""
    if text.isascii():  # a third of the time, and most texts
        return _BLANKS.sub(" ", text.lower())
    caseless = unicodedata.normalize("NFD", text).casefold()  # canonical caseless matching, Unicode D145
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", caseless))
