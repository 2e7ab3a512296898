"""Number formats of ticks: the subset of d3-format that our specs use."""

from __future__ import annotations

import re

from ....core.errors import BadValueError

__all__ = ["format_tick"]

_FIXED = re.compile(r"\.(\d)f")


def format_tick(value: float, form: str) -> str:
    """Format a number: ``.2f`` with two decimals, ``d`` as an integer, ``.6~g`` with up to six digits.

    >>> formatted(-0.5, ".1f"), formatted(1e7, ".6~g")
    ('−0.5', '1e+7')
    """
    fixed = _FIXED.fullmatch(form)
    if fixed:
        text = f"{value:.{fixed[1]}f}"
    elif form == "d":
        text = f"{value:.0f}"
    elif form == ".6~g":
        text = re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:.6g}")
    else:
        raise BadValueError(f"unknown number format {form!r}; supported are '.2f', 'd' and '.6~g'")
    if text.startswith("-"):
        text = text[1:] if not text.strip("-0.") else f"−{text[1:]}"
    return text
