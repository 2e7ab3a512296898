"""What a report tells of stored runs: of one by itself, of two held against each other, of more as a league."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..._version import __version__
from ...store.records import RunRecord
from ...store.runs import RunStore
from .blocks import Report
from .stored_run import StoredRun
from .told_run import sections_of_run, subtitle_of_run, verdict_of_run

__all__ = ["told"]


def told(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> Report:
    """All that there is to say about these runs."""
    runs = [StoredRun(store, record) for record in records]
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    (run,) = runs
    return Report(title or run.record.name, subtitle_of_run(run), verdict_of_run(run), sections_of_run(run), made)
