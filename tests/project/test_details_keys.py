"""Stored keys of details are written in one module: elsewhere they are typed attributes."""

from __future__ import annotations

import ast
from collections import Counter

from tools.source_tree import MODULES, module_name, parse

TABLE = "core.details"
MAX_PLACES = 1
"""The uses of a key as a string. An issue that removes some lowers it; none raises it."""

_METHODS = ("get", "setdefault", "pop")


def _is_details(node: ast.expr) -> bool:
    """Whether an expression is a variable or an attribute named ``details``."""
    return (isinstance(node, ast.Name) and node.id == "details") or (
        isinstance(node, ast.Attribute) and node.attr == "details"
    )


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _uses_key(node: ast.AST) -> bool:
    """Whether a node is ``details["key"]``, ``details.get("key")`` or ``"key" in details``."""
    match node:
        case ast.Subscript(value=details, slice=key):
            return _is_details(details) and _is_key(key)
        case ast.Call(func=ast.Attribute(value=details, attr=method), args=[key, *_]):
            return method in _METHODS and _is_details(details) and _is_key(key)
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[details]):
            return _is_details(details) and _is_key(key)
    return False


def test_keys_of_details_are_attributes() -> None:
    places: Counter[str] = Counter()
    for path in MODULES:
        if module_name(path) != TABLE:
            places[module_name(path)] += sum(_uses_key(node) for node in ast.walk(parse(path)))
    found = "\n".join(f"{count:4} {name}" for name, count in places.most_common() if count)
    assert places.total() <= MAX_PLACES, f"write details.key, not details['key']:\n{found}"
