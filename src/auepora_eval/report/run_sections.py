"""The stored data of a run, and report sections on it: failures, judges, gates, provenance, metric cards."""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..compare.metrics import LATEST_RUNS, equal_metrics, main_metric_name, rank_metrics
from ..compare.pairing import MetricMeta, T, lookup_metric
from ..compare.sweeps import sweep_text
from ..core.grouping import group_pairs
from ..core.metrics_base import sample_clusters
from ..core.reduce import Clusters
from ..core.results import Results, display_name, metric_labels
from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..engine.gold_match import GoldMatch
from ..errors import AueporaError, BadValueError
from ..features.matching import has_spans
from ..gates import GateReport, check_run
from ..io.sample_sets import set_label
from ..plan.gates import parse_gates
from ..render import charts
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    DefinitionList,
    Details,
    DetailsGrid,
    Figure,
    Gallery,
    Prose,
    ReportSection,
    Row,
    RowGroup,
    Table,
    TableColumn,
    simple_table,
)
from ..render.html import describe_result, format_time, interval_text, percentage, pluralize, shorten, value_text
from ..render.tables import ONE_JUDGE_NOTE, controls_blocks
from ..stats.intervals import Floats
from ..store.records import RunRecord, conventions_label, plan_conventions
from ..store.runs import RunStore, aligned_outputs, all_result_summaries, iter_samples, packed_outputs
from .cards import Card, ReasonCount, card
from .explain import resolve_result_metric
from .gate_table import gates_blocks
from .plots import cause_rows

# --- the stored data of one run for a report; each part is read once, on first access --------------------------------


