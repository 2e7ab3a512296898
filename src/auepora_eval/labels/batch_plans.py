"""Planning a batch of labels: what a person chooses for it, its items, and the forecast of what they can decide."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from ..core.types import EvaluationSample
from ..errors import BadValueError
from ..io.join import load_dataset
from ..perturb.edits import hash_uniform
from ..store.records import RunRecord
from ..store.runs import RunStore
from .batch import SHOWN_PARTS, BatchEntry, Purpose
from .choices import LabelScale
from .draws import LabelDraw
from .pair_draws import PairDraw

GRADE_SCALE = "0-3"
BATCH_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What a person chooses for a batch."""

    purpose: Purpose
    runs: tuple[str, ...] = ()
    """Ids or names: one run; of a comparison two; of grades one or more; of drafts none."""
    title: str = ""
    metric: str | None = None
    """The judge metric; of a comparison by default the only one, or ``PEOPLE_ONLY``."""
    n: int = 100
    """The number of samples, or of pairs of query and document, to draw."""
    stratify: str | None = None
    seed: int = 0
    delta: float | None = None
    looks: int = 0
    history: tuple[str, ...] = ()
    """Label files of earlier runs, for the draw of a comparison."""
    scale: str | None = None
    annotators: int = 1
    instructions: str = ""
    blind: bool = True
    shown: tuple[str, ...] = ("documents",)
    samples: tuple[str, ...] = ()
    """Ids of the samples to review."""
    dataset: str | None = None
    """The file of drafts."""
    qrels: str | None = None
    """Of grades: qrels with the grades of a model for all pooled documents. Without them all ungraded documents of the
    pool are graded."""
    metrics: tuple[str, ...] = ()
    """Of grades: the metrics to correct."""
    depth: int = 10
    """Of grades: the number of documents of each run in the pool."""
    created_by: str = ""
    id: str = ""
    """The id of the batch, of ``new_batch_id``; the same id makes a batch once. Default: a new one."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch before it is created: its items and what they can decide."""

    options: BatchOptions
    store: RunStore = field(repr=False)
    runs: tuple[RunRecord, ...]
    metric: str | None
    entries: tuple[BatchEntry, ...]
    draw: LabelDraw | PairDraw | None
    forecast: tuple[str, ...]
    """What the labels can decide, a sentence each."""
    figures: Mapping[str, Any]
    """The forecast in numbers."""
    drafts: tuple[EvaluationSample, ...] = ()


def new_batch_id() -> str:
    """A random id."""
    return secrets.token_hex(6)


BatchPlanner = Callable[[RunStore, BatchOptions, tuple[RunRecord, ...]], BatchPlan]
"""Draws the items of a batch for one purpose. The packages that use labels have the planners of their purposes."""


def plan_items(store: RunStore, options: BatchOptions, planners: Mapping[Purpose, BatchPlanner]) -> BatchPlan:
    """Draw the items of a batch and forecast what their labels can decide; nothing is written."""
    options = _check_batch_options(options)
    records = tuple(store.find(one) for one in options.runs)
    plan = planners[options.purpose](store, options, records)
    total = len(plan.entries) * options.annotators
    figures = {"items": len(plan.entries), "annotators": options.annotators, **plan.figures}
    if options.annotators > 1:
        sentence = f"Each item is labelled by {options.annotators} annotators; together they label {total:,} items."
        plan = replace(plan, forecast=(*plan.forecast, sentence))
    return replace(plan, figures=figures)


def _check_batch_options(options: BatchOptions) -> BatchOptions:
    """The options with their defaults; ``BadValueError`` names the first that is invalid."""
    purpose = options.purpose
    if purpose not in get_args(Purpose):
        raise BadValueError(f"purpose: {purpose!r} is unknown; known: {', '.join(get_args(Purpose))}")
    wanted = {"compare": "two runs", "grade": "one run or more", "drafts": "no run"}.get(purpose, "one run")
    fits = {"compare": len(options.runs) == 2, "grade": bool(options.runs), "drafts": not options.runs}
    if not fits.get(purpose, len(options.runs) == 1):
        raise BadValueError(f"runs: {len(options.runs)} are given; this purpose needs {wanted}")
    if not 1 <= options.annotators <= 100:
        raise BadValueError(f"annotators: {options.annotators} is not a number from 1 to 100")
    if options.id and not BATCH_ID.fullmatch(options.id):
        raise BadValueError("id: an id has 12 hexadecimal digits")
    for name in options.shown:
        if name not in SHOWN_PARTS or (name == "relevance" and options.blind):
            allowed = ", ".join(SHOWN_PARTS[:2] if options.blind else SHOWN_PARTS)
            reason = "a blind batch" if name == "relevance" else "this batch"
            raise BadValueError(f"shown: {name!r} cannot be shown in {reason}; possible: {allowed}")
    if purpose == "drafts" and options.scale is not None:
        raise BadValueError("scale: drafts are accepted or rejected; leave the scale out")
    scale = GRADE_SCALE if purpose == "grade" else options.scale
    return replace(
        options,
        id=options.id or new_batch_id(),
        scale=None if scale is None else str(LabelScale.of(scale)),
        blind=options.blind or purpose == "compare",
    )


def sample_positions(store: RunStore, record: RunRecord) -> dict[str, int]:
    """The position of each sample in the dataset of a run."""
    return {one: position for position, one in enumerate(store.sample_ids(record.run_id))}


def plan_review(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the review of samples that a person picked."""
    (record,) = records
    ids = list(dict.fromkeys(options.samples))
    if not ids:
        raise BadValueError("samples: there is no sample to review; pick at least one")
    if options.blind:  # a list may be in the order of its scores
        ids.sort(key=lambda one: hash_uniform(options.seed, "review", one))
    positions = sample_positions(store, record)
    for one in ids:
        if one not in positions:
            raise BadValueError(f"samples: {record.run_id} has no sample {one!r:.80}")
    wanted = {positions[one]: one for one in ids}
    single = next(iter(wanted)) if len(wanted) == 1 else None
    rows = store.outputs(record.run_id, repeat=0, position=single, positions=wanted, texts=False)
    answered = {row.sample_id for row in rows if row.output.error is None and row.output.response is not None}
    if missing := next((one for one in ids if one not in answered), None):
        raise BadValueError(f"samples: {record.run_id} has no answer to sample {missing!r:.80}")
    entries = tuple(BatchEntry(one, (positions[one],)) for one in ids)
    sentences = (
        f"{len(ids):,} {'sample that was' if len(ids) == 1 else 'samples that were'} picked, not drawn: the labels are "
        "kept and shown, and nothing is estimated from them.",
    )
    return BatchPlan(options, store, records, options.metric, entries, None, sentences, {"n": len(ids)})


def plan_drafts(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the labels that accept or reject drafts of samples."""
    if options.dataset is None:
        raise BadValueError("dataset: give the file of the drafts")
    drafts = tuple(load_dataset(options.dataset))
    entries = tuple(BatchEntry(one.sample_id, (place,)) for place, one in enumerate(drafts))
    sentences = (f"{len(drafts):,} drafts; when the batch is closed, the accepted ones are written to a file.",)
    return BatchPlan(options, store, records, None, entries, None, sentences, {"n": len(drafts)}, drafts)
