"""Escaping of control characters, so that a model's text cannot move the cursor or reverse a line."""

from __future__ import annotations

__all__ = ["escape_control_characters"]

_KEPT = (0x09, 0x0A)
_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]
_BIDI_CONTROLS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that change the writing direction."""
_ESCAPES = {code: f"\\u{code:04x}" for code in [*_CONTROLS, *_BIDI_CONTROLS] if code not in _KEPT}


def escape_control_characters(text: str) -> str:
    r"""Escape control characters as JSON does; newlines and tabs stay.

    >>> printable("a\x1b[2Jb")
    'a\\u001b[2Jb'
    """
    return text.translate(_ESCAPES)
