"""Corrections of gold: proposals from query pages, the list with their effect on all runs, and their application."""

from __future__ import annotations

import getpass
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult
from ..errors import AueporaError, BadValueError, ConflictError
from ..grades.corrections import (
    MetricEffect,
    RunEffect,
    apply_corrections,
    make_correction,
    preview_corrections,
    run_names,
    signature_before,
)
from ..io.grades import CorrectedGold, CorrectionKind, GoldValue, Proposal, describe_gold
from ..labels.names import MAX_NAME, MAX_TEXT
from ..queries.view import GoldMarks
from ..render.blocks import Block, Cell, Details, Prose, Row, TableColumn, simple_table, without_empty_columns
from ..render.html import UncutText, pluralize, shorten
from ..render.tables import format_value, number_text
from ..store.records import RunRecord
from ..store.runs import result_summaries, sample_at
from .numbers import metric_number
from .page_request import Fields, PageRequest, page_route
from .run_table import ResultSummaries, read_results
from .workbench import Workbench, find_position, make_url, render_blocks, render_template

GRADES = ((0, "not relevant"), (1, "relevant"), (2, "highly relevant"), (3, "perfectly relevant"))
"""The grades of a document, with their meaning."""
KINDS: Mapping[CorrectionKind, str] = {
    "grade": "The relevance of a document",
    "references": "The reference answer",
    "invalid": "The question itself",
}
"""What can be wrong, as the form asks."""
STATES = {"open": ("proposed", "open"), "accepted": ("applied", "good"), "withdrawn": ("withdrawn", "muted")}
"""The word and the tone of each state."""
MAX_EDITED_LENGTH = 50_000
"""The number of characters of reference answers that the form shows."""
MAX_SHOWN_RUNS, MAX_OPEN_RUNS = 50, 1
"""The number of runs whose changes are listed, and up to which their tables are open."""

# --- the proposals of a sample ----------------------------------------------------------------------------------------


ProposalRow = Mapping[str, Any]
"""A proposal as the pages show it."""


def proposal_row(proposal: Proposal, query: str = "") -> ProposalRow:
    """A proposal in words; ``query`` is the address of its query, empty where the run was deleted."""
    correction = proposal.correction
    state, tone = STATES[proposal.state]
    subjects = {"grade": f"document {correction.doc_id}", "references": "reference answers", "invalid": "question"}
    decision = [f"by {proposal.decided_by}" if proposal.decided_by else "", proposal.reason]
    return {
        "proposal": proposal,
        "correction": correction,
        "id": correction.id,
        "query": query,
        "is_open": proposal.state == "open",
        "state": state,
        "tone": tone,
        "subject": subjects[correction.kind],
        "before": describe_gold(correction.kind, correction.before),
        "after": describe_gold(correction.kind, correction.after),
        "time": correction.at[:16].replace("T", " "),
        "decision": ": ".join(part for part in decision if part),
    }


@dataclass(frozen=True)
class SampleProposals:
    """The proposals about one sample, and the addresses of the forms on its page."""

    rows: Sequence[ProposalRow]
    """Those that are open or accepted."""
    parameters: Mapping[str, Any]
    """The run and the sample of the page."""
    back: str
    """The address of the page."""
    error: str = ""
    """Why the proposals cannot be read."""
    grades: Sequence[tuple[int, str]] = GRADES

    def form(self, doc_id: str = "", kind: CorrectionKind | None = None) -> str:
        """Where a proposal is made and sent to: its form is about a document or of a kind where that is known."""
        document = document_key(doc_id) if doc_id else None
        return make_url("/gold/propose", **self.parameters, document=document, kind=kind)

    @cached_property
    def by_key(self) -> dict[str, list[ProposalRow]]:
        """The proposals about documents, by the key of the document."""
        found: dict[str, list[ProposalRow]] = {}
        for row in self.rows:
            correction = row["correction"]
            if correction.kind == "grade":
                found.setdefault(document_key(correction.doc_id), []).append(row)
        return found


def document_key(doc_id: str) -> UncutText:
    """The id of a document as the value of a form field, which may not contain every character."""
    return UncutText(quote(doc_id, safe="", errors="replace"))


