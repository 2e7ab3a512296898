"""The parts of the page of a run, each behind a tab that loads when it is opened."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse

from ..core.results import display_name
from ..core.types import TargetCategory
from ..queries.filters import Condition
from ..render.blocks import Figure, ReportSection, without_none
from ..render.charts.chart import Chart
from ..render.charts.svg import BandScale, build_scale, plot_areas
from ..render.html import MEDIUM, NARROW, ChartRenderer
from ..report.pages import answers_result
from ..report.run_sections import (
    StoredRun,
    cards_section,
    check_stored_gates,
    failures_section,
    gates_section,
    judges_section,
    provenance_section,
)
from ..report.score_sections import (
    distributions_section,
    latency_section,
    retrieval_sections,
    sequential_section,
    slices_section,
    two_stage_section,
)
from ..runtime.processes import gc_paused
from ..store.records import RunRecord
from .page_request import Fields, PageRequest
from .query_list import QueryListPage
from .run_rows import LABELS, label_condition, outcome_condition, queries_url, score_groups, slice_cards, sliced_result
from .workbench import Workbench, make_url, render_template, run_url

MAX_GROUPS = 30
"""The number of groups of a slice that are offered as filters."""

# --- tabs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunTab:
    """A part of the page: sections of the report, unless it has a template of its own."""

    title: str
    build: Callable[[StoredRun], Iterable[ReportSection | None]] = lambda run: ()
    empty: str = ""
    """The text for a run without any of the sections."""
    count: Callable[[StoredRun], int] | None = None


def _count_groups(run: StoredRun) -> int:
    result = sliced_result(run, "")
    return 0 if result is None else sum(len(groups) for groups in result.slices.values())


TABS = {
    "metrics": RunTab("Metrics", count=lambda run: len(run.results)),
    "queries": RunTab("Queries", count=attrgetter("record.num_samples")),
    "slices": RunTab(
        "Slices",
        lambda run: [slices_section([run], run.main_metric or None)],
        "No metric is divided into groups. Name labels of the dataset in the plan under `slices`.",
        _count_groups,
    ),
    "retrieval": RunTab(
        "Retrieval over k",
        lambda run: retrieval_sections([run], answers_result(run)),
        "There are no answers, gold documents or rankings, so there is nothing to compute.",
    ),
    "distributions": RunTab(
        "Distributions", lambda run: [distributions_section([run])], "No metric has a score per query."
    ),
    "latency": RunTab("Latency", lambda run: [latency_section([run])], "No output of this run has timings."),
    "failures": RunTab(
        "Failures", lambda run: [failures_section([run])], "No answer is stored yet.", lambda run: run.counts[1]
    ),
    "groups": RunTab("Groups"),
    "judges": RunTab(
        "Judges",
        lambda run: [judges_section([run]), sequential_section([run]), two_stage_section([run])],
        "No judge was asked in this run.",
        lambda run: len((run.record.usage or {}).get("critics") or ()),
    ),
    "gates": RunTab(
        "Gates",
        lambda run: [gates_section(check_stored_gates(run))],
        "The plan of this run has no gates: conditions on metrics that a run must fulfil, under `gates`.",
    ),
    "provenance": RunTab("Provenance", lambda run: [provenance_section([run]), cards_section([run])]),
}
"""The parts by the word of the address."""


def tab_response(request: PageRequest, record: RunRecord, name: str) -> HTMLResponse:
    """A part of the page without its frame."""
    workbench, parameters = request.workbench, request.parameters
    if name == "queries":
        params = Fields([*parameters.multi_items(), ("run", record.run_id)])
        return render_template(request, "query_list.html", list=QueryListPage(request, params))
    run = workbench.run(record)
    if name == "metrics":
        chosen = sliced_result(run, parameters.get("metric", ""))
        return render_template(
            request,
            "run_metrics.html",
            record=record,
            groups=score_groups(run),
            chosen=chosen,
            choices=[result for result in run.results if result.slices],
            slices=[] if chosen is None else list(slice_cards(run, chosen)),
        )
    key = (record.run_id, workbench.version(record), "tab", name)
    has_rankings = name != "retrieval" or workbench.samples_contain(record, GOLD)
    return render_template(
        request,
        "run_tab.html",
        sections=workbench.cached(key, partial(_render_sections, request, record, name), size=100_000)
        if has_rankings
        else [],
        empty=TABS[name].empty,
        run_id=record.run_id,
        is_ungraded=name == "retrieval" and lacks_gold(workbench, run),
        lazy=make_url("/queries/groups", run=record.run_id) if name == "groups" else "",
    )


def _render_sections(request: PageRequest, record: RunRecord, name: str) -> list[tuple[str, str, Markup]]:
    """Name, title and HTML of each section of a tab."""
    run, pages = request.workbench.run(record), []
    with gc_paused():
        for section in without_none(*TABS[name].build(run)):
            page = render_template(
                request,
                "run_section.html",
                section=section,
                drawn=FilterChartRenderer(run, f"{section.name}-"),
                record_url=run_url(record, "decision") if section.name == "gates" else "",
            )
            html = Markup(bytes(page.body).decode())  # noqa: S704 -- our own template, which escapes all texts
            pages.append((section.name, section.title, html))
    return pages


# --- charts that filter: the scale of the axis for brush.js, and a form or links for the keyboard --------------------


class FilterChartRenderer(ChartRenderer):
    """Renders the figures of a run; an axis that shows a field of queries gets its scale and controls that filter."""

    def __init__(self, run: StoredRun, prefix: str) -> None:
        super().__init__(prefix)
        self._run = run

    def __call__(self, figure: Figure) -> list[tuple[str, Any]]:
        """The SVG in its widths, and the controls below it."""
        drawn = super().__call__(figure)
        chart = figure.chart
        if not figure.field or not isinstance(chart, Chart):
            return drawn
        groups = self._groups(figure.field)
        name = figure.field if figure.field in ("seconds", "rank") else Condition("metric", figure.field).key
        widths = [figure.width] if figure.width <= MEDIUM else [figure.width, NARROW]
        choices = [label_condition(figure.field.removeprefix(LABELS), group) for group in groups]
        scales = [_filter_scale(chart.spec, width, name, choices) for width in widths]
        if None in scales:
            return drawn
        result = answers_result(self._run) if figure.field == "rank" else None  # it counts queries with a score
        also = "" if result is None else outcome_condition(result.name, "scored")
        scales = [{**scale, "also": also} for scale in scales if scale is not None]
        brush = Markup('<div class="brush" data-scale="{}">{}</div>')
        wrapped = [
            (kind, brush.format(json.dumps(scale), svg)) for (kind, svg), scale in zip(drawn, scales, strict=True)
        ]
        return [*wrapped, ("filter", self._controls(figure.field, name, groups, also))]

    def _groups(self, field: str) -> list[str]:
        """The groups of a slice by a label."""
        parts = next((result.slices[field] for result in self._run.results if field in result.slices), None)
        return list(parts) if parts and field.startswith(LABELS) else []

    def _controls(self, field: str, name: str, groups: Sequence[str], also: str) -> Markup:
        if groups:
            links = Markup("")
            for group in groups[:MAX_GROUPS]:
                condition = label_condition(field.removeprefix(LABELS), group)
                link = Markup('<li><a class="chip" href="{}" data-where="{}"><bdi>{}</bdi></a></li>')
                links += link.format(queries_url(self._run.record, condition), condition, group[:80])
            return Markup('<ul class="chips" aria-label="Show the queries of a group">{}</ul>').format(links)
        unit = ", in seconds" if field == "seconds" else ""
        step = "1" if field == "rank" else "any"
        return Markup(
            '<form class="range" data-range="{}" data-also="{}" aria-label="Filter the queries by {}{}" hidden>'
            "<span>Drag over the chart, or filter</span>"
            '<label>from <input type="number" name="from" step="{}"></label>'
            '<label>to <input type="number" name="to" step="{}"></label>'
            '<button class="quiet">Filter</button></form>'
        ).format(name, also, field, unit, step, step)


def _filter_scale(spec: Mapping[str, Any], width: float, name: str, choices: Sequence[str]) -> dict[str, Any] | None:
    """The place and the scale of the axis that filters; ``None`` where the chart has no such axis."""
    view, area = spec["vconcat"][0], plot_areas(spec, width)[0]
    axis = "y" if choices else "x"
    channels = [layer["encoding"].get(axis) or {} for layer in view["layer"]]
    channel = next((channel for channel in channels if "scale" in channel), None)
    if channel is None or len(spec["vconcat"]) > 1:
        return None
    scale = build_scale(channel, area[2] if axis == "x" else area[3], upwards=axis == "y")
    common = {"field": name, "area": [round(number, 2) for number in area]}
    if not isinstance(scale, BandScale):
        return {**common, "kind": "log" if scale.log else "linear", "domain": list(scale.domain)}
    places = [[round(scale.left(place), 2), round(scale.left(place) + scale.width, 2)] for place in scale.places]
    if choices:
        if len(choices) != len(places):
            return None
        bands = [[*place, choice] for place, choice in zip(places, choices, strict=True)]
        return {**common, "kind": "choices", "bands": bands}
    bands = [[*place, *_band_ends(label)] for place, label in zip(places, scale.places, strict=True)]
    return {**common, "kind": "steps", "bands": bands}


def _band_ends(label: str) -> tuple[float | None, float | None]:
    """The least and the greatest value of a band: ``4–5``, ``> 50``, ``0.333333``; none for a band without a number."""
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", label.replace("−", "-"))]
    if not numbers:
        return None, None
    if label.startswith(">"):
        return numbers[0] + 1, None
    low, high = numbers[0], numbers[-1]
    digits = re.sub(r"\D", "", label).lstrip("0")
    margin = 1e-5 * abs(low) if len(digits) >= 6 else 0.0  # the label is rounded to six digits
    return float(f"{low - margin:.8g}"), float(f"{high + margin:.8g}")


# --- what a run lacks, and how to get it -----------------------------------------------------------------------------


GOLD = '"relevant_docs"'
"""What is in the JSON of samples that name relevant documents."""


def lacks_gold(workbench: Workbench, run: StoredRun) -> bool:
    """Whether metrics of retrieval have no value, because a run has neither gold nor grades of documents."""
    is_graded = any(result.defined and result.details.judged is not None for result in run.results)
    return not (is_graded or workbench.samples_contain(run.record, GOLD) or not run.record.num_samples)


def right_answers(workbench: Workbench, run: StoredRun) -> str | None:
    """The metric of causes by which no answer is wrong; empty where causes can be found, ``None`` where they cannot."""
    targets = {result.target for result in run.results if result.defined}
    if TargetCategory.GENERATION_CORRECTNESS not in targets or not workbench.samples_contain(run.record, GOLD):
        return None
    found = [display_name(result) for result in run.results if result.details.causes]
    return found[0] if found else ""
