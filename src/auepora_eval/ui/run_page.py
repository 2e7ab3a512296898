"""The page of one run: what is wrong, the metrics that matter, tabs with all parts, and derivations of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response, StreamingResponse

from ..errors import BadValueError, did_you_mean
from ..gates import GateReport
from ..io.sample_sets import set_label
from ..render.html import pluralize, seconds_text
from ..report.explain import Explanation, Influence, explain, explanation_report
from ..report.pages import build_report, report_html
from ..report.run_sections import StoredRun, check_stored_gates
from ..store.records import RunRecord
from ..store.runs import CachedStore
from .page_request import PageRequest, page_route
from .run_head import cause_bar, run_sentence
from .run_rows import condition_link, derivation_url, headline_tiles, outcome_condition
from .run_tabs import TABS, lacks_gold, right_answers, tab_response
from .workbench import Workbench, make_url, recorded_response, render_template, run_url

LARGE = 5_000
"""From this number of answers on, what is read from all outputs is added after the page has loaded."""

# --- the page --------------------------------------------------------------------------------------------------------


def _head(request: PageRequest, run: StoredRun, *, is_whole: bool) -> dict[str, Any]:
    """The sentence and the causes; ``is_whole`` with what is read from all outputs."""
    workbench = request.workbench
    causes = cause_bar(workbench, run, split=is_whole)
    return {
        "causes": causes,
        "sentence": run_sentence(run, check_stored_gates(run) if is_whole else None, causes),
        "right_by": None if causes else right_answers(workbench, run),
        "tiles": headline_tiles(run),
        "record": run.record,
    }


def run_page(request: PageRequest) -> HTMLResponse:
    """The page of a run with one of its parts. Filters of its list of queries are in the address."""
    workbench, record, parameters = request.workbench, request.run, request.parameters
    run = workbench.run(record)
    is_large = record.num_samples * max(record.repeats, 1) > LARGE
    filters = {name: parameters.getlist(name) for name in ("q", "where", "sort")}
    tab = parameters.choice("tab", TABS, "queries" if filters["q"] or filters["where"] else "metrics")
    is_late = is_large and tab != "metrics" and "wait" not in parameters
    panel = None if is_late else Markup(bytes(tab_response(request, record, tab).body).decode())  # noqa: S704 -- our template
    return render_template(
        request,
        "run.html",
        set_label=set_label(record.plan),
        seconds=seconds_text((record.finished_at - record.created_at).total_seconds()) if record.finished_at else "",
        is_large=is_large,
        counts=run.counts,
        is_ungraded=lacks_gold(workbench, run),
        tabs=[
            (name, part.title, part.count(run) if part.count else None, make_url(run_url(record), tab=name, **filters))
            for name, part in TABS.items()
        ],
        tab=tab,
        panel=panel,
        panel_url=f"{run_url(record, 'sections', tab)}?{request.url.query}",
        **_head(request, run, is_whole=not is_large),
    )


def section_fragment(request: PageRequest) -> HTMLResponse:
    """One part of a run, or the whole head with what is read from all outputs."""
    record, name = request.run, request.path_params["name"]
    if name == "head":
        return render_template(request, "run_head.html", **_head(request, request.workbench.run(record), is_whole=True))
    if name not in TABS:
        known = f"; choose one of: {', '.join(TABS)}"
        raise BadValueError(f"a run has no section '{name}'{did_you_mean(name, TABS, otherwise=known)}")
    return tab_response(request, record, name)


# --- derivations -----------------------------------------------------------------------------------------------------


def derivation_page(request: PageRequest) -> HTMLResponse:
    """How a metric's value, or one sample's score, was computed: as a page, or as a fragment for the side panel."""
    workbench, record = request.workbench, request.run
    metric, sample_id = request.parameters.get("metric", ""), request.parameters.get("sample")
    if not metric:
        raise BadValueError("the address needs the parameter 'metric', the name of a metric of the run")
    found = explain(workbench.store, record.run_id, metric, query=sample_id, corrections=workbench.corrections)
    influences: list[tuple[str, Sequence[Influence]]] = []
    if found.reduction is not None:
        influences = [("Lowest scores", found.reduction.lowest), ("Highest scores", found.reduction.highest)]
        found = replace(found, reduction=replace(found.reduction, lowest=(), highest=()))
    report = explanation_report(found)
    subject = found.run if found.query is None else f"query {found.query.sample_id}"
    return render_template(
        request,
        "derivation.html",
        record=record,
        title=f"{found.card.title} of {subject}",
        report=report,
        sections=[section for section in report.sections if section.blocks],
        links=_derivation_links(record, found, metric),
        whole=derivation_url(record, metric),
        whole_drawer=derivation_url(record, metric, fragment=True),
        metric_name=metric,
        metric=found.card.title,
        influences=influences,
    )


def _derivation_links(record: RunRecord, explanation: Explanation, metric: str) -> list[dict[str, str]]:
    """The queries behind a number: all that it counts, those it skips, those that failed."""
    counts = explanation.card.samples
    if explanation.query is not None or counts is None:
        return []
    numbers = [("scored", counts.scored), ("skipped", counts.skipped)]
    numbers.append(("failed", counts.system_failed + counts.measure_failed))
    return [
        condition_link(record, f"{pluralize(count, 'query', 'queries')} {outcome}", outcome_condition(metric, outcome))
        for outcome, count in numbers
        if count
    ]


# --- the static report -----------------------------------------------------------------------------------------------


def download_report(request: PageRequest) -> Response:
    """The report of ``auepora report`` as a file."""
    return report_response(request.workbench, [request.run])


def report_response(workbench: Workbench, records: Sequence[RunRecord]) -> Response:
    """The report of ``auepora report`` on these runs as a file, named after the last of them."""
    store = CachedStore(workbench.store)
    store.records_decisions = False
    pieces = (piece.encode("utf-8", "replace") for piece in report_html(build_report(store, records)))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", records[-1].name).strip("-.")[:60] or "run"
    headers = {"Content-Disposition": f'attachment; filename="report-{name}.html"'}
    return StreamingResponse(pieces, headers=headers, media_type="text/html; charset=utf-8")


def record_gates(request: PageRequest) -> Response:
    """Record what the gates of a run decided against its baseline."""
    checked = check_stored_gates(StoredRun(request.workbench.store, request.run))
    return recorded_response(checked.register if isinstance(checked, GateReport) else None)


ROUTES = [
    page_route("/runs/{run_id:path}/decision", record_gates, method="POST"),
    page_route("/runs/{run_id:path}/sections/{name}", section_fragment),
    page_route("/runs/{run_id:path}/derivation", derivation_page),
    page_route("/runs/{run_id:path}/report.html", download_report),
    page_route("/runs/{run_id:path}", run_page),
]
