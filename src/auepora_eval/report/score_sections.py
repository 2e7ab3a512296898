"""Report sections on scores: by target, slices, distributions, retrieval, latency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..compare.stores import TEXT_MATCHES
from ..core.batch import Batch
from ..core.conventions import ID_PRESETS, MATCHES, Conventions, Match
from ..core.metrics_base import BatchMetric, apply_failure_policy
from ..core.registry import Spec
from ..core.results import (
    Results,
    chance_note,
    display_name,
    empty_answers,
    judged_coverage,
    metric_labels,
    panel_note,
    sequential_details,
)
from ..core.scores import Scores, Status
from ..core.targets import group_by_target
from ..core.types import STARTED, EvaluationSample, MetricResult, SystemOutputs, TargetCategory
from ..engine.evaluate import evaluate_stream, resolve_metrics
from ..errors import AueporaError
from ..features.matching import GoldRank, first_gold_rank, has_spans
from ..render import charts
from ..render.blocks import (
    Block,
    Cell,
    Details,
    Figure,
    Gallery,
    Prose,
    ReportSection,
    Row,
    RowGroup,
    Table,
    TableColumn,
    simple_table,
    without_none,
)
from ..render.html import interval_ends, interval_text, seconds_text, value_text
from ..render.tables import sequential_test_blocks, two_stage_blocks
from ..stats.intervals import Floats, mean_interval
from ..store.records import plan_conventions, run_info
from .plots import quality_rows, slice_rows
from .run_sections import GALLERY_WIDTH, StoredRun, card_link, one_or_gallery, score_column


def scores_section(run: StoredRun) -> ReportSection:
    """Every metric of a run."""
    if not run.results:
        return ReportSection(
            "scores", "Scores", [Prose("There are no results: the run did not come to scoring.", tone="open")]
        )
    blocks: list[Block] = [scores_table(run)]
    if any(interval_flags(result) for result in run.results):
        blocks.append(Prose("? few or skewed samples: the interval may be too narrow.", tone="muted"))
    return ReportSection(
        "scores", "Scores", blocks, "Grouped by what is judged. The bar shows value and interval in its range."
    )


def runs_scores_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The scores of several runs, each collapsible."""
    folds = [Details(f"Scores of {run.label}", scores_section(run).blocks) for run in runs if run.results]
    lead = "Each run by itself, over all its queries, with intervals and what was not scored."
    return ReportSection("scores", "Scores", folds, lead) if folds else None


def scores_table(run: StoredRun) -> Table:
    """A row per metric under its target."""
    groups = []
    judged_by_panel = any(panel_note(result) for result in run.results)
    for target, results in group_by_target(run.results):
        rows = [_score_row(run, result, judged_by_panel) for result in results]
        groups.append(RowGroup(rows, target.title, target.question))
    columns = [
        TableColumn("metric"),
        TableColumn("value", number=True),
        TableColumn("95 % interval", number=True),
        TableColumn("scored", number=True),
        TableColumn("not scored, and why"),
        *([TableColumn("judges")] if judged_by_panel else []),
    ]
    return Table(columns, groups)


def _score_row(run: StoredRun, result: MetricResult, judged_by_panel: bool) -> Row:
    definition = run.definitions[result.name]
    low, high = definition.range
    details = result.details
    mark = " ?" if interval_flags(result) else ""
    return [
        Cell(
            display_name(result),
            href=card_link(result.name),
            note="" if definition.higher_is_better else "lower is better",
        ),
        Cell(value_text(result.known_value), tone="" if result.defined else "muted"),
        Cell(
            f"{interval_text(result.interval)}{mark}" if result.interval else "none",
            bar=value_bar(result, low, high),
            tone="" if result.interval else "muted",
        ),
        f"{details.num_scored:,} of {details.num_outcomes:,}" if details.counts_outcomes else "",
        Cell(
            "; ".join(line for line in coverage_lines(result) if line != panel_note(result)),
            note=alternative_values(result),
        ),
        *([panel_note(result)] if judged_by_panel else []),
    ]


def interval_flags(result: MetricResult) -> Sequence[str]:
    """Why the interval of a result may be too narrow."""
    return result.details.interval.flags if result.interval is not None and result.defined else ()


