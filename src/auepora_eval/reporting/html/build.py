"""Builds the report of stored runs: of one run, a comparison of two, or a leaderboard of more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..._version import __version__
from ...store.records import RunRecord
from ...store.runs import RunStore
from .blocks import Report
from .comparison_page import compare_stored_runs, comparison_sections, comparison_subtitle, comparison_verdict
from .leaderboard_page import leaderboard_or_error, leaderboard_sections, leaderboard_subtitle, leaderboard_verdict
from .run_page import run_sections, run_subtitle, run_verdict
from .stored_run import StoredRun

__all__ = ["build_report"]


def build_report(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> Report:
    """Build the report of one, two or more runs."""
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    if len(records) == 1:
        run = StoredRun(store, records[0])
        return Report(title or run.record.name, run_subtitle(run), run_verdict(run), run_sections(run), made)
    runs = [StoredRun(store, record, _run_letter(index)) for index, record in enumerate(records)]
    if len(runs) == 2:
        compared = compare_stored_runs(*runs)
        return Report(
            title or f"{runs[1].record.name} against {runs[0].record.name}",
            comparison_subtitle(compared),
            comparison_verdict(compared),
            comparison_sections(compared),
            made,
        )
    leaderboard = leaderboard_or_error(runs)
    return Report(
        title or f"{len(runs)} runs against each other",
        leaderboard_subtitle(runs),
        leaderboard_verdict(runs, leaderboard),
        leaderboard_sections(runs, leaderboard),
        made,
    )


def _run_letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else str(index + 1)
