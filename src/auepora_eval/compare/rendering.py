"""Comparisons of two or more runs as blocks: a page, one sentence, tables and notes; and as CSV and notebook HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.targets import TARGETS
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    DefinitionList,
    Details,
    Figure,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    RowGroup,
    Table,
    TableColumn,
    Tone,
    simple_table,
    without_empty_columns,
)
from ..render.html import SECONDS, blocks_html, metric_range, pluralize, value_text
from ..render.markdown import report_markdown
from ..render.short import first_names
from ..render.tables import UNRELIABLE_NOTE, csv_text, format_value, p_text
from ..runtime.files import write_lines
from .queries import QueryChange
from .runs import DifferencePart, Leaderboard, LeaderboardMetric, MetricSplit
from .types import EXPLORATORY, CompareReport, ComparisonKind, MetricComparison
from .verdicts import ALPHA

if TYPE_CHECKING:
    from ..render.charts.chart import Chart

Link = Callable[[str], str]
"""Returns the link of a metric or query inside a page, or an empty text."""


def no_link(name: str) -> str:
    """No link, for media without pages."""
    return ""


# --- numbers and verdicts as text ------------------------------------------------------------------------------------

_SIGNS = {"better": "▲", "worse": "▼", "equal": "=", "inconclusive": "?", "within_margin": "="}
_TONES: dict[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "equal": "",
    "inconclusive": "open",
    "within_margin": "good",
}


def signed(value: float | None) -> str:
    """A difference with its sign; ``n/a`` where there is none."""
    if value is None or math.isnan(value):
        return "n/a"
    return format_value(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{format_value(abs(value))}"


def verdict_cell(found: MetricComparison) -> Cell:
    """The verdict as a word, a sign and a colour; a metric that is not primary has none."""
    if not found.primary:
        return Cell("exploratory", tone="muted")
    if found.doubt == "no_direction":
        return Cell("no direction", tone="muted")
    text = f"{found.verdict}, negligible" if found.negligible else found.verdict
    return Cell(text, tone=_TONES[found.verdict], sign=_SIGNS[found.verdict])


def _ends_text(found: MetricComparison) -> str:
    ends = found.shown_interval
    if found.verdict == "equal" and found.delta == found.wins == found.losses == 0:
        return ""  # nothing was estimated: all scores are identical
    return "" if ends is None else f"{signed(ends[0])} to {signed(ends[1])}"


# --- tables: every metric with the values of the runs, every pair of runs, and their notes ---------------------------

_BEST = "★"
_PAIR_COLUMNS = (
    TableColumn("95 % interval", number=True),
    TableColumn("p adjusted", number=True),
    TableColumn("won / lost", number=True, minor=True),
    TableColumn("n", number=True, minor=True),
    TableColumn("verdict", brief=True),
)


def metrics_table(board: Leaderboard, *, href: Link = no_link) -> Table:
    """Every metric by target: the value of each run, and the comparison of the two, or the wins of several."""
    two = len(board.run_ids) == 2
    pair_columns = [TableColumn("B − A", number=True), *_PAIR_COLUMNS] if two else [TableColumn("better")]
    columns = [TableColumn("metric"), *(TableColumn(label, number=True) for label in board.labels), *pair_columns]
    groups, to_row = [], _pair_row if two else _values_row
    for target, entry in TARGETS.items():
        listed = [metric for metric in board.metrics if metric.target == target.name]
        rows = [to_row(board, metric, href) for metric in listed]
        groups += [RowGroup(rows, entry.title)] if rows else []
    return Table(columns, groups)


def _pair_row(board: Leaderboard, metric: LeaderboardMetric, href: Link) -> Row:
    (pair,) = metric.pairs
    notes = [*_direction(metric), *comparison_notes(pair.comparison)]
    name = Cell(metric.label, href=href(metric.name), note="; ".join(notes))
    return [name, *map(value_text, metric.values), signed(pair.comparison.delta), *_pair_cells(pair.comparison)]


def _values_row(board: Leaderboard, metric: LeaderboardMetric, href: Link) -> Row:
    labels, starred = board.labels, starred_runs(metric)
    cells = [Cell(value_text(value), sign=_BEST * (run in starred)) for run, value in enumerate(metric.values)]
    wins = ", ".join(f"{labels[better]} > {labels[worse]}" for better, worse in metric.wins)
    last = Cell(wins or "none" if metric.primary else "exploratory", tone="" if wins else "muted")
    return [Cell(metric.label, href=href(metric.name), note="".join(_direction(metric))), *cells, last]


def starred_runs(metric: LeaderboardMetric) -> list[int]:
    """The runs that no other run is significantly better than, where that sets some of three or more apart."""
    unbeaten = metric.unbeaten() if metric.primary else []
    return unbeaten if 2 < len(metric.values) > len(unbeaten) else []


def _direction(metric: LeaderboardMetric) -> list[str]:
    return ["lower is better"] if metric.higher_is_better is False else []


def pairs_table(board: Leaderboard) -> Table:
    """Every metric and pair of runs; the verdict is about the first of the two."""
    rows: list[Row] = []
    labels = board.labels
    for pair in board.pairs:
        found = pair.comparison
        runs = Cell(f"{labels[pair.second]} − {labels[pair.first]}", note="; ".join(comparison_notes(found)))
        rows.append([found.label or found.name, runs, signed(found.delta), *_pair_cells(found)])
    columns = [TableColumn("metric"), TableColumn("runs", brief=True), TableColumn("difference", number=True)]
    return simple_table([*columns, *_PAIR_COLUMNS], rows)


def _pair_cells(found: MetricComparison) -> Row:
    ends = _ends_text(found)
    mark = " ?" if found.flags and ends else ""
    p = found.p_adjusted if found.primary else found.p_value
    n = f"{found.n:,}" if found.clusters in (0, found.n) else f"{found.n:,} in {found.clusters:,}"
    won = "" if found.higher_is_better is None else f"{found.wins:,} / {found.losses:,}"
    return [f"{ends}{mark}", p_text(p), won, n, verdict_cell(found)]


def comparison_notes(found: MetricComparison) -> list[str]:
    """Notes on the comparison of one metric: other differences, and the samples needed for a verdict."""
    needed = None
    if found.primary and found.n_needed is not None:
        needed = f"{pluralize(found.n_needed, 'sample')} would be needed to detect a difference that matters"
    return [note for note in (alternative_differences(found), found.note, needed) if note]


_ROUNDING = 1e-9


def alternative_differences(found: MetricComparison) -> str | None:
    """The difference without system failures, if it is another, and its bounds if measurements failed."""
    parts = []
    completed = found.delta_completed
    if (
        completed is not None
        and found.delta is not None
        and not math.isclose(completed, found.delta, abs_tol=_ROUNDING)
    ):
        parts.append(f"{signed(completed)} over the samples that both systems answered")
    if found.bounds is not None:
        low, high = found.bounds
        parts.append(f"with failed measurements at their worst and best: {signed(low)} to {signed(high)}")
    return "; ".join(parts) or None


def table_notes(board: Leaderboard) -> list[str]:
    """Notes on the tables of a leaderboard: how p-values are adjusted, what the signs mean, missing outputs."""
    compared = board.comparisons
    adjusted = sum(map(_is_adjusted, compared)) + board.rivals
    all_primary = all(found.primary for found in compared)
    smallest = _smallest_differences(board)
    notes = {
        f"p-values and intervals are adjusted for {adjusted} comparisons: a verdict needs a p-value below .05 and an "
        "interval without 0": adjusted > 1,
        "sequential: the p-value and the interval are the repeated ones, which hold at all looks that were fixed "
        "before the first judge call": any(found.sequential is not None for found in compared),
        _two_stage_error_note(compared) or "": _two_stage_error_note(compared),
        "exploratory: not among the primary metrics; nothing is adjusted, and no verdict is given": not all_primary,
        UNRELIABLE_NOTE: any(found.flags and found.interval is not None for found in compared),
        "n in c: so many samples in so many clusters, which belong together": any(
            found.clusters not in (0, found.n) for found in compared
        ),
        f"{_BEST} no other run is significantly better": any(map(starred_runs, board.metrics)),
        f"smallest difference these samples would show: {smallest}": smallest,
        missing_note(board) or "": any(board.missing),
        register_note(board) or "": register_note(board),
    }
    return [note for note, shown in notes.items() if shown]


def _is_adjusted(found: MetricComparison) -> bool:
    """Whether a metric is among those that share 5 %."""
    is_amount = found.doubt == "no_direction" and found.p_adjusted is None
    decided = found.sequential is not None or found.two_stage is not None
    return found.primary and not decided and not is_amount and found.doubt not in EXPLORATORY


def _two_stage_error_note(compared: Sequence[MetricComparison]) -> str | None:
    """How two-stage judging shares 5 % with the other primary metrics; ``None`` for a single one."""
    drawn = sum(found.primary and found.two_stage is not None for found in compared)
    tests = sum(found.primary and found.sequential is None for found in compared)
    if not drawn or tests < 2:
        return None
    note = f"two-stage judging: the p-value is multiplied by {tests}, the number of comparisons, and the interval wider"
    if any(map(_is_adjusted, compared)):
        together = ALPHA + ALPHA * drawn / tests
        note += f"; the others share 5 %, so that any verdict is wrong in up to {together:.1%} of cases"
    return note


def _smallest_differences(board: Leaderboard) -> str:
    """The minimum detectable effect of the first inconclusive metrics of two runs, where no margin is given."""
    compared = board.comparisons
    if len(board.run_ids) > 2 or any(found.n_needed is not None for found in compared):
        return ""
    undecided = [found for found in compared if found.verdict == "inconclusive" and _is_adjusted(found)]
    found = [
        f"{metric.label or metric.name} {format_value(metric.mde)}" for metric in undecided if metric.mde is not None
    ]
    return ", ".join([*found[:5], *(["…"] if len(found) > 5 else [])])


def register_note(board: Leaderboard) -> str | None:
    """How often the dataset decided before, from the second time on."""
    return None if board.register is None else board.register.note


def missing_note(board: Leaderboard) -> str | None:
    """A note with the number of missing outputs of each run; ``None`` if none is missing."""
    if not any(board.missing):
        return None
    counts = ", ".join(f"{count} in {label}" for label, count in zip(board.labels, board.missing, strict=True))
    return f"missing outputs: {counts}; in a comparison they count as failed, at the worst value of a metric"


def refused_details(board: Leaderboard) -> list[Details]:
    """The metrics that were not compared, and why; empty where all were."""
    if not board.refused:
        return []
    rows: list[Row] = [[board.metric_label(name), why] for name, why in board.refused.items()]
    title = f"Not compared: {pluralize(len(rows), 'metric')}"
    return [Details(title, [simple_table(["metric", "why"], rows)], is_open=True)]


# --- golden queries of two runs: aggregates, failures, queries that changed and why ----------------------------------

_AGGREGATES = {
    "citation_coverage": "citation coverage",
    "groundedness": "groundedness",
    "empty_result_rate": "empty result rate",
    "refusal_correctness": "refusal correctness",
}
_SPAN_MATCH = (
    "The two runs have different chunks, so chunks are matched by where they lie in their document: a query is hit "
    "at the first rank up to which the chunks of the expected document together cover at least 45 % of the "
    "expected span. Hit rates and MRR are computed from these ranks; what is stored with the runs stays as it was."
)
_KINDS = {
    ComparisonKind.REGRESSION: "Regressions: found in A, not in B",
    ComparisonKind.LOSS: "Losses: further down in B",
    ComparisonKind.WIN: "Wins: found in B only, or further up",
}
_PLURALS = {ComparisonKind.LOSS: "losses"}
_LEFT_OUT = {
    "only_in_a": "in A only",
    "only_in_b": "in B only",
    "without_expected_chunk": "without an expected chunk",
    "without_known_place": "whose expected chunks are at an unknown place",
}


def matching_note(report: CompareReport) -> str | None:
    """How chunks are matched where the runs have different ones; ``None`` where they are matched by id."""
    return _SPAN_MATCH if report.deltas.get("chunker_version_match") == "fallback_doc_span" else None


def aggregates_table(report: CompareReport) -> Table:
    """The metrics of golden queries in both runs."""
    a, b = report.aggregate_a, report.aggregate_b
    values = [(f"hit@{k}", a.hit_at_k[k], b.hit_at_k.get(k)) for k in a.hit_at_k]
    values.append(("MRR", a.mrr, b.mrr))
    values += [(f"recall@{k} of documents", a.recall_at_k_doc[k], b.recall_at_k_doc.get(k)) for k in a.recall_at_k_doc]
    values += [(title, getattr(a, name), getattr(b, name)) for name, title in _AGGREGATES.items()]
    rows: list[Row] = []
    for name, first, second in values:
        difference = None if first is None or second is None else second - first
        rows.append([name, value_text(first), value_text(second), signed(difference)])
    rows.append(["queries", str(a.total_queries), str(b.total_queries), ""])
    rows.append(["failed queries", str(a.failed_queries), str(b.failed_queries), ""])
    return simple_table([TableColumn(""), *(TableColumn(title, number=True) for title in ("A", "B", "B − A"))], rows)


def failure_notes(report: CompareReport) -> list[str]:
    """How many queries failed in each run; empty if none did."""
    counts = {"A": report.aggregate_a, "B": report.aggregate_b}
    if not any(count.failed_queries for count in counts.values()):
        return []
    failed = " and ".join(f"{count.failed_queries} of {count.total_queries} in {run}" for run, count in counts.items())
    every = [
        run for run, count in counts.items() if count.failed_queries and count.failed_queries == count.total_queries
    ]
    return [
        f"failed: {failed}",
        *(f"{run} failed on every sample: these numbers say nothing about its answers" for run in every),
    ]


def kinds_sentence(report: CompareReport) -> str:
    """How many golden queries there are of each kind, and how many were not compared."""
    counted = Counter(query.kind for query in report.per_query)
    kinds = ", ".join(pluralize(counted[kind], kind.value.lower(), _PLURALS.get(kind)) for kind in ComparisonKind)
    left = [f"{count:,} {what}" for key, what in _LEFT_OUT.items() if (count := report.deltas.get(key))]
    return f"{kinds}." + (f" Not compared: {', '.join(left)}." if left else "")


def query_details(report: CompareReport, *, limit: int, href: Link = no_link) -> list[Details]:
    """The golden queries that changed, by kind; at most ``limit`` of each."""
    found = []
    for kind, title in _KINDS.items():
        listed = [query for query in report.per_query if query.kind is kind]
        rows: list[Row] = [
            [
                Cell(query.query_id, href=href(query.query_id)),
                _rank(query.a_hit_rank),
                _rank(query.b_hit_rank),
                query.note or "",
            ]
            for query in listed[:limit]
        ]
        ranks = [TableColumn(f"rank in {run}", number=True) for run in "AB"]
        blocks = [simple_table(["query", *ranks, "note"], rows), *_more(len(listed), limit)]
        # A win needs no attention.
        is_open = kind is not ComparisonKind.WIN
        found += [Details(f"{title} ({len(listed):,})", blocks, is_open=is_open)] if listed else []
    return found


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _more(count: int, limit: int) -> list[Block]:
    return [Prose(f"And {count - limit:,} more.", tone="muted")] if count > limit else []


def changes_section(changes: Sequence[QueryChange], judged_by: str, *, limit: int) -> ReportSection:
    """The queries that got worse by a metric, each with its cause."""
    counts = Counter(str(change.cause) for change in changes)
    causes = ", ".join(f"{cause} {count}" for cause, count in counts.items())
    lead = f"{pluralize(len(changes), 'query', 'queries')} got worse by {judged_by}: {causes}."
    rows: list[Row] = [[change.sample_id, str(change.cause), change.detail] for change in changes[:limit]]
    blocks: list[Block] = [simple_table(["query", "cause", "what was seen"], rows), *_more(len(changes), limit)]
    return ReportSection(
        "causes",
        "Why queries got worse",
        blocks if changes else [Prose(f"No query got worse by {judged_by}.")],
        lead if changes else "",
    )


def split_table(splits: Sequence[MetricSplit]) -> Table:
    """The difference of each metric and its parts from retrieval and generation, with intervals."""
    numbers = ("A", "B", "B − A", "from retrieval", "from generation", "n", "left out")
    rows: list[Row] = [
        [
            split.label or split.name,
            value_text(split.a),
            value_text(split.b),
            _part_cell(split.delta),
            _part_cell(split.retrieval),
            _part_cell(split.generation),
            f"{split.n:,}",
            f"{split.left_out:,}".removeprefix("0"),
        ]
        for split in splits
    ]
    columns = [TableColumn("metric"), *(TableColumn(title, number=True) for title in numbers)]
    return without_empty_columns(simple_table(columns, rows))


def _part_cell(part: DifferencePart) -> str:
    ends = "" if part.interval is None else f"  ({signed(part.interval[0])} to {signed(part.interval[1])})"
    return f"{signed(part.value)}{ends}"


# --- one sentence, and the whole comparison as a page ----------------------------------------------------------------

_LONGER = "higher by a longer list"
MAX_LISTED = 200
"""How many queries of a kind a page lists; the rest is counted."""


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """A comparison as one sentence, with the overall outcome on the primary metrics."""

    sentence: str
    outcome: Literal["better", "worse", "open"]
    """Of the last run of two, or the first in rank of several; ``open`` where it is neither better nor worse."""


def comparison_summary(board: Leaderboard) -> ComparisonSummary:
    """The comparison in one sentence. Sentence and outcome cover the primary metrics only."""
    if not any(metric.primary for metric in board.metrics):
        return ComparisonSummary("These runs have no metric in common that can be compared.", "open")
    main = next((metric for metric in board.valued if metric.primary), None)
    if len(board.run_ids) == 2:
        return _pair_summary(board, main)
    if main is None:
        return ComparisonSummary("No primary metric has a value.", "open")
    names = [f"{label} ({name})" for label, name in zip(board.labels, board.names, strict=True)]
    first = main.ranking[0]
    head = f"By {main.label}, {names[first]} is first with {value_text(main.values[first])}"
    if len({worse for better, worse in main.wins if better == first}) == len(names) - 1:
        return ComparisonSummary(f"{head}, and significantly better than every other run.", "better")
    others = ", ".join(names[run] for run in main.unbeaten() if run != first)
    rest = f"{others} may be as good" if others else "for every other run there is one that is significantly better"
    return ComparisonSummary(f"{head}; {rest}.", "open")


def _pair_summary(board: Leaderboard, main: LeaderboardMetric | None) -> ComparisonSummary:
    primary = [comparison for comparison in board.comparisons if comparison.primary]
    counts = count_verdicts(primary)
    verdicts = ", ".join(f"{what} on {count}" for what, count in counts.items() if count)
    total = len(primary) + len(board.refused_primary)
    of_all = "metric" if total == len(board.metrics) + len(board.refused) else "primary metric"
    runs = zip(board.labels, board.names, board.run_ids, strict=True)
    a, b = (_with_brackets(label, name, is_wanted=name != run_id) for label, name, run_id in runs)
    refused = ""
    if board.refused_primary:
        listed = first_names([board.metric_label(name) for name in board.refused_primary], 5)
        refused = f"{len(board.refused_primary)} could not be compared ({listed}); "
    sentence = f"Of {pluralize(total, of_all)}, {refused}{b} against {a} is {verdicts}"
    change = "" if main is None else _describe_change(main.pairs[0].comparison)
    first = f"{sentence}; {change}." if change else f"{sentence}."
    against_it = _losses_sentence(board, main)
    return ComparisonSummary(f"{first} {against_it}".rstrip(), _pair_outcome(board, counts))


def _with_brackets(text: str, inner: str, *, is_wanted: bool) -> str:
    return f"{text} ({inner})" if is_wanted else text


def _pair_outcome(board: Leaderboard, counts: Mapping[str, int]) -> Literal["better", "worse", "open"]:
    """Better only if no other metric fell, and all guardrails are within their margins."""
    states = [guardrail.state for guardrail in board.guardrails]
    if counts["better"]:
        is_kept = all(state == "within_margin" for state in states) and not board.fallen
        return "better" if is_kept and not counts["worse"] else "open"
    return "worse" if counts["worse"] or "worse" in states else "open"


def _losses_sentence(board: Leaderboard, main: LeaderboardMetric | None) -> str:
    """What is worse, and how the guardrails stand; empty where nothing is said of either."""
    by_name = {found.name: found for found in board.comparisons}
    primary = [found for found in board.comparisons if found.primary and found.verdict == "worse"]
    described = None if main is None else main.name
    sentences = []
    if listed := [_values_change(found) for found in primary if found.name != described]:
        sentences.append(f"Worse: {first_names(listed, 5)}.")
    if board.fallen:
        listed = [_values_change(by_name[name]) for name in board.fallen]
        sentences.append(f"Not primary, but worse: {first_names(listed, 5)}.")
    if board.guardrails:
        states = "; ".join(guardrail.describe(board.metric_label(guardrail.metric)) for guardrail in board.guardrails)
        sentences.append(f"Guardrails: {states}.")
    return " ".join(sentences)


def _values_change(found: MetricComparison) -> str:
    return f"{found.label or found.name} {value_text(found.a)} → {value_text(found.b)}"


def guardrails_table(board: Leaderboard) -> list[Block]:
    """A row for each guardrail with its bounds; empty without guardrails."""
    if not board.guardrails:
        return []
    rows: list[Row] = []
    for guardrail in board.guardrails:
        state = Cell(guardrail.state.replace("_", " "), tone=_TONES[guardrail.state], sign=_SIGNS[guardrail.state])
        name = Cell(board.metric_label(guardrail.metric), note=guardrail.reason)
        loss = f"{signed(guardrail.least)} to {signed(guardrail.most)}" if guardrail.least is not None else "n/a"
        needed = f"{guardrail.n_needed:,}" if guardrail.n_needed else ""
        rows.append([name, signed(guardrail.delta), f"{guardrail.margin:g}", loss, f"{guardrail.n:,}", needed, state])
    numbers = ("B − A", "margin", "worse by", "n", "n to decide")
    columns = [TableColumn("guardrail"), *(TableColumn(title, number=True) for title in numbers)]
    table = simple_table([*columns, TableColumn("state", brief=True)], rows)
    note = "worse by: one-sided bounds at 95 %, not adjusted for other metrics; negative where B is better"
    return [without_empty_columns(table), Bullets([note])]


def count_verdicts(primary: Sequence[MetricComparison]) -> dict[str, int]:
    """How many metrics have each verdict; one that a longer list alone raised is not better."""
    counts = dict.fromkeys(("better", "worse", "equal", _LONGER, "inconclusive"), 0)
    for comparison in primary:
        is_longer = comparison.verdict == "better" and comparison.longer_list is not None
        counts[_LONGER if is_longer else comparison.verdict] += 1
    return counts


def _describe_change(found: MetricComparison) -> str:
    """The difference of a metric in words; empty where there is none."""
    if found.delta is None:
        return ""
    name = found.label or found.name
    if found.delta == 0:
        return f"{name} stays at {value_text(found.b)}"
    if found.doubt == "partly_judged":
        return f"{name} is judged in part ({signed(found.delta)} so far)"
    if found.doubt == "selected_samples":
        return f"{name} differs by {signed(found.delta)} on samples that the outcomes of a run selected"
    interval = "" if found.shown_interval is None else f", 95 % interval {_ends_text(found)}"
    p = p_text(found.p_value if found.p_adjusted is None else found.p_adjusted)
    way = "rises" if found.delta > 0 else "falls"
    chance = f", p {p}" if p else ""
    if found.doubt == "skewed":
        chance += "; skewed differences, so not certain"
    return f"{name} {way} from {value_text(found.a)} to {value_text(found.b)} ({signed(found.delta)}{interval}{chance})"


def comparison_page(
    board: Leaderboard,
    report: CompareReport | None = None,
    *,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
    limit: int = MAX_LISTED,
) -> Report:
    """The whole comparison: the runs, what differs, every metric, and golden queries of two runs.

    ``report`` has the golden queries, ``changes`` is what ``explain_changes`` found by the metric ``judged_by``.
    At most ``limit`` queries of a kind are listed.
    """
    runs = zip(board.names, board.run_ids, strict=True)
    names = [_with_brackets(name, run_id, is_wanted=name != run_id) for name, run_id in runs]
    two = len(names) == 2
    title = f"{names[1]} against {names[0]}" if two else f"{len(names)} runs against each other"
    sections = [ReportSection("runs", "Runs", [DefinitionList(list(zip(board.labels, names, strict=True)))])]
    if board.notes or two:
        differences = Bullets(board.notes) if board.notes else Prose("Nothing that is stored with the runs.")
        sections.append(ReportSection("differences", "What differs", [differences]))
    if board.guardrails:
        sections.append(ReportSection("guardrails", "Guardrails", guardrails_table(board)))
    samples = pluralize(board.samples, "sample")
    lead = f"Over the {samples} that all runs have; failures of a system count at the worst value."
    sections.append(ReportSection("metrics", "Metrics", list(metric_blocks(board)), lead))
    if report is not None and report.per_query:
        sections.append(
            ReportSection("golden", "Golden queries", _golden_blocks(report, limit), kinds_sentence(report))
        )
    if changes is not None:
        sections.append(changes_section(changes, board.metric_label(judged_by), limit=limit))
    sentence = comparison_summary(board).sentence if board.metrics else ""
    return Report(title, "", ReportVerdict(sentence), sections)


def metric_blocks(board: Leaderboard) -> Iterator[Block]:
    """Every metric, every pair of runs, notes, and metrics that were not compared."""
    if board.metrics:
        yield metrics_table(board)
        if len(board.run_ids) > 2:
            yield pairs_table(board)
        yield Bullets(table_notes(board))
    yield from refused_details(board)


def _golden_blocks(report: CompareReport, limit: int) -> list[Block]:
    notes = [note for note in (matching_note(report), *failure_notes(report)) if note]
    mrr = " → ".join(value_text(aggregate.mrr) for aggregate in (report.aggregate_a, report.aggregate_b))
    aggregates = Details(f"Metrics of golden queries (MRR {mrr})", [aggregates_table(report)], is_open=True)
    return [*([Bullets(notes)] if notes else []), aggregates, *query_details(report, limit=limit)]


def render_report_md(
    report: CompareReport,
    *,
    names: tuple[str, str] | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
) -> str:
    """The page as Markdown: which runs, what differs, aggregates, metrics, and the queries that changed.

    ``names`` are those of the runs, which the report knows by their ids. ``changes`` are what ``explain_changes`` found
    by the metric ``judged_by``.
    """
    board = Leaderboard.of_pair(report, names)
    return report_markdown(comparison_page(board, report, changes=changes, judged_by=judged_by))


def write_report(
    report: CompareReport,
    runs_dir: str | Path,
    *,
    names: tuple[str, str] | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
) -> Path:
    """Write the report to ``<runs_dir>/<run_id>/report.md``, under the id of run B; return its path.

    The other arguments are those of ``render_report_md``.
    """
    run_id = report.run_b
    if run_id in ("", ".", "..") or any(mark in run_id for mark in "/\\\x00"):
        raise BadValueError(f"the run id {run_id!r} cannot be the name of a folder; write the page elsewhere")
    path = Path(runs_dir) / run_id / "report.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadValueError(f"cannot make the folder {path.parent}: {error.strerror or error}") from error
    page = render_report_md(report, names=names, changes=changes, judged_by=judged_by)
    write_lines(path, [page.rstrip("\n").encode()])
    return path


# --- CSV: a row per metric and pair of runs --------------------------------------------------------------------------

COLUMNS = (
    "run_a",
    "run_b",
    "metric",
    "target",
    "a",
    "b",
    "delta",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "verdict",
    "primary",
    "wins",
    "losses",
    "draws",
    "n",
    "clusters",
    "delta_completed",
    "effect_size",
    "mde",
    "low_adjusted",
    "high_adjusted",
)


def comparison_csv(board: Leaderboard, *, raw: bool = False) -> str:
    """A row per metric and pair of runs, with every digit; unknown values are empty cells."""
    runs = board.run_ids
    lines: list[Sequence[Any]] = [COLUMNS]
    for pair in board.pairs:
        row = {**pair.comparison.to_row(), "run_a": runs[pair.first], "run_b": runs[pair.second]}
        lines.append([row[name] for name in COLUMNS])
    return csv_text(lines, raw=raw)


# --- charts and notebook HTML: a table of differences with verdicts, and a forest plot -------------------------------


def forest_rows(metrics: Iterable[MetricComparison]) -> list[dict[str, Any]]:
    """The rows of ``forest_chart``, by target."""
    titles = {target.name: entry.title for target, entry in TARGETS.items()}
    places = {target: place for place, target in enumerate(titles)}
    rows = []
    for metric in sorted(metrics, key=lambda metric: places.get(metric.target, len(places))):
        low, high = metric.shown_interval or (None, None)
        ends = metric_range(metric.name)
        row: dict[str, Any] = {
            "name": metric.label or metric.name,
            "group": titles.get(metric.target, metric.target),
            "delta": metric.delta,
            "low": low,
            "high": high,
            "verdict": metric.verdict,
            "primary": metric.primary,
            "n": metric.n,
            "note": metric.note or "no difference is defined",
        }
        if metric.target == TargetCategory.LATENCY.name and "throughput" not in metric.name:
            row["scale"] = SECONDS
        rows.append(row if ends is None else {**row, "range": ends})
    return rows


def forest_plot(report: CompareReport, *, names: tuple[str, str] = ("A", "B"), title: str | None = None) -> Chart:
    """A forest plot of every metric's difference; metrics that were not compared are listed with the reason."""
    rows = forest_rows(report.metrics)
    rows += [
        {"name": report.metric_labels.get(name, name), "delta": None, "note": why, "group": "Not compared"}
        for name, why in report.refused.items()
    ]
    from ..render.charts.intervals import forest_chart  # charts are slow to import

    return forest_chart(rows, names=names, title=title or f"Differences, {names[1]} − {names[0]}")


def comparison_html(report: CompareReport) -> str:
    """The comparison as HTML for a notebook."""
    board = Leaderboard.of_pair(report)
    runs = Prose(f"A: {report.run_a}, B: {report.run_b}")
    metrics = list(metric_blocks(board)) or [Prose("no metric was compared")]
    notes = [Bullets(board.notes)] if board.notes else []
    return blocks_html([runs, *metrics, *notes, Figure(forest_plot(report), "")])
