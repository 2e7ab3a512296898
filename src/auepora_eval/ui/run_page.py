"""The page of one run: verdict, scores, causes of wrong answers, charts that filter queries, and derivations."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response, StreamingResponse

from ..compare.filters import CAUSE_GROUPS, Condition
from ..core.results import display_name, sequential_details, two_stage_details
from ..core.targets import TARGETS
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError, did_you_mean
from ..gates import GateReport
from ..render.blocks import Figure, ReportSection
from ..render.charts.chart import Chart
from ..render.charts.svg import BandScale, build_scale, plot_areas
from ..render.html import MEDIUM, NARROW, ChartRenderer, interval_text, percentage, pluralize, reason_counts, value_text
from ..report.explain import Explanation, Influence, explain, explanation_report
from ..report.pages import answers_result, build_report, report_html, run_subtitle, run_verdict
from ..report.run_sections import (
    CAUSES,
    StoredRun,
    cards_section,
    check_stored_gates,
    failures_section,
    gates_section,
    judges_section,
    provenance_section,
    wrong_answer_causes,
)
from ..report.score_sections import (
    alternative_values,
    coverage_notes,
    distributions_section,
    interval_flags,
    latency_section,
    retrieval_sections,
    sequential_section,
    slices_section,
    two_stage_section,
    value_bar,
)
from ..runtime.processes import gc_paused
from ..store.records import RunRecord, RunStatus
from ..store.runs import CachedStore, samples_contain
from .page_request import PageRequest, page_route
from .query_list import query_table
from .workbench import Workbench, make_url, recorded_response, render_template, run_url

LARGE = 5_000
"""From this number of answers on, what is read from all outputs is added to the verdict after the page has loaded."""
LABELS = "labels."
MAX_GROUPS = 30
"""The number of groups of a slice that are offered as filters."""


# --- addresses and conditions ----------------------------------------------------------------------------------------


def queries_url(record: RunRecord, *conditions: str) -> str:
    """The address of the list of queries of a run under some conditions."""
    return make_url("/queries", run=record.run_id, where=list(conditions))


def derivation_url(record: RunRecord, metric: str, sample_id: str | None = None, *, fragment: bool = False) -> str:
    """The address of the derivation of a metric, or of one sample's score."""
    return make_url(run_url(record, "derivation"), metric=metric, sample=sample_id, fragment="1" if fragment else None)


def outcome_condition(metric: str, outcome: str) -> str:
    """The condition on the outcome of a metric: ``scored``, ``skipped`` or ``failed``, or one with a reason."""
    return str(Condition("metric", metric, value=outcome))


@dataclass(frozen=True, slots=True)
class ConditionLink:
    """A link that filters the queries of the page."""

    text: str
    condition: str
    url: str
    note: str = ""


def _condition_link(record: RunRecord, text: str, condition: str, note: str = "") -> ConditionLink:
    return ConditionLink(text, condition, queries_url(record, condition), note)


# --- scores: a row per metric, with its counts as links --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of the run as a row of the table."""

    name: str
    title: str
    direction: str
    value: str
    interval: str
    is_uncertain: bool
    """Whether the interval may be too narrow."""
    bar: tuple[float, float, float] | None
    scored: ConditionLink | None
    counts: Sequence[ConditionLink]
    """The samples without a score, by reason."""
    notes: Sequence[str]
    url: str
    drawer: str


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """The metrics of one target."""

    title: str
    question: str
    rows: Sequence[MetricRow]


def score_groups(run: StoredRun) -> list[TargetGroup]:
    """The metrics of a run by target, in the order of the report."""
    groups = [
        TargetGroup(entry.title, entry.question, [_score_row(run, one) for one in run.results if one.target is target])
        for target, entry in TARGETS.items()
    ]
    return [group for group in groups if group.rows]


