"""Tasks, their outputs, and the policy for calling a system: concurrency, timeout, retries."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["MAX_CONNECTION_ERRORS", "CallPolicy", "Task", "TaskOutput", "is_positive"]

MAX_CONNECTION_ERRORS = 20
"""After this many connection errors in a row the system counts as unreachable."""


@dataclass(frozen=True, slots=True)
class Task:
    """One call to make: a sample, its position in the dataset, and the number of the repeat."""

    position: int
    sample: EvaluationSample
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output for a task. A failure is an output with an ``error``."""

    task: Task
    output: SystemOutputs


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a system is called."""

    top_k: int = 5
    """How many documents to retrieve."""
    concurrency: int = 1
    """How many calls may be in flight."""
    timeout: float | None = None
    """Seconds one call may take; ``None`` waits for ever."""
    retries: int = 0
    """How often a call that failed for a transient reason is retried."""
    backoff: float = 0.5
    """Seconds before the first retry; each further one waits twice as long, up to a minute."""
    max_failures: int | None = None
    """Stop once more samples than this have failed; ``None`` never stops."""
    keep_going: bool = True
    """Go on after ``CONNECTION_ERRORS`` connection errors in a row. Runs that can be resumed stop by default."""

    def __post_init__(self) -> None:
        for name, least in (("top_k", 1), ("concurrency", 1), ("retries", 0)):
            _require_integer(name, getattr(self, name), least)
        if self.max_failures is not None:
            _require_integer("max_failures", self.max_failures, 0)
        if self.timeout is not None and not is_positive(self.timeout):
            raise BadValueError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")
        if not (is_positive(self.backoff) or self.backoff == 0):
            raise BadValueError(f"backoff must be a number of seconds >= 0, not {self.backoff!r}")

    def stored(self) -> dict[str, Any]:
        """The policy as a plan stores it; ``keep_going`` is left out where it is not set."""
        return {key: value for key, value in asdict(self).items() if key != "keep_going" or value}


def _require_integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadValueError(f"{name} must be an integer >= {least}, not {value!r}")


def is_positive(value: object) -> bool:
    """Whether this is a finite number above 0."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