class StoredRun:
    """The stored data of a run. Document texts are not read."""

    def __init__(self, store: RunStore, record: RunRecord, letter: str = "") -> None:
        """``letter`` identifies the run among several, as in ``A``."""
        self.store = store
        self.record = record
        self.letter = letter

    @property
    def label(self) -> str:
        """Its name, with its letter where there are several runs."""
        return self.with_letter(self.record.name)

    @property
    def group_title(self) -> str:
        """Its label above its rows where there are several runs; empty for a single run."""
        return self.label if self.letter else ""

    @property
    def heading(self) -> list[Block]:
        """Its label as a paragraph where there are several runs."""
        return [Prose(self.label)] if self.letter else []

    @property
    def figure_width(self) -> int:
        """The width of a figure of the run alone, which is smaller among those of other runs."""
        return GALLERY_WIDTH if self.letter else 820

    def with_letter(self, text: str) -> str:
        """A text of the run, with its letter where there are several runs."""
        return f"{self.letter}: {text}" if self.letter else text

    @cached_property
    def results(self) -> Results:
        """Its results, the latest of each name."""
        return self.store.results(self.record.run_id)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """The number of outputs, and of failed ones."""
        return self.store.counts(self.record.run_id)

    @cached_property
    def samples(self) -> Sequence[EvaluationSample]:
        """Its samples; documents have no texts."""
        return self.store.samples(self.record.run_id, texts=False)

    @cached_property
    def clusters(self) -> Clusters | None:
        """The cluster code of each sample; ``None`` where there are no clusters."""
        return sample_clusters(self.samples)

    @cached_property
    def has_spans(self) -> bool:
        """Whether any gold document has a span."""
        return any(map(has_spans, self.samples))

    @property
    def gold_notes(self) -> list[str]:
        """How its gold is matched, unless by id, and what speaks against it."""
        match = plan_conventions(self.record).match
        resolved = (self.record.plan.get("gold") or {}).get("resolved")
        found = GoldMatch.from_dict(resolved or {"match": match})
        sentence = found.sentence() if resolved else f"gold is matched {found.label}"
        return [note for note in (sentence, *found.warnings()) if match != "id" or note != sentence]

    @property
    def licence_note(self) -> str:
        """The licence of the benchmark that it answered, where that is for non-commercial use only."""
        benchmark = self.record.config.get("benchmark")
        licence = str(benchmark.get("licence")) if isinstance(benchmark, Mapping) else ""
        return f"Licence of the benchmark: {licence}." if "non-commercial" in licence else ""

    def pairs(self, *, texts: bool = False) -> Iterator[tuple[EvaluationSample, SystemOutputs | None]]:
        """Read the samples with the outputs of the first repeat; ``None`` where one is missing."""
        samples = iter_samples(self.store, self.record.run_id) if texts else self.samples
        return zip(samples, aligned_outputs(self.store, self.record.run_id, texts=texts), strict=True)

    def keep(self, name: str, read: Callable[[], T]) -> T:
        """What takes a pass over all outputs; a run whose values are cached returns it without another one."""
        return read()

    @cached_property
    def _summary(self) -> tuple[list[str], dict[str, Floats], int]:
        return self.keep("summary", self._read_summary)

    def _read_summary(self) -> tuple[list[str], dict[str, Floats], int]:
        """Errors, timings and depth, from one pass over all outputs."""
        errors: list[str] = []
        seconds: dict[str, array[float]] = {}
        depth = 0
        for _, repeat, output in packed_outputs(self.store, self.record):
            if repeat == 0:
                depth = max(depth, len(output.ids))
            if output.error is not None:
                errors.append(output.error)
                continue
            for name, value in output.timings.items():
                if math.isfinite(value) and name != "started":
                    seconds.setdefault(name, array("d")).append(value)
        return errors, {name: np.array(values) for name, values in seconds.items()}, depth

    @property
    def errors(self) -> list[str]:
        """The error of each failed output."""
        return self._summary[0]

    @property
    def timings(self) -> dict[str, Floats]:
        """Seconds by timing name, of all answers that did not fail."""
        return self._summary[1]

    @property
    def depth(self) -> int:
        """The length of the longest ranking."""
        return self._summary[2]

    @cached_property
    def definitions(self) -> dict[str, MetricMeta]:
        """The metadata of the metric of each result, by name."""
        return {result.name: lookup_metric(result, self.record, {}) for result in self.results}

    @cached_property
    def main_metric(self) -> str:
        """The name of the main metric; empty where no metric has a value."""
        records = self.store.runs(dataset=self.record.dataset_name, limit=LATEST_RUNS)
        results = all_result_summaries(self.store, [record.run_id for record in records])
        ranked = rank_metrics(self.record, self.results)
        return main_metric_name(self.record, ranked, equal_metrics(records, results))

    def find_result(self, name: str) -> MetricResult | None:
        """The result of that name."""
        return next((result for result in self.results if result.name == name), None)


def find_runs(store: RunStore, runs: Sequence[str | RunRecord]) -> list[RunRecord]:
    """The runs, found as in ``RunStore.find``; a run that is listed twice is an error."""
    records = [store.find(run) if isinstance(run, str) else run for run in runs]
    ids = [record.run_id for record in records]
    for run_id in ids:
        if ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is listed twice; name each run once")
    return records


def score_column(result: MetricResult) -> Floats:
    """The scores of a result per sample; NaN for samples without a score, empty where no scores are stored."""
    return result.scores.values if isinstance(result.scores, Scores) else np.zeros(0)


# --- report sections on a run: failures, judges, gates, provenance, metric cards -------------------------------------

CAUSES = {
    "not_returned": "no relevant document was returned at all",
    "below_cut": "a relevant document was returned, but too far down",
    "refused": "a relevant document was there, and the system declined to answer",
    "contradicts_context": "a relevant document was there, and the answer is not borne out by it",
    "unused": "a relevant document was there, and the answer is wrong though its words stand there",
    "system_failed": "the system gave no answer",
}
MAX_ERRORS = 12
GALLERY_WIDTH = 440
"""The width of figures side by side, one per run."""


def one_or_gallery(figures: Sequence[Figure]) -> Figure | Gallery:
    """The only figure, or all side by side."""
    return Gallery(figures) if len(figures) > 1 else figures[0]