def _score_row(run: StoredRun, result: MetricResult) -> MetricRow:
    record, details, name = run.record, result.details, result.name
    definition = run.definitions[name]
    total = sum(details.get(key, 0) for key in ("num_scored", "num_skipped", "num_failed"))
    scored = details.get("num_scored")
    notes = [] if result.defined else [str(details.get("undefined_because") or "no sample was scored")]
    if details.get("num_system_failed"):
        counted = details.get("num_samples", 0) > details.get("num_scored", 0)
        notes.append(f"failed answers are {'counted at the worst value' if counted else 'left out'}")
    notes += [*coverage_notes(result), alternative_values(result)]
    return MetricRow(
        name=name,
        title=display_name(result),
        direction="" if definition.higher_is_better else "lower is better",
        value=value_text(result.value if result.defined else None),
        interval=interval_text(result.interval) or "none",
        is_uncertain=bool(interval_flags(result)),
        bar=value_bar(result, *definition.range),
        scored=None if scored is None else _outcome_link(record, f"{scored:,} of {total:,}", name, "scored"),
        counts=[*_reason_links(record, result, "skipped"), *_reason_links(record, result, "failed")],
        notes=[note for note in notes if note],
        url=derivation_url(record, name),
        drawer=derivation_url(record, name, fragment=True),
    )


def _outcome_link(record: RunRecord, text: str, metric: str, outcome: str) -> ConditionLink:
    return _condition_link(record, text, outcome_condition(metric, outcome))


def _reason_links(record: RunRecord, result: MetricResult, outcome: str) -> list[ConditionLink]:
    """The number of skipped or failed samples of each reason, or of all where no reason is stored."""
    reasons = reason_counts(result.details, f"{outcome}_")
    if not reasons:
        count = result.details.get(f"num_{outcome}", 0)
        return [_outcome_link(record, f"{count:,} {outcome}", result.name, outcome)] if count else []
    return [
        _outcome_link(record, f"{count:,} {outcome}: {reason}", result.name, f"{outcome}:{reason}")
        for reason, count in reasons.items()
    ]


# --- the causes of wrong answers, as one bar -------------------------------------------------------------------------

