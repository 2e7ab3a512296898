"""Several options of a command as one argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["FunctionT", "grouped_options"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def grouped_options(
    function: FunctionT, name: str, kind: Callable[..., Any], options: dict[str, Callable[[Any], Any]]
) -> FunctionT:
    """Have a command take several options as one argument, a ``kind`` made of them in their order."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        made = kind(*(kwargs.pop(one) for one in options))
        return function(*args, **kwargs, **{name: made})

    wrapped: Any = called
    for option in reversed(options.values()):
        wrapped = option(wrapped)
    made: FunctionT = wrapped
    return made
