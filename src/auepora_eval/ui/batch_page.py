"""The pages of an organiser: batches with their progress, a new batch with its forecast, results, closing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, get_args

from starlette.responses import RedirectResponse, Response

from ..calibration.calibrate import calibrate, labelled_metric, load_compared_scores, register_verdict
from ..calibration.report import CalibrationReport, agreement_blocks, look_blocks, report_blocks, verdict_sentence
from ..core.results import metric_labels
from ..errors import AueporaError, BadValueError, ConflictError, UnknownRunError
from ..grades.drawn_pairs import DEFAULT_METRICS
from ..io.labels import LabelJournal
from ..labels.agreement import annotator_agreement, decided_label, format_label, read_annotations
from ..labels.batch import LabelBatch, Purpose
from ..labels.batch_plans import BatchOptions, create_batch, label_command, list_batches, new_batch_id, result_commands
from ..labels.draws import PEOPLE_ONLY, LabelDraw, describe_forecast, read_all_draws, read_draws
from ..labels.names import MAX_NAME
from ..labels.queue import BatchProgress, LabelQueue
from ..render.blocks import Block, Details, Prose, ReportVerdict, Row, TableColumn, Tone, simple_table
from ..render.html import UncutText, pluralize
from ..store.records import RunRecord
from ..store.runs import RunStore, result_summaries, sample_at
from .batch_planners import plan_batch
from .page_request import Fields, PageRequest, page_route
from .workbench import T, Workbench, error_status, make_url, page_message, recorded_response, render_template, run_url

MAX_RUNS = 200
"""The number of runs, newest first, that a form lists."""
MAX_SHOWN = 20
"""The number of disagreements of a judge that results show."""
PAGE_SIZE = 50
STRATA_SAMPLES = 20
"""Keys of labels are suggested from so many samples."""

# --- purposes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PurposeText:
    """What a purpose is, in words."""

    title: str
    what: str
    result: str
    fixed: str = "The draw is fixed when the batch is created. Batches are not changed afterwards."


PURPOSES: Mapping[Purpose, PurposeText] = {
    "calibrate": PurposeText(
        "Calibrate a judge",
        "People label answers of a run that are drawn at random.",
        "how far the judge agrees with people, and the mean that people would give to all answers.",
    ),
    "compare": PurposeText(
        "Decide between A and B",
        "People label both answers to drawn questions, without knowing which run gave which.",
        "a verdict: better, worse, equal or inconclusive.",
        "Draw, metric, margin and looks are fixed when the batch is created: another design for these runs is refused.",
    ),
    "grade": PurposeText(
        "Grade documents",
        "People grade documents that runs returned, from 0 (not relevant) to 3.",
        "gold for retrieval metrics, or a correction of the grades of a model.",
    ),
    "drafts": PurposeText(
        "Review drafts",
        "People accept or reject drafts of test questions.",
        "a dataset file with the accepted ones.",
        "The drafts are copied when the batch is created. Later changes of the file have no effect.",
    ),
    "review": PurposeText(
        "Review samples",
        "People label samples that somebody picked.",
        "labels that are kept and shown; nothing is estimated from them.",
        "Batches are not changed after they are created.",
    ),
}
OFFERED = {name: text for name, text in PURPOSES.items() if name != "review"}
"""The purposes to choose from; samples to review are picked on other pages."""
SHOWN_PARTS = (
    ("documents", "Show the retrieved documents"),
    ("reference", "Offer the reference answer"),
    ("relevance", "Mark relevant documents (not blind)"),
)


# --- the form of a new batch -----------------------------------------------------------------------------------------

DEFAULTS = {"n": "100", "seed": "0", "annotators": "1", "depth": "10", "metrics": " ".join(DEFAULT_METRICS)}
NO_FORECAST = "Choose what is labelled to see what the labels can decide."


@dataclass(frozen=True, slots=True)
class BatchForm:
    """The fields of a new batch, as the address or the form has them."""

    purpose: Purpose
    fields: Fields

    @classmethod
    def from_fields(cls, fields: Fields) -> BatchForm:
        """Read the fields; an unknown purpose is an error."""
        return cls(fields.choice("purpose", get_args(Purpose)), fields)

    @property
    def is_new(self) -> bool:
        """Whether the form is shown for the first time, so that boxes have their defaults."""
        return "id" not in self.fields

    def value(self, name: str) -> str:
        """The value of a field, or its default."""
        default = "40" if name == "n" and self.purpose == "compare" else DEFAULTS.get(name, "")
        if name == "id" and self.is_new:
            default = new_batch_id()
        return self.fields.get(name, default)

    def run(self, place: int) -> str:
        """The run that is chosen first, or second."""
        return self.runs[place] if place < len(self.runs) else ""

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs."""
        return tuple([run for run in self.fields.getlist("run") if run])

    @property
    def samples(self) -> tuple[str, ...]:
        """The ids of picked samples."""
        return tuple(self.fields.getlist("sample"))

    @property
    def histories(self) -> tuple[str, ...]:
        """Names of earlier batches whose labels predict labels."""
        return tuple(self.fields.getlist("history"))

    @property
    def shown(self) -> tuple[str, ...]:
        """What annotators see."""
        return ("documents",) if self.is_new else tuple(self.fields.getlist("shown"))

    @property
    def blind(self) -> bool:
        """Whether the batch is blind."""
        return self.is_new or "blind" in self.fields or self.purpose in ("compare", "grade", "drafts")

    def options(self, folder: Path) -> BatchOptions:
        """The options of the batch; a field with a bad value is an error that names it."""
        known, now = {batch.name: batch.journal for batch in list_batches(folder)}, datetime.now().astimezone()
        if unknown := next((history for history in self.histories if history not in known), None):
            raise BadValueError(f"history: the folder of labels has no batch {unknown!r:.80}")
        return BatchOptions(
            purpose=self.purpose,
            runs=self.runs,
            title=self.value("title").strip() or f"{PURPOSES[self.purpose].title}, {now:%Y-%m-%d %H:%M}",
            metric=self.value("metric") or None,
            n=self._integer("n", lowest=1),
            stratify=self.value("stratify").strip() or None,
            seed=self._integer("seed"),
            delta=self.fields.number("delta"),
            looks=self._integer("looks", lowest=2) if self.value("looks").strip() else 0,
            history=tuple(str(known[history]) for history in self.histories),
            scale=self.value("scale").strip() or None,
            annotators=self._integer("annotators", lowest=1),
            instructions=self.value("instructions").replace("\r\n", "\n"),
            blind=self.blind,
            shown=self.shown,
            samples=self.samples,
            dataset=self.value("dataset").strip() or None,
            qrels=self.value("qrels").strip() or None,
            metrics=tuple(self.value("metrics").replace(",", " ").split()),
            depth=self._integer("depth", lowest=1),
            created_by=self.value("created_by").strip(),
            id=self.value("id"),
        )

    def _integer(self, name: str, *, lowest: int | None = None) -> int:
        return self.fields.integer(name, self.value(name), lowest=lowest)