def sample_proposals(workbench: Workbench, record: RunRecord, sample: EvaluationSample, back: str) -> SampleProposals:
    """The proposals about a sample that are open or accepted; ``back`` is the address of its page."""
    parameters = {"run": record.run_id, "id": sample.sample_id}
    try:
        found = workbench.corrections.proposals(record.fingerprint, sample_id=sample.sample_id)
    except AueporaError as error:  # a file that was damaged
        return SampleProposals((), parameters, back, str(error))
    return SampleProposals(
        [proposal_row(proposal) for proposal in found if proposal.state != "withdrawn"], parameters, back
    )


def scores_before(
    workbench: Workbench, record: RunRecord, position: int, results: Mapping[str, MetricResult]
) -> dict[str, str]:
    """The scores of a sample with the gold of the dataset, of metrics whose results have corrected gold."""
    signatures = {name: signature_before(result.signature or "") for name, result in results.items()}
    corrected = {name: signature for name, signature in signatures.items() if signature != results[name].signature}

    def read() -> dict[str, str]:
        found = {}
        for name, signature in corrected.items():
            with suppress(AueporaError):
                scores = workbench.store.result(record.run_id, signature).scores
                if isinstance(scores, Scores) and position < len(scores):
                    value = float(scores.values[position])
                    result = replace(results[name], interval=None)  # the digits of one query
                    found[name] = "no score" if math.isnan(value) else metric_number(result, value)
        return found

    key = (record.run_id, workbench.version(record), "scores before corrections", position)
    return workbench.cached(key, read, size=10_000) if corrected else {}


# --- the form ---------------------------------------------------------------------------------------------------------


def find_sample(request: PageRequest) -> tuple[RunRecord, EvaluationSample, int]:
    """The run and the sample that the address of a request names, with its position."""
    workbench, parameters = request.workbench, request.parameters
    if not parameters.get("run") or parameters.get("id") is None:
        raise BadValueError("run, id: give the ids of a run and of a sample")
    record = workbench.find(parameters["run"])
    position = find_position(workbench, record, parameters["id"])
    if position is None:
        raise HTTPException(404, f"{record.run_id} has no sample '{shorten(parameters['id'], 200)}'")
    return record, sample_at(workbench.store, record, position), position


def proposal_form(request: PageRequest) -> Response:
    """The form of a proposal, as a page or as a fragment; ``document`` is the key of the selected document."""
    workbench = request.workbench
    record, sample, position = find_sample(request)
    sample = CorrectedGold.of(workbench.corrections.accepted(record.fingerprint)).correct(sample)
    back = make_url("/query", run=record.run_id, id=sample.sample_id)
    references = [str(text) for text in sample.references]
    documents = _form_documents(workbench, record, sample, position)
    selected = request.parameters.get("document", "")
    return render_template(
        request,
        "gold_form.html",
        sample=sample,
        back=back,
        proposals=sample_proposals(workbench, record, sample, back),
        documents=documents,
        selected=selected,
        grade=0 if any(document["key"] == selected and document["level"] for document in documents) else 1,
        kind=request.parameters.get("kind", "grade"),
        references=[*references, ""],
        is_editable=sum(len(text) for text in references) <= MAX_EDITED_LENGTH,
        kinds=KINDS,
        grades=GRADES,
        user=user_name(),
    )


def _form_documents(
    workbench: Workbench, record: RunRecord, sample: EvaluationSample, position: int
) -> list[dict[str, Any]]:
    """The gold documents of a sample, and those that the run retrieved, each once."""
    gold = GoldMarks(sample)
    places = {doc.doc_id: "gold" for doc in sample.relevant_docs or ()}
    for row in workbench.store.outputs(record.run_id, repeat=0, position=position, texts=False):
        for rank, item in enumerate(row.output.retrieved, 1):
            places.setdefault(item.doc.doc_id, f"rank {rank}")
    return [
        {"key": document_key(doc_id), "id": doc_id, "place": place, "level": gold.levels.get(doc_id)}
        for doc_id, place in list(places.items())[:200]
    ]