def failures_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """Failures by cause, or a note that there are none."""
    blocks = [
        *_cause_blocks(runs),
        *_sufficiency_blocks(runs),
        *_error_blocks(runs),
        *_measurement_failure_blocks(runs),
    ]
    if not any(run.results or run.counts[0] for run in runs):
        return None
    if not blocks:
        blocks = [Prose("No answer failed, and every measurement worked.", tone="good")]
    return ReportSection("failures", "Failures by cause", blocks)


def _cause_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """The causes of wrong answers, of every result that has them in its details."""
    blocks: list[Block] = []
    labels = metric_labels(*[[result for result in run.results if wrong_answer_causes(result)] for run in runs])
    for name, label in labels.items():
        figures, groups = [], []
        for run in runs:
            result = run.find_result(name)
            causes = {} if result is None else wrong_answer_causes(result)
            if not causes:
                continue
            shown = {cause.replace("_", " "): row for cause, row in cause_rows(causes).items()}
            chart = charts.causes_chart(shown, title=run.label if run.letter else "Why answers are wrong")
            caption = "Shares of the wrong answers, with 95 % intervals."
            figures.append(Figure(chart, caption, run.figure_width))
            rows: list[Row] = [
                [
                    Cell(str(cause), note=CAUSES.get(str(cause), "")),
                    f"{int(part.get('count', 0)):,}",
                    value_text(part.get("share")),
                    interval_text(part.get("interval") or None),
                ]
                for cause, part in causes.items()
            ]
            groups.append(RowGroup(rows, run.group_title))
        columns = [
            TableColumn("cause"),
            TableColumn("wrong answers", number=True),
            TableColumn("share", number=True),
            TableColumn("95 % interval", number=True),
        ]
        blocks.append(Prose(f"Why answers are wrong, by {label}: for each the first link of the chain that broke."))
        blocks.append(one_or_gallery(figures))
        blocks.append(Table(columns, groups, grouped_by="run"))
    return blocks


def wrong_answer_causes(result: MetricResult) -> Mapping[str, Mapping[str, Any]]:
    """Count, share and interval of each cause in the details of a result; empty where it counts none."""
    causes = result.details.causes
    if not all(isinstance(cause, Mapping) for cause in causes.values()):
        return {}
    return causes if any(cause.get("count") for cause in causes.values()) else {}


def _sufficiency_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """The outcomes of answers by whether their documents sufficed, of every result that has them in its details."""
    blocks: list[Block] = []
    for run in runs:
        for result in run.results:
            cells, by = result.details.answers, result.details.answers_by
            if not cells or not by:
                continue
            lead = f"{run.label}: what" if run.letter else "What"
            blocks.append(
                Prose(
                    f"{lead} the answers are, by {display_name(result)} of their documents; "
                    f"correct by {by['correct']}, "
                    f"abstained by {by['abstained']}. Shares of each row, with 95 % intervals."
                )
            )
            blocks.append(_sufficiency_table(cells))
            if by["num_left_out"]:
                blocks.append(Prose(f"Left out for want of a score: {by['num_left_out']:,} answers.", tone="muted"))
            if by["one_judge"]:
                blocks.append(Prose(f"{ONE_JUDGE_NOTE.capitalize()}.", tone="muted"))
    return blocks