def make_forecast(workbench: Workbench, form: BatchForm) -> dict[str, Any]:
    """What the batch of the form can decide, a sentence each; or the problem why it cannot be created."""
    try:
        store = workbench.run(workbench.find(form.run(0))).store if form.runs else workbench.store
        return {"lines": plan_batch(store, form.options(workbench.labels)).forecast, "problem": ""}
    except AueporaError as error:
        return {"lines": (), "problem": page_message(error)}


def form_context(workbench: Workbench, form: BatchForm) -> dict[str, Any]:
    """What the fields of a form offer: runs, metrics, keys of labels, earlier batches."""
    records = workbench.store.runs(limit=MAX_RUNS)
    listed = {record.run_id for record in records}
    for run in form.runs:
        if run not in listed:
            with suppress(UnknownRunError):
                records.append(workbench.find(run))
    chosen = next((record for record in records if record.run_id == form.run(0)), None)
    batches = list_batches(workbench.labels) if form.purpose == "compare" else []
    return {
        "form": form,
        "purpose": PURPOSES[form.purpose],
        "chosen_runs": list(form.runs),
        "runs": records,
        "metrics": {} if chosen is None else metric_labels(result_summaries(workbench.store, chosen.run_id)),
        "strata": [] if chosen is None else _strata(workbench.store, chosen),
        "histories": [
            (batch.name, f"{batch.title}, {PURPOSES[batch.purpose].title}")
            for batch in batches
            if batch.purpose in ("calibrate", "compare")
            and batch.journal.exists()
            and batch.journal.stat().st_size > len(LabelJournal.header()) + 1  # it has entries
        ],
        "shown_parts": SHOWN_PARTS[:2] if form.purpose == "compare" else SHOWN_PARTS,
    }


