"""Keyboard layouts and the neighbours of each key."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from ..core.errors import BadValueError

__all__ = ["LAYOUTS", "Layout", "neighbours", "require_layout"]

Layout = Literal["qwerty", "qwertz", "azerty"]
LAYOUTS: tuple[str, ...] = get_args(Layout)

# Per layout its rows of keys: which row, how far the first key is shifted, and the keys; a space is one that is no
# letter. Two lines with the same row number are what one row gives with and without shift.
_ROWS: dict[str, list[tuple[int, float, str]]] = {
    "qwerty": [(0, 0.0, "1234567890"), (1, 0.5, "qwertyuiop"), (2, 0.75, "asdfghjkl"), (3, 1.25, "zxcvbnm")],
    "qwertz": [(0, 0.0, "1234567890ß"), (1, 0.5, "qwertzuiopü"), (2, 0.75, "asdfghjklöä"), (3, 1.25, "yxcvbnm")],
    "azerty": [
        (0, 0.0, "1234567890"),
        (0, 0.0, " é    è çà"),
        (1, 0.5, "azertyuiop"),
        (2, 0.75, "qsdfghjklmù"),
        (3, 1.25, "wxcvbn"),
    ],
}


def require_layout(layout: str) -> None:
    """Raise for an unknown layout."""
    if layout not in LAYOUTS:
        raise BadValueError(f"unknown keyboard layout {layout!r}; choose one of: {', '.join(LAYOUTS)}")


@cache
def neighbours(layout: str) -> dict[str, str]:
    """Per letter the letters whose keys touch its own, per digit the digits; all in lower case."""
    require_layout(layout)
    keys = [
        (key, row, shift + position)
        for row, shift, line in _ROWS[layout]
        for position, key in enumerate(line)
        if not key.isspace()
    ]
    return {
        key: "".join(
            other
            for other, other_row, other_position in keys
            if other != key
            and other.isdigit() == key.isdigit()
            and abs(row - other_row) <= 1
            and abs(position - other_position) <= 1
        )
        for key, row, position in keys
    }
