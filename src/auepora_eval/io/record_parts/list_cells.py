"""Lists that a table holds as texts: JSON, or Python's own writing, which is what pandas puts into a CSV file."""

from __future__ import annotations

import ast
import io
import json
import tokenize
import warnings
from typing import Any

from ..codec import LineError
from ..problem_messages import quote_text

__all__ = ["parse_list_cell"]


def parse_list_cell(cell: str) -> list[Any] | None:
    """The list that a cell spells out; ``None`` where it does not begin like one."""
    text = cell.strip()
    if not text.startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _parse_literal(text)
    if not isinstance(value, list):
        raise LineError(f"{quote_text(cell, 40)} is not a list, neither as JSON nor as Python writes it")
    return value


def _parse_literal(text: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text is no mistake of the reader
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if repr(value) != text and _has_adjacent_strings(text):
        raise LineError(
            f"{quote_text(text, 40)} looks like an array of NumPy, whose texts cannot be told apart; "
            "write lists (array.tolist()) to the file"
        )
    return value


def _has_adjacent_strings(text: str) -> bool:
    """Whether two texts stand side by side without a comma, which Python would silently make one of."""
    before = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                continue
            if token.type == before == tokenize.STRING:
                return True
            before = token.type
    except (tokenize.TokenError, SyntaxError):
        return True
    return False