def user_name() -> str:
    """The login name of the person who started the server; empty where it is not known."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


# --- proposing and withdrawing ----------------------------------------------------------------------------------------


def _read_user(fields: Fields) -> str:
    """The name in the field ``by``, else the login name."""
    return fields.text("by", MAX_NAME) or user_name()


def propose(request: PageRequest) -> Response:
    """Record a proposal about the sample of the address."""
    fields, log = request.form_fields, request.workbench.corrections
    record, sample, position = find_sample(request)
    kind = fields.choice("kind", KINDS)
    why = fields.text("why", MAX_TEXT)
    if kind == "invalid" and not why:
        raise BadValueError("why: describe why the question is invalid")
    doc_id = (fields.get("other", "").strip() or unquote(fields.get("document", ""))) if kind == "grade" else ""
    correction = make_correction(
        request.workbench.store,
        record,
        sample.sample_id,
        kind,
        _parse_value(kind, fields),
        doc_id=doc_id,
        by=_read_user(fields),
        why=why,
        accepted=log.accepted(record.fingerprint),
        position=position,
    )
    log.propose(correction)
    replaced = [
        proposal.correction.id
        for proposal in log.proposals(record.fingerprint, state="open", sample_id=sample.sample_id)
        if proposal.correction.target == correction.target
        and proposal.correction.after != correction.after
        and proposal.correction.by == correction.by
    ]
    if replaced:
        log.withdraw(replaced, by=correction.by, why="replaced by a later proposal")
    return _answer_change(request, f"Proposed: {shorten(correction.describe(), 200)}")


def _parse_value(kind: CorrectionKind, fields: Fields) -> GoldValue:
    if kind == "invalid":
        return True
    if kind == "references":
        texts = (text.replace("\r\n", "\n") for text in fields.getlist("reference"))
        return tuple(dict.fromkeys(text for text in texts if text.strip()))
    return int(fields.choice("grade", [str(grade) for grade, _ in GRADES]))


def withdraw(request: PageRequest) -> Response:
    """Withdraw the proposal of the form."""
    fields, log = request.form_fields, request.workbench.corrections
    by, why = _read_user(fields), fields.text("why", MAX_TEXT)
    proposal = log.find(fields.get("proposal", ""))
    correction = proposal.correction
    if proposal.state != (fields.get("state") or "open"):
        state = STATES[proposal.state][0]
        raise ConflictError(f"proposal {correction.id} was {state} meanwhile; load the page again")
    if proposal.state == "accepted":  # the results without it become the current ones
        start_task(request, correction.fingerprint, by, lambda: log.withdraw([correction.id], by=by, why=why))
    else:
        log.withdraw([correction.id], by=by, why=why)
    return _answer_change(request, f"Withdrawn: {shorten(correction.describe(), 200)}")


def _answer_change(request: PageRequest, message: str) -> Response:
    """For a script the proposals of the sample; else the page of the form again."""
    back = request.form_fields.get("back", "")
    if not back.startswith(("/query?", "/gold")):
        back = "/gold"
    if not request.form_fields.get("fragment"):
        return RedirectResponse(back, 303)
    record, sample, _ = find_sample(request)
    return render_template(
        request,
        "gold_sample.html",
        message=message,
        proposals=sample_proposals(request.workbench, record, sample, back),
    )


# --- the list ---------------------------------------------------------------------------------------------------------


def gold_page(request: PageRequest) -> Response:
    """The proposals about one dataset, and tabs of the others."""
    records = {run.run_id: run for run in request.workbench.store.runs()}
    names = {record.fingerprint: record.dataset_name for record in reversed(records.values())}
    groups: dict[str, list[ProposalRow]] = {}
    for proposal in request.workbench.corrections.proposals():
        correction = proposal.correction
        query = make_url("/query", run=correction.run, id=correction.sample_id) if correction.run in records else ""
        groups.setdefault(correction.fingerprint, []).append(proposal_row(proposal, query))
    datasets = [(fingerprint, names.get(fingerprint, ""), rows) for fingerprint, rows in groups.items()]
    chosen = request.parameters.get("dataset") or next(iter(groups), "")
    return render_template(request, "gold.html", datasets=datasets, chosen=chosen, task=request.app.state.apply_task)


# --- the effect on all runs -------------------------------------------------------------------------------------------


def effect_page(request: PageRequest) -> Response:
    """The effect of proposals on the runs of their dataset, and the form that applies them; a page or a fragment.

    Without proposals it is that of accepted and withdrawn corrections on runs that are not yet scored accordingly.
    """
    workbench, parameters = request.workbench, request.parameters
    log = workbench.corrections
    chosen = [log.find(text) for text in dict.fromkeys(parameters.getlist("proposal"))]
    fingerprint = parameters.get("dataset") or (chosen[0].correction.fingerprint if chosen else "")
    if not fingerprint:
        raise BadValueError("dataset: give the fingerprint of a dataset, or choose at least one proposal")
    ended = next((proposal for proposal in chosen if proposal.state != "open"), None)
    if ended is not None:
        raise ConflictError(
            f"proposal {ended.correction.id} was {ended.state} meanwhile; load the list of proposals again"
        )
    corrections = [proposal.correction for proposal in chosen]
    log.check_acceptance(correction.id for correction in corrections)
    accepted = log.accepted(fingerprint)
    every = workbench.store.runs()
    records = [record for record in every if record.fingerprint == fingerprint]
    key = (
        fingerprint,
        *(workbench.version(record) for record in records),
        *(correction.id for correction in (*accepted, *corrections)),
    )
    effects = workbench.cached(
        ("effect of corrections", *key),
        lambda: preview_corrections(workbench.store, corrections, accepted=accepted, records=records),
        size=lambda found: 1_000 * sum(1 + len(effect.metrics) for effect in found),
    )
    changing = [effect for effect in effects if effect.metrics]
    return render_template(
        request,
        "gold_effect.html",
        blocks=render_blocks(effect_blocks(effects, read_results(workbench, every))),
        ids=[correction.id for correction in corrections],
        fingerprint=fingerprint,
        runs=pluralize(len(changing), "run"),
        is_current=not changing,
        is_applied=bool(accepted),
        user=user_name(),
    )


def effect_blocks(effects: Sequence[RunEffect], results: Mapping[str, ResultSummaries]) -> list[Block]:
    """The changes of each run as a table that can be collapsed, and sentences about what is not in them.

    The main metric of a run, chosen by the ``results`` of all runs, comes first.
    """
    changing = [effect for effect in effects if effect.metrics]
    names = run_names(effects)
    blocks: list[Block] = []
    for effect in changing[:MAX_SHOWN_RUNS]:
        found = results[effect.record.run_id]
        sentence = _effect_sentence(names[effect.record.run_id], effect, found)
        blocks.append(Details(sentence, _effect_table(effect, found), is_open=len(changing) <= MAX_OPEN_RUNS))
    if len(changing) > MAX_SHOWN_RUNS:
        blocks.append(Prose(f"{len(changing) - MAX_SHOWN_RUNS:,} more runs change; `auepora gold preview` lists all."))
    blocks += [Prose(f"{names[effect.record.run_id]}: {effect.why}", "open") for effect in effects if effect.why][
        :MAX_SHOWN_RUNS
    ]
    return blocks


def _effect_sentence(name: str, effect: RunEffect, found: ResultSummaries) -> str:
    """The name of the run with the number of metrics that change, and the first of them."""
    changed = [metric for metric in _in_order(effect, found) if metric.difference]
    if not changed:
        return f"{name}: no value changes"
    first = changed[0]
    values = " → ".join([number_text(first.old), number_text(first.new)])
    counts = f"{pluralize(len(changed), 'value')} of {len(effect.metrics)}"
    return f"{name}: {counts} change, {found.label(first.name)} {values}"


def _effect_table(effect: RunEffect, found: ResultSummaries) -> list[Block]:
    """The metrics of a run that change, and a sentence about the others."""
    same = [
        metric.name
        for metric in effect.metrics
        if metric.status == "computed" and metric.difference == 0 and not metric.changed
    ]
    rows = [
        _effect_row(metric, found.label(metric.name)) for metric in _in_order(effect, found) if metric.name not in same
    ]
    columns = [
        TableColumn("Metric"),
        *(TableColumn(title, number=True) for title in ("Old", "New", "Difference", "Changed queries")),
    ]
    blocks: list[Block] = [without_empty_columns(simple_table(columns, rows))] if rows else []
    return [*blocks, Prose(f"Same value: {', '.join([found.label(name) for name in same])}.")] if same else blocks


def _in_order(effect: RunEffect, found: ResultSummaries) -> list[MetricEffect]:
    """The metrics of a run, the main one first, those without a new value last."""
    names = [found.main, *found.ranked, *(metric.name for metric in effect.metrics)]
    return sorted(effect.metrics, key=lambda metric: (metric.status != "computed", names.index(metric.name)))


def _effect_row(effect: MetricEffect, label: str) -> Row:
    old, new = number_text(effect.old), number_text(effect.new)
    if effect.status != "computed":
        status = "needs judging again" if effect.status == "needs judging" else "not computed"
        return [label, old, Cell(status, "open", "!", note=effect.why), "", ""]
    difference = effect.difference
    if not difference:
        change = Cell("same" if difference == 0 else "n/a", "muted")
    else:
        change = Cell(f"{'+' if difference > 0 else '−'}{format_value(abs(difference))}")
    return [label, old, new, change, f"{len(effect.changed):,}" if effect.changed else ""]


def applied_page(request: PageRequest) -> Response:
    """The values of the runs of a dataset with the old gold and with applied corrections; a page or a fragment."""
    workbench, fingerprint = request.workbench, request.parameters.get("dataset", "")
    records = workbench.store.runs()
    effects = [_applied_effect(workbench, record) for record in records if record.fingerprint == fingerprint]
    shown = [effect for effect in effects if effect.metrics]
    return render_template(
        request,
        "gold_applied.html",
        blocks=render_blocks(effect_blocks(shown, read_results(workbench, records))),
        count=len(shown),
    )


def _applied_effect(workbench: Workbench, record: RunRecord) -> RunEffect:
    """The results of a run with corrected gold, each with its value before."""
    return RunEffect(
        record,
        tuple(
            MetricEffect(
                summary.name,
                summary.signature or "",
                summary.details.corrections.get("value_before"),
                summary.known_value,
            )
            for summary in result_summaries(workbench.store, record.run_id)
            if summary.details.corrections
        ),
    )


# --- application ------------------------------------------------------------------------------------------------------


@dataclass
class ApplyTask:
    """Corrections that are being applied to the runs of a dataset, in a thread."""

    done: int = 0
    total: int = 1
    error: str = ""
    unfinished: list[str] = field(default_factory=list)
    """What has no new number, in words."""
    is_active: bool = True

    def add_progress(self, done: int, total: int) -> None:
        """Note the number of finished runs and of all."""
        self.done, self.total = done, max(total, 1)

    def add_unfinished(self, effects: Sequence[RunEffect]) -> None:
        """Note the runs and metrics that have no new value."""
        names = run_names(effects)
        self.unfinished += [f"{names[effect.record.run_id]}: {effect.why}" for effect in effects if effect.why]
        for effect in effects:
            missing = [metric.name for metric in effect.metrics if metric.status != "computed"]
            name = names[effect.record.run_id]
            self.unfinished += [f"{name}: no new value of {', '.join(missing)}"] if missing else []


_START = threading.Lock()


def apply(request: PageRequest) -> Response:
    """Apply the proposals of the form in a thread; the list shows the progress."""
    fields, log = request.form_fields, request.workbench.corrections
    fingerprint, by = fields.get("dataset", ""), _read_user(fields)
    ids = list(dict.fromkeys(fields.getlist("proposal")))
    if not fingerprint:
        raise BadValueError("dataset: give the fingerprint of the dataset")
    for correction in [log.find(text).correction for text in ids]:
        if correction.fingerprint != fingerprint:
            raise BadValueError(f"proposal: {correction.id} is of another dataset")
    start_task(request, fingerprint, by, lambda: log.accept(ids, by=by))
    return RedirectResponse("/gold", 303)


def start_task(request: PageRequest, fingerprint: str, by: str, change: Callable[[], object]) -> None:
    """Change the proposals of a dataset, then score its runs in a thread. One such task may be active."""
    if not by:
        raise BadValueError("by: give your name")
    workbench, task = request.workbench, ApplyTask()
    with _START:
        active: ApplyTask | None = request.app.state.apply_task
        if active is not None and active.is_active:
            raise ConflictError("corrections are being applied already; wait until this has ended")
        change()
        request.app.state.apply_task = task

    def score_runs() -> None:
        try:
            log = workbench.corrections
            effects = apply_corrections(workbench.store, log, fingerprint, by=by, progress=task.add_progress)
            task.add_unfinished(effects)
        except AueporaError as error:
            task.error = str(error)
        except Exception:
            task.error = "an error in the program; the terminal shows the details"
            raise
        finally:
            task.is_active = False

    threading.Thread(target=score_runs, name="corrections", daemon=True).start()


def task_state(request: PageRequest) -> Response:
    """The progress of the application, as a fragment."""
    return render_template(request, "gold_task.html", task=request.app.state.apply_task)


ROUTES = [
    page_route("/gold", gold_page),
    page_route("/gold/propose", proposal_form),
    page_route("/gold/propose", propose, method="POST"),
    page_route("/gold/withdraw", withdraw, method="POST"),
    page_route("/gold/effect", effect_page),
    page_route("/gold/applied", applied_page),
    page_route("/gold/apply", apply, method="POST"),
    page_route("/gold/task", task_state),
]
