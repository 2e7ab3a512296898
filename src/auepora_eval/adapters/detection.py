"""Detection of the framework of an object by the module names of its classes, without imports."""

from __future__ import annotations

from .versions import FRAMEWORKS, Framework

__all__ = ["detect_framework", "is_instance_of"]


def detect_framework(value: object) -> Framework | None:
    """The framework that the object's class builds on, or ``None``."""
    # A component of Haystack inherits from nothing; its class is made by a metaclass.
    kinds = (*type(value).__mro__, *type(type(value)).__mro__)
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    return next((framework for framework in FRAMEWORKS if framework.module in roots), None)


def is_instance_of(value: object, framework: Framework, *names: str) -> bool:
    """Whether the object's class is, or inherits from, one of the framework's classes of these names."""
    return any(
        kind.__name__ in names and kind.__module__.partition(".")[0] == framework.module for kind in type(value).__mro__
    )