def value_bar(result: MetricResult, low: float, high: float) -> tuple[float, float, float] | None:
    """Interval and value as fractions of a finite range."""
    if not result.defined or result.interval is None or not (math.isfinite(low) and math.isfinite(high) and low < high):
        return None
    first, last = result.interval
    return (first - low) / (high - low), (result.value - low) / (high - low), (last - low) / (high - low)


def coverage_lines(result: MetricResult) -> list[str]:
    """Notes on coverage: skipped, failed and unmeasured samples with reasons, repeats, and judged proportions."""
    details = result.details
    failed = _reasons_text(details.reasons("failed"))
    by_system, by_measure = details.num_system_failed, details.num_measure_failed
    own = "" if by_system and by_measure else failed
    how = "counted at the worst value" if details.counts_failures else "left out"
    skipped = details.num_skipped
    lines = {
        details.undefined_because: not result.defined,
        f"{skipped:,} skipped{_reasons_text(details.reasons('skipped'))}": skipped,
        f"{by_system:,} failed by the system, {how}{own}": by_system,
        f"{by_measure:,} not measured{own}": by_measure,
        f"failures{failed}": by_system and by_measure,
    }
    return [*(line for line, shown in lines.items() if line and shown), *coverage_notes(result)]


def coverage_notes(result: MetricResult) -> list[str]:
    """Notes without counts of outcomes: the chance level, repeats, judged proportions, the panel, empty answers."""
    repeats = result.details.repeats
    several = repeats.count > 1 and repeats.sd is not None
    lines = {
        chance_note(result): True,
        f"{repeats.count:,} repeats, standard deviation {value_text(repeats.sd)}": several,
        judged_coverage(result): True,
        panel_note(result): True,
        empty_answers(result): True,
    }
    return [line for line, shown in lines.items() if line and shown]


def _reasons_text(reasons: dict[str, int]) -> str:
    if not reasons:
        return ""
    if len(reasons) == 1:
        return f" ({next(iter(reasons))})"
    return f" ({', '.join(f'{reason} {count:,}' for reason, count in reasons.items())})"


def alternative_values(result: MetricResult) -> str:
    """The value without failures, and its bounds given failed measurements."""
    values = []
    completed = result.details.value_completed
    if completed is not None:
        values.append(f"{value_text(completed)} over the queries that were answered")
    bounds = result.details.bounds
    if bounds:
        values.append(f"between {value_text(bounds[0])} and {value_text(bounds[1])}, had everything been measured")
    return "; ".join(values)


# --- slices: every metric in each group of samples -------------------------------------------------------------------

MAX_COLUMNS = 8
"""Up to this number, groups are columns; otherwise each is a row."""
MAX_ROWS = 100


def slices_section(runs: Sequence[StoredRun], main: str | None) -> ReportSection | None:
    """Each slice by group; the main metric is drawn."""
    names = list(dict.fromkeys(name for run in runs for result in run.results for name in result.slices))
    if not names:
        return None
    labels = metric_labels(*[run.results for run in runs])
    label = labels.get(str(main), str(main))
    blocks: list[Block] = []
    for name in names:
        content: list[Block] = []
        rows = []
        for run in runs:
            result = None if main is None else run.find_result(main)
            if result is not None and name in result.slices:
                rows += slice_rows(result, name, f"{name}, {run.label}" if run.letter else name)
        if rows:
            whole = result.value if result is not None and result.defined and len(runs) == 1 else None
            drawn = charts.slices_chart(rows, label, whole=whole)
            content.append(Figure(drawn, f"{label} in every group of {name}, with 95 % intervals.", field=name))
        for run in runs:
            content += _tables(run, name, main, folded=len(runs) > 1)
        blocks.append(Details(f"By {name}", content, is_open=name == names[0] and len(names) < 4))
    lead = (
        "Every metric by group. ▲ and ▼: the whole interval of a group lies above or below the value of "
        "all; among many groups some will by chance."
    )
    return ReportSection("slices", "Slices", blocks, lead)


