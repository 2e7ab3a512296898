"""What is recorded of an attempt: the system's output, checked and completed, or why there is none."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.batch import output_problem
from ..core.errors import SystemCallError
from ..core.secrets import ELLIPSIS
from ..core.types import STARTED, SystemOutputs, UnknownRanking
from ..features.rankings import retrieved_problem
from .attempt import Attempt
from .retrieve_generate import GenerationFailedError

__all__ = ["make_output", "timeout_error"]

_LONGEST_MESSAGE = 2_000


def timeout_error(seconds: float) -> SystemCallError:
    """What a call past its deadline failed with; asking again may help."""
    return SystemCallError("timeout", f"no answer within {seconds:g} s", retry=True)


def make_output(attempt: Attempt, called: str) -> SystemOutputs:
    """The output of a finished attempt, as a copy of its own; a failure is one whose ``error`` says why."""
    output = _check_output(attempt, called) if attempt.error is None else _failure(attempt.error)
    timings = {"end_to_end": attempt.elapsed, STARTED: attempt.started, **output.timings}
    extra = dict(output.extra)
    if attempt.number > 1:
        extra["attempts"] = attempt.number
    # A system may hand out the same object twice, or go on changing the one it gave.
    retrieved = UnknownRanking() if isinstance(output.retrieved, UnknownRanking) else list(output.retrieved)
    return replace(output, retrieved=retrieved, timings=timings, extra=extra, repeat=attempt.task.repeat)


def _check_output(attempt: Attempt, called: str) -> SystemOutputs:
    output = attempt.value
    problem = output_problem(output) or retrieved_problem(output) or _further_problem(output)
    if problem is None:
        owner = output.extra.get("sample_id")
        if owner is None or str(owner) == attempt.task.sample.sample_id:
            return output  # type: ignore[no-any-return]
        problem = f"is the result of sample {str(owner)!r:.200}"
    if inspect.iscoroutine(output):
        output.close()  # it would complain that nobody awaited it
        problem += "; what gives a coroutine must be an 'async def'"
    return SystemOutputs([], error=_storable_text(f"bad_output: what {called} returned {problem}"))


def _further_problem(output: SystemOutputs) -> str | None:
    for name, kinds, wanted in (
        ("extra", Mapping, "a dict"),
        ("usage", Mapping, "a dict"),
        ("steps", (list, tuple), "a list"),
        ("citations", (list, tuple, type(None)), "a list of ids (or None)"),
        ("refused", (bool, type(None)), "a bool (or None)"),
    ):
        held: Any = getattr(output, name)
        if not isinstance(held, kinds):
            return f"has {held!r:.200} as '{name}', not {wanted}"
    return None


def _failure(error: BaseException) -> SystemOutputs:
    if isinstance(error, GenerationFailedError):
        found = error.found
        return replace(found, error=_failure(error.cause).error)
    if isinstance(error, SystemCallError):
        return SystemOutputs([], error=_storable_text(_message(error)))
    message = _message(error)
    return SystemOutputs([], error=_storable_text(f"raised: {type(error).__name__}{': ' if message else ''}{message}"))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as trouble:  # an error that cannot say what it is must not become a second one
        return f"(its message cannot be had: {type(trouble).__name__})"


def _storable_text(text: str) -> str:
    """A text that every store can hold, and not endlessly long."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + ELLIPSIS
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
