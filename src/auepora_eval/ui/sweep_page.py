"""A sweep: its row in the list of runs; its page with the conclusion, the configurations, and quality by cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from starlette.responses import Response

from ..compare.pairing import lookup_metric
from ..core.results import display_name
from ..errors import BadValueError
from ..store.records import RunRecord, RunStatus
from ..store.runs import CachedStore
from ..store.sweeps import SWEEP, SWEEP_TAG, find_sweep, sweep_runs
from ..sweep.answer import SweepAnswer, answer_sweep
from ..sweep.rendering import answer_sections, conclusion
from .numbers import metric_number
from .page_request import PageRequest, page_route
from .run_filter import RunFilter
from .run_table import ResultSummaries
from .workbench import Workbench, render_template


def sweep_page(request: PageRequest) -> Response:
    """The page of the sweep that ``name`` names."""
    workbench, name = request.workbench, request.parameters.get("name", "")
    if not name:
        raise BadValueError("name a sweep: /sweep?name=NAME")
    answer = read_answer(workbench, name)
    first, *more = conclusion(answer)
    records = [result.record for result in answer.results if result.record is not None]
    return render_template(
        request,
        "sweep.html",
        answer=answer,
        first=first,
        more=more,
        sections=answer_sections(answer),
        records=records,
    )


def read_answer(workbench: Workbench, name: str) -> SweepAnswer:
    """The answer of a sweep, from the cache where its runs are as before."""
    sweep = find_sweep(workbench.store, name)
    versions = [workbench.version(run) for run in sweep_runs(workbench.store, sweep) if run is not None]
    key = ("sweep", name, *versions)
    store = CachedStore(workbench.store)
    store.records_decisions = False  # a page is a GET request
    return workbench.cached(key, partial(answer_sweep, store, sweep), size=100_000)


ROUTES = [page_route("/sweep", sweep_page)]


# --- a sweep as a row of the list of runs, above its runs or in place of them ----------------------------------------


def fold_sweeps(
    records: Sequence[RunRecord], run_filter: RunFilter, results: Mapping[str, ResultSummaries]
) -> tuple[list[RunRecord], dict[str, dict[str, Any]]]:
    """The runs to list, of a folded sweep only the first one, and the row of a sweep by the id of the run below it.

    The runs of a sweep stand together. They are folded unless the filter opens the sweep, or searches for runs. The
    row has the number of runs, the best value, and when the first of them began.
    """
    is_searching = bool(run_filter.q or run_filter.where)
    members: dict[str, list[RunRecord]] = {}
    for record in records:
        tag = next((tag for tag in record.tags if tag.startswith(SWEEP_TAG)), record.run_id)
        members.setdefault(tag, []).append(record)
    listed: list[RunRecord] = []
    groups: dict[str, dict[str, Any]] = {}
    for tag, runs in members.items():
        name = tag.removeprefix(SWEEP_TAG)
        is_open = name in run_filter.opened or is_searching
        if name != tag:
            row = {"name": name, "is_open": is_open, "text": _describe(runs, results)}
            groups[runs[0].run_id] = row | {"began": min(run.created_at for run in runs)}
        listed += runs if is_open or name == tag else runs[:1]
    return listed, groups


def _describe(runs: Sequence[RunRecord], results: Mapping[str, ResultSummaries]) -> str:
    """How many runs of a sweep there are, and the best value of the deciding metric in one that finished."""
    text, found = f"{len(runs)} runs", []
    finished = [run for run in runs if run.status is RunStatus.FINISHED]
    if len(finished) < len(runs):
        text += f", {len(runs) - len(finished)} not finished"
    for run in finished:
        result = results[run.run_id].by_name.get((run.plan.get(SWEEP) or {}).get("decide", ""))
        if result is not None and result.defined:
            sign = 1 if lookup_metric(result, run, {}).higher_score_is_better else -1
            found.append((sign * result.value, result))
    if found:
        best = max(found, key=itemgetter(0))[1]
        text += f" · best {display_name(best)} {metric_number(best, best.value)}"
    return text