CAUSE_NAMES = {"below-cut": "below the cut", "failed": "system failed"}
"""Names of parts of the bar that differ from the words of the condition ``cause``."""
DROPPED = "a step of the system returned a relevant document, but the final ranking has none"


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of the bar; start and width are in percent."""

    number: int
    """The number of its colour, the same in every run."""
    name: str
    count: int
    share: str
    words: str
    start: float
    width: float
    link: ConditionLink


@dataclass(frozen=True, slots=True)
class CauseBar:
    """The causes of the wrong answers by one metric."""

    metric: str
    total: int
    segments: Sequence[BarSegment]


def cause_bar(workbench: Workbench, run: StoredRun, *, split: bool) -> CauseBar | None:
    """The causes of wrong answers of the first result that has them; ``None`` where none has.

    ``split`` divides what was not returned into retriever and dropped, which needs all outputs.
    """
    result = next((one for one in run.results if wrong_answer_causes(one)), None)
    if result is None:
        return None
    counts = {str(cause): int(part.get("count", 0)) for cause, part in wrong_answer_causes(result).items()}
    grouped = {one for causes in CAUSE_GROUPS.values() for one in causes}
    parts = CAUSE_GROUPS | {one.replace("_", "-"): (one,) for one in counts if one not in grouped}
    first = next(one.name for one in run.results if one.details.get("causes"))
    name = "" if first == result.name else result.name
    num_dropped = 0
    if split and counts.get("not_returned"):
        table = query_table(workbench, [run.record])
        num_dropped = int(Condition("cause", name, value="dropped").mask(table).sum())
    total, start = sum(counts.values()), 0.0
    segments = []
    for number, (word, causes) in enumerate(parts.items(), 1):
        present = [one for one in causes if counts.get(one)]
        count = num_dropped if word == "dropped" else sum(counts[one] for one in present)
        if word == "retriever":
            count -= num_dropped
        if count:
            words = DROPPED if word == "dropped" else "; ".join(CAUSES.get(one, one) for one in present)
            share, width = percentage(count, total), 100 * count / total
            link = _condition_link(run.record, f"{count:,}", str(Condition("cause", name, value=word)))
            shown = CAUSE_NAMES.get(word, word.replace("-", " "))
            segments.append(
                BarSegment(min(number, 7), shown, count, share, words, round(start, 3), round(width, 3), link)
            )
            start += width
    return CauseBar(display_name(result), total, segments)


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
        name = _field_name(figure.field)
        widths = [figure.width] if figure.width <= MEDIUM else [figure.width, NARROW]
        choices = [_group_condition(figure.field, one) for one in groups]
        scales = [_filter_scale(chart.spec, width, name, choices) for width in widths]
        if None in scales:
            return drawn
        also = self._also(figure.field)
        scales = [{**scale, "also": also} for scale in scales if scale is not None]
        wrapped = [(kind, _with_scale(svg, scale)) for (kind, svg), scale in zip(drawn, scales, strict=True)]
        return [*wrapped, ("filter", self._controls(figure.field, name, groups, also))]

    def _also(self, field: str) -> str:
        """A condition on all queries of a chart: answers by rank counts the ones with a score."""
        result = answers_result(self._run) if field == "rank" else None
        return "" if result is None else outcome_condition(result.name, "scored")

    def _groups(self, field: str) -> list[str]:
        """The groups of a slice by a label."""
        parts = next((one.slices[field] for one in self._run.results if field in one.slices), None)
        return list(parts) if parts and field.startswith(LABELS) else []

    def _controls(self, field: str, name: str, groups: Sequence[str], also: str) -> Markup:
        if groups:
            links = [
                Markup('<li><a class="chip" href="{}" data-where="{}"><bdi>{}</bdi></a></li>').format(
                    queries_url(self._run.record, condition), condition, group[:80]
                )
                for group in groups[:MAX_GROUPS]
                for condition in [_group_condition(field, group)]
            ]
            return Markup('<ul class="chips" aria-label="Show the queries of a group">{}</ul>').format(
                Markup("").join(links)
            )
        unit = ", in seconds" if field == "seconds" else ""
        step = "1" if field == "rank" else "any"
        return Markup(
            '<form class="range" data-range="{}" data-also="{}" aria-label="Filter the queries by {}{}" hidden>'
            "<span>Drag over the chart, or filter</span>"
            '<label>from <input type="number" name="from" step="{}"></label>'
            '<label>to <input type="number" name="to" step="{}"></label>'
            '<button class="quiet">Filter</button></form>'
        ).format(name, also, field, unit, step, step)


def _field_name(field: str) -> str:
    """The field of a figure as a condition names it."""
    return field if field in ("seconds", "rank") else Condition("metric", field).key


def _group_condition(field: str, group: str) -> str:
    return str(Condition("label", field.removeprefix(LABELS), value=group))


def _with_scale(svg: Any, scale: Any) -> Markup:
    return Markup('<div class="brush" data-scale="{}">{}</div>').format(json.dumps(scale), svg)


def _filter_scale(spec: Mapping[str, Any], width: float, name: str, choices: Sequence[str]) -> dict[str, Any] | None:
    """The place and the scale of the axis that filters; ``None`` where the chart has no such axis."""
    view, area = spec["vconcat"][0], plot_areas(spec, width)[0]
    axis = "y" if choices else "x"
    channels = [layer["encoding"].get(axis) or {} for layer in view["layer"]]
    channel = next((one for one in channels if "scale" in one), None)
    if channel is None or len(spec["vconcat"]) > 1:
        return None
    scale = build_scale(channel, area[2] if axis == "x" else area[3], upwards=axis == "y")
    common = {"field": name, "area": [round(one, 2) for one in area]}
    if not isinstance(scale, BandScale):
        return {**common, "kind": "log" if scale.log else "linear", "domain": list(scale.domain)}
    places = [[round(scale.left(one), 2), round(scale.left(one) + scale.width, 2)] for one in scale.places]
    if choices:
        if len(choices) != len(places):
            return None
        bands = [[*place, choice] for place, choice in zip(places, choices, strict=True)]
        return {**common, "kind": "choices", "bands": bands}
    bands = [[*place, *_band_ends(label)] for place, label in zip(places, scale.places, strict=True)]
    return {**common, "kind": "steps", "bands": bands}


def _band_ends(label: str) -> tuple[float | None, float | None]:
    """The least and the greatest value of a band: ``4–5``, ``> 50``, ``0.333333``; none for a band without a number."""
    numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", label.replace("−", "-"))]
    if not numbers:
        return None, None
    if label.startswith(">"):
        return numbers[0] + 1, None
    low, high = numbers[0], numbers[-1]
    digits = re.sub(r"\D", "", label).lstrip("0")
    margin = 1e-5 * abs(low) if len(digits) >= 6 else 0.0  # the label is rounded to six digits
    return float(f"{low - margin:.8g}"), float(f"{high + margin:.8g}")


# --- sections that are loaded when they come into view ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the page that is built from the sections of the report."""

    title: str
    build: Callable[[StoredRun], Sequence[ReportSection | None]]
    """Builds the section; sections that share their work are built together, by the same function."""
    is_present: Callable[[StoredRun], bool]
    empty: str = "There is nothing to show."


