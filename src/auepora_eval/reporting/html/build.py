"""Builds the report of stored runs: of one run, a comparison of two, or a leaderboard of more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..._version import __version__
from ...compare.stores import Store, open_store
from ...core.errors import BadValueError
from ...core.gc_pause import gc_paused
from ...io.files import atomic_write
from ...store.cached_store import CachedStore
from ...store.records import RunRecord
from ...store.runs import RunStore
from .blocks import Report
from .browser.pack import build_browser
from .comparison_page import compare_stored_runs, comparison_sections, comparison_subtitle, comparison_verdict
from .leaderboard_page import leaderboard_or_error, leaderboard_sections, leaderboard_subtitle, leaderboard_verdict
from .markdown_report import report_markdown
from .page import render_page
from .run_page import run_sections, run_subtitle, run_verdict
from .stored_run import StoredRun

MARKDOWN = (".md", ".markdown")


def write_report(
    runs: str | RunRecord | Sequence[str | RunRecord],
    path: str | Path = "report.html",
    *,
    store: Store = None,
    baseline: str | RunRecord | None = None,
    title: str | None = None,
) -> Path:
    """Write a report of stored runs to one file and return its path: HTML, or Markdown for a name in ``.md``.

    One run is shown by itself, two are compared (the second with the first), more make a leaderboard. ``baseline`` is
    put before the others. Runs are named as in ``RunStore.find``: an id or its prefix, a name, ``latest``. The HTML is
    self-contained: no network, no other file.
    """
    path = Path(path)
    with open_store(store) as opened, gc_paused():
        records = _records(opened, runs, baseline)
        if path.suffix.lower() in MARKDOWN:
            text = report_markdown(build_report(CachedStore(opened), records, title=title))
        else:
            text = report_html(opened, records, title=title)
    with atomic_write(path) as file:
        file.write(text.encode("utf-8", "replace"))
    return path


def report_html(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> str:
    """The HTML report of these runs."""
    once = CachedStore(store)
    return render_page(build_report(once, records, title=title), build_browser(once, records))


def _records(
    store: RunStore, runs: str | RunRecord | Sequence[str | RunRecord], baseline: str | RunRecord | None
) -> list[RunRecord]:
    listed = [runs] if isinstance(runs, (str, RunRecord)) else list(runs)
    named = listed if baseline is None else [baseline, *listed]
    records = [store.find(one) if isinstance(one, str) else one for one in named]
    if not records:
        raise BadValueError("name a run to report on; `auepora runs` lists them")
    ids = [one.run_id for one in records]
    for run_id in ids:
        if ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is listed twice; name each run once")
    return records


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