def _tables(run: StoredRun, name: str, main: str | None, *, folded: bool) -> list[Block]:
    with_parts = [(result, result.slices[name]) for result in run.results if name in result.slices]
    groups = list(dict.fromkeys(chain.from_iterable(parts for _, parts in with_parts)))
    if not groups:
        return []
    if len(groups) <= MAX_COLUMNS:
        rows: list[Row] = []
        for result, parts in with_parts:
            cells = [_cell(result, parts.get(group)) for group in groups]
            rows.append([Cell(display_name(result)), *cells])
        columns = [TableColumn("metric"), *(TableColumn(group, number=True) for group in groups)]
        table = simple_table(columns, rows, caption="value, interval, and how many samples it is of")
        return [Details(f"All metrics of {run.label}", [table])] if folded else [table]
    result, parts = next((each for each in with_parts if each[0].name == main), with_parts[0])
    rows = [[Cell(group), _cell(result, parts[group])] for group in list(parts)[:MAX_ROWS]]
    content: list[Block] = [
        simple_table([name, TableColumn(display_name(result), number=True)], rows, caption=run.label)
    ]
    if len(parts) > MAX_ROWS:
        content.append(
            Prose(f"And {len(parts) - MAX_ROWS} more groups; `auepora show` has all, and every metric.", "muted")
        )
    return content


def _cell(whole: MetricResult, part: MetricResult | None) -> Cell:
    if part is None:
        return Cell("", tone="muted")
    n = part.details.num_samples
    if not part.defined:
        return Cell("n/a", tone="muted", note=f"n {n:,}")
    if part.interval is None:
        return Cell(value_text(part.value), note=f"n {n:,}")
    low, high = part.interval
    sign = "" if not whole.defined else "▲" if low > whole.value else "▼" if high < whole.value else ""
    return Cell(value_text(part.value), sign=sign, note=f"{interval_text(part.interval)}, n {n:,}")


# --- distributions: a histogram of each metric's scores --------------------------------------------------------------

LATENCY = TargetCategory.LATENCY  # has a section of its own
SMALL = 300
"""The width of a histogram."""
MAX_SHOWN = 12
"""The number of histograms shown; the rest is collapsed."""


def sequential_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The sequential tests of the metrics that were judged until a verdict."""
    blocks: list[Block] = []
    for run in runs:
        for result in run.results:
            test = sequential_details(result)
            if test is not None:
                blocks += [*run.heading, *sequential_path(display_name(result), test)]
    return ReportSection("sequential", "Judged until a verdict", blocks) if blocks else None


def two_stage_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The corrected means of the metrics that were judged in two stages."""
    blocks: list[Block] = []
    for run in runs:
        found = two_stage_blocks(run.results)
        if found:
            blocks += [*run.heading, *found]
    return ReportSection("two-stage", "Two-stage judging", blocks) if blocks else None


def sequential_path(name: str, test: Mapping[str, Any], *, in_progress: bool = False) -> list[Block]:
    """The sequential test of a metric: the verdict, its path over the looks as a chart and as a table, the design.

    While it is ``in_progress``, no calls are saved yet, and the chart has room for the units that are still to judge.
    """
    if in_progress and test.get("reason") is None:
        test = {**test, "calls_saved": 0}
    verdict, *rest = sequential_test_blocks(name, test)
    return [verdict, _looks_figure(name, test, test["design"]["n"] if in_progress else None), *rest]


def _looks_figure(name: str, test: Mapping[str, Any], units: int | None) -> Figure:
    design = test["design"]
    chart = charts.looks_chart(
        test.get("path") or (),
        title=f"Looks of {name}",
        null=design.get("threshold") or 0.0,
        margin=design.get("delta"),
        units=units,
    )
    caption = "The mean of the units judged until each look, with its repeated interval."
    return Figure(chart, f"{caption} A mean outside the boundaries decides.")