def _retrieval(run: StoredRun) -> list[ReportSection]:
    return retrieval_sections([run], answers_result(run))


def _has_answers(run: StoredRun) -> bool:
    return run.counts[0] > 0


NO_RANKINGS = "There are no gold documents, or no rankings, so there is nothing to compute."
SECTIONS = {
    "gates": PageSection(
        "Gates",
        lambda run: [gates_section(check_stored_gates(run))],
        lambda run: bool(run.record.plan.get("gates") and run.results),
    ),
    "sequential": PageSection(
        "Judged until a verdict",
        lambda run: [sequential_section([run])],
        lambda run: any(sequential_details(one) for one in run.results),
    ),
    "two-stage": PageSection(
        "Two-stage judging",
        lambda run: [two_stage_section([run])],
        lambda run: any(two_stage_details(one) for one in run.results),
    ),
    "curves": PageSection("Retrieval over k", _retrieval, _has_answers, NO_RANKINGS),
    "quality": PageSection(
        "Answers by retrieval rank",
        _retrieval,
        lambda run: _has_answers(run) and answers_result(run) is not None,
        NO_RANKINGS,
    ),
    "slices": PageSection(
        "Slices",
        lambda run: [slices_section([run], run.main_metric or None)],
        lambda run: any(one.slices for one in run.results),
    ),
    "distributions": PageSection(
        "Distributions",
        lambda run: [distributions_section([run])],
        lambda run: any(one.target is not TargetCategory.LATENCY for one in run.results),
        "No metric has a score per query.",
    ),
    "latency": PageSection(
        "Latency", lambda run: [latency_section([run])], _has_answers, "The outputs of this run have no timings."
    ),
    "failures": PageSection(
        "Failures by cause", lambda run: [failures_section([run])], lambda run: _has_answers(run) or bool(run.results)
    ),
    "judges": PageSection("Judges", lambda run: [judges_section([run])], lambda run: bool(run.record.usage)),
    "cards": PageSection("What the numbers are", lambda run: [cards_section([run])], lambda run: bool(run.results)),
    "provenance": PageSection("Provenance", lambda run: [provenance_section([run])], lambda run: True),
}


def section_fragment(request: PageRequest) -> HTMLResponse:
    """One section of a run, its whole verdict, or the causes of wrong answers."""
    workbench, record, name = request.workbench, request.run, request.path_params["name"]
    if name == "verdict":
        run = workbench.run(record)
        return render_template(request, "verdict.html", verdict=run_verdict(run, check_stored_gates(run)))
    if name == "causes":
        causes = cause_bar(workbench, workbench.run(record), split=True)
        if causes is None:
            raise BadValueError("the causes of wrong answers of this run are not known")
        return render_template(request, "causes.html", causes=causes)
    if name not in SECTIONS:
        known = f"; choose one of: {', '.join(SECTIONS)}"
        raise BadValueError(f"a run has no section '{name}'{did_you_mean(name, SECTIONS, otherwise=known)}")
    build = SECTIONS[name].build
    names = [one for one, section in SECTIONS.items() if section.build is build]
    key = (record.run_id, workbench.version(record), "sections", names[0])
    pages = workbench.cached(key, lambda: _render_sections(request, record, names), size=_text_size)
    return HTMLResponse(pages[name])


