"""Wrap objects of a supported framework in the matching adapter."""

from __future__ import annotations

import inspect
from typing import Any

from .detection import detect_framework
from .versions import LANGCHAIN, LLAMAINDEX

__all__ = ["adapt", "adapt_generator"]


def adapt(value: Any) -> Any:
    """Wrap an object, or a pair of retriever and generator, in the adapter of its framework.

    Other objects are returned as they are, and so are objects that implement the system interface: a method ``run`` or
    ``arun`` whose first parameter is ``sample``.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and any(map(detect_framework, value)):
        return adapt(value[0]), adapt_generator(value[1])
    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is None or _is_system(value):
        return value
    from .haystack import from_haystack
    from .langchain import from_langchain
    from .llamaindex import from_llamaindex

    if framework is LANGCHAIN:
        return from_langchain(value)
    return from_llamaindex(value) if framework is LLAMAINDEX else from_haystack(value)


def adapt_generator(value: Any) -> Any:
    """Wrap the generator of a pair, if its framework supports generators with given documents."""
    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is LANGCHAIN:
        from .langchain import langchain_generator

        return langchain_generator(value)
    if framework is LLAMAINDEX:
        from .llamaindex import llamaindex_generator

        return llamaindex_generator(value)
    return value


def _is_system(value: object) -> bool:
    for name in ("run", "arun"):
        try:
            first = next(iter(inspect.signature(getattr(value, name)).parameters), None)
        except (AttributeError, TypeError, ValueError):
            continue
        if first == "sample":
            return True
    return False