def distributions_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A small histogram per metric, with several runs stacked; metrics with constant scores are only listed."""
    figures, same = [], []
    results = chain.from_iterable(run.results for run in runs)
    for name in dict.fromkeys(result.name for result in results if result.target is not LATENCY):
        scores_by_run = {run: values for run in runs if len(values := _scores(run, name))}
        every = np.concatenate([np.zeros(0), *scores_by_run.values()])
        if len(every) and every.min() == every.max():
            same.append(f"{name} ({every[0]:g})")
        elif len(every):
            figures.append(_distribution_figure(scores_by_run, name))
    if not figures and not same:
        return None
    blocks: list[Block] = []
    if figures:
        blocks.append(Gallery(figures[:MAX_SHOWN]))
    if len(figures) > MAX_SHOWN:
        blocks.append(Details(f"{len(figures) - MAX_SHOWN} more", [Gallery(figures[MAX_SHOWN:])]))
    if same:
        blocks.append(Prose(f"The same on every query: {', '.join(same)}.", tone="muted"))
    lead = "How many queries have which score."
    if len(runs) > 1:
        lead += " Each run over all its queries, on the same scale."
    return ReportSection("distributions", "Distributions", blocks, lead)


def _distribution_figure(scores_by_run: Mapping[StoredRun, Floats], name: str) -> Figure:
    run, values = next(iter(scores_by_run.items()))
    result = run.find_result(name)
    assert result is not None
    title = display_name(result)
    shown = {own.label: each.tolist() for own, each in scores_by_run.items()} if run.letter else values.tolist()
    chart = charts.distribution_chart(shown, title, bounds=run.definitions[result.name].range, title=title)
    counts = [f"{own.letter} {len(each):,}".strip() for own, each in scores_by_run.items()]
    return Figure(chart, f"{title}: {', '.join(counts)} queries.", SMALL, name)


def _scores(run: StoredRun, name: str) -> Floats:
    """The scores of the scored queries."""
    result = run.find_result(name)
    values = np.zeros(0) if result is None else score_column(result)
    return values[~np.isnan(values)]


# --- latency: quantiles and distribution of the timings --------------------------------------------------------------

QUANTILES = (0.5, 0.9, 0.95, 0.99)


def latency_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """Every timing of every run."""
    if not any(run.timings for run in runs):
        return None
    groups = [
        RowGroup([_latency_row(name, times) for name, times in run.timings.items()], run.group_title)
        for run in runs
        if run.timings
    ]
    columns = [
        TableColumn("timing"),
        TableColumn("answers", number=True),
        TableColumn("mean", number=True),
        *(TableColumn("median" if q == 0.5 else f"{100 * q:g} %", number=True) for q in QUANTILES),
        TableColumn("longest", number=True),
    ]
    names = list(dict.fromkeys(chain.from_iterable(run.timings for run in runs)))
    shown = "end_to_end" if "end_to_end" in names else names[0]
    times = {run.label: run.timings[shown].tolist() for run in runs if shown in run.timings}
    chart = charts.latency_chart(
        times if len(times) > 1 else next(iter(times.values())), name=shown, quantiles=(0.5, 0.95, 0.99)
    )
    figure = Figure(chart, f"How long answers took ({shown}), with quantiles.", field="seconds")
    blocks: list[Block] = [figure, Table(columns, groups, grouped_by="run")]
    return ReportSection(
        "latency", "Latency", blocks, "Of all answers that did not fail. So many percent took no longer."
    )


def _latency_row(name: str, times: Floats) -> Row:
    quantiles = np.quantile(times, QUANTILES, method="inverted_cdf")
    numbers = [float(times.mean()), *map(float, quantiles), float(times.max())]
    return [Cell(name), f"{len(times):,}", *map(seconds_text, numbers)]


# --- retrieval curves: metrics of stored rankings at several cut-offs, and the rank of the first hit -----------------

FAMILIES = ("recall", "precision", "ndcg", "hit_rate", "span_recall", "span_precision", "span_iou")
_BY_ID, _BY_SPAN = FAMILIES[:4], FAMILIES[4:]


@dataclass(frozen=True, slots=True)
class RetrievalCurves:
    """Retrieval metrics of one run at several cut-offs, and the rank of each sample's first hit."""

    depths: tuple[int, ...] = ()
    curves: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The points of each metric, as rows of ``curve_over_k``."""
    first_hit: Floats = field(default_factory=lambda: np.zeros(0))
    """The rank of each sample's first hit; infinite without a hit, NaN without gold."""


def hits_by_span(run: StoredRun) -> bool:
    """Whether a run that matches gold by id has hits by span only, because its ids differ from the gold ids."""
    return any(gold_rank.by == "span" for gold_rank in _gold_ranks(run) if gold_rank is not None)


