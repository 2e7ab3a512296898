"""The parts of the page of a run, each behind a tab that loads when it is opened."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse

from ..core.results import display_name, sequential_details, two_stage_details
from ..core.types import MetricResult, TargetCategory
from ..render.blocks import ReportSection
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
from ..store.runs import samples_contain
from .page_request import Fields, PageRequest
from .query_list import QueryListPage
from .run_charts import FilterChartRenderer
from .run_rows import score_groups, slice_cards, sliced_result
from .workbench import Workbench, render_template, run_url

# --- sections of the report ------------------------------------------------------------------------------------------


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


# --- tabs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunTab:
    """A part of the page: sections of the report, unless it has a template of its own."""

    title: str
    sections: Sequence[str] = ()
    empty: str = ""
    """What a run without any of the sections is told."""
    count: Callable[[StoredRun], int] | None = None


def _count_groups(run: StoredRun) -> int:
    result = sliced_result(run, "")
    return 0 if result is None else sum(map(len, result.slices.values()))


def _count_judges(run: StoredRun) -> int:
    return len((run.record.usage or {}).get("critics") or ())


TABS = {
    "metrics": RunTab("Metrics", count=lambda run: len(run.results)),
    "queries": RunTab("Queries", count=lambda run: run.record.num_samples),
    "slices": RunTab(
        "Slices",
        ["slices"],
        "No metric is divided into groups. Name labels of the dataset in the plan under `slices`.",
        _count_groups,
    ),
    "retrieval": RunTab("Retrieval over k", ["curves", "quality"], "No answer is stored yet."),
    "distributions": RunTab("Distributions", ["distributions"], "No metric has a score per query."),
    "latency": RunTab("Latency", ["latency"], "No answer is stored yet."),
    "failures": RunTab("Failures", ["failures"], "No answer is stored yet.", lambda run: run.counts[1]),
    "judges": RunTab("Judges", ["judges", "sequential", "two-stage"], "No judge was asked in this run.", _count_judges),
    "gates": RunTab(
        "Gates",
        ["gates"],
        "The plan of this run has no gates: conditions on metrics that a run must fulfil, under `gates`.",
    ),
    "provenance": RunTab("Provenance", ["provenance", "cards"]),
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
            choices=[one for one in run.results if one.slices],
            slices=[] if chosen is None else list(slice_cards(run, chosen)),
        )
    absent = () if has_gold(workbench, record) else ("curves", "quality")
    names = [one for one in TABS[name].sections if SECTIONS[one].is_present(run) and one not in absent]
    offers = gold_offers(workbench, record, run.results) if name == "retrieval" else []
    return render_template(
        request,
        "run_tab.html",
        sections=[(one, SECTIONS[one].title, _section_html(request, record, one)) for one in names],
        empty=NO_RANKINGS if absent and name == "retrieval" else TABS[name].empty,
        offers=offers,
    )


def _section_html(request: PageRequest, record: RunRecord, name: str) -> Markup:
    """A section; those that share their work are built at the same time."""
    workbench, build = request.workbench, SECTIONS[name].build
    names = [one for one, section in SECTIONS.items() if section.build is build]
    key = (record.run_id, workbench.version(record), "sections", names[0])
    pages = workbench.cached(key, lambda: _render_sections(request, record, names), size=_text_size)
    return Markup(pages[name].decode())  # noqa: S704 -- our own template, which escapes all texts


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


# --- what a run lacks, and how to get it -----------------------------------------------------------------------------


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
