"""The recorded output of an attempt: the system's output, checked and completed, or the error."""

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
    """The error of a call past its deadline; a retry may help."""
    return SystemCallError("timeout", f"no answer within {seconds:g} s", retry=True)


def make_output(attempt: Attempt, called: str) -> SystemOutputs:
    """The output of a finished attempt, as a copy; a failure has an ``error``."""
    output = _check_output(attempt, called) if attempt.error is None else _failure(attempt.error)
    timings = {"end_to_end": attempt.elapsed, STARTED: attempt.started, **output.timings}
    extra = dict(output.extra)
    if attempt.number > 1:
        extra["attempts"] = attempt.number
    # A system may return the same object twice, or change it later.
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
        output.close()  # or Python would warn that it was never awaited
        problem += "; what gives a coroutine must be an 'async def'"
    return SystemOutputs([], error=_storable_text(f"bad_output: what {called} returned {problem}"))


def _further_problem(output: SystemOutputs) -> str | None:
    for name, kinds, expected in (
        ("extra", Mapping, "a dict"),
        ("usage", Mapping, "a dict"),
        ("steps", (list, tuple), "a list"),
        ("citations", (list, tuple, type(None)), "a list of ids (or None)"),
        ("refused", (bool, type(None)), "a bool (or None)"),
    ):
        value: Any = getattr(output, name)
        if not isinstance(value, kinds):
            return f"has {value!r:.200} as '{name}', not {expected}"
    return None


def _failure(error: BaseException) -> SystemOutputs:
    if isinstance(error, GenerationFailedError):
        return replace(error.output, error=_failure(error.cause).error)
    if isinstance(error, SystemCallError):
        return SystemOutputs([], error=_storable_text(_message(error)))
    message = _message(error)
    return SystemOutputs([], error=_storable_text(f"raised: {type(error).__name__}{': ' if message else ''}{message}"))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as trouble:  # an exception whose message raises must not become a second one
        return f"(its message cannot be had: {type(trouble).__name__})"


def _storable_text(text: str) -> str:
    """A string that every store accepts, cut to a maximal length."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + ELLIPSIS
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
