"""Values of a record by their column: texts, ids, and lists in cells, as JSON or as Python writes them."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from .codec import LineError
from .problems import quote_text, type_name


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


def get_value(values: Mapping[str, Any], name: str | None) -> Any:
    """Return the value of a column; ``None`` if it is missing, which data frames represent as NaN."""
    value = None if name is None else values.get(name)
    if value is None and name is not None and "." in name:
        value = _get_nested(values, name)
    if value is None or type(value).__name__ in (
        "NAType",
        "NaTType",
    ):  # missing values of pandas, checked without importing it
        return None
    return None if isinstance(value, Real) and value != value else value


_SELECTED = re.compile(r"(.+)\[(\w+)\]")
_RELEVANCE_FLAGS = ("is_supporting", "is_relevant", "is_selected", "is_gold")


def column_head(name: str) -> str:
    """Return the column of a dotted name: ``paragraphs`` of ``paragraphs[is_supporting].text``."""
    head = name.partition(".")[0]
    selected = _SELECTED.fullmatch(head)
    return head if selected is None else selected[1]


def _get_nested(values: Mapping[str, Any], name: str) -> Any:
    """Return the value under a dotted name: a key of an object, or of the objects of a list."""
    head, _, rest = name.partition(".")
    value = plain_value(values.get(head))
    selected = None if head in values else _SELECTED.fullmatch(head)
    if selected is not None:
        value = _select(plain_value(values.get(selected[1])), selected[1], selected[2])
    if isinstance(value, list) and all(isinstance(inner, Mapping) for inner in value):
        return [get_value(inner, rest) for inner in value]
    return get_value(value, rest) if isinstance(value, Mapping) else value


def _select(objects: Any, name: str, flag: str) -> list[Mapping[str, Any]] | None:
    """Return the objects of a list whose flag is true."""
    if objects is None:
        return None
    if not isinstance(objects, list):
        raise LineError(f"field {quote_text(name)} must be an array of objects, not {type_name(objects)}")
    for index, entry in enumerate(objects):
        path = f"{name}[{index}]"
        if not isinstance(entry, Mapping):
            raise LineError(f"field {quote_text(path)} must be an object, not {type_name(entry)}")
        if entry.get(flag) not in (False, True):  # 0 and 1 are equal to them
            raise LineError(f"field {quote_text(f'{path}.{flag}')} must be true or false, not {entry.get(flag)!r:.40}")
    return [entry for entry in objects if entry[flag]]


def require_no_flag(values: Mapping[str, Any], name: str | None) -> None:
    """Raise if a column of relevant documents takes all objects of a list, of which flags say that some are not."""
    head, _, rest = (name or "").partition(".")
    objects = plain_value(values.get(head)) if rest else None
    if not isinstance(objects, list):
        return
    for entry in objects:
        flags = []
        if isinstance(entry, Mapping):
            flags = [flag for flag in _RELEVANCE_FLAGS if not entry.get(flag, True) and entry[flag] is not None]
        if flags:
            raise LineError(
                f"field {quote_text(head)} has '{flags[0]}', which is false for some; to take only the relevant ones, "
                f"name the column {quote_text(f'{head}[{flags[0]}].{rest}')}"
            )


def plain_value(value: Any) -> Any:
    """Convert arrays and numbers of NumPy to Python types."""
    return value.tolist() if hasattr(value, "tolist") else value


def text_value(value: Any, path: str) -> str:
    """Return a value that must be a text; ``path`` is its field, for errors."""
    if not isinstance(value, str):
        raise LineError(f"field {quote_text(path)} must be a string, not {type_name(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LineError(f"field {quote_text(path)} holds half of a surrogate pair, which is not valid text") from error
    return str(value)


def id_value(value: Any, path: str) -> str:
    """Return a value that must be an id: a text, or an integer."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return _format_integer(value, path)
    if isinstance(value, float) and value.is_integer():  # pandas stores integers with missing values as floats
        return _format_integer(int(value), path)
    if not isinstance(value, str):
        raise LineError(f"field {quote_text(path)} must be a string or an integer, not {type_name(value)}")
    if not value:
        raise LineError(f"field {quote_text(path)} is empty; an id needs at least one character")
    return text_value(value, path)


def _format_integer(value: Integral | int, path: str) -> str:
    try:
        return str(int(value))
    except ValueError as error:  # Python's limit on the digits of an integer
        raise LineError(f"field {quote_text(path)} is too large a number") from error