def _render_sections(request: PageRequest, record: RunRecord, names: Sequence[str]) -> dict[str, bytes]:
    """The HTML of sections that are built together, by name."""
    run, pages = request.workbench.run(record), {}
    with gc_paused():
        built = {one.name: one for one in SECTIONS[names[0]].build(run) if one is not None}
        for name in names:
            context: dict[str, Any] = {"section": built.get(name), "empty": SECTIONS[name].empty}
            if name == "gates":
                context["record_url"] = run_url(record, "decision")
            drawn = FilterChartRenderer(run, f"{name}-")
            pages[name] = bytes(render_template(request, "run_section.html", drawn=drawn, **context).body)
    return pages


def _text_size(pages: Mapping[str, bytes]) -> int:
    return sum(map(len, pages.values()))


# --- the page --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to get numbers that a run lacks: what it gives, and its commands."""

    title: str
    text: str
    commands: Sequence[str]


def has_gold(workbench: Workbench, record: RunRecord) -> bool:
    """Whether the samples of a run name relevant documents."""
    key = (record.fingerprint, "has gold")
    return workbench.cached(key, lambda: samples_contain(workbench.store, record.run_id, '"relevant_docs"'), size=8)


def gold_offers(workbench: Workbench, record: RunRecord, results: Sequence[MetricResult]) -> list[Offer]:
    """How to get numbers for a run without gold documents; empty where it has gold, or was scored with grades."""
    is_graded = any(one.defined and one.details.get("judged") is not None for one in results)
    if is_graded or has_gold(workbench, record) or not record.num_samples:
        return []
    run, store = record.run_id, f"--store {shlex.quote(workbench.label)}"
    return [
        Offer(
            "Pool",
            "Collects the documents that this run returned, each once, for grading; name further runs to pool theirs, "
            "too. Grades give recall, precision and nDCG, with the proportion of judged documents.",
            [
                f"auepora pool {run} {store} -o pool.jsonl",
                "auepora judge relevance pool.jsonl --judge-model MODEL -o qrels.txt",
                f"auepora rescore {run} {store} --qrels qrels.txt",
            ],
        ),
        Offer(
            "Label",
            "People label a random sample of the answers as right or wrong. That gives the proportion of right answers "
            "with an interval, and shows whether a judge agrees with people.",
            [
                f"auepora label {run} {store} --n 100 --labels labels.jsonl",
                f"auepora judge calibrate {run} {store} --labels labels.jsonl",
            ],
        ),
        Offer(
            "Judge",
            "A model scores every answer: whether the documents support it, and whether they suffice for an answer. "
            "No gold is needed; compare the judge with labels before you rely on it.",
            [f"auepora rescore {run} {store} -m llm_faithfulness -m llm_context_sufficiency --judge-model MODEL"],
        ),
    ]


def cause_offer(workbench: Workbench, run: StoredRun) -> Offer | None:
    """How to find the causes of wrong answers, for a run with gold, references and no attribution of failures."""
    targets = {one.target for one in run.results if one.defined}
    if TargetCategory.GENERATION_CORRECTNESS not in targets or not has_gold(workbench, run.record):
        return None
    found = next((one for one in run.results if isinstance(one.details.get("causes"), Mapping)), None)
    if found is not None:
        return Offer("", f"No answer is wrong by {display_name(found)}.", ())
    store = shlex.quote(workbench.label)
    command = f"auepora rescore {run.record.run_id} --store {store} -m failure_attribution@5"
    return Offer("", "This command finds the cause of each wrong answer, from retriever to generator:", [command])


