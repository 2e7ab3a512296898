"""The page of a sweep: its conclusion, the table of configurations, and quality by cost."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from ..compare.sweeps import find_sweep, sweep_runs
from ..errors import BadValueError
from ..store.runs import CachedStore
from ..sweep.answer import SweepAnswer, answer_sweep
from ..sweep.rendering import answer_sections, conclusion
from .page_request import PageRequest, page_route
from .workbench import Workbench, render_template

_SIZE = 100_000
"""The size of an answer in the cache, in bytes: a few configurations with their numbers."""


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
    versions = [None if run is None else workbench.version(run) for run in sweep_runs(workbench.store, sweep)]
    key = ("sweep", name, *versions)
    store = CachedStore(workbench.store)
    store.records_decisions = False  # a page is a GET request
    return workbench.cached(key, partial(answer_sweep, store, sweep), size=_SIZE)


ROUTES = [page_route("/sweep", sweep_page)]
