"""How a system is called: concurrency, timeout, retries, and what happens where it fails, as its first calls may."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..core.types import SystemOutputs
from ..errors import BadValueError, SystemCallError
from ..net.retry import WrappedError
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, check_options


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a system is called."""

    top_k: PositiveInt = 5
    """How many documents to retrieve."""
    concurrency: PositiveInt = 1
    """How many calls may be in flight."""
    timeout: PositiveFloat | None = None
    """Seconds one call may take; ``None`` waits for ever."""
    retries: NonNegativeInt = 0
    """How often a call that failed for a transient reason is retried."""
    backoff: NonNegativeFloat = 0.5
    """Seconds before the first retry; each further one waits twice as long, up to a minute."""
    max_failures: NonNegativeInt | None = None
    """Stop once more samples than this have failed; ``None`` never stops."""
    keep_going: bool = True
    """Go on where all first calls or 20 connections in a row fail. Runs that can be resumed stop there by default."""

    raises: ClassVar[bool] = False
    """Whether the first call that fails ends the calls, and its exception is raised."""

    def __post_init__(self) -> None:
        check_options(self)

    def stored(self) -> dict[str, Any]:
        """The policy as a plan stores it; ``keep_going`` is left out where it is not set."""
        return {key: value for key, value in asdict(self).items() if key != "keep_going" or value}


class RaisingPolicy(CallPolicy):
    """A policy under which an exception of the system is raised instead of recorded."""

    __slots__ = ()
    raises = True


def policy_class(on_error: str) -> type[CallPolicy]:
    """The policy for what happens where the system raises: ``record`` it as a failure, or ``raise`` it."""
    if on_error not in ("record", "raise"):
        raise BadValueError(f"on_error must be one of record, raise, not {on_error!r:.80}")
    return RaisingPolicy if on_error == "raise" else CallPolicy


# --- the first calls of a run: whether they all fail in the same way, and the traceback of the user's code ------------

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