def _strata(store: RunStore, record: RunRecord) -> list[str]:
    """Fields that may define strata, from the first samples of a run."""
    samples = [sample_at(store, record, place) for place in range(min(STRATA_SAMPLES, record.num_samples))]
    found = [f"{name}.{key}" for sample in samples for name in ("labels", "metadata") for key in getattr(sample, name)]
    return list(dict.fromkeys(found))


def new_page(request: PageRequest) -> Response:
    """The purposes to choose from; with ``purpose`` the form of a batch."""
    if "purpose" not in request.parameters:
        return render_template(
            request, "batch_new.html", purpose=None, purposes=OFFERED, chosen_runs=request.parameters.getlist("run")
        )
    return _render_form(request, BatchForm.from_fields(request.parameters))


def form_fields(request: PageRequest) -> Response:
    """The fields that depend on the chosen runs, as a fragment."""
    form = BatchForm.from_fields(request.parameters)
    return render_template(request, "batch_fields.html", **form_context(request.workbench, form))


def forecast_part(request: PageRequest) -> Response:
    """What the batch of the form can decide, as a fragment."""
    form = BatchForm.from_fields(request.parameters)
    is_open = form.purpose != "drafts" and not form.runs
    forecast = None if is_open else make_forecast(request.workbench, form)
    return render_template(request, "batch_forecast.html", forecast=forecast, missing=NO_FORECAST)


def create(request: PageRequest) -> Response:
    """Create the batch of the form; with ``preview`` show its forecast. A bad value is shown above the form."""
    workbench, form = request.workbench, BatchForm.from_fields(request.form_fields)
    if "preview" in form.fields:
        return _render_form(request, form, forecast=make_forecast(workbench, form))
    try:
        batch = create_batch(workbench.labels, plan_batch(workbench.store, form.options(workbench.labels)))
    except ConflictError:
        problem = f"This form has created a batch already: /batches/{form.value('id')}. Send it again for another one."
        fields = Fields([*form.fields.multi_items(), ("id", new_batch_id())])
        return _render_form(request, BatchForm(form.purpose, fields), problem=problem, status=409)
    except AueporaError as error:
        return _render_form(request, form, problem=page_message(error), status=error_status(error))
    return RedirectResponse(batch_url(batch), 303)


