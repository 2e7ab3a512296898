"""Results as blocks: tables for a terminal and Markdown; and as CSV and Parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from ..core.results import (
    CLAIM_ALL,
    Results,
    controls_warnings,
    coverage,
    deciding_look,
    display_name,
    empty_answers,
    judged_coverage,
    panel_note,
    sequential_details,
    sequential_note,
    two_stage_details,
    two_stage_note,
)
from ..core.targets import group_by_target
from ..core.types import MetricResult
from ..runtime.files import atomic_write, translate_write_errors
from .blocks import Block, Prose, Row, RowGroup, Table, TableColumn, simple_table, without_empty_columns
from .terminal import blocks_text

_UNRELIABLE_MARK = "?"
"""Marks an interval that may be too narrow."""
UNRELIABLE_NOTE = f"{_UNRELIABLE_MARK} few or skewed samples: the interval may be too narrow"
ONE_JUDGE_NOTE = "one judge gave the verdicts on documents and answers, so that its errors occur in both"
_COLUMNS = (TableColumn("value", number=True), TableColumn("95 % interval"), TableColumn("mean of"))
_CHANCE = TableColumn("chance", number=True)


def table(rows: Sequence[Sequence[str]], *, headers: Sequence[str], right: Sequence[int] = ()) -> str:
    """A plain text table; the columns in ``right`` are right-aligned.

    Each cell is one line, and truncated where it is very long, except in the last column.
    """
    columns = [TableColumn(title, number=at in right) for at, title in enumerate(headers)]
    return blocks_text([simple_table(columns, [list(row) for row in rows])])


def results_table(results: Results) -> str:
    """A table of results by target, with intervals. Coverage is shown where any sample was not scored."""
    return blocks_text(results_blocks(results))


def results_markdown(results: Results) -> str:
    """The same as a Markdown table; ``results_to_markdown`` has no intervals."""
    from .markdown import blocks_markdown

    return blocks_markdown(results_blocks(results))


def results_blocks(results: Results) -> list[Block]:
    """The results by target, with intervals and coverage."""
    columns = [TableColumn("metric"), *_COLUMNS[:2], _CHANCE, *_COLUMNS[2:]]
    groups = []
    for target, listed in group_by_target(results):
        groups.append(RowGroup(list(chain.from_iterable(_rows(result) for result in listed)), target.title))
    blocks = _with_footnote(without_empty_columns(Table(columns, groups)))
    tests = _detail_blocks(results, sequential_details, sequential_test_blocks)
    return [*blocks, *tests, *two_stage_blocks(results), *controls_blocks(results)]


def _rows(result: MetricResult) -> list[Row]:
    chance = result.details.chance
    chance_text = "" if chance is None else format_value(chance)
    cells: Row = [display_name(result), value_text(result), _interval(result), chance_text, result_note(result)]
    return [cells, *_breakdown_rows(result)]


def runs_table(results: Mapping[str, Results]) -> str:
    """The values and intervals of several runs in one table by target; metrics in the order of the first run."""
    by_name = [each.by_name for each in results.values()]
    every = {result.name: result for result in chain.from_iterable(results.values())}
    groups = []
    for target, listed in group_by_target(every.values()):
        groups.append(RowGroup([_run_row(result, by_name) for result in listed], target.title))
    return blocks_text(_with_footnote(Table([TableColumn(name) for name in ("metric", *results)], groups)))


def _run_row(metric: MetricResult, by_name: Sequence[Mapping[str, MetricResult]]) -> Row:
    row: Row = [display_name(metric)]
    for results in by_name:
        result = results.get(metric.name)
        row.append("" if result is None else _value_with_interval(result))
    return row


def _value_with_interval(result: MetricResult) -> str:
    interval, mark, _ = _interval(result).partition(f" {_UNRELIABLE_MARK}")
    return f"{value_text(result)}  ({interval}){mark}" if interval else value_text(result)


_GROUPS = ("scenarios", "by_noise_ratio", "causes", "answers")
"""Keys of details that break a result down by group: scenarios, noise ratios, failure causes, kinds of answers."""


def _breakdown_rows(result: MetricResult) -> Iterator[Row]:
    """A row per group of the metric's own breakdown, where there is more than one."""
    for key in _GROUPS:
        groups = result.details.get(key) or {}
        for name, part in groups.items() if len(groups) > 1 else ():
            value = part.get("value", part.get("share"))
            count = next((part[key] for key in ("num_noisy", "num_samples", "count") if key in part), "")
            yield [f"  {name}", number_text(value), interval_text(part.get("interval")), "", str(count)]


