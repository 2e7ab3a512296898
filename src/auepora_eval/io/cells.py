"""Lists in cells of a table: as JSON, or as Python literals, which pandas writes to CSV files."""

from __future__ import annotations

import ast
import io
import json
import tokenize
import warnings
from typing import Any

from .codec import LineError
from .problems import quote_text


def parse_list_cell(cell: str) -> list[Any] | None:
    """Parse the list in a cell; ``None`` if it does not begin like a list."""
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
            warnings.simplefilter("ignore")  # a backslash in a string is not our error
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if repr(value) != text and _has_adjacent_strings(text):
        raise LineError(
            f"{quote_text(text, 40)} looks like a NumPy array, whose strings cannot be separated; "
            "write lists (array.tolist()) to the file"
        )
    return value


def _has_adjacent_strings(text: str) -> bool:
    """Whether two strings are adjacent without a comma, which Python would concatenate silently."""
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
