"""The answer of a sweep as blocks, conclusion first, as JSON, and as an HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._version import __version__
from ..errors import BadValueError
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    Figure,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    Table,
    TableColumn,
    Tone,
    simple_table,
    without_empty_columns,
)
from ..render.charts.points import pareto_chart
from ..render.tables import format_value
from ..report.pages import ReportContent, report_html
from ..report.run_sections import StoredRun, provenance_section
from ..runtime.files import write_text
from ..store.records import RunRecord
from ..store.runs import CachedStore, RunStore
from .answer import ConfigurationResult, SweepAnswer

SCHEMA = 1
MAX_ROWS = 12

# --- the sentences ---------------------------------------------------------------------------------------------------


def conclusion(answer: SweepAnswer) -> list[str]:
    """What to ship, and why, in sentences; the first one is the conclusion."""
    if not answer.is_complete:
        count = f"{len(answer.unfinished)} of {len(answer.results)} configurations are not finished"
        return [f"Not complete: {count}, so that there is no conclusion; `auepora sweep PLAN --resume` continues."]
    if not answer.kept:
        return ["No configuration finished, so that there is no conclusion."]
    return [_cheapest_text(answer), _best_text(answer), *_baseline_texts(answer), *_guardrail_texts(answer)]


def _names(results: Sequence[ConfigurationResult]) -> str:
    """The first labels, in brackets where one has several values."""
    labels = []
    for result in results[:3]:
        is_alone = len(result.configuration.values) == 1
        labels.append(result.label if is_alone else f"({result.label})")
    more = len(results) - len(labels)
    if more:
        return f"{', '.join(labels)} and {more} more"
    *first, last = labels
    return f"{', '.join(first)} and {last}" if first else last


def _cheapest_text(answer: SweepAnswer) -> str:
    """The cheapest configuration that is not worse than the best, or how far behind the cheapest may be."""
    count = len(answer.results)
    kept, delta = answer.kept, answer.sweep.delta
    if not answer.cost_name:
        shown = f"Ship {_names(kept)}" if len(kept) == 1 else f"{len(kept)} of {count} configurations may be the best"
        return f"{shown}; what they cost is not known: add run.prices, or let the system report its tokens."
    within = answer.cheapest(answer.not_worse)
    if within:
        return (
            f"Ship {_names(within)}: the cheapest of {count} configurations that is not worse than the best by more "
            f"than {delta:g} on {answer.metric} ({_price_text(answer, within[0])})."
        )
    cheapest = answer.cheapest(kept)
    if not cheapest:
        return "No configuration that may be the best keeps the margins of the guardrails: none is recommended."
    distance = cheapest[0].distance
    assert distance is not None
    behind = f"it may be up to {format_value(max(distance.most, 0.0))} behind the best"
    if distance.n_needed:
        behind += f"; about {distance.n_needed:,} questions would show whether it is within {delta:g}"
    shown = "" if delta is None else f" None is shown to be within {delta:g} of the best."
    return (
        f"Ship {_names(cheapest)}: the cheapest that cannot be distinguished from the best on {answer.metric} "
        f"({_price_text(answer, cheapest[0])}); {behind}.{shown}"
    )


def _price_text(answer: SweepAnswer, result: ConfigurationResult) -> str:
    value = answer.price(result)
    return f"{value:.4g} per question" if answer.cost_name == "cost" else f"{value:.4g} tokens per question"


def _best_text(answer: SweepAnswer) -> str:
    """The configurations that cannot be distinguished from the best, and the mean of the best with its interval."""
    kept, leaders = answer.kept, answer.leaders
    assert leaders[0].mean is not None
    mean = format_value(leaders[0].mean)
    if answer.interval is not None:
        mean += f" ({format_value(answer.interval[0])} to {format_value(answer.interval[1])})"
    if len(kept) == 1:
        return f"The best on {answer.metric}: {_names(kept)}, {mean}."
    highest = f"the best mean is that of {_names(leaders)}, {mean}"
    if len(leaders) > 1:
        highest = f"{len(leaders)} of them have the same mean, {mean}"
    return f"{len(kept)} of {len(answer.results)} cannot be distinguished from the best on {answer.metric}; {highest}."


def _baseline_texts(answer: SweepAnswer) -> list[str]:
    if answer.baseline is None:
        return ["There is no baseline, so that nothing is said about what is shipped now."]
    found = []
    for verdict in ("better", "worse"):
        results = [result for result in answer.results if result.verdict == verdict]
        if results:
            found.append(f"{verdict}: {_names(results)}")
    label = _names([answer.baseline])
    return [f"Against the baseline {label}: {'; '.join(found) or 'no configuration is better or worse'}."]


def _guardrail_texts(answer: SweepAnswer) -> list[str]:
    broken = [result for result in answer.kept if not result.is_guarded]
    if not broken:
        return []
    outcome = next(outcome for outcome in broken[0].guardrails if outcome.state != "within_margin")
    return [f"Not recommended: {_names(broken)}: {outcome.describe()}."]


# --- the tables ------------------------------------------------------------------------------------------------------

_TONES: dict[str, Tone] = {"better": "good", "worse": "bad"}


def configurations_table(answer: SweepAnswer, most: int | None = MAX_ROWS) -> Table:
    """A row per configuration, the best mean first."""
    names = list(answer.results[0].configuration.values)
    columns: list[TableColumn | str] = [
        *names,
        TableColumn(answer.metric, number=True),
        TableColumn("may be best", brief=True),
        TableColumn("baseline"),
        TableColumn("behind", number=True),
        *(TableColumn(label, number=True, minor=True) for label in answer.other_metrics.values()),
        TableColumn(answer.cost_name or "cost", number=True),
        TableColumn("seconds", number=True, minor=True),
        TableColumn("setup", number=True, minor=True),
        TableColumn("failed", number=True, minor=True),
        TableColumn("Pareto", brief=True, minor=True),
        TableColumn("status", minor=True),
    ]
    return without_empty_columns(simple_table(columns, [_row(answer, result) for result in answer.results[:most]]))


def _row(answer: SweepAnswer, result: ConfigurationResult) -> Row:
    amounts = result.amounts
    verdict: Cell | str = ""
    if result.verdict:
        verdict = Cell(result.verdict, _TONES.get(result.verdict, ""))
    if result.place == answer.sweep.baseline:
        verdict = "shipped"
    kept = ""
    if result.mean is not None and answer.is_complete:
        kept = "yes" if result.is_kept else "no"
    efficient = "yes" if result.is_efficient else ""
    status = "" if result.is_finished else result.status
    behind = None if result.distance is None else max(result.distance.most, 0.0)
    return [
        *result.configuration.values.values(),
        _number(result.mean),
        kept,
        verdict,
        _number(behind),
        *(_number(result.others.get(name)) for name in answer.other_metrics),
        _number(getattr(amounts, answer.cost_name or "cost"), "{:.4g}"),
        _number(amounts.latency, "{:.3g}"),
        _number(amounts.setup_s, "{:.3g} s"),
        str(result.failed or ""),
        efficient,
        status,
    ]


def _number(value: float | None, form: str = "") -> str:
    if value is None:
        return ""
    return form.format(value) if form else format_value(value)


def effects_table(answer: SweepAnswer) -> Table | None:
    """The effect of each value of each parameter of a complete grid."""
    rows: list[Row] = []
    for (name, value), effect in answer.effects.items():
        rows.append([f"{name} {value}", f"{effect.effect:+.4f}", f"{effect.low:+.4f} to {effect.high:+.4f}"])
    columns: list[TableColumn | str] = ["parameter", TableColumn("effect", number=True), "95 % interval"]
    return simple_table(columns, rows) if rows else None


def answer_blocks(answer: SweepAnswer, *, is_whole: bool = False) -> list[Block]:
    """The conclusion, the table and the notes; ``is_whole`` adds all rows and the effects of single parameters."""
    first, *more = conclusion(answer)
    most = None if is_whole else MAX_ROWS
    blocks: list[Block] = [Prose(first), Bullets(more), configurations_table(answer, most)]
    if is_whole and (effects := effects_table(answer)) is not None:
        blocks.append(effects)
    blocks.append(Bullets(answer_notes(answer, is_whole=is_whole)))
    return blocks


def answer_notes(answer: SweepAnswer, *, is_whole: bool = False) -> list[str]:
    """What the columns mean, and what else there is to know."""
    notes = [
        "behind: how far it may be behind the best (95 %, all bounds together); Pareto: no other is at least as good, "
        "cheap and fast by the values alone, without a test"
    ]
    more = len(answer.results) - MAX_ROWS
    if more > 0 and not is_whole:
        notes.append(f"{more} more configurations: `auepora sweep show {answer.sweep.name} --all`")
    if answer.left_out:
        notes.append(f"left out: {answer.left_out} questions without a score in one of the configurations")
    if answer.other_metrics:
        notes.append(f"{answer.metric} decides; {', '.join(answer.other_metrics.values())}: no verdict")
    for problem in dict.fromkeys(result.problem for result in answer.results if result.problem):
        alike = [result for result in answer.results if result.problem == problem]
        notes.append(f"{alike[0].status}: {_names(alike)}: {problem}")
    if answer.register is not None and answer.register.note:
        notes.append(answer.register.note)
    return [*notes, *answer.notes]


# --- JSON ------------------------------------------------------------------------------------------------------------


def answer_document(answer: SweepAnswer) -> dict[str, Any]:
    """The answer as a JSON document."""
    return {
        "schema": SCHEMA,
        "sweep": answer.sweep.name,
        "complete": answer.is_complete,
        "conclusion": conclusion(answer),
        "metric": answer.sweep.decide,
        "higher_is_better": answer.higher_is_better,
        "delta": answer.sweep.delta,
        "samples": answer.samples,
        "left_out": answer.left_out,
        "best_interval": answer.interval,
        "compared_by": answer.cost_name or None,
        "not_distinguishable": [result.label for result in answer.kept],
        "cheapest_not_worse": [result.label for result in answer.cheapest(answer.not_worse)],
        "configurations": [_result_document(answer, result) for result in answer.results],
        "effects": [
            {"parameter": name, "value": value, **asdict(effect)} for (name, value), effect in answer.effects.items()
        ],
        "notes": answer_notes(answer, is_whole=True),
    }


def _result_document(answer: SweepAnswer, result: ConfigurationResult) -> dict[str, Any]:
    run_id = None if result.record is None else result.record.run_id
    test = None if result.test is None else asdict(result.test)
    distance = None if result.distance is None else asdict(result.distance)
    return {
        "run_id": run_id,
        "status": result.status,
        "settings": dict(result.configuration.settings),
        "mean": result.mean,
        "failed": result.failed,
        "may_be_best": result.is_kept,
        "is_baseline": result.place == answer.sweep.baseline,
        "verdict": result.verdict or None,
        "against_baseline": test,
        "behind_best": distance,
        "others": {name: result.others.get(name) for name in answer.other_metrics},
        "guardrails": {outcome.metric: outcome.state for outcome in result.guardrails},
        "pareto": result.is_efficient,
        **asdict(result.amounts),
    }


# --- the answer as one HTML file, with the queries of the runs that matter side by side -------------------------------

_CAPTION = "Each point is a configuration. It is a description of these values, without a test: see the table."


def pareto_figure(answer: SweepAnswer) -> Figure | None:
    """The chart of quality and cost; ``None`` where no cost is known."""
    if not answer.cost_name:
        return None
    rows = []
    for result in answer.results:
        cost = getattr(result.amounts, answer.cost_name)
        rows.append({"name": result.label, "value": result.mean, "cost": cost, "efficient": result.is_efficient})
    return Figure(pareto_chart(rows, answer.metric, f"{answer.cost_name} per question"), _CAPTION)


def answer_sections(answer: SweepAnswer) -> list[ReportSection]:
    """The sections of a page about a sweep, besides its conclusion."""
    configurations: list[Block] = [configurations_table(answer, None)]
    figure, effects = pareto_figure(answer), effects_table(answer)
    if figure is not None:
        configurations.append(figure)
    sections = [ReportSection("configurations", "Configurations", configurations)]
    if effects is not None:
        sections.append(ReportSection("effects", "Effect of each parameter", [effects]))
    return [*sections, ReportSection("notes", "Notes", [Bullets(answer_notes(answer, is_whole=True))])]


def shown_runs(answer: SweepAnswer) -> dict[str, RunRecord]:
    """The runs that matter, by label: the baseline, those that are recommended, and those with the best mean."""
    chosen = [answer.baseline, *answer.cheapest(answer.not_worse or answer.kept)[:1], *answer.leaders[:1]]
    finished = [result for result in chosen if result is not None and result.is_finished]
    return {result.label: result.record for result in finished if result.record is not None}


def write_sweep_report(store: RunStore, answer: SweepAnswer, path: str | Path) -> Path:
    """Write the answer as an HTML file; returns its path."""
    path = Path(path)
    records = shown_runs(answer)
    if not records:
        raise BadValueError(f"no configuration of the sweep '{answer.sweep.name}' finished, so there is no report")
    cached = CachedStore(store)
    runs = [StoredRun(cached, record, label) for label, record in records.items()]
    pieces = report_html(ReportContent(_report(answer, runs), runs, answer.sweep.decide, side_by_side=len(runs) > 1))
    write_text(path, pieces)
    return path


def _report(answer: SweepAnswer, runs: Sequence[StoredRun]) -> Report:
    first, *more = conclusion(answer)
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    subtitle = f"{len(answer.results)} configurations, {answer.samples:,} questions"
    verdict = ReportVerdict(first, "good" if answer.is_complete else "open", more)
    sections = [*answer_sections(answer), provenance_section(runs)]
    return Report(f"Sweep {answer.sweep.name}", subtitle, verdict, sections, made)