def result_note(result: MetricResult) -> str:
    """The coverage of a value, or why it is undefined."""
    because = "" if result.defined else result.details.undefined_because
    notes = [
        because,
        coverage(result),
        _spread(result),
        judged_coverage(result),
        panel_note(result),
        "" if (test := sequential_details(result)) is None else sequential_note(test),
        "" if (stage := two_stage_details(result)) is None else two_stage_note(stage),
        empty_answers(result),
    ]
    notes.append(ONE_JUDGE_NOTE if result.details.answers_by.get("one_judge") else "")
    return "; ".join(filter(None, notes))


def _spread(result: MetricResult) -> str:
    """The standard deviation over repeats, where there are several."""
    repeats = result.details.repeats
    if repeats.count < 2 or repeats.sd is None:
        return ""
    return f"{repeats.count} repeats, sd {format_value(repeats.sd)}"


# --- sequential tests: the verdict, its path over the looks, and how far the numbers go ------------------------------


def _detail_blocks(
    results: Iterable[MetricResult],
    details_of: Callable[[MetricResult], Mapping[str, Any] | None],
    blocks_of: Callable[[str, Mapping[str, Any]], list[Block]],
) -> list[Block]:
    """The blocks of each result that has such details."""
    found = [(display_name(result), details_of(result)) for result in results]
    return list(chain.from_iterable(blocks_of(name, details) for name, details in found if details is not None))


def sequential_test_blocks(name: str, test: Mapping[str, Any]) -> list[Block]:
    """A sequential test of the metric ``name``: the verdict, a table of its looks, the design."""
    design = Prose(f"{name}: {'; '.join(_design_notes(test))}.", tone="muted")
    before = register_text((test.get("register") or {}).get("before", 0))
    register = [Prose(f"{name}: {before}.", tone="open")] if before else []
    return [Prose(f"{_sequential_verdict(name, test)}."), *_path_blocks(test), design, *register]


def register_text(before: int) -> str:
    """How often a test set has decided before; empty if it has not."""
    if not before:
        return ""
    comparisons = "1 comparison" if before == 1 else f"{before} comparisons"
    return (
        f"this test set has decided {comparisons} before: with each further one it is more likely that a difference "
        "was found by chance"
    )


def _sequential_verdict(name: str, test: Mapping[str, Any]) -> str:
    """The verdict of a sequential test with the numbers of the look that decided, in a sentence."""
    design, look = test["design"], deciding_look(test)
    threshold, against = design.get("threshold"), test.get("against")
    about = f"against {against}" if threshold is None else f"against the threshold {threshold:g}"
    verdict = test["verdict"] if test.get("reason") else "not decided yet"
    sentence = f"{name} {about}: {verdict}; {sequential_note(test)}"
    return sentence if look is None else f"{sentence}; {look_text(look, design)}"


def look_text(look: Mapping[str, Any], design: Mapping[str, Any]) -> str:
    """A look in words: the mean or the difference with its repeated interval and repeated p-value."""
    what = "difference" if design.get("threshold") is None else "mean"
    number = (lambda value: f"{value:+.4f}") if what == "difference" else format_value
    return (
        f"{what} {number(look['mean'])}, repeated {_level(design)} interval {number(look['low'])} to "
        f"{number(look['high'])}, repeated p {p_text(look['p_value'])}"
    )


def _level(design: Mapping[str, Any]) -> str:
    return f"{100 * (1 - design.get('alpha', 0.05) / design.get('tests', 1)):.4g} %"


