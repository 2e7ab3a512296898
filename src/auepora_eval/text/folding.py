"""Texts compared whatever their case, composition and white space."""

import re
import unicodedata

__all__ = ["folded"]


def folded(text: str) -> str:
    """A text as it is compared: no case, one form of every accented letter, any run of white space as one blank."""
    caseless = unicodedata.normalize("NFD", text).casefold()  # canonical caseless matching, Unicode D145
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", caseless))