def _render_form(
    request: PageRequest,
    form: BatchForm,
    *,
    forecast: Mapping[str, Any] | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    context = form_context(request.workbench, form)
    return render_template(
        request, "batch_new.html", status=status, forecast=forecast, missing=NO_FORECAST, problem=problem, **context
    )


# --- the list of batches ---------------------------------------------------------------------------------------------


def batch_state(progress: BatchProgress) -> tuple[str, Tone]:
    """The state of a batch in words, and its tone."""
    if progress.closed is not None:
        return "closed", "muted"
    if progress.complete == progress.items:
        return "all labelled", "good"
    return ("in progress", "open") if progress.labels else ("not started", "")


def batch_url(batch: LabelBatch, *parts: str) -> UncutText:
    """The address of a batch, or of a part of its page."""
    return UncutText("/".join(["/batches", batch.id, *parts]))


def batches_page(request: PageRequest) -> Response:
    """The batches of the labels folder, newest first; reviews of single samples after the others."""
    workbench = request.workbench
    problems: list[str] = []
    rows = [_make_row(workbench, batch) for batch in list_batches(workbench.labels, problems)]
    single = [row for row in rows if row["batch"].purpose == "review" and len(row["batch"].items) == 1]
    others = [row for row in rows if row not in single]
    groups = [(title, listed) for title, listed in (("", others), ("Single queries", single)) if listed]
    return render_template(
        request,
        "batches.html",
        folder=str(workbench.labels),
        groups=groups,
        problems=problems,
        purposes=OFFERED,
        chosen_runs=[],
    )


def _make_row(workbench: Workbench, batch: LabelBatch) -> dict[str, Any]:
    """A row of the list; ``error`` says why there is no progress."""
    row: dict[str, Any] = {
        "batch": batch,
        "url": batch_url(batch),
        "purpose": PURPOSES[batch.purpose].title,
        "runs": list(_run_links(workbench, batch)),
        "error": "",
    }
    try:
        progress = workbench.queue(batch.id).progress()
    except AueporaError as error:
        return row | {"error": str(error)}
    return row | {"progress": progress, "state": batch_state(progress)}


def _run_links(workbench: Workbench, batch: LabelBatch) -> Iterator[tuple[str, str]]:
    """Name and address of each run; no address if it was deleted."""
    for run in batch.runs:
        try:
            record = workbench.store.get(run)
            yield record.name, run_url(record)
        except UnknownRunError:
            yield run, ""


# --- the page of a batch ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchView:
    """A batch with its progress, as its page shows it."""

    workbench: Workbench
    batch: LabelBatch
    progress: BatchProgress
    looks: tuple[int, ...]
    """The numbers of samples at which a comparison is tested; empty if it is tested once."""
    finished: tuple[str, ...]
    """The samples with all labels and decisions, in the order of the draw up to the first one without."""

    @property
    def is_closed(self) -> bool:
        """Whether labelling has ended."""
        return self.progress.closed is not None

    @property
    def is_complete(self) -> bool:
        """Whether results may be shown: those who label or adjudicate must not know them, nor the scores of a judge."""
        found = self.progress
        is_averaged = self.batch.scale is not None and self.batch.purpose != "grade"
        is_undecided = found.disagreements and not is_averaged
        is_labelled = found.complete == found.items and not is_undecided
        return self.is_closed or (is_labelled and self.batch.purpose != "compare")

    @property
    def has_agreement(self) -> bool:
        """Whether two annotators have labelled all items that they could, or labelling has ended."""
        people = [annotator for annotator in self.progress.annotators.values() if annotator.labelled]
        finished = [annotator for annotator in people if self.is_closed or not annotator.remaining]
        return len(finished) > 1 and not self.batch.is_chosen

    @property
    def has_results(self) -> bool:
        """Whether results may be shown: all items are labelled, labelling has ended, or a look is reached."""
        return self.is_complete or self.looks_reached > 0

    @property
    def looks_reached(self) -> int:
        """The number of looks for which all labels are there."""
        return sum(len(self.finished) >= look for look in self.looks)

    @property
    def key(self) -> str:
        """Changes when the page has other sections."""
        return f"{self.is_closed:d}{self.is_complete:d}{self.has_agreement:d}-{self.looks_reached}"


def find_view(request: PageRequest) -> BatchView:
    """The batch of the address, with its progress."""
    workbench, queue = request.workbench, request.queue
    batch, progress = queue.batch, queue.progress()
    draw = read_draw(workbench, batch)
    looks = () if draw is None or draw.comparison is None else draw.comparison.looks
    differing = queue.disagreements() if looks and batch.scale is None else []  # the mean of grades is used
    undecided = {disagreement.number for disagreement in differing if not disagreement.adjudicated}
    counts = {number: count for number, count in progress.counts.items() if number not in undecided}
    entries = takewhile(lambda entry: counts.get(entry[0], 0) >= batch.annotators, enumerate(batch.items, start=1))
    finished = tuple(entry.sample_id for _, entry in entries) if looks else ()
    return BatchView(workbench, batch, progress, looks, finished)


def read_draw(workbench: Workbench, batch: LabelBatch) -> LabelDraw | None:
    """The draw of samples; ``None`` if documents, drafts or picked samples are labelled."""
    if batch.purpose not in ("calibrate", "compare"):
        return None
    key, size = (batch.id, "draw", batch.draw), 200 * len(batch.items)
    return workbench.cached(key, lambda: next(iter(read_draws(batch.journal).values()), None), size=size)


def batch_page(request: PageRequest) -> Response:
    """One batch: progress, address for annotators, agreement, results, closing."""
    view = find_view(request)
    batch, progress, draw = view.batch, view.progress, read_draw(view.workbench, view.batch)
    runs = list(_run_links(view.workbench, batch))
    metrics, metric = _result_metrics(view), request.parameters.get("metric") or ""
    with_metric = replace(batch, metric=batch.metric or metric or None)
    return render_template(
        request,
        "batch.html",
        view=view,
        batch=batch,
        address=batch_url(batch),
        purpose=PURPOSES[batch.purpose].title,
        state=batch_state(progress)[0],
        runs=runs,
        label_address=request.label_address(batch.id),
        terminal_command=label_command(batch, draw, view.workbench.label),
        forecast_lines=[] if draw is None or draw.comparison is None else describe_forecast(draw),
        metrics=metrics,
        metric=metric,
        has_agreement=view.has_agreement and (not view.is_complete or bool(metrics and not metric)),  # else in results
        next_commands=result_commands(with_metric, view.workbench.label) if view.is_complete else [],
        people_only=PEOPLE_ONLY,
    )


def progress_part(request: PageRequest) -> Response:
    """The progress of a batch, as a fragment."""
    view = find_view(request)
    return render_template(request, "batch_progress.html", view=view, address=batch_url(view.batch))


def close_batch(request: PageRequest) -> Response:
    """End labelling."""
    queue = request.queue
    name = request.form_fields.text("by", MAX_NAME, is_required=True)
    if "sure" not in request.form_fields:
        raise BadValueError("sure=1 is missing: closing a batch ends labelling, and cannot be taken back")
    queue.close(name)
    return RedirectResponse(batch_url(queue.batch), 303)


# --- agreement and results -------------------------------------------------------------------------------------------

_TONES: Mapping[str, Tone] = {"usable": "good", "not_usable": "bad", "better": "good", "worse": "bad"}


def agreement_part(request: PageRequest) -> Response:
    """The agreement of the annotators, as a fragment."""
    view = find_view(request)
    if not view.has_agreement:
        text = "Agreement is shown when two annotators have labelled all items, or when the batch is closed."
        return _render_results(request, [Prose(text)])
    found = _cached(view, "agreement", lambda: annotator_agreement([view.batch.journal]))
    unit = "documents" if view.batch.purpose == "grade" else "answers"
    blocks = agreement_blocks(found.raters, unit)
    if left_out := found.chosen + found.left_out:
        text = f"{pluralize(left_out, 'label')} outside the part of the draw with equal probabilities left out."
        blocks.append(Prose(text))
    if not found.is_drawn:
        blocks.append(Prose(f"This is about the labelled {unit} alone, which are no random sample."))
    return _render_results(request, blocks)


def results_part(request: PageRequest) -> Response:
    """What the labels show, as a fragment. Of a comparison nothing is shown between its looks."""
    view, metric = find_view(request), request.parameters.get("metric") or None
    if view.batch.purpose not in ("calibrate", "compare") or (view.is_closed and not view.progress.labels):
        return _render_results(request, _label_counts(view))
    if not view.has_results:
        when = "at a planned look" if view.batch.purpose == "compare" else "when all items are labelled and adjudicated"
        text = f"Results are shown when the batch is closed, or {when}."
        return _render_results(request, [Prose(text)])
    if tuned := sum(annotation.tuning for annotation in read_annotations([view.batch.journal])):
        text = (
            f"{pluralize(tuned, 'label')} of this batch may be used as examples in the prompt of a judge. The other "
            "labels are no random sample, so nothing is estimated from them: label a new draw."
        )
        return _render_results(request, [Prose(text)])
    report = read_report(view, metric)
    if view.batch.purpose == "compare" and report.verdict is None:  # the means of both runs show their difference
        return _render_results(request, _blocks_without_verdict(view, report))
    address = "" if report.verdict is None else make_url(batch_url(view.batch, "record"), metric=metric)
    *blocks, conclusion = report_blocks(report, shown=MAX_SHOWN)
    if view.batch.purpose == "compare":  # else it is the verdict
        blocks.append(conclusion)
    folds = [block for block in blocks if isinstance(block, Details)]
    rest = [block for block in blocks if not isinstance(block, Details)]
    measures = [replace(fold, is_open=False) for fold in folds[:-1]]  # below what people would say of all answers
    return _render_results(request, [*folds[-1:], *rest, *measures], verdict=_verdict(view, report), record_url=address)


def _blocks_without_verdict(view: BatchView, report: CalibrationReport) -> list[Block]:
    """What is shown of a comparison that has no verdict: the looks that were reached, and no mean of a run."""
    blocks: list[Block] = [Prose(verdict_sentence(report) or "")]
    if report.sequential is not None:
        blocks = look_blocks(report.sequential)
    if view.is_closed:
        blocks.append(Prose("Labelling has ended before that. A new batch with the same options can decide."))
    return blocks


def _verdict(view: BatchView, report: CalibrationReport) -> ReportVerdict:
    """The result in one sentence."""
    if view.batch.purpose == "calibrate":
        return ReportVerdict(report.conclusion.sentence, _TONES.get(report.conclusion.usability, "open"), [])
    return ReportVerdict(verdict_sentence(report) or "", _TONES.get(report.verdict or "", "open"), [])


def record_decision(request: PageRequest) -> Response:
    """Record the verdict that the results show in the register of the store."""
    view, metric = find_view(request), request.parameters.get("metric") or None
    report = read_report(view, metric)
    if report.verdict is None or not view.has_results:
        return recorded_response(None)
    records, draws = _records(view), read_all_draws([view.batch.journal])
    return recorded_response(register_verdict(view.workbench.store, records, report, draws).register)


def read_report(view: BatchView, metric: str | None) -> CalibrationReport:
    """The labels of a batch compared with the scores of its metric, as `auepora judge calibrate` does."""

    def build() -> CalibrationReport:
        batch, records = view.batch, _records(view)
        store = view.workbench.run(records[0]).store  # it records no decision
        labels, draws = read_annotations([batch.journal]), read_all_draws([batch.journal])
        if not view.is_complete:  # a look counts labels of finished samples only
            finished = set(view.finished)
            labels = [label for label in labels if label.sample_id in finished]
        scored = load_compared_scores(store, records, metric or batch.metric or labelled_metric(labels), draws)
        report = calibrate(labels, *scored, scale=batch.scale, draws=draws)
        return register_verdict(store, records, report, draws)

    return _cached(view, f"report {metric}", build)


def _cached(view: BatchView, name: str, build: Callable[[], T]) -> T:
    """A value of the labels of a batch, computed once while labels and runs do not change."""
    workbench, records = view.workbench, _records(view)
    state = view.batch.journal.stat()
    versions = tuple(workbench.version(record) for record in records)
    key = (view.batch.runs[0], versions, "batch", view.batch.id, name, state.st_mtime_ns, state.st_size)
    return workbench.cached(key, build, size=50_000)


def _records(view: BatchView) -> list[RunRecord]:
    return [view.workbench.store.get(run) for run in view.batch.runs]


def _result_metrics(view: BatchView) -> dict[str, str]:
    """The metrics to choose from with their names for display, if the batch names none."""
    if view.batch.purpose != "calibrate" or view.batch.metric is not None or not view.is_complete:
        return {}
    with suppress(UnknownRunError):
        return metric_labels(result_summaries(view.workbench.store, view.batch.runs[0]))
    return {}


def _label_counts(view: BatchView) -> list[Block]:
    """The number of items by label, of a closed batch whose labels are not compared with scores."""
    if not view.is_closed:
        return [Prose("Labels are shown when the batch is closed.")]
    is_draft, revealed = view.batch.purpose == "drafts", view.workbench.queue(view.batch.id).reveal()
    counts = Counter(decided_label(item.labels, by_majority=is_draft) for item in revealed if item.labels)
    rows: list[Row] = [[_label_word(view.batch, name), f"{count:,}"] for name, count in sorted(counts.items())]
    blocks: list[Block] = [simple_table(["label", TableColumn("items", number=True)], rows)] if rows else []
    if is_draft:
        blocks.append(Prose(f"The accepted drafts are in `{view.batch.accepted_file}`."))
    return blocks or [Prose("No item has a label.")]


def _label_word(batch: LabelBatch, name: str) -> str:
    return {"right": "accepted", "wrong": "rejected"}.get(name, name) if batch.purpose == "drafts" else name


def _render_results(
    request: PageRequest, blocks: Sequence[Block], *, verdict: ReportVerdict | None = None, record_url: str = ""
) -> Response:
    return render_template(request, "batch_results.html", listed=list(blocks), verdict=verdict, record_url=record_url)


# --- items: their states, and what was hidden when the batch is closed -----------------------------------------------

STATES = {
    "": "All",
    "labelled": "Finished",
    "open": "Open",
    "skipped": "Skipped or cannot tell",
    "different": "Different labels",
    "undecided": "To adjudicate",
}


def items_page(request: PageRequest) -> Response:
    """The items of a batch by state; with runs, questions and labels when it is closed."""
    view, queue = find_view(request), request.queue
    state = request.parameters.choice("state", STATES)
    numbers = _numbers_by_state(view, queue)
    pages = max(1, -(-len(numbers[state]) // PAGE_SIZE))
    page = min(request.parameters.page(), pages)
    shown = numbers[state][(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return render_template(
        request,
        "batch_items.html",
        batch=view.batch,
        address=batch_url(view.batch),
        is_closed=view.is_closed,
        states=[(name, title, len(numbers[name])) for name, title in STATES.items()],
        chosen_state=state,
        rows=list(_revealed_rows(view, queue, shown) if view.is_closed else _state_rows(view, queue, shown)),
        page=page,
        pages=pages,
    )


def _numbers_by_state(view: BatchView, queue: LabelQueue) -> dict[str, list[int]]:
    everything, counts = range(1, view.progress.items + 1), view.progress.counts
    skipped = {skip.number for skip in view.progress.skipped}
    different = {disagreement.number: disagreement.adjudicated for disagreement in queue.disagreements()}
    return {
        "": list(everything),
        "labelled": [number for number in everything if counts.get(number, 0) >= view.batch.annotators],
        "open": [number for number in everything if counts.get(number, 0) < view.batch.annotators],
        "skipped": sorted(skipped),
        "different": sorted(different),
        "undecided": sorted(number for number, is_decided in different.items() if not is_decided),
    }


def _state_rows(view: BatchView, queue: LabelQueue, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What may be shown of open items: who is expected to label them, and no label."""
    counts = view.progress.counts
    different = {disagreement.number: disagreement.adjudicated for disagreement in queue.disagreements()}
    for number in numbers:
        words = [f"{counts.get(number, 0)} of {pluralize(view.batch.annotators, 'label')}"]
        words += [skip.description for skip in view.progress.skipped if skip.number == number]
        if number in different:
            words.append("adjudicated" if different[number] else "labelled differently")
        yield {"number": number, "state": ", ".join(words)}


def _revealed_rows(view: BatchView, queue: LabelQueue, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    wanted, names = set(numbers), dict(zip(view.batch.runs, _run_links(view.workbench, view.batch), strict=True))
    is_stored = all(href for _, href in names.values())
    for revealed in islice(queue.reveal(), max(numbers, default=0)):
        if revealed.number not in wanted:
            continue
        question = "The question is not stored."
        with suppress(AueporaError):
            question = queue.item(revealed.number).question
        labels = [
            {
                "annotator": label.annotator,
                "run": names.get(label.run or "", ("", ""))[0],
                "label": _label_word(view.batch, format_label(label)),
                "is_adjudicated": label.adjudicated,
                "comment": label.comment,
            }
            for label in revealed.labels
        ]
        href = make_url("/query", run=list(view.batch.runs), id=revealed.sample_id) if names and is_stored else ""
        yield (
            {
                "number": revealed.number,
                "sample_id": revealed.sample_id,
                "doc_id": revealed.doc_id,
                "question": question,
                "labels": labels,
                "order": [names[run][0] for run in revealed.runs] if len(revealed.runs) > 1 else [],
                "href": href,
            }
        )


ROUTES = [
    page_route("/batches", batches_page),
    page_route("/batches/new", new_page),
    page_route("/batches/new", create, method="POST"),
    page_route("/batches/fields", form_fields),
    page_route("/batches/forecast", forecast_part),
    page_route("/batches/{batch_id}", batch_page),
    page_route("/batches/{batch_id}/progress", progress_part),
    page_route("/batches/{batch_id}/agreement", agreement_part),
    page_route("/batches/{batch_id}/results", results_part),
    page_route("/batches/{batch_id}/record", record_decision, method="POST"),
    page_route("/batches/{batch_id}/items", items_page),
    page_route("/batches/{batch_id}/close", close_batch, method="POST"),
]
