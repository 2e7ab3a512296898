"""What a report tells of stored runs: of one by itself, of two held against each other, of more as a league."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..._version import __version__
from ...store.records import RunRecord
from ...store.runs import RunStore
from .blocks import Report
from .stored_run import StoredRun
from .told_comparison import compared_sections, comparison_of, subtitle_of_comparison, verdict_of_comparison
from .told_league import league_of, league_sections, subtitle_of_league, verdict_of_league
from .told_run import sections_of_run, subtitle_of_run, verdict_of_run

__all__ = ["told"]


def told(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> Report:
    """All that there is to say about these runs."""
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    if len(records) == 1:
        run = StoredRun(store, records[0])
        return Report(title or run.record.name, subtitle_of_run(run), verdict_of_run(run), sections_of_run(run), made)
    runs = [StoredRun(store, record, _letter(place)) for place, record in enumerate(records)]
    if len(runs) == 2:
        compared = comparison_of(*runs)
        return Report(
            title or f"{runs[1].record.name} against {runs[0].record.name}",
            subtitle_of_comparison(compared),
            verdict_of_comparison(compared),
            compared_sections(compared),
            made,
        )
    league = league_of(runs)
    return Report(
        title or f"{len(runs)} runs against each other",
        subtitle_of_league(runs),
        verdict_of_league(runs, league),
        league_sections(runs, league),
        made,
    )


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else str(place + 1)
