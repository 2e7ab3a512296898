"""The first calls of a run: whether they all fail in the same way, and the traceback of the user's code."""

from __future__ import annotations

import traceback
from pathlib import Path

from ..core.types import SystemOutputs
from ..errors import SystemCallError
from ..net.retry import WrappedError

FIRST_CALLS = 10
"""A run stops if this many calls at its start, or all of its calls, fail in the same way."""
_OWN_CODE = str(Path(__file__).parent.parent)


class FirstCalls:
    """Watches the first calls, in the order in which they end. Nothing is watched if ``number`` is 0."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._failures: list[tuple[str, ...]] = []
        self.message = ""
        """How the first of them failed."""
        self.traceback = ""
        """The traceback of the user's code in the first of them."""

    def all_fail(self, output: SystemOutputs, error: BaseException | None) -> bool:
        """Take the next call; whether it is the last of the first calls and all of them failed in the same way."""
        if len(self._failures) == self._number:
            return False
        error = None if error is None else without_wrapper(error)
        if not self._failures:
            calls = "call failed" if self._number == 1 else f"{self._number} calls all failed in the same way"
            self.message = f"the first {calls}: {' '.join((output.error or '').split())[:300]}"
            self.traceback = "" if error is None else user_traceback(error)
        self._failures.append(_failure(output, error))
        return len(self._failures) == self._number and {*self._failures} == {self._failures[0]} != {()}


def without_wrapper(error: BaseException) -> BaseException:
    """The exception that the user's code raised."""
    while isinstance(error, WrappedError):
        error = error.cause
    return error


def _failure(output: SystemOutputs, error: BaseException | None) -> tuple[str, ...]:
    """What equal failures have in common: the reason, and the line that raised. A timeout may be a cold start."""
    reason = (output.error or "timeout").partition(":")[0]
    if reason == "timeout":
        return ()
    if error is None or isinstance(error, SystemCallError):
        return (reason,)
    places = [f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    return reason, type(error).__name__, *places[-1:]


def user_traceback(error: BaseException) -> str:
    """The traceback of an exception of the user's code; empty where only this package's code was involved."""
    found = traceback.TracebackException.from_exception(error)
    chain = [found]
    for link in chain:
        frames = [frame for frame in link.stack if not frame.filename.startswith(_OWN_CODE)]
        link.stack = traceback.StackSummary.from_list(frames)
        chain += [cause for cause in (link.__cause__, link.__context__) if cause is not None]
    return "".join(found.format()).rstrip() if found.stack else ""