def curves_of_runs(runs: Sequence[StoredRun]) -> list[RetrievalCurves]:
    """The curves of several runs, all by the coarsest way in which one of them matches gold."""
    match = max((plan_conventions(run.record).match for run in runs), key=MATCHES.index)
    by_span = match == "id" and any(map(hits_by_span, runs))
    return [retrieval_curves(run, by_span=by_span, match=match) for run in runs]


def retrieval_curves(run: StoredRun, *, by_span: bool | None = None, match: Match | None = None) -> RetrievalCurves:
    """Compute the retrieval curves of a run by its own conventions; empty where it has no rankings or no gold.

    ``by_span`` uses span metrics instead of id metrics; by default where ids do not match and spans do. ``match`` is
    another way to match gold than that of the run.
    """
    by_span = hits_by_span(run) if by_span is None else by_span
    match = plan_conventions(run.record).match if match is None else match
    return run.keep(f"curves {by_span} {match}", partial(_compute_curves, run, by_span, match))


def _compute_curves(run: StoredRun, by_span: bool, match: Match) -> RetrievalCurves:
    depth = run.depth
    if depth < 1 or not any(sample.relevant_docs for sample in run.samples):
        return RetrievalCurves()
    depths = tuple(k for k in dict.fromkeys([1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, depth]) if k <= depth)
    depths = tuple(sorted(depths))
    options = _options(run)
    specs: list[Spec] = ["mrr"]
    families = _BY_SPAN if by_span else _BY_ID
    specs += [{f"{family}@{k}": options.get(family, {})} for family in families for k in depths]
    rules = plan_conventions(run.record)
    if rules.name not in ID_PRESETS:
        rules = replace(rules, match=match)
    pairs = run.pairs(texts=rules.match in TEXT_MATCHES)
    try:
        results = evaluate_stream(pairs, specs, conventions=rules, run=run_info(run.record))
    except AueporaError:  # a stored ranking that is invalid today
        return RetrievalCurves()
    first_hits, curves = _first_hits(results), _curves(results, depths)
    if by_span:
        first_hits = _first_hits_by_span(run, first_hits)
        curves = {"hit_rate": _hit_rates(run, first_hits, depths), **curves}
    return RetrievalCurves(depths, curves, first_hits)


def _gold_ranks(run: StoredRun) -> list[GoldRank | None]:
    """The first hit of each sample's gold by id; ``None`` where no gold has a span."""
    rules = plan_conventions(run.record)
    if rules.match != "id" or not run.has_spans:
        return [None] * len(run.samples)
    return [
        first_gold_rank(sample, output, min_relevance=rules.min_relevance, depth=rules.depth)
        if has_spans(sample)
        else None
        for sample, output in run.pairs()
    ]


def _first_hits_by_span(run: StoredRun, by_id: Floats) -> Floats:
    """The ranks of the first hits; gold with spans is matched by id or by span."""
    ranks = by_id.copy()
    for row, gold_rank in enumerate(_gold_ranks(run)):
        if gold_rank is not None and not np.isnan(by_id[row]):
            ranks[row] = np.inf if gold_rank.rank is None else gold_rank.rank
    return ranks


def _hit_rates(run: StoredRun, first_hits: Floats, depths: tuple[int, ...]) -> list[dict[str, Any]]:
    """The proportion of samples with a hit within each cut-off."""
    known = ~np.isnan(first_hits)
    clusters = None if run.clusters is None else run.clusters[known]
    points = []
    for k in depths if known.any() else ():
        hits = (first_hits[known] <= k).astype(np.float64)
        interval = mean_interval(hits, clusters=clusters, binary=True)
        points.append(_point(k, float(hits.mean()), None if interval is None else (interval.low, interval.high)))
    return points


def _point(k: int, value: float, ends: tuple[float, float] | None) -> dict[str, Any]:
    return {"k": k, "value": value, **interval_ends(ends)}


def _options(run: StoredRun) -> dict[str, dict[str, Any]]:
    """The plan's options of each metric family, so that a curve agrees with the plan's results."""
    options_by_family: dict[str, dict[str, Any]] = {}
    for spec in run.record.plan.get("metrics") or ():
        if not isinstance(spec, Mapping) or len(spec) != 1:
            continue
        ((name, options),) = spec.items()
        family = str(name).partition("@")[0]
        if family in FAMILIES and isinstance(options, Mapping) and family not in options_by_family:
            options_by_family[family] = {key: value for key, value in options.items() if key not in ("as", "k")}
    return options_by_family