def p_text(value: float | None) -> str:
    """A p-value, empty where there is none."""
    return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _path_blocks(test: Mapping[str, Any]) -> list[Block]:
    """The looks as a table; nothing before the first look."""
    path, design = test.get("path") or (), test["design"]
    if not path:
        return []
    rows: list[Row] = [
        [
            str(look["number"]),
            str(look["units"]),
            format_value(look["mean"]),
            f"{format_value(look['low'])} – {format_value(look['high'])}",
            p_text(look["p_value"]),
            _number_text(look.get("statistic")),
            _number_text(look.get("boundary")),
            look.get("verdict") or "",
        ]
        for look in path
    ]
    titles = ("look", "units", "mean", f"repeated {_level(design)} interval", "repeated p", "statistic", "boundary")
    columns = [*(TableColumn(name, number=True) for name in titles), TableColumn("verdict", brief=True)]
    return [without_empty_columns(simple_table(columns, rows))]


def _number_text(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _design_notes(test: Mapping[str, Any]) -> list[str]:
    """What was fixed before the first judge call, and what the verdict claims."""
    design = test["design"]
    gate, tests = design.get("threshold") is not None, design.get("tests", 1)
    method = "betting" if design.get("method") == "betting" else "a group-sequential test, alpha f² spending"
    if gate and design.get("binary"):
        method = "an exact binomial tail at each look"
    notes = [f"{method}, alpha {design.get('alpha', 0.05):g}", f"fixed before the first judge call: {_fixed(test)}"]
    if tests > 1:
        notes.append(f"each of {tests} metrics is tested at alpha / {tests}")
    if test.get("claim") == "all":
        notes.append(CLAIM_ALL)
    if test.get("known_before"):
        notes.append("judgements known before entered as the first look only")
    if test.get("reason") in ("boundary", "futility") and test.get("stopped_at") != design["n"]:
        notes.append(
            f"the mean at a stop lies too far from {'the threshold' if gate else 'no difference'} on average: the "
            f"repeated interval allows for that{'' if test.get('continued') else ', an ordinary interval does not'}"
        )
    return notes


def _fixed(test: Mapping[str, Any]) -> str:
    design = test["design"]
    margin = "" if design.get("delta") is None else f", delta {design['delta']:g}"
    looks = len(design["looks"])
    return f"an order with seed {test.get('seed', 0)}, {design['n']} units, {looks} look{'s' * (looks != 1)}{margin}"


# --- two-stage judging: the corrected mean beside those of both judges alone -----------------------------------------


def two_stage_blocks(results: Iterable[MetricResult]) -> list[Block]:
    """The corrected mean of each metric that was judged in two stages, beside the means of both stages alone."""
    return _detail_blocks(results, two_stage_details, two_stage_metric_blocks)


def two_stage_metric_blocks(name: str, stage: Mapping[str, Any]) -> list[Block]:
    """Two-stage judging of the metric ``name``: three means with what each is about, the draw and the forecast."""
    cheap, expensive, these = stage["cheap"], stage["expensive"], stage["these"]
    failed = f" and {stage['system_failures']:,} failed answers" if stage["system_failures"] else ""
    alone = f"the {stage['judged']:,} samples that '{expensive['judge']}' judged{failed}, weighted by the draw"
    rows: list[Row] = [
        ["corrected", number_text(stage["value"]), interval_text(stage["interval"]), stage["target"]],
        ["", "", interval_text(these["interval"]), these["target"]],
        ["expensive judge alone", number_text(expensive["value"]), interval_text(expensive["interval"]), alone],
        [
            "cheap scores alone",
            number_text(cheap["value"]),
            interval_text(cheap["interval"]),
            f"{cheap['metric']} of all samples",
        ],
    ]
    columns = [TableColumn(name), TableColumn("mean", number=True), TableColumn("95 % interval"), TableColumn("about")]
    return [simple_table(columns, rows), Prose(f"{name}: {'; '.join(_draw_notes(stage))}.", tone="muted")]


def interval_text(ends: Sequence[float] | None) -> str:
    """The ends of an interval."""
    return "" if ends is None else f"{format_value(ends[0])} – {format_value(ends[1])}"


def _draw_notes(stage: Mapping[str, Any]) -> list[str]:
    """How the samples were drawn, how the scores were predicted, and what was expected."""
    draw, found = stage.get("draw"), stage.get("forecast")
    notes = [two_stage_note(stage)]
    if draw:
        strata = "1 stratum" if len(draw["sizes"]) == 1 else f"{len(draw['sizes'])} strata"
        notes.append(f"a draw from {strata} with seed {draw['seed']}, made for {draw['run_id']}")
    notes += {
        "history": [f"scores predicted from the judgements of {stage.get('history')}"],
        "cross-fitting": ["scores predicted by cross-fitting on the draw"],
    }.get(stage.get("calibration", ""), [])
    if found:
        expected, alone = (format_value(found[key]) for key in ("half_width", "labels_half_width"))
        notes.append(f"forecast ±{expected}, without cheap scores ±{alone}")
    if stage["system_failures"]:
        notes.append(f"{stage['system_failures']} failed answers count at the worst value")
    return notes


# --- control items of judges -----------------------------------------------------------------------------------------


def controls_blocks(results: Iterable[MetricResult]) -> list[Block]:
    """How often the judges were wrong on control items, by metric and kind, and how their verdicts have changed."""
    groups = []
    notes: list[Block] = []
    for result in results:
        controls = result.details.controls
        rows = [_control_row(kind, control) for kind, control in controls.kinds.items()]
        for expected, side in (("reject", "false_accepts"), ("accept", "false_rejects")):
            if sum(row[1] == expected for row in rows) > 1:
                rows.append(_control_row(f"all to {expected}", {"expected": expected, **controls[side]}))
        if rows:
            groups.append(RowGroup(rows, display_name(result), f"accepted: {controls['accepted']}"))
        if controls.get("usable") is False:
            text = controls_warnings(result)[0]
            notes.append(Prose(f"{text[:1].upper()}{text[1:]}.", tone="bad"))
        notes += [Prose(f"{display_name(result)}: {drift_text(drift)}.", tone="open") for drift in controls.drift]
    if not groups:
        return notes
    columns = ("control items", "expected", "judged", "wrong", "error rate", "95 % interval", "not judged")
    table = Table([TableColumn(name, number=name in _COUNTED) for name in columns], groups, grouped_by="metric")
    return [without_empty_columns(table), *notes]


_COUNTED = ("judged", "wrong", "error rate", "not judged")


def _control_row(name: str, control: Mapping[str, Any]) -> Row:
    counts = [f"{control['n']}", f"{control['errors']}", number_text(control["rate"])]
    failed = str(control.get("num_failed") or "")
    return [name.replace("_", " "), control["expected"], *counts, interval_text(control["interval"]), failed]


def drift_text(drift: Mapping[str, Any]) -> str:
    """How the verdicts on control items differ from those of another run, in a sentence."""
    sides = []
    for expected, changes in drift["expected"].items():
        low, high = map(format_value, changes["interval"])
        sides.append(
            f"of {changes['n']} to be {expected}ed, {changes['newly_accepted']} newly accepted and "
            f"{changes['newly_rejected']} newly rejected (difference {changes['difference']:+.4f}, "
            f"95 % interval {low} to {high})"
        )
    return (
        f"{drift['num_changed']} of {drift['num_items']} verdicts on control items differ from {drift['run_id']} "
        f"({drift['judge']}): {'; '.join(sides)}"
    )


def slices_tables(results: Results, *, markdown: bool = False) -> list[str]:
    """A table per slice: every metric in every group."""
    from .markdown import blocks_markdown

    render = blocks_markdown if markdown else blocks_text
    return [render(blocks) for blocks in slices_blocks(results)]


def slices_blocks(results: Results) -> list[list[Block]]:
    """For each slice every metric in every group."""
    names = dict.fromkeys(chain.from_iterable(result.slices for result in results))
    return [_slice_blocks(results, name) for name in names]


def _slice_blocks(results: Results, name: str) -> list[Block]:
    sliced = [(display_name(result), result.slices[name]) for result in results if result.slices.get(name)]
    groups = [RowGroup(list(starmap(_slice_row, parts.items())), title) for title, parts in sliced]
    return _with_footnote(Table([TableColumn(name), *_COLUMNS], groups, grouped_by="metric"))


def _slice_row(group: str, part: MetricResult) -> Row:
    """One group; the number of samples is shown even where all were scored."""
    counts = coverage(part) or str(part.details.num_samples or "")
    return [group, value_text(part), _interval(part), counts]


def _with_footnote(block: Table) -> list[Block]:
    cells = chain.from_iterable(row[2:] for row in block.rows)
    doubtful = any(isinstance(cell, str) and cell.endswith(_UNRELIABLE_MARK) for cell in cells)
    return [block, Prose(UNRELIABLE_NOTE)] if doubtful else [block]


def _interval(result: MetricResult) -> str:
    """The interval, marked where it may be too narrow."""
    if result.interval is None or not result.defined:
        return ""
    low, high = map(format_value, result.interval)
    return f"{low} – {high}" + (f" {_UNRELIABLE_MARK}" if result.details.interval.flags else "")


def value_text(result: MetricResult) -> str:
    """The value of a result, or ``n/a``."""
    return number_text(result.known_value)


def number_text(value: float | None) -> str:
    """A number, or ``n/a`` where there is none."""
    return "n/a" if value is None or math.isnan(value) else format_value(value)


def pluralize(n: int, what: str, many: str | None = None) -> str:
    """``1 query``, ``1,200 queries``."""
    return f"{n:,} {plural(n, what, many)}"


def plural(n: int, what: str, many: str | None = None) -> str:
    """The word for a count: ``query`` of one, ``queries`` of any other."""
    return what if n == 1 else many or f"{what}s"


def format_value(value: float, digits: int = 4) -> str:
    """Four decimals, or so many; three significant digits of very small numbers where four are shown."""
    return f"{value:.2e}" if digits == 4 and 0 < abs(value) < 0.00005 else f"{value:.{digits}f}"


# --- CSV: a row per metric and group of each slice, or a row per sample ----------------------------------------------


def results_csv(results: Iterable[MetricResult], *, raw: bool = False) -> str:
    """The results as CSV with all digits; undefined and unknown values are empty."""
    from ..core.frames import metric_columns

    columns = metric_columns(list(results), slices=True)
    del columns["coverage"]  # it follows from the counts
    rows = zip(*(column.values for column in columns.values()), strict=True)
    return csv_text([list(columns), *rows], raw=raw)


def scores_csv(results: Results, *, raw: bool = False) -> str:
    """Every score of every sample, a column per metric; skipped and excluded scores are empty."""
    scored = [(result.name, list(result.scores)) for result in results if result.scores is not None]
    rows = zip(results.sample_ids, *(column for _, column in scored), strict=True)
    return csv_text([["sample_id", *(name for name, _ in scored)], *rows], raw=raw)


def csv_text(rows: Iterable[Sequence[Any]], *, raw: bool = False) -> str:
    """Rows as CSV. Texts that a spreadsheet would run as a formula get an apostrophe in front, unless ``raw``."""
    lines = _CsvLines()
    csv.writer(lines, lineterminator=_CsvLines.END).writerows(rows if raw else (map(_plain_cell, row) for row in rows))
    return "\n".join(lines)


class _CsvLines(list[str]):
    """The lines of a CSV. Their end has both characters of a line break, so that cells with either are quoted."""

    END = "\r\n"

    def write(self, line: str) -> None:
        self.append(line.removesuffix(self.END))


def _plain_cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


# --- Parquet (extra ``parquet``): the same rows ----------------------------------------------------------------------


def save_parquet(results: Results, path: str | Path, *, per_query: bool = False) -> None:
    """Write ``results.to_frame(per_query=True)`` or else ``to_frame(slices=True)`` atomically."""
    table = results.to_frame("arrow", per_query=per_query, slices=not per_query)
    from pyarrow import parquet

    with atomic_write(Path(path)) as file, translate_write_errors(Path(path)):
        parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
