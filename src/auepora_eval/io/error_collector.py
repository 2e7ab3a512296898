"""A record made part by part, so that everything that is wrong with it can be said and not only the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .codec import LineError

__all__ = ["ErrorCollector", "collect_errors"]

ResultT = TypeVar("ResultT")


class ErrorCollector:
    """Makes the parts of a record, and keeps what is wrong with each of them."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def make(self, made: Callable[..., ResultT], *arguments: Any) -> ResultT | None:
        """A part; ``None`` where it cannot be made."""
        try:
            return made(*arguments)
        except LineError as error:
            self._messages += error.messages
            return None

    def each(self, made: Callable[..., ResultT], arguments: Iterable[tuple[Any, ...]]) -> list[ResultT]:
        """Those of several parts that can be made."""
        found = [self.make(made, *one) for one in arguments]
        return [one for one in found if one is not None]

    def require(self) -> None:
        """Raise if anything was wrong."""
        if self._messages:
            raise LineError(*dict.fromkeys(self._messages))


def collect_errors(*calls: tuple[Any, ...]) -> LineError | None:
    """What is wrong with several parts, each a function and what it takes: for when one has failed already."""
    parts = ErrorCollector()
    for made, *arguments in calls:
        parts.make(made, *arguments)
    try:
        parts.require()
    except LineError as error:
        return error
    return None
