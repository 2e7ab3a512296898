"""Objects of frameworks wrapped by the adapter that fits."""

from __future__ import annotations

import inspect
from typing import Any

from .detection import detect_framework
from .versions import LANGCHAIN, LLAMAINDEX

__all__ = ["adapt", "adapt_generator"]


def adapt(value: Any) -> Any:
    """An object, or a pair of retriever and generator, with what comes from a framework wrapped by its adapter.

    Anything else is returned as it is, and so is an object that has our own interface besides: a method ``run`` or
    ``arun`` whose first parameter is called ``sample``.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and any(map(detect_framework, value)):
        return adapt(value[0]), adapt_generator(value[1])
    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is None or _has_our_form(value):
        return value
    from . import from_haystack, from_langchain, from_llamaindex

    if framework is LANGCHAIN:
        return from_langchain(value)
    return from_llamaindex(value) if framework is LLAMAINDEX else from_haystack(value)


def adapt_generator(value: Any) -> Any:
    """The second of a pair, wrapped where a framework has generators that can be given documents."""
    framework = None if isinstance(value, type) else detect_framework(value)
    if framework is LANGCHAIN:
        from .langchain import langchain_generator

        return langchain_generator(value)
    if framework is LLAMAINDEX:
        from .llamaindex import llamaindex_generator

        return llamaindex_generator(value)
    return value


def _has_our_form(value: object) -> bool:
    for name in ("run", "arun"):
        try:
            first = next(iter(inspect.signature(getattr(value, name)).parameters), None)
        except (AttributeError, TypeError, ValueError):
            continue
        if first == "sample":
            return True
    return False
