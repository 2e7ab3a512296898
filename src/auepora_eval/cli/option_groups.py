"""Groups of command-line options that a command receives as one argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["FunctionT", "grouped_options"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def grouped_options(
    function: FunctionT, name: str, kind: Callable[..., Any], options: dict[str, Callable[[Any], Any]]
) -> FunctionT:
    """Add options to a command, which receives them as the argument ``name``: a ``kind`` built from their values."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        group = kind(*(kwargs.pop(one) for one in options))
        return function(*args, **kwargs, **{name: group})

    wrapped: Any = wrapper
    for option in reversed(options.values()):
        wrapped = option(wrapped)
    result: FunctionT = wrapped
    return result