def _curves(results: Results, depths: tuple[int, ...]) -> dict[str, list[dict[str, Any]]]:
    by_name = {result.name: result for result in results}
    curves = {}
    for family in FAMILIES:
        found = [(k, by_name[f"{family}@{k}"]) for k in depths if f"{family}@{k}" in by_name]
        points = [_point(k, result.value, result.interval) for k, result in found if result.defined]
        if points:
            curves[family] = points
    return curves


def _first_hits(results: Results) -> Floats:
    scores = results[0].scores
    assert isinstance(scores, Scores)
    ranks = np.full(len(scores), np.nan)
    scored = scores.status == Status.SCORED
    hit = scored & (scores.values > 0)
    ranks[scored] = np.inf
    ranks[hit] = np.round(1 / scores.values[hit])
    return ranks


# --- retrieval: metrics over k, and answer quality by the rank of the first hit --------------------------------------

_TITLES = {
    "recall": "recall",
    "precision": "precision",
    "ndcg": "nDCG",
    "hit_rate": "hit rate",
    "span_recall": "span recall",
    "span_precision": "span precision",
    "span_iou": "span IoU",
}


def retrieval_sections(runs: Sequence[StoredRun], answers: MetricResult | None) -> list[ReportSection]:
    """The curves over k, and the answer quality by rank."""
    run_curves = list(zip(runs, curves_of_runs(runs), strict=True))
    return without_none(_curves_section(run_curves), _quality_section(run_curves, answers))


def _curves_section(run_curves: Sequence[tuple[StoredRun, RetrievalCurves]]) -> ReportSection | None:
    families = [
        family for family in FAMILIES if any(family in each.curves and len(each.depths) > 1 for _, each in run_curves)
    ]
    if not families:
        return None
    if len(run_curves) == 1:
        curves = run_curves[0][1].curves
        drawn: Block = _curve_figure("Retrieval", {f"{_TITLES[family]}@k": curves[family] for family in families})
    else:
        by_family = {
            family: {run.label: each.curves[family] for run, each in run_curves if family in each.curves}
            for family in families
        }
        drawn = Gallery([_curve_figure(_TITLES[family], lines, GALLERY_WIDTH) for family, lines in by_family.items()])
    tables: list[Block] = []
    for run, each in run_curves:
        if not each.curves:
            continue
        rows: list[Row] = [
            [
                Cell(f"{_TITLES[family]}@k"),
                *(Cell(value_text(point["value"]), note=interval_text(_ends(point))) for point in points),
                *([""] * (len(each.depths) - len(points))),
            ]
            for family, points in each.curves.items()
        ]
        columns = [TableColumn(""), *(TableColumn(f"k = {k}", number=True) for k in each.depths)]
        tables.append(simple_table(columns, rows, caption=run.label))
    again = any(run.record.repeats > 1 for run, _ in run_curves)
    lead = "Computed from the stored rankings, by the conventions of the plan; the bands are 95 % intervals." + (
        " Of the first answers, where queries were asked several times." if again else ""
    )
    if any("span_recall" in each.curves for _, each in run_curves):
        lead += " Returned chunks have other ids than the gold, so hits are those of spans."
    return ReportSection("curves", "Retrieval over k", [drawn, Details("The same as a table", tables)], lead)


def _curve_figure(title: str, curves: Mapping[str, Sequence[dict[str, Any]]], width: int = 820) -> Figure:
    return Figure(charts.curve_over_k(curves, title=f"{title} over k"), f"{title} over k with 95 % intervals.", width)


def _ends(row: Mapping[str, Any]) -> tuple[float, float] | None:
    return (row["low"], row["high"]) if "low" in row else None


