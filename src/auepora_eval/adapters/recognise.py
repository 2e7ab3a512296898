"""Whether an object comes from a framework, told by the names of its classes' modules; nothing is imported for that."""

from __future__ import annotations

import inspect
from typing import Any

from .versions import FRAMEWORKS, LANGCHAIN, LLAMAINDEX, Framework

__all__ = ["adapted", "adapted_generator", "framework_of", "is_a"]


def framework_of(value: object) -> Framework | None:
    """The framework that the object's class builds on, or ``None``."""
    # A component of Haystack inherits from nothing; its class is made by a metaclass.
    kinds = (*type(value).__mro__, *type(type(value)).__mro__)
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    return next((framework for framework in FRAMEWORKS if framework.module in roots), None)


def is_a(value: object, framework: Framework, *names: str) -> bool:
    """Whether the object's class is, or inherits from, one of the framework's classes of these names."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == framework.module for kind in type(value).__mro__
    )


def adapted(value: Any) -> Any:
    """An object, or a pair of retriever and generator, with what comes from a framework wrapped by its adapter.

    Anything else is returned as it is, and so is an object that has our own interface besides: a method ``run`` or
    ``arun`` whose first parameter is called ``sample``.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and any(map(framework_of, value)):
        return adapted(value[0]), adapted_generator(value[1])
    framework = None if isinstance(value, type) else framework_of(value)
    if framework is None or _has_our_form(value):
        return value
    from . import from_haystack, from_langchain, from_llamaindex

    if framework is LANGCHAIN:
        return from_langchain(value)
    return from_llamaindex(value) if framework is LLAMAINDEX else from_haystack(value)


def adapted_generator(value: Any) -> Any:
    """The second of a pair, wrapped where a framework has generators that can be given documents."""
    framework = None if isinstance(value, type) else framework_of(value)
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
