"""The progress of a run on the terminal, and the options that resume it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..render.terminal import progress
from .console import echo_err
from .judge_options import ScoringProgress

if TYPE_CHECKING:
    from ..runs.run import RunCallbacks
    from ..store.records import RunRecord, StoredOutput

_RESUME_OPTIONS = {
    "--store": "store",
    "--samples": "samples",
    "--limit": "limit",
    "--name": "name",
    "-m": "metrics",
    "--conventions": "conventions",
    "--concurrency": "concurrency",
    "--judge-repeats": "judge_repeats",
    "--until-decided": "until_decided",
    "--stop-metric": "stop_metric",
    "--delta": "delta",
    "--stop-seed": "stop_seed",
    "--set": "set_texts",
}
"""Options that must be repeated to resume a run."""


def resume_options() -> tuple[list[str], str]:
    """The given options that must be repeated to resume a run, and a note if one of them is hidden."""
    from ..runtime.secrets import url_secrets

    params = click.get_current_context().params
    # An address with a password is not printed.
    hidden = bool(url_secrets(params["store"] or ""))
    parts: list[str] = []
    for option, name in _RESUME_OPTIONS.items():
        value = None if hidden and name == "store" else params.get(name)
        for text in value if isinstance(value, tuple) else () if value is None else (value,):
            parts += [option, str(text)]
    parts += ["--safe"] if params.get("safe") else []
    return parts, "with the same --store, " if hidden else ""


class RunProgress(ScoringProgress):
    """Shows the progress of a run on the terminal: first that of its calls, then that of scoring and judging."""

    def __init__(self) -> None:
        super().__init__()
        self._advance: Any = None
        self._failed_calls = 0
        self.run_id: str | None = None
        """Id of the run, once it exists."""

    def callbacks(self) -> RunCallbacks:
        """The callbacks for ``run_plan``."""
        from ..runs.run import RunCallbacks

        return RunCallbacks(self._on_start, self._on_answers, self.start_scoring, self.start_judging, self.show_look)

    def _on_start(self, record: RunRecord, to_do: int) -> None:
        self._progress_bar.close()  # that of the previous run of a sweep
        self.run_id, self._failed_calls = record.run_id, 0
        echo_err(f"{record.run_id} ({record.name}): {to_do} answers to collect")
        line = progress("asking", to_do, rate=True, suffix=self._failed_calls_note)
        self._advance = self._progress_bar.enter_context(line)

    def _failed_calls_note(self) -> str:
        return f"{self._failed_calls} failed" if self._failed_calls else ""

    def _on_answers(self, answers: Sequence[StoredOutput]) -> None:
        self._failed_calls += sum(answer.output.error is not None for answer in answers)
        self._advance(len(answers))
