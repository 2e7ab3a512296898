"""The list of runs: conditions, columns, the trend of a metric, tags, and the choice of runs to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from starlette.responses import RedirectResponse, Response

from ..errors import AueporaError, BadValueError
from ..render.html import pluralize
from ..store.records import RunRecord, RunStatus
from .page_request import Fields, PageRequest, page_route
from .run_filter import RunCondition, RunFilter, run_texts
from .run_table import EXTRAS, RunTable, count_answers, read_results, sort_records
from .run_trend import trend_figure, trend_strip
from .sweep_page import fold_sweeps
from .workbench import Workbench, load_templates, make_url, render_template

FIRST_TEMPLATES = (
    "layout.html",
    "blocks.html",
    "runs.html",
    "runs_list.html",
    "runs_results.html",
    "runs_tags.html",
    "runs_trend.html",
    "macros.html",
    "label_parts.html",
    "label_item.html",  # the queue of a large batch opens at once
)
PAGE_SIZE = 50
MAX_TAG_LENGTH = 100
MAX_BASELINES, MAX_SUGGESTIONS = 100, 60
"""The number of runs and of conditions that menus offer."""

# --- pages -----------------------------------------------------------------------------------------------------------


def prepare(workbench: Workbench) -> None:
    """Load what the first page needs. An error of the store is shown on the page."""
    load_templates(*FIRST_TEMPLATES)
    with suppress(AueporaError):
        read_results(workbench, workbench.store.runs())


def runs_page(request: PageRequest) -> Response:
    """The list of runs; with ``fragment`` a part of it: ``list``, ``results``, ``trend`` or ``strip``.

    With ``compare`` the chosen runs are compared, the oldest first, or in the given order with ``ordered``.
    """
    workbench, params = request.workbench, request.parameters
    if "compare" in params:
        return compare_chosen(workbench, params.getlist("run"), is_ordered="ordered" in params)
    run_filter = RunFilter.from_params(params)
    records = workbench.store.runs()
    if not records:
        return render_template(request, "runs.html", total=0)
    results = read_results(workbench, records)
    run_filter.check_metrics(chain.from_iterable(result.by_name for result in results.values()), EXTRAS)
    listed = [record for record in records if run_filter.accepts(record, results[record.run_id].by_name)]
    main_names = Counter(main for record in listed if (main := results[record.run_id].main))
    trend_metric = run_filter.metric or next((name for name, _ in main_names.most_common(1)), "")
    baseline = find_baseline(workbench, records, run_filter.baseline)
    fragment = params.get("fragment")
    if fragment == "strip":
        strip = trend_strip(workbench, listed, results, trend_metric, baseline)
        whole = make_url("/runs", **run_filter.to_params(page=None), fragment="trend")
        return render_template(request, "runs_trend.html", strip=strip, metric=trend_metric, whole=whole)
    if fragment == "trend":
        counts = count_answers(workbench, listed)
        usable = [record for record in listed if not 0 < counts[record.run_id][1] == counts[record.run_id][0]]
        figure = trend_figure(workbench, usable, results, trend_metric)
        return render_template(request, "block_list.html", listed=[figure])
    rows, sweeps = fold_sweeps(sort_records(workbench, listed, run_filter, results), run_filter, results)
    pages = max(1, -(-len(rows) // PAGE_SIZE))
    run_filter = replace(run_filter, page=min(run_filter.page, pages))
    start = (run_filter.page - 1) * PAGE_SIZE
    ordered = rows[start : start + PAGE_SIZE]
    table = RunTable(workbench, run_filter, listed, page=ordered, results=results, baseline=baseline)
    names = [name for name in table.metrics if name == trend_metric or name in table.labels]
    context: dict[str, Any] = {
        "filter": run_filter,
        "total": len(records),
        "found": len(listed),
        "num_datasets": len({record.dataset_name for record in listed}),
        "num_failed": sum(record.status is RunStatus.FAILED for record in listed),
        "newest": max((record.created_at for record in listed), default=None),
        "sweeps": sweeps,
        "rows": len(rows),
        "pages": pages,
        "start": start,
        "count": len(ordered),
        "table": table,
        "baseline": baseline,
        "baselines": records[:MAX_BASELINES],
        "metrics": sorted(names),
        "trend_metric": trend_metric,
        "suggestions": suggest_conditions(records),
        "strip_url": make_url("/runs", **run_filter.to_params(page=None), fragment="strip") if trend_metric else "",
        "query": make_url("/runs", **run_filter.to_params()).partition("?")[2],
    }
    template = {"list": "runs_list.html", "results": "runs_results.html"}.get(fragment or "", "runs.html")
    return render_template(request, template, **context)


def find_baseline(workbench: Workbench, records: Sequence[RunRecord], chosen: str) -> RunRecord | None:
    """The run that others are compared with: the chosen one, else the newest with the tag ``baseline``."""
    if chosen == "none":
        return None
    if chosen:
        return workbench.find(chosen)
    return next((record for record in records if "baseline" in record.tags), None)


def suggest_conditions(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """Conditions that the field suggests, with the number of runs of each."""
    counts: Counter[RunCondition] = Counter()
    for record in records:
        for key in ("status", "dataset", "tag"):
            counts.update(RunCondition(key, "=", text) for text in run_texts(record, key))
    listed = counts.most_common(MAX_SUGGESTIONS)
    return [(str(condition), pluralize(count, "run")) for condition, count in listed]


def compare_chosen(workbench: Workbench, run_ids: Sequence[str], *, is_ordered: bool) -> Response:
    """Redirect to the comparison of runs, in the order of time unless another is given."""
    records = [workbench.find(run_id) for run_id in dict.fromkeys(run_ids)]
    if len(records) < 2:
        raise BadValueError("choose two or more runs to compare them")
    if not is_ordered:
        records.sort(key=lambda record: (record.created_at, record.run_id))
    return RedirectResponse(make_url("/compare", run=[record.run_id for record in records]), 303)


def change_tags(request: PageRequest) -> Response:
    """Add the tag in ``add``, or remove the one in ``remove``; a script gets the new cell, a form the page again."""
    store, fields, run_id = request.workbench.store, request.form_fields, request.run.run_id
    added, removed = fields.get("add", "").strip(), fields.get("remove")
    if removed is not None:
        store.untag(run_id, removed)
    elif not added:
        raise BadValueError("a tag needs at least one character")
    elif len(added) > MAX_TAG_LENGTH:
        raise BadValueError(f"a tag has at most {MAX_TAG_LENGTH} characters, not {len(added):,}")
    else:
        store.tag(run_id, added)
    query = fields.get("query", "")
    if not fields.get("fragment"):
        return RedirectResponse(f"/runs?{query}" if query else "/runs", 303)
    run_filter = RunFilter.from_params(Fields(query))
    return render_template(request, "runs_tags.html", record=store.get(run_id), filter=run_filter, query=query)


ROUTES = [
    page_route("/runs", runs_page),
    page_route("/runs/{run_id:path}/tags", change_tags, method="POST"),
]