def _quality_section(
    run_curves: Sequence[tuple[StoredRun, RetrievalCurves]], answers: MetricResult | None
) -> ReportSection | None:
    """Answers by the rank of the first hit."""
    if answers is None:
        return None
    name, figures, groups = display_name(answers), [], []
    for run, each in run_curves:
        result = run.find_result(answers.name)
        scores = np.zeros(0) if result is None else score_column(result)
        if result is None or not len(scores) or len(scores) != len(each.first_hit):
            continue
        bounds = run.definitions[result.name].range
        bins = quality_rows(each.first_hit, scores, bounds=bounds, clusters=run.clusters)
        if not bins:
            continue
        named, rows = [], list[Row]()
        for row in bins:
            is_missing = row["rank"] == "none"
            named.append({**row, "rank": "not returned" if is_missing else row["rank"]})
            title = "not returned" if is_missing else f"rank {row['rank']}"
            rows.append([Cell(title), f"{row['n']:,}", value_text(row["value"]), interval_text(_ends(row))])
        chart = charts.quality_by_rank(named, name, title=run.label if run.letter else name)
        caption = f"Mean {name}, with 95 % intervals and the number of queries."
        figures.append(Figure(chart, caption, run.figure_width, "rank"))
        groups.append(RowGroup(rows, run.group_title))
    if not figures:
        return None
    columns = [
        TableColumn("first relevant document"),
        TableColumn("queries", number=True),
        TableColumn(f"mean {name}", number=True),
        TableColumn("95 % interval", number=True),
    ]
    lead = f"How good answers are, by {name}, given the rank at which the first relevant document was returned."
    blocks: list[Block] = [
        one_or_gallery(figures),
        Table(columns, groups, grouped_by="run"),
    ]
    return ReportSection("quality", "Answers by retrieval rank", blocks, lead)


# --- one query at every cut-off --------------------------------------------------------------------------------------


class CutOff(NamedTuple):
    """The values of a query with the first k documents; ``None`` where one does not apply."""

    recall: float | None
    ndcg: float | None
    characters: int


@lru_cache(maxsize=8)
def _cut_off_metrics(depth: int, conventions: Conventions) -> list[list[BatchMetric]]:
    """recall@k and ndcg@k for every k up to ``depth``."""
    return [
        [
            metric
            for metric in resolve_metrics([f"recall@{k}", f"ndcg@{k}"], conventions)
            if isinstance(metric, BatchMetric)
        ]
        for k in range(1, depth + 1)
    ]


def cut_offs(sample: EvaluationSample, output: SystemOutputs, depth: int, conventions: Conventions) -> list[CutOff]:
    """Recall, nDCG and the characters of the context for every k up to ``depth``."""
    batch = Batch([sample], [output])
    values, size = [], 0
    for k, metrics in enumerate(_cut_off_metrics(depth, conventions), 1):
        size += len(output.retrieved[k - 1].doc.text) if k <= len(output.retrieved) else 0
        recall, ndcg = (apply_failure_policy(metric, batch)[0] for metric in metrics)
        values.append(CutOff(recall, ndcg, size))
    return values


# --- steps and timings of one output ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A step or a timing as a bar: its start and length as proportions of the whole."""

    name: str
    seconds: str
    start: float
    length: float
    query: str = ""
    retrieved: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


def timeline(output: SystemOutputs) -> list[TimelineRow]:
    """The steps of an output one after another, and its timings."""
    steps = [step if isinstance(step, Mapping) else {"value": step} for step in output.steps]
    durations = [_number(step.get("timing")) or 0.0 for step in steps]
    timings = {name: _number(value) for name, value in output.timings.items() if name != STARTED}
    whole = max([sum(durations), *(value for value in timings.values() if value is not None)], default=0.0) or 1.0
    rows, at = [], 0.0
    for number, (step, seconds) in enumerate(zip(steps, durations, strict=True), 1):
        retrieved = step.get("retrieved")
        rest = {key: value for key, value in step.items() if key not in ("query", "retrieved", "timing", "name")}
        query = step.get("query")
        rows.append(
            TimelineRow(
                name=f"Step {number}: {step['name']}" if step.get("name") else f"Step {number}",
                seconds=seconds_text(seconds) if seconds else "",
                start=at / whole,
                length=seconds / whole,
                query="" if query is None else str(query),
                retrieved=[str(item) for item in retrieved] if isinstance(retrieved, list | tuple) else (),
                more=rest,
            )
        )
        at += seconds
    rows += [
        TimelineRow(name, seconds_text(value), 0.0, value / whole)
        for name, value in timings.items()
        if value is not None
    ]
    return rows


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
    return float(value) if is_number else None