def status_notes(workbench: Workbench, run: StoredRun) -> dict[str, Any] | None:
    """The status of a run that is not finished: a sentence, and how to continue it."""
    record = run.record
    if record.status is RunStatus.FINISHED:
        return None
    expected = record.num_samples * max(record.repeats, 1)
    stored = f"{run.counts[0]:,} of {pluralize(expected, 'answer')} are stored."
    if record.status is RunStatus.RUNNING:
        return {"text": f"This run is in progress: {stored}", "is_live": True, "command": ""}
    reasons = {
        RunStatus.STOPPED: "This run stopped early",
        RunStatus.INTERRUPTED: "The process of this run ended before the run did",
        RunStatus.FAILED: "This run failed",
        RunStatus.ELIMINATED: "This run left its sweep",
    }
    why = f" ({record.message})" if record.message else ""
    again = " --retry-failed" if 0 < run.counts[1] == run.counts[0] else ""
    command = f"auepora run PLAN.yaml --resume --run {record.run_id}{again} --store {shlex.quote(workbench.label)}"
    return {"text": f"{reasons[record.status]}{why}: {stored}", "is_live": False, "command": command}


def run_page(request: PageRequest) -> HTMLResponse:
    """The page of a run. Filters of its list of queries are in the address."""
    workbench, record = request.workbench, request.run
    run = workbench.run(record)
    is_large = record.num_samples * max(record.repeats, 1) > LARGE
    gates = None if is_large else check_stored_gates(run)
    absent = () if has_gold(workbench, record) else ("curves", "quality")
    causes = cause_bar(workbench, run, split=not is_large)
    filters = {name: request.parameters.getlist(name) for name in ("q", "where", "sort", "after", "size")}
    return render_template(
        request,
        "run.html",
        record=record,
        subtitle=run_subtitle(run),
        verdict=run_verdict(run, gates, timings=not is_large),
        is_large=is_large,
        status_note=status_notes(workbench, run),
        offers=gold_offers(workbench, record, run.results),
        groups=score_groups(run),
        has_uncertain=any(map(interval_flags, run.results)),
        causes=causes,
        cause_offer=None if causes else cause_offer(workbench, run),
        sections={name: one.title for name, one in SECTIONS.items() if one.is_present(run) and name not in absent},
        queries=make_url("/queries", run=record.run_id, **filters),
        queries_fragment=make_url("/queries", run=record.run_id, **filters, fragment="1"),
    )


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
    return render_template(
        request,
        "derivation.html",
        record=record,
        title=_derivation_title(found),
        report=report,
        sections=[one for one in report.sections if one.blocks],
        links=_derivation_links(record, found, metric),
        whole=derivation_url(record, metric),
        whole_drawer=derivation_url(record, metric, fragment=True),
        metric=found.card.title,
        has_outcomes=any(one.outcome != "scored" for _, listed in influences for one in listed),
        influences=[
            (title, [_influence_row(record, metric, one) for one in listed]) for title, listed in influences if listed
        ],
    )


def _derivation_title(explanation: Explanation) -> str:
    of = explanation.run if explanation.query is None else f"query {explanation.query.sample_id}"
    return f"{explanation.card.title} of {of}"


def _derivation_links(record: RunRecord, explanation: Explanation, metric: str) -> list[ConditionLink]:
    """The queries behind a number: all that it counts, those it skips, those that failed."""
    counts = explanation.card.samples
    if explanation.query is not None or counts is None:
        return []
    numbers = [("scored", counts.scored), ("skipped", counts.skipped)]
    numbers.append(("failed", counts.system_failed + counts.measure_failed))
    return [
        _outcome_link(record, f"{pluralize(count, 'query', 'queries')} {outcome}", metric, outcome)
        for outcome, count in numbers
        if count
    ]


def _influence_row(record: RunRecord, metric: str, one: Influence) -> dict[str, Any]:
    return {
        "sample_id": one.sample_id,
        "score": value_text(one.score),
        "outcome": "" if one.outcome == "scored" else one.outcome,
        "query": make_url("/query", run=record.run_id, id=one.sample_id),
        "url": derivation_url(record, metric, one.sample_id),
        "drawer": derivation_url(record, metric, one.sample_id, fragment=True),
    }


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
