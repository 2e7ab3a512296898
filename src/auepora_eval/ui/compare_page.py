"""Two or more runs compared: verdict, differences, queries by outcome, causes of change; the leaderboard of several."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..compare.metrics import rank_shared_metrics
from ..compare.pairing import lookup_metric, selecting_runs, selection_note
from ..compare.rendering import (
    guardrails_table,
    matching_note,
    metrics_table,
    missing_note,
    pairs_table,
    refused_details,
    register_note,
    table_notes,
)
from ..compare.runs import Leaderboard, LeaderboardMetric, build_leaderboard
from ..compare.types import run_labels
from ..compare.verdicts import parse_margin
from ..core.results import display_name, judged_coverage, metric_labels, sequential_note
from ..errors import AueporaError, BadValueError, UnknownMetricError
from ..queries.filters import Condition
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    Details,
    Figure,
    Prose,
    ReportSection,
    ReportVerdict,
    Row,
    Table,
    Tone,
    without_empty_columns,
    without_none,
)
from ..render.html import pluralize
from ..report.comparison_sections import (
    ComparedRuns,
    compare_stored_runs,
    comparison_verdict,
    main_metric_figure,
    split_section,
    wins_section,
    with_verdict_first,
)
from ..report.pages import answers_result
from ..report.plots import plot_comparison
from ..report.run_sections import StoredRun, failures_section, find_runs, judges_section, provenance_section
from ..report.score_sections import (
    distributions_section,
    latency_section,
    retrieval_sections,
    runs_scores_section,
    sequential_section,
    slices_section,
    two_stage_section,
)
from ..store.records import RunRecord
from ..store.runs import RunStore, result_summaries
from .compare_card import comparison_card, gold_fact, leaderboard_card
from .page_request import Fields, PageRequest, page_route
from .run_page import report_response
from .run_rows import derivation_url
from .workbench import WORKING_BYTES, T, Workbench, make_url, recorded_response, render_blocks, render_template

LARGE = 20_000
"""Runs with more queries take long to compare."""
MAX_LETTERS = 10
"""Of up to so many runs all pairs are listed; of more, those with the first one."""
MAX_CHOICES = 100
"""The number of runs listed to choose from."""
FILTERS = ("q", "where", "sort", "after", "size")
"""The parameters of the list of queries."""

# --- the runs and options in the address -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """The runs to compare and the options of the comparison, as the address has them."""

    workbench: Workbench
    records: tuple[RunRecord, ...]
    primary: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    adjust: str = "max-t"
    other_dataset: bool = False
    filters: Mapping[str, list[str]] = field(default_factory=dict)
    """The parameters of the list of queries."""

    @classmethod
    def from_request(cls, request: PageRequest) -> ComparisonRequest:
        """Read the address; a parameter with a bad value is an error."""
        workbench, params = request.workbench, request.parameters
        if params and "run" not in params:
            raise BadValueError(
                f"the address names no run, but {', '.join(map(repr, params))}; write /compare?run=A&run=B, with the "
                "id or name of each run, the first being the one that the others are compared with; further parameters "
                f"are primary, delta, adjust, other_dataset, and for the list of queries {', '.join(FILTERS)}"
            )
        found = tuple(find_runs(workbench.store, [workbench.find(text) for text in params.getlist("run")]))
        adjust = params.get("adjust") or "max-t"
        if adjust not in adjustments(len(found)):
            allowed = ", ".join(adjustments(len(found)))
            raise BadValueError(f"adjust is '{adjust}'; allowed for {len(found)} runs: {allowed}")
        delta = tuple(" ".join(params.getlist("delta")).split())
        parse_margin(delta)
        filters = {name: params.getlist(name) for name in FILTERS if name in params}
        return cls(
            workbench=workbench,
            records=found,
            primary=tuple(params.getlist("primary")),
            delta=delta,
            adjust=adjust,
            other_dataset="other_dataset" in params,
            filters=filters,
        )

    @property
    def runs(self) -> list[str]:
        """The ids of the runs."""
        return [record.run_id for record in self.records]

    @property
    def is_pair(self) -> bool:
        """Whether two runs are compared."""
        return len(self.records) == 2

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``build_leaderboard``."""
        return {
            "primary": self.primary or None,
            "delta": parse_margin(self.delta),
            "adjust": self.adjust,
            "other_dataset": self.other_dataset,
        }

    def url(self, path: str = "/compare", **parameters: Any) -> str:
        """An address with these runs and options, and with further parameters, which replace them."""
        listed = {
            "run": self.runs,
            "primary": list(self.primary),
            "delta": list(self.delta),
            "adjust": self.url_adjust,
            "other_dataset": "1" if self.other_dataset else None,
        }
        return make_url(path, **(listed | parameters))

    def queries_url(self, metric: str | None) -> str:
        """The address of the list of queries as a fragment: those that got worse by a metric, unless it has filters."""
        filters = dict(self.filters)
        if metric is not None and not filters:
            filters = self.worse_filter(metric)
        return make_url("/queries", run=self.runs, **({"size": ["8"]} | filters), fragment="1", relax="1")

    def worse_filter(self, metric: str) -> dict[str, list[str]]:
        """The queries that got worse by a metric, the largest loss first."""
        condition = Condition("metric", metric)
        result = next((found for run in self.stored if (found := run.find_result(metric)) is not None), None)
        lower = result is not None and not lookup_metric(result, self.records[0], {}).higher_score_is_better
        return {
            "where": [str(replace(condition, value="worse"))],
            "sort": [f"{'-' if lower else ''}diff.{condition.key}"],
        }

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Runs, options and filters as the fields of a form."""
        return parse_qsl(self.url("", **self.filters).partition("?")[2], keep_blank_values=True)

    def pair_url(self, first: int, second: int) -> str:
        """The address of the comparison of two of the runs."""
        adjust = None if self.adjust == "tukey" else self.url_adjust
        return self.url(run=[self.runs[first], self.runs[second]], adjust=adjust)

    def derivation_url(self, metric: str) -> str:
        """The address of the derivation of a metric, in the last run."""
        return derivation_url(self.records[-1], metric)

    @property
    def url_adjust(self) -> str | None:
        """The adjustment in an address; ``None`` for the default."""
        return None if self.adjust == "max-t" else self.adjust

    @property
    def command(self) -> str:
        """The command that prints the same comparison."""
        words = ["auepora", "compare", *self.runs]
        words += chain.from_iterable(("--primary", name) for name in self.primary)
        words += chain.from_iterable(("--delta", text) for text in self.delta)
        words += [] if self.adjust == "max-t" else ["--adjust", self.adjust]
        words += ["--other-dataset"] if self.other_dataset else []
        return shlex.join([*words, "--store", self.workbench.label])

    @property
    def stored(self) -> list[StoredRun]:
        """The stored data of the runs, with their letters."""
        letters = run_labels(len(self.records))
        return [self.workbench.run(record, letter) for record, letter in zip(self.records, letters, strict=True)]

    @property
    def key(self) -> tuple[Any, ...]:
        """The options, as a part of cache keys."""
        return self.primary, self.delta, self.adjust, self.other_dataset

    def cached(
        self, key: tuple[Any, ...], build: Callable[[], T], size: int | Callable[[T], int], *, is_large: bool = False
    ) -> T:
        """A value of these runs, cached while they do not change; ``is_large`` where it is built from all outputs."""
        versions = tuple((record.run_id, self.workbench.version(record)) for record in self.records)
        working = WORKING_BYTES * sum(record.num_samples for record in self.records) if is_large else 0
        return self.workbench.cached((self.runs[0], versions, *key), build, size=size, working=working)


def adjustments(runs: int) -> tuple[str, ...]:
    """The adjustments of p-values that so many runs can have."""
    return ("max-t", "holm", "tukey") if runs > 2 else ("max-t", "holm")


# --- the comparison: verdict, banners, differences -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Banner:
    """A note that changes how a comparison is read."""

    text: str
    tone: Tone = "open"
    href: str = ""
    action: str = ""
    """The text of the link."""


@dataclass(frozen=True, slots=True)
class ComparisonContent:
    """The parts of a comparison that the page shows and the cache keeps: no scores, no queries."""

    verdict: ReportVerdict
    banners: tuple[Banner, ...]
    board: Leaderboard | None
    main: str | None
    """The name of the main metric."""


def compare_runs_of(chosen: ComparisonRequest) -> ComparisonContent:
    """The comparison, cached while the runs do not change."""
    return chosen.cached(("comparison", *chosen.key), lambda: _build_comparison(chosen), 200_000, is_large=True)


def _build_comparison(chosen: ComparisonRequest) -> ComparisonContent:
    runs = chosen.stored
    if not chosen.other_dataset and len({record.fingerprint for record in chosen.records}) > 1:
        return _other_datasets(chosen, runs)
    compared = compare_stored_runs(runs, gates=False, **chosen.options)
    main = None if compared.main is None else compared.main.name
    return ComparisonContent(
        comparison_verdict(compared), tuple(_banners(compared, chosen.workbench.store)), compared.board, main
    )


def _other_datasets(chosen: ComparisonRequest, runs: Sequence[StoredRun]) -> ComparisonContent:
    """Why runs on different datasets are not compared, and the offer to compare them over their common queries."""
    try:
        build_leaderboard(chosen.workbench.store, chosen.records)
        raise AssertionError("runs on different datasets are refused")
    except AueporaError as error:
        refused = ReportVerdict(f"These runs cannot be compared: {error}", "bad", [])
    ids = [set(chosen.workbench.store.sample_ids(run)) for run in chosen.runs]
    common = len(set.intersection(*ids))
    if not common:
        offer = Banner("The datasets have no id of a query in common.", "bad")
    else:
        text = f"{pluralize(common, 'query', 'queries')} with the same id in all datasets."
        offer = Banner(text, "open", chosen.url(other_dataset="1"), f"Compare over {common:,} common ids")
    return ComparisonContent(refused, (offer,), None, None)


def _banners(compared: ComparedRuns, store: RunStore) -> Iterator[Banner]:
    """What changes how the verdict is read: other chunks, missing outputs, unjudged documents, sequential tests."""
    board, report = compared.board, compared.report
    if report is not None and (chunks := matching_note(report)):
        yield Banner(chunks)
    if board is None:
        return
    if missing := missing_note(board):
        yield Banner(f"{_sentence(missing)}")
    if unjudged := [text for run in compared.runs if (text := _unjudged_note(run))]:
        yield Banner(f"Documents that nobody judged count as not relevant. {'; '.join(unjudged)}.")
    for comparison in board.comparisons:
        if comparison.sequential is not None:
            yield Banner(f"{comparison.label or comparison.name}: {sequential_note(comparison.sequential)}.", "")
        elif comparison.doubt == "partly_judged":
            yield Banner(f"{comparison.label or comparison.name}: {comparison.note}.")
    if selecting := selecting_runs(store, [run.record for run in compared.runs]):
        yield Banner(_sentence(selection_note(selecting)))
    if note := register_note(board):
        yield Banner(f"{_sentence(note)}")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def _unjudged_note(run: StoredRun) -> str:
    """The retrieval metrics of a run with returned documents that nobody judged."""
    found = [summary for summary in result_summaries(run.store, run.record.run_id) if summary.details.num_unjudged]
    return f"{run.label}: {display_name(found[0])} {judged_coverage(found[0])}" if found else ""


def difference_blocks(chosen: ComparisonRequest, content: ComparisonContent) -> list[Block]:
    """The differences of two runs, primary metrics first; or the leaderboard of several."""
    board = content.board
    if board is None:
        return []
    blocks: list[Block] = []
    if not board.metrics:
        blocks.append(Prose("There is no metric that the runs have in common and that follows the same rules.", "open"))
    elif chosen.is_pair:
        blocks += _pair_blocks(chosen, board)
    else:
        blocks += _leaderboard_blocks(chosen, board)
    notes = table_notes(replace(board, register=None, missing=()))
    return [*blocks, *refused_details(board), *([Bullets(notes)] if notes else [])]


def _pair_blocks(chosen: ComparisonRequest, board: Leaderboard) -> Iterator[Block]:
    labels = [f"{label}: {record.name}" for label, record in zip("AB", chosen.records, strict=True)]
    chart = plot_comparison(
        board.comparisons, names=(labels[0], labels[1]), title="Differences, B − A", exploratory_below=True
    )
    caption = "B − A with 95 % intervals. The shape tells the verdict, and so does the table below."
    yield Figure(chart, caption)
    yield from guardrails_table(board)
    primary = [metric for metric in board.metrics if metric.primary]
    exploratory = [_without_p(metric) for metric in board.metrics if not metric.primary]
    if primary:
        yield _metric_rows(chosen, board, primary, "Primary metrics" if exploratory else "Metrics")
    if exploratory:
        yield _metric_rows(chosen, board, exploratory, "Exploratory metrics: no verdict, and nothing is adjusted")


def _metric_rows(
    chosen: ComparisonRequest, board: Leaderboard, metrics: list[LeaderboardMetric], caption: str
) -> Table:
    table = metrics_table(replace(board, metrics=metrics), href=chosen.derivation_url)
    return replace(without_empty_columns(with_verdict_first(table)), caption=caption)


def _without_p(metric: LeaderboardMetric) -> LeaderboardMetric:
    pairs = tuple(replace(pair, comparison=replace(pair.comparison, p_value=None)) for pair in metric.pairs)
    return replace(metric, pairs=pairs)


def _leaderboard_blocks(chosen: ComparisonRequest, board: Leaderboard) -> Iterator[Block]:
    yield main_metric_figure(chosen.stored, board)
    yield replace(metrics_table(board, href=chosen.derivation_url), caption="Leaderboard")
    yield Details("Every two runs", [_linked_pairs(chosen, board)])


def _linked_pairs(chosen: ComparisonRequest, board: Leaderboard) -> Table:
    """Every metric and pair of runs, with a link to the comparison of the two."""
    table = pairs_table(board)
    pairs = [pair for metric in board.metrics for pair in metric.pairs]
    rows: list[Row] = []
    for pair, (name, runs, *rest) in zip(pairs, table.groups[0].rows, strict=True):
        assert isinstance(runs, Cell)
        rows.append([name, replace(runs, href=chosen.pair_url(pair.first, pair.second)), *rest])
    return replace(table, groups=[replace(table.groups[0], rows=rows)])


# --- pages and fragments ---------------------------------------------------------------------------------------------


def compare_page(request: PageRequest) -> Response:
    """The page of a comparison; with fewer than two runs, the choice of another."""
    chosen = ComparisonRequest.from_request(request)
    if len(chosen.records) < 2:
        return _choice_page(request, chosen)
    names, metrics = [record.name for record in chosen.records], _metric_names(chosen)
    for name in (*chosen.primary, *request.parameters.getlist("metric")):
        if name and name not in metrics:
            raise UnknownMetricError(name, metrics)
    summaries = [result_summaries(chosen.workbench.store, run_id) for run_id in chosen.runs]
    main = next(iter(rank_shared_metrics(chosen.records, summaries)), None)
    title = f"{names[1]} against {names[0]}" if chosen.is_pair else f"{len(names)} runs against each other"
    return render_template(
        request,
        "compare.html",
        chosen=chosen,
        title=title,
        letters=run_labels(len(names)),
        max_letters=MAX_LETTERS,
        is_large=max(record.num_samples for record in chosen.records) > LARGE,
        metrics=metrics,
        adjustments=adjustments(len(names)),
        metric=request.parameters.get("metric") or main,
        sections=[(name, title) for name, (title, _) in SECTIONS.items() if chosen.is_pair or name not in PAIR_PARTS],
    )


def _choice_page(request: PageRequest, chosen: ComparisonRequest) -> Response:
    """The finished runs that a run can be compared with, newest first; those on the same dataset, if there are any."""
    first = chosen.records[0] if chosen.records else None
    found = [run for run in chosen.workbench.store.runs(status="finished") if run.run_id not in chosen.runs]
    same = [record for record in found if first is not None and record.fingerprint == first.fingerprint]
    return render_template(
        request,
        "compare.html",
        chosen=chosen,
        title="Compare runs" if first is None else f"Compare {first.name}",
        first=first,
        choices=(same or found)[:MAX_CHOICES],
        same=bool(same),
    )


def _metric_names(chosen: ComparisonRequest) -> dict[str, str]:
    """The metrics that all runs have with their names for display, in the order of the last one."""
    store = chosen.workbench.store
    *others, last = (metric_labels(result_summaries(store, run_id)) for run_id in chosen.runs)
    common = set(last).intersection(*others)
    return {name: label for name, label in last.items() if name in common}


def _summary_context(chosen: ComparisonRequest, params: Fields) -> dict[str, Any]:
    content = compare_runs_of(chosen)
    card, leaders, fact, blocks = None, None, "", Markup()
    board = content.board
    if board is None or not board.metrics:
        blocks = _cached_html(chosen, "summary", lambda: difference_blocks(chosen, content))
    elif chosen.is_pair:
        card, fact = comparison_card(board, content.main), gold_fact(board, chosen.records)
    else:
        leaders, fact = leaderboard_card(board, content.main), gold_fact(board, chosen.records)
    metric = params.get("metric") or content.main
    return {"content": content, "card": card, "leaders": leaders, "fact": fact, "blocks": blocks, "metric": metric}


def _cached_html(chosen: ComparisonRequest, name: str, build: Callable[[], Sequence[Block]]) -> Markup:
    """Blocks as HTML, cached while the runs do not change."""
    return chosen.cached(("html", name, *chosen.key), lambda: render_blocks(build()), len)


def section(request: PageRequest) -> Response:
    """One part of the page as a fragment."""
    chosen, name = ComparisonRequest.from_request(request), request.path_params["name"]
    if len(chosen.records) < 2:
        raise BadValueError("give two runs or more, as run=A&run=B")
    if name not in ("summary", "details", *SECTIONS) or (name in PAIR_PARTS and not chosen.is_pair):
        raise HTTPException(404, f"a comparison of {len(chosen.records)} runs has no section '{name}'")
    if name == "summary":
        context = _summary_context(chosen, request.parameters)
    elif name == "details":  # the forest, tables with p-values and notes behind the card
        context = {"blocks": _cached_html(chosen, name, lambda: difference_blocks(chosen, compare_runs_of(chosen)))}
    else:
        context = {"blocks": _cached_html(chosen, name, lambda: _section_blocks(SECTIONS[name][1](chosen)))}
    return render_template(request, "compare_parts.html", part=name, chosen=chosen, **context)


def record_comparison(request: PageRequest) -> Response:
    """Record the comparison in the register of decisions, as ``auepora compare`` does."""
    chosen = ComparisonRequest.from_request(request)
    board = compare_runs_of(chosen).board if len(chosen.records) > 1 else None
    recorded = None if board is None else board.record_in(chosen.workbench.store, chosen.records)
    return recorded_response(None if recorded is None else recorded.register)


def _section_blocks(sections: Sequence[ReportSection | None]) -> list[Block]:
    blocks: list[Block] = []
    for section in without_none(*sections):
        blocks += [*([Prose(section.lead)] if section.lead else []), *section.blocks]
    return blocks or [Prose("These runs have nothing to show here.", tone="muted")]


def _wins(chosen: ComparisonRequest) -> Sequence[ReportSection | None]:
    return [wins_section(ComparedRuns(chosen.stored, compare_runs_of(chosen).board))]


SECTIONS: Mapping[str, tuple[str, Callable[[ComparisonRequest], Sequence[ReportSection | None]]]] = {
    "wins": ("Wins and losses", _wins),
    "split": ("Retrieval or generation?", lambda chosen: [split_section(*chosen.stored)]),
    "scores": ("Scores", lambda chosen: [runs_scores_section(chosen.stored)]),
    "sequential": (
        "Judged in part: sequential tests and two-stage judging",
        lambda chosen: [sequential_section(chosen.stored), two_stage_section(chosen.stored)],
    ),
    "slices": ("Slices", lambda chosen: [slices_section(chosen.stored, compare_runs_of(chosen).main)]),
    "distributions": ("Distributions", lambda chosen: [distributions_section(chosen.stored)]),
    "latency": ("Latency", lambda chosen: [latency_section(chosen.stored)]),
    "retrieval": (
        "Retrieval over k, answers by rank",
        lambda chosen: retrieval_sections(chosen.stored, answers_result(chosen.stored[-1])),
    ),
    "failures": ("Failures by cause", lambda chosen: [failures_section(chosen.stored)]),
    "judges": ("Judges", lambda chosen: [judges_section(chosen.stored)]),
    "provenance": ("Provenance", lambda chosen: [provenance_section(chosen.stored)]),
}
"""The further sections of the report: title and builder, by name."""
PAIR_PARTS = ("wins", "split")
"""Parts that two runs have, and several have not."""


def download_report(request: PageRequest) -> Response:
    """The report of the runs as a file, as ``auepora report`` writes it."""
    chosen = ComparisonRequest.from_request(request)
    if not chosen.records:
        raise BadValueError("run: a report needs a run; choose one or more")
    return report_response(chosen.workbench, chosen.records)


ROUTES = [
    page_route("/compare", compare_page),
    page_route("/compare/sections/{name}", section),
    page_route("/compare/report.html", download_report),
    page_route("/compare/decision", record_comparison, method="POST"),
]
