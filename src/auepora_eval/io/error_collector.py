"""Collects all errors of a record instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .codec import LineError

__all__ = ["ErrorCollector", "collect_errors"]

ResultT = TypeVar("ResultT")


class ErrorCollector:
    """Calls functions that may raise ``LineError``, and collects the messages."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def call(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT | None:
        """Return the result of a function; ``None`` if it raises ``LineError``."""
        try:
            return function(*arguments)
        except LineError as error:
            self._messages += error.messages
            return None

    def call_each(self, function: Callable[..., ResultT], arguments: Iterable[tuple[Any, ...]]) -> list[ResultT]:
        """Call a function for each tuple of arguments; return the results of the calls without error."""
        results = [self.call(function, *one) for one in arguments]
        return [one for one in results if one is not None]

    def raise_errors(self) -> None:
        """Raise one ``LineError`` with all messages, if there are any."""
        if self._messages:
            raise LineError(*dict.fromkeys(self._messages))


def collect_errors(*calls: tuple[Any, ...]) -> LineError | None:
    """Return the errors of several calls, each a function with its arguments, as one error or ``None``."""
    errors = ErrorCollector()
    for function, *arguments in calls:
        errors.call(function, *arguments)
    try:
        errors.raise_errors()
    except LineError as error:
        return error
    return None