def _sufficiency_table(cells: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per kind of documents, a column per outcome of the answers."""
    by_row: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, cell in cells.items():
        row, _, outcome = name.partition(", ")
        by_row.setdefault(row, {})[outcome] = cell
    outcomes = next(iter(by_row.values()), {})
    rows: list[Row] = [
        [
            Cell(row, note=pluralize(sum(cell["count"] for cell in some.values()), "answer")),
            *(
                Cell(value_text(cell["share"]), note=f"{cell['count']:,}; {interval_text(cell['interval'])}")
                for cell in some.values()
            ),
        ]
        for row, some in by_row.items()
    ]
    columns = [TableColumn("documents"), *(TableColumn(name, number=True) for name in outcomes)]
    return simple_table(columns, rows)


def _error_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """System errors by type."""
    rows: list[Row] = []
    for run in runs:
        by_kind = group_pairs((shorten(error.partition(":")[0], 80), error) for error in run.errors)
        ordered = sorted(by_kind.items(), key=lambda kind: -len(kind[1]))
        rows += [
            [
                Cell(run.with_letter(kind)),
                f"{len(errors):,}",
                percentage(len(errors), run.counts[0]),
                shorten(errors[0]),
            ]
            for kind, errors in ordered[:MAX_ERRORS]
        ]
        rest = sum(len(errors) for _, errors in ordered[MAX_ERRORS:])
        if rest:
            rows.append([Cell("others", tone="muted"), f"{rest:,}", percentage(rest, run.counts[0]), ""])
    if not rows:
        return []
    columns = [
        TableColumn("error"),
        TableColumn("answers", number=True),
        TableColumn("share", number=True),
        TableColumn("for example"),
    ]
    return [simple_table(columns, rows, caption="Answers that the system failed to give")]


def _measurement_failure_blocks(runs: Sequence[StoredRun]) -> list[Block]:
    """Measurements that should have worked and did not."""
    prefix = "measure_failed:"
    rows: list[Row] = []
    failed = [(run, result) for run in runs for result in run.results if result.details.num_measure_failed]
    for run, result in failed:
        reasons = Counter(
            outcome.removeprefix(prefix) for outcome in result.outcomes or () if outcome.startswith(prefix)
        )
        rows.append(
            [
                Cell(run.with_letter(display_name(result))),
                f"{result.details.num_measure_failed:,}",
                ", ".join(f"{reason} {n:,}" for reason, n in reasons.items()),
            ]
        )
    if not rows:
        return []
    columns = [TableColumn("metric"), TableColumn("queries", number=True), TableColumn("why")]
    count_text = pluralize(len(rows), "metric")
    return [Details(f"Measurements that failed: {count_text}", [simple_table(columns, rows)], is_open=True)]


# --- judges: calls, tokens, cost and failures ------------------------------------------------------------------------

_COLUMNS = (
    TableColumn(""),
    TableColumn("judgements", number=True),
    TableColumn("calls", number=True),
    TableColumn("from the cache", number=True),
    TableColumn("failed", number=True),
    TableColumn("tokens in", number=True, minor=True),
    TableColumn("tokens out", number=True, minor=True),
    TableColumn("cost", number=True),
)


def judges_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """The judge usage of the runs, over all scorings."""
    groups = []
    reasons: Counter[str] = Counter()
    for run in runs:
        usage = run.record.usage
        if usage:
            total = usage.get("total") or {}
            rows: list[Row] = [_row("all", total)]
            for name, part in _parts(usage, "metrics"):
                rows.append(_row(f"metric {name}" if name else "shared by metrics", part))
            rows += [_row(f"judge {name}", part) for name, part in _parts(usage, "critics")]
            groups.append(RowGroup(rows, run.group_title))
            reasons.update(total.get("failed") or {})
    if not groups:
        return None
    blocks: list[Block] = [Table(_COLUMNS, groups, grouped_by="run")]
    for run in runs:
        controls = controls_blocks(run.results)
        blocks += [Details(f"Control items of {run.label}", controls)] if run.letter and controls else controls
    if reasons:
        reason_text = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        blocks.append(Prose(f"Judgements that failed are no numbers: {reason_text}.", tone="open"))
    return ReportSection("judges", "Judges", blocks, "What judging took, over all times it was done.")


def _parts(usage: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(str(key), part) for key, part in (usage.get(name) or {}).items() if isinstance(part, Mapping)]


def _row(name: str, used: Mapping[str, Any]) -> Row:
    failed = sum((used.get("failed") or {}).values())
    cost = used.get("cost")
    return [
        Cell(name),
        f"{used.get('judgements', 0):,}",
        f"{used.get('calls', 0):,}",
        f"{used.get('cached', 0):,}",
        Cell(f"{failed:,}", tone="bad" if failed else ""),
        f"{used.get('prompt_tokens', 0):,}",
        f"{used.get('completion_tokens', 0):,}",
        "" if cost is None else f"{cost:.4g}",
    ]


# --- gates of the plan, and their outcomes ---------------------------------------------------------------------------

GateCheck = GateReport | str | None
"""The gate report; or why the gates could not be checked; or ``None`` where there are none."""


def check_stored_gates(run: StoredRun, baseline: RunRecord | None = None) -> GateCheck:
    """Check the gates of a run's own plan; returns the report, or why they cannot be checked, or ``None``."""
    texts = run.record.plan.get("gates")
    if not texts or not run.results:
        return None
    try:
        return check_run(run.store, run.record, run.results, parse_gates(texts), baseline=baseline)
    except AueporaError as error:  # such as gates of another version
        return shorten(str(error))


def gates_summary(checked: GateCheck, of: str = "") -> str:
    """The summary of the gates for the report's verdict."""
    if isinstance(checked, str):
        return f"The gates{of} could not be checked: {checked}"
    return "" if checked is None else f"Gates{of}: {checked.headline}."


def gates_section(report: GateCheck) -> ReportSection | None:
    """Each gate with its outcome and reason, or why none could be checked."""
    if isinstance(report, str):
        message = f"The plan has gates that could not be checked: {report}"
        return ReportSection("gates", "Gates", [Prose(message, tone="open")])
    if report is None or not report.visible_outcomes:
        return None
    return ReportSection("gates", "Gates", gates_blocks(report))


# --- provenance: plan, versions, commit, dataset, conventions, signatures --------------------------------------------


def provenance_section(runs: Sequence[StoredRun]) -> ReportSection:
    """Plan, signatures and metadata of each run."""
    blocks: list[Block] = []
    for run in runs:
        name = run.label
        signatures: list[Row] = [
            [Cell(result.name), Cell(result.signature or "none", code=True)] for result in run.results
        ]
        folds: list[Block] = [
            Details(f"Plan of {name}", [Code(json.dumps(run.record.plan, indent=2, ensure_ascii=False, default=str))]),
            Details(f"Signatures of {name}", [simple_table(["metric", "signature"], signatures)]),
        ]
        facts = DefinitionList(_run_facts(run))
        blocks += [facts, *folds] if len(runs) == 1 else [Details(name, [facts, *folds])]
    return ReportSection(
        "provenance", "Provenance", blocks, "What these numbers were made of, so that they can be made again."
    )


def _run_facts(run: StoredRun) -> list[tuple[str, str | Cell]]:
    record, (done, failed) = run.record, run.counts
    facts: list[tuple[str, str | Cell]] = [
        ("run", Cell(record.run_id, code=True)),
        ("name", record.name),
        ("status", record.status.value + (f": {shorten(record.message)}" if record.message else "")),
        ("began", format_time(record.created_at)),
        ("ended", format_time(record.finished_at) or "not yet"),
        ("dataset", f"{record.dataset_name}, {record.num_samples:,} queries{set_label(record.plan)}"),
        ("fingerprint", Cell(record.fingerprint, code=True)),
        ("answers", f"{done:,} stored, {failed:,} failed"),
        ("repeats", str(record.repeats)),
        ("conventions", conventions_label(record)),
        ("commit", Cell(_commit(record.commit), code=bool(record.commit))),
        ("made by", f"auepora {record.version}"),
        ("tags", ", ".join(record.tags) or "none"),
    ]
    if (sweep := sweep_text(record)) is not None:
        facts.append(("sweep", sweep))
    if plan_conventions(record).match != "id":
        facts += [("gold", note) for note in run.gold_notes]
    for key, value in record.config.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        facts.append((str(key), shorten(text)))
    return facts


def _commit(commit: str | None) -> str:
    if not commit:
        return "not in a repository"
    plain, plus, _ = commit.partition("+")
    return f"{plain[:12]}{' with uncommitted changes' if plus else ''}"


# --- metric cards: formula, conventions and sample counts ------------------------------------------------------------


def card_link(name: str) -> str:
    """The link to the card of a metric; the name is hashed, since an anchor allows fewer characters."""
    return f"#{_anchor(name)}"


def _anchor(name: str) -> str:
    return f"card/{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def cards_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A card per metric; for a metric of several runs, that of the last run."""
    latest_results: dict[str, tuple[StoredRun, MetricResult]] = {}
    for run in runs:
        latest_results.update({result.name: (run, result) for result in run.results})
    if not latest_results:
        return None
    cards = [
        Details(display_name(result), _blocks(run, result), anchor=_anchor(name))
        for name, (run, result) in latest_results.items()
    ]
    lead = (
        "Open a metric to see its formula, its conventions and the samples it is based on. "
        "`auepora explain` derives the score of any single query step by step."
    )
    return ReportSection("cards", "What the numbers are", [DetailsGrid(cards)], lead)


def _blocks(run: StoredRun, result: MetricResult) -> list[Block]:
    card_data = card(result, resolve_result_metric(result, run.record, {}).metric)
    blocks: list[Block] = [Prose(card_data.summary)]
    if card_data.formula:
        blocks.append(Code(card_data.formula))
    blocks += [Prose(paragraph) for paragraph in card_data.text]
    blocks.append(DefinitionList(_card_facts(run, result, card_data)))
    if card_data.choices:
        rows: list[Row] = [
            [Cell(choice.key), Cell(choice.value, code=True), choice.words] for choice in card_data.choices
        ]
        blocks.append(simple_table([TableColumn("choice"), TableColumn("here"), TableColumn("what it means")], rows))
    notes = list(card_data.notes)
    if card_data.samples is not None:
        skips, failures = card_data.samples.skips, card_data.samples.failures
        notes = [
            *(_reason("skipped", skip) for skip in skips),
            *(_reason("failed", failure) for failure in failures),
            *notes,
        ]
    return [*blocks, Bullets(notes)] if notes else blocks


def _card_facts(run: StoredRun, result: MetricResult, card_data: Card) -> list[tuple[str, str | Cell]]:
    facts: list[tuple[str, str | Cell]] = [
        (f"in {run.letter}" if run.letter else "here", f"{describe_result(result)}."),
        ("judges", f"{card_data.target_title}: {card_data.question}"),
        ("range", f"{card_data.range_text}, {card_data.direction}"),
        ("made of scores", card_data.reducer),
        ("a failed answer", card_data.failure),
        ("convention", card_data.convention),
    ]
    counts, interval, bounds = card_data.samples, card_data.interval, card_data.bounds
    if counts is not None:
        outcomes = (
            f"{counts.counted:,} of {counts.total:,} are in the value; {counts.scored:,} scored, {counts.skipped:,} "
            f"skipped, {counts.system_failed:,} failed by the system, {counts.measure_failed:,} not measured"
        )
        facts.append(("samples", outcomes))
    completed = card_data.value_completed
    facts += [
        ("interval", "" if interval is None else "; ".join([interval.words, *interval.doubts])),
        ("answered only", "" if completed is None else value_text(completed)),
        ("all measured", "" if bounds is None else f"between {value_text(bounds[0])} and {value_text(bounds[1])}"),
        ("signature", Cell(card_data.signature or "none", code=True)),
        ("reference", card_data.reference),
    ]
    return [(name, value) for name, value in facts if value]


def _reason(outcome: str, count: ReasonCount) -> str:
    needed = f"; {count.needed}" if count.needed else ""
    return f"{count.count:,} {outcome} ({count.reason}): {count.words}{needed}"
