"""Lists that need a person: failed judgements, disagreements with judges, unjudged documents, drafts; sample sets."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import RedirectResponse, Response

from ..calibration.calibrate import judge_disagreements
from ..calibration.scores import load_run_scores
from ..core.grouping import group_pairs
from ..core.results import display_name, metric_labels
from ..core.scores import Status
from ..errors import AueporaError, BadValueError, ConflictError, DataFileError
from ..io.jsonl import current_time
from ..io.labels import Label, LabelEvent, LabelJournal
from ..io.sample_sets import SampleSet, load_sample_set, sample_set_names, sample_set_path, save_sample_set
from ..judge.ratings import Scale
from ..labels.agreement import aggregate_labels
from ..labels.batch import LabelBatch
from ..labels.batch_plans import BatchOptions, create_batch, list_batches
from ..labels.names import MAX_NAME
from ..queries.columns import ANSWERED, EMPTY
from ..queries.filters import Condition, SampleFilter
from ..queries.table import QueryTable
from ..store.connect import default_labels
from ..store.records import RunRecord
from ..store.runs import result_summaries
from .batch_planners import plan_batch
from .page_request import Fields, PageRequest, page_route
from .query_list import QueryListPage, query_table, records_of
from .workbench import Workbench, make_url, render_template

MAX_QUEUE = 10_000
"""The number of queries that may be opened as a queue."""
MAX_DISAGREEMENTS = 100
"""The number of disagreements that a page shows."""
_LOW = (0.5, 1.0)
"""Rankings are listed where a smaller proportion of the first documents is judged."""

# --- lists of queries that need a person -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewList:
    """Queries that need a person: how many, why, and the filter that lists them."""

    title: str
    count: int
    filter: SampleFilter
    metric: str = ""
    first: str = ""
    """The first query, if documents are to be graded on the pages of the queries."""

    def url(self, run_id: str) -> str:
        """The address of the list."""
        return make_url("/review", run=run_id, **self._params)

    def grade_url(self, run_id: str) -> str:
        """The address of the first query; the pages of the queries lead to the next one."""
        return make_url("/query", run=run_id, id=self.first, **self._params)

    @property
    def _params(self) -> dict[str, list[str]]:
        return group_pairs(self.filter.to_params())


def failed_lists(table: QueryTable) -> list[ReviewList]:
    """The failed measurements of a run by metric and reason, the most frequent first."""
    found = []
    (run,) = table.runs
    for name, result in run.results.items():
        column = run.scores(name) if result.details.num_measure_failed else None
        if column is None:
            continue
        codes = column.reason_codes[column.status == Status.MEASURE_FAILED].tolist()
        for code, count in Counter(codes).items():
            reason = column.reasons[code]
            value = f"measure-failed:{reason}" if reason else "measure-failed"
            chosen = SampleFilter(conditions=(Condition("metric", name, value=value),))
            found.append(
                ReviewList(f"{display_name(result)}: {reason.replace('_', ' ') or 'failed'}", count, chosen, name)
            )
    return sorted(found, key=lambda listed: (-listed.count, listed.title))


def unjudged_lists(table: QueryTable) -> list[ReviewList]:
    """The rankings of a run whose first documents are not judged, by the metrics ``judged@k``."""
    found: list[ReviewList] = []
    (run,) = table.runs
    for name in run.results:
        column = run.scores(name) if name.startswith("judged@") else None
        for limit in () if column is None else _LOW:
            condition = Condition("metric", name, operator="<", value=f"{limit:g}")
            chosen = SampleFilter(conditions=(condition,), sort=condition.key)
            rows = chosen.rows(table)
            if len(rows) and (not found or found[-1].count != len(rows)):
                found.append(ReviewList(f"{name} below {limit:g}", len(rows), chosen, first=table.ids[int(rows[0])]))
    return found


# --- disagreements between judges and people -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DisagreementList:
    """The disagreements of one judge metric with the labels of one batch."""

    batch: LabelBatch
    metric: str = ""
    rows: Sequence[Mapping[str, Any]] = ()
    """The answers on which they disagree, with the comments of the annotators."""
    problem: str = ""
    """Why there is no list."""


def disagreement_lists(workbench: Workbench, record: RunRecord) -> tuple[list[DisagreementList], int]:
    """The disagreements in closed batches of a run, and the number of batches that are still open.

    Those of an open batch are not shown: an annotator who sees what the judge gave is not independent any more.
    """
    found: list[DisagreementList] = []
    is_open, judged = (
        0,
        cache(lambda: dict.fromkeys(judgement.metric for judgement in workbench.store.judgements(record.run_id))),
    )
    for batch in list_batches(workbench.labels):
        if batch.purpose not in ("calibrate", "compare", "review") or record.run_id not in batch.runs:
            continue
        try:
            journal = LabelJournal(batch.journal)
            journal.refresh()
            if journal.closed is None:
                is_open += 1
            else:
                metrics = judged() if batch.metric is None else [batch.metric]
                found += [_disagreements(workbench, record, batch, journal, metric) for metric in metrics]
        except AueporaError as error:
            found.append(DisagreementList(batch, problem=str(error)))
    return found, is_open


def _disagreements(
    workbench: Workbench, record: RunRecord, batch: LabelBatch, journal: LabelJournal, metric: str
) -> DisagreementList:
    scores = load_run_scores(workbench.store, record, metric)
    labels = _labels_of(journal, record)
    scale = None if batch.scale is None else Scale.parse(batch.scale)
    by_sample: dict[str, list[Label]] = {}
    for label in labels:
        by_sample.setdefault(label.sample_id, []).append(label)
    found = judge_disagreements(scores, aggregate_labels(labels, scale).values)
    rows = []
    for disagreement in found:
        own = by_sample[disagreement.sample_id]
        comments = "; ".join(label.comment for label in own if label.comment)
        is_example = all(label.tuning for label in own)
        rows.append({"found": disagreement, "is_example": is_example, "comments": comments})
    metrics = metric_labels(result_summaries(workbench.store, record.run_id))
    return DisagreementList(batch, metrics.get(scores.metric, scores.metric), rows)


def _labels_of(journal: LabelJournal, record: RunRecord) -> list[Label]:
    """The human labels of the answers of a run."""
    return [label for label in journal.labels if label.run == record.run_id and label.provenance != "model"]


def mark_example(workbench: Workbench, record: RunRecord, batch_id: str, sample_id: str) -> None:
    """Make the labels of an answer tuning labels, which calibration does not use."""
    journal = LabelJournal(workbench.queue(batch_id).batch.journal)
    journal.refresh()
    if journal.closed is None:
        raise ConflictError("the batch is open; close it before its labels become examples")
    keys = [label.key for label in _labels_of(journal, record) if label.sample_id == sample_id and not label.tuning]
    if not keys:
        raise ConflictError("there is no label of this answer that is not an example already")
    journal.append(*(LabelEvent("tuning", key, at=current_time()) for key in keys))


# --- the page --------------------------------------------------------------------------------------------------------


def open_drafts(workbench: Workbench) -> Iterator[tuple[LabelBatch, int]]:
    """The batches of drafts that are not closed, each with the number of labelled ones."""
    for batch in list_batches(workbench.labels):
        if batch.purpose == "drafts":
            with suppress(AueporaError):  # the list of batches shows what is wrong with it
                progress = workbench.queue(batch.id).progress()
                if progress.closed is None:
                    yield batch, progress.complete


def listed_sets(labels: Path, table: QueryTable) -> tuple[list[tuple[SampleSet, int]], list[str]]:
    """The sets with a sample of the run, each with how many it has, and why others cannot be read."""
    found: list[tuple[SampleSet, int]] = []
    problems: list[str] = []
    for name in sample_set_names(labels):
        try:
            sample_set = load_sample_set(labels, name)
        except DataFileError as error:
            problems.append(str(error))
            continue
        count = int(np.count_nonzero(table.with_ids(sample_set.ids)))
        if count:
            found.append((sample_set, count))
    return found, problems


def review_page(request: PageRequest) -> Response:
    """The lists of a run that need a person."""
    workbench = request.workbench
    records = records_of(workbench, request.parameters)
    record, table = records[-1], query_table(workbench, records[-1:])
    sets, problems = listed_sets(workbench.labels, table)
    samples = sets[0][0].name if sets else ""
    if workbench.labels != default_labels(workbench.label):
        samples = str(sample_set_path(workbench.labels, samples))
    failed, unjudged = failed_lists(table), unjudged_lists(table)
    lists, params = [*failed, *unjudged], request.parameters
    has_filter = any(name in params for name in ("q", "where", "sort"))
    added = [] if has_filter or not lists else lists[0].filter.to_params()
    page = QueryListPage(request, Fields([*params.multi_items(), *added]))
    return render_template(
        request,
        "review.html",
        record=record,
        groups=[("Failed judgements", failed), ("Unjudged documents", unjudged)],
        list=page,
        chosen=next((found for found in lists if found.filter == page.filter), None),
        has_judged=any(name.startswith("judged@") for name in table.metrics),
        drafts=list(open_drafts(workbench)),
        sets=sets,
        problems=problems,
        samples=shlex.quote(samples),
    )


def disagreements_part(request: PageRequest) -> Response:
    """The disagreements between the judges of a run and people."""
    record = records_of(request.workbench, request.parameters)[-1]
    lists, is_open = disagreement_lists(request.workbench, record)
    return render_template(
        request, "review_disagreements.html", record=record, lists=lists, is_open=is_open, longest=MAX_DISAGREEMENTS
    )


# --- changes ---------------------------------------------------------------------------------------------------------


def save_set(request: PageRequest) -> Response:
    """Save the queries of a filter as a set, and list them."""
    workbench, form = request.workbench, request.form_fields
    records, name = records_of(workbench, form), form.get("name", "").strip()
    table = query_table(workbench, records)
    made = form.sample_filter().make_set(
        table, name, reason=form.get("reason", ""), created_by=form.get("by", "")[:MAX_NAME]
    )
    save_sample_set(workbench.labels, made)
    return RedirectResponse(
        make_url("/queries", run=[record.run_id for record in records], where=str(Condition("set", value=name))), 303
    )


def open_queue(request: PageRequest) -> Response:
    """Open the answers of a filter as a queue: a batch of picked samples."""
    workbench, form = request.workbench, request.form_fields
    records = records_of(workbench, form)
    record, table, chosen = records[-1], query_table(workbench, records), form.sample_filter()
    states = table.states(len(records) - 1)
    ids = [table.ids[row] for row in chosen.rows(table).tolist() if states[row] in (ANSWERED, EMPTY)]
    if not ids:
        raise BadValueError("there is nothing to label: no query of the filter has an answer")
    if len(ids) > MAX_QUEUE:
        problem = f"{len(ids):,} queries are too many for a queue; narrow the filter to {MAX_QUEUE:,} or fewer"
        raise BadValueError(f"{problem}, or draw a random sample with a new batch")
    words = [f"search {chosen.search}"] if chosen.search else []
    words += map(str, chosen.conditions)
    title = form.get("title", "").strip() or ", ".join(words) or "all answers"
    options = BatchOptions(
        "review",
        (record.run_id,),
        f"Review of {title}"[:100],
        metric=form.get("metric") or None,
        samples=tuple(ids),
        created_by=form.get("by", "")[:MAX_NAME],
    )
    batch = create_batch(workbench.labels, plan_batch(workbench.store, options))
    return RedirectResponse(f"/batches/{batch.id}", 303)


def review_sample(request: PageRequest) -> Response:
    """Open one sample of a run for a label: in the open review of this sample alone, or in a new one."""
    workbench, sample = request.workbench, request.form_fields.get("sample", "")
    record = workbench.find(request.form_fields.get("run", ""))
    for batch in list_batches(workbench.labels):
        is_same = batch.purpose == "review" and batch.runs == (record.run_id,)
        if is_same and [item.sample_id for item in batch.items] == [sample]:
            with suppress(AueporaError):  # a journal that cannot be read
                if not workbench.queue(batch.id).is_closed:
                    return RedirectResponse(f"/label/{batch.id}", 303)
    options = BatchOptions("review", (record.run_id,), f"One query of {record.name}"[:100], samples=(sample,))
    batch = create_batch(workbench.labels, plan_batch(workbench.store, options))
    return RedirectResponse(f"/label/{batch.id}", 303)


def use_example(request: PageRequest) -> Response:
    """Mark the labels of a disagreement as tuning labels."""
    workbench, form = request.workbench, request.form_fields
    record = records_of(workbench, form)[-1]
    mark_example(workbench, record, form.get("batch", ""), form.get("sample", ""))
    return RedirectResponse(f"{make_url('/review', run=record.run_id)}#disagreements", 303)


ROUTES = [
    page_route("/review", review_page),
    page_route("/review/disagreements", disagreements_part),
    page_route("/review/queue", open_queue, method="POST"),
    page_route("/batches/review", review_sample, method="POST"),
    page_route("/review/example", use_example, method="POST"),
    page_route("/sets", save_set, method="POST"),
]
