"""How a run is told on the terminal while it goes on, and how it can be taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .judging import ScoringLine
from .saying import say

if TYPE_CHECKING:
    from ..calling.policy import Answer
    from ..core.results import Results
    from ..running.run import Watcher
    from ..store.records import RunRecord

__all__ = ["INTERRUPTED", "STOPPED_EARLY", "Teller", "options_again", "run_failure"]

STOPPED_EARLY, INTERRUPTED = 3, 130
"""Exit codes."""

_CARRIED = {
    "--store": "store",
    "--limit": "limit",
    "--name": "name",
    "-m": "metrics",
    "--conventions": "conventions",
    "--concurrency": "concurrency",
    "--judge-repeats": "judge_repeats",
}
"""Options without which the run would be another one."""


def options_again() -> tuple[list[str], str]:
    """The options without which a run would be another one, as they were given, and what to say where one is hidden."""
    from ..core.secrets import address_secrets

    params = click.get_current_context().params
    # A password is not printed, and without it it is no address.
    hidden = bool(address_secrets(params["store"] or ""))
    parts: list[str] = []
    for option, name in _CARRIED.items():
        value = None if hidden and name == "store" else params[name]
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            parts += [option, str(one)]
    return parts, "with the same --store, " if hidden else ""


def run_failure(results: Results) -> str | None:
    """Why a run that came to its end failed as a whole, in one line; ``None`` where it did not."""
    nothing = None if any(one.defined for one in results) else "nothing could be scored"
    return ": ".join(filter(None, [nothing, results.failure])) or None


class Teller:
    """Shows on the terminal how a run goes."""

    def __init__(self) -> None:
        self._line = ExitStack()
        self._scored = ScoringLine()
        self._advance: Any = None
        self._failed = 0
        self.run_id: str | None = None
        """Which run it is, as soon as there is one."""

    def __enter__(self) -> Teller:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.close()
        self._scored.__exit__()

    def watcher(self) -> Watcher:
        """What ``run_plan`` is to tell how it goes."""
        from ..running.run import Watcher

        return Watcher(self._started, self._answered, self._scoring, self._scored.judging)

    def _started(self, record: RunRecord, to_do: int) -> None:
        from ..reporting.progress import progress

        self._line.close()  # of the run before, where there are several
        self.run_id, self._failed = record.run_id, 0
        say(f"{record.run_id} ({record.name}): {to_do} to ask of {record.num_samples * record.repeats}")
        line = progress("asking", to_do, rate=True, remark=lambda: f"{self._failed} failed" if self._failed else "")
        self._advance = self._line.enter_context(line)

    def _answered(self, answers: Sequence[Answer]) -> None:
        self._failed += sum(answer.output.error is not None for answer in answers)
        self._advance(len(answers))

    def _scoring(self, total: int) -> Any:
        self._line.close()
        return self._scored.scoring(total)
