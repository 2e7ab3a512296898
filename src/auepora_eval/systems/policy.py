"""How a system is called: concurrency, timeout, retries, and what happens where it fails."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ..errors import BadValueError
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
