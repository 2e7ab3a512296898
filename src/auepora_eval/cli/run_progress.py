"""The progress of a run on the terminal, its exit codes, and the options that resume it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err
from .judge_options import ScoringProgress

if TYPE_CHECKING:
    from ..calling.policy import TaskOutput
    from ..core.results import Results
    from ..running.run import RunCallbacks
    from ..store.records import RunRecord

__all__ = ["INTERRUPTED", "STOPPED_EARLY", "RunProgress", "resume_options", "run_failure"]

STOPPED_EARLY, INTERRUPTED = 3, 130
"""Exit codes."""

_RESUME_OPTIONS = {
    "--store": "store",
    "--limit": "limit",
    "--name": "name",
    "-m": "metrics",
    "--conventions": "conventions",
    "--concurrency": "concurrency",
    "--judge-repeats": "judge_repeats",
}
"""Options that must be repeated to resume a run."""


def resume_options() -> tuple[list[str], str]:
    """The given options that must be repeated to resume a run, and a note if one of them is hidden."""
    from ..core.secrets import url_secrets

    params = click.get_current_context().params
    # An address with a password is not printed.
    hidden = bool(url_secrets(params["store"] or ""))
    parts: list[str] = []
    for option, name in _RESUME_OPTIONS.items():
        value = None if hidden and name == "store" else params[name]
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            parts += [option, str(one)]
    return parts, "with the same --store, " if hidden else ""


def run_failure(results: Results) -> str | None:
    """Why a finished run failed as a whole, in one line; ``None`` if it did not."""
    nothing = None if any(one.defined for one in results) else "nothing could be scored"
    return ": ".join(filter(None, [nothing, results.failure])) or None


class RunProgress:
    """Shows the progress of a run on the terminal."""

    def __init__(self) -> None:
        self._progress_bar = ExitStack()
        self._scoring_progress = ScoringProgress()
        self._advance: Any = None
        self._failed = 0
        self.run_id: str | None = None
        """Id of the run, once it exists."""

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress_bar.close()
        self._scoring_progress.__exit__()

    def callbacks(self) -> RunCallbacks:
        """The callbacks for ``run_plan``."""
        from ..running.run import RunCallbacks

        return RunCallbacks(self._on_start, self._on_answers, self._on_scoring, self._scoring_progress.start_judging)

    def _on_start(self, record: RunRecord, to_do: int) -> None:
        from ..reporting.progress import progress

        self._progress_bar.close()  # that of the previous run of a sweep
        self.run_id, self._failed = record.run_id, 0
        echo_err(f"{record.run_id} ({record.name}): {to_do} calls of {record.num_samples * record.repeats}")
        line = progress("asking", to_do, rate=True, suffix=lambda: f"{self._failed} failed" if self._failed else "")
        self._advance = self._progress_bar.enter_context(line)

    def _on_answers(self, answers: Sequence[TaskOutput]) -> None:
        self._failed += sum(answer.output.error is not None for answer in answers)
        self._advance(len(answers))

    def _on_scoring(self, total: int) -> Any:
        self._progress_bar.close()
        return self._scoring_progress.start_scoring(total)
