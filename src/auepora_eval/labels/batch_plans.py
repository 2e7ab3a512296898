"""Planning a batch of labels: what a person chooses for it, its items, the forecast of what they can decide, its files.

A batch is a file ``NAME.batch.json``; its draw is ``NAME.draw.json``, its labels are ``NAME.jsonl``.
"""

from __future__ import annotations

import re
import secrets
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..core.types import EvaluationSample
from ..errors import AueporaError, BadValueError, ConflictError, DataFileError, UnknownBatchError
from ..io.join import load_dataset
from ..io.jsonl import current_time, save_jsonl_dataset
from ..io.labels import write_labels
from ..perturb.edits import hash_uniform
from ..runtime.files import is_writable, read_bytes, translate_write_errors, write_lines
from ..runtime.processes import gc_paused
from ..stats.sequential import SequentialDesign
from ..store.connect import default_labels
from ..store.records import RunRecord
from ..store.runs import RunStore
from .batch import SHOWN_PARTS, BatchEntry, LabelBatch, Purpose
from .choices import LabelScale
from .draws import ComparisonDesign, LabelDraw, draw_path, fix_design, record_draw
from .pair_draws import PairDraw, write_pair_draw

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
    records = tuple(store.find(run) for run in options.runs)
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
    scale = "0-3" if purpose == "grade" else options.scale
    return replace(
        options,
        id=options.id or new_batch_id(),
        scale=None if scale is None else str(LabelScale.of(scale)),
        blind=options.blind or purpose == "compare",
    )


def sample_positions(store: RunStore, record: RunRecord) -> dict[str, int]:
    """The position of each sample in the dataset of a run."""
    return {sample_id: position for position, sample_id in enumerate(store.sample_ids(record.run_id))}


def plan_review(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the review of samples that a person picked."""
    (record,) = records
    ids = list(dict.fromkeys(options.samples))
    if not ids:
        raise BadValueError("samples: there is no sample to review; pick at least one")
    if options.blind:  # a list may be in the order of its scores
        ids.sort(key=lambda sample_id: hash_uniform(options.seed, "review", sample_id))
    positions = sample_positions(store, record)
    unknown = next((sample_id for sample_id in ids if sample_id not in positions), None)
    if unknown is not None:
        raise BadValueError(f"samples: {record.run_id} has no sample {unknown!r:.80}")
    wanted = {positions[sample_id]: sample_id for sample_id in ids}
    single = next(iter(wanted)) if len(wanted) == 1 else None
    rows = store.outputs(record.run_id, repeat=0, position=single, positions=wanted, texts=False)
    answered = {row.sample_id for row in rows if row.output.error is None and row.output.response is not None}
    if missing := next((sample_id for sample_id in ids if sample_id not in answered), None):
        raise BadValueError(f"samples: {record.run_id} has no answer to sample {missing!r:.80}")
    sentences = (
        f"{len(ids):,} {'sample that was' if len(ids) == 1 else 'samples that were'} picked, not drawn: the labels are "
        "kept and shown, and nothing is estimated from them.",
    )
    return BatchPlan(
        options,
        store,
        runs=records,
        metric=options.metric,
        entries=tuple(BatchEntry(sample_id, (positions[sample_id],)) for sample_id in ids),
        draw=None,
        forecast=sentences,
        figures={"n": len(ids)},
    )


def plan_drafts(store: RunStore, options: BatchOptions, records: tuple[RunRecord, ...]) -> BatchPlan:
    """Plan the labels that accept or reject drafts of samples."""
    if options.dataset is None:
        raise BadValueError("dataset: give the file of the drafts")
    drafts = tuple(load_dataset(options.dataset))
    entries = tuple(BatchEntry(draft.sample_id, (place,)) for place, draft in enumerate(drafts))
    sentences = (f"{len(drafts):,} drafts; when the batch is closed, the accepted ones are written to a file.",)
    return BatchPlan(
        options,
        store,
        runs=records,
        metric=None,
        entries=entries,
        draw=None,
        forecast=sentences,
        figures={"n": len(drafts)},
        drafts=drafts,
    )


# --- the files of a batch --------------------------------------------------------------------------------------------


BATCH_SUFFIX = ".batch.json"
BATCH_VERSION = 1
_NOT_STORED = ("folder", "name", "suffix", "provenance", "tuning", "adjudicates")
"""Where the files of a batch are, and what only sessions in a terminal have."""


def create_batch(folder: str | Path, plan: BatchPlan) -> LabelBatch:
    """Fix the design, record the draw and write the batch. ``ConflictError`` if this plan was created before."""
    options, directory = plan.options, Path(folder).absolute()
    with translate_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    if not is_writable(directory):
        raise DataFileError(directory, None, "cannot be written to; change its rights, or use another --labels folder")
    batch = LabelBatch(
        id=options.id,
        title=options.title,
        purpose=options.purpose,
        runs=tuple(run.run_id for run in plan.runs),
        metric=plan.metric,
        scale=options.scale,
        instructions=options.instructions,
        annotators=options.annotators,
        blind=options.blind,
        shown=options.shown,
        seed=options.seed,
        created=current_time(),
        created_by=options.created_by,
        draw=None if plan.draw is None else plan.draw.id,
        items=plan.entries,
        folder=str(directory),
        name=_file_name(options),
    )
    content = _encode_batch(batch)
    if batch_path(directory, batch.id) is not None:
        raise ConflictError("this batch was created already")
    if isinstance(plan.draw, LabelDraw) and plan.draw.comparison is not None:
        fix_design(plan.store, plan.runs[0], plan.draw)
    leases = batch.file(".leases.json")
    try:
        with translate_write_errors(leases):
            leases.touch(exist_ok=False)  # of two processes with the same plan one fails here
    except DataFileError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise ConflictError("this batch was created already") from error
        raise
    try:
        if isinstance(plan.draw, LabelDraw):
            record_draw(batch.journal, plan.draw)
        elif plan.draw is not None:
            write_pair_draw(draw_path(batch.journal), plan.draw)
        if plan.drafts:
            save_jsonl_dataset(plan.drafts, batch.drafts_file)
        write_labels(batch.journal, ())
        write_lines(batch.file(BATCH_SUFFIX), [content])
    except AueporaError:
        leases.unlink(missing_ok=True)  # a second try is possible
        raise
    return batch


def _encode_batch(batch: LabelBatch) -> bytes:
    """The content of the file of a batch."""
    row = {"version": BATCH_VERSION, **msgspec.to_builtins(batch)}
    for name in _NOT_STORED:
        del row[name]
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError as error:
        raise BadValueError("the batch cannot be written: a text contains half of a surrogate pair") from error


def labels_folder(store: RunStore, folder: str | Path | None = None) -> Path:
    """The labels folder: ``folder``, else ``default_labels`` of the store."""
    return default_labels(store.label) if folder is None else Path(folder).absolute()


def list_batches(folder: str | Path, problems: list[str] | None = None) -> list[LabelBatch]:
    """The batches of a folder, newest first; batches that cannot be read are added to the problems."""
    found = []
    for path in sorted(Path(folder).glob(f"*{BATCH_SUFFIX}")):
        try:
            found.append(_read_batch(path))
        except DataFileError as error:
            if problems is not None:
                problems.append(str(error))
    return sorted(found, key=attrgetter("created", "id"), reverse=True)


def find_batch(folder: str | Path, batch_id: str) -> LabelBatch:
    """The batch with that id; ``UnknownBatchError`` where there is none."""
    path = batch_path(Path(folder), batch_id) if BATCH_ID.fullmatch(batch_id) else None
    if path is None:
        raise UnknownBatchError("there is no batch of labels at this address; it may have been deleted")
    return _read_batch(path)


def batch_path(folder: Path, batch_id: str) -> Path | None:
    """The path of the batch with that id; ``None`` where there is none."""
    return next(folder.glob(f"*-{batch_id}{BATCH_SUFFIX}"), None)


def _read_batch(path: Path) -> LabelBatch:
    data = read_bytes(path)
    try:
        version = msgspec.json.decode(msgspec.json.decode(data, type=dict[str, msgspec.Raw])["version"])
        if version == BATCH_VERSION:
            with gc_paused():
                found = msgspec.json.decode(data, type=LabelBatch)
            return replace(found, folder=str(path.parent.absolute()), name=path.name.removesuffix(BATCH_SUFFIX))
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError) as error:
        raise DataFileError(path, None, f"is no batch of labels ({error}); restore it") from error
    raise DataFileError(path, None, f"is a batch of version {version}, which needs a newer auepora_eval")


def _file_name(options: BatchOptions) -> str:
    ascii_title = unicodedata.normalize("NFKD", options.title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_title)[:40].strip("-") or options.purpose
    return f"{slug}-{options.id}"


# --- the same in a terminal ------------------------------------------------------------------------------------------


MAX_LISTED = 20
"""A command lists up to so many picked samples."""


def label_command(batch: LabelBatch, draw: LabelDraw | None, store: str) -> str:
    """The command that labels the items of a batch in a terminal, into the same file; empty if there is none."""
    words = ["auepora", "label"]
    if draw is not None and draw.comparison is not None:
        design = draw.comparison
        words += ["--for", *batch.runs, "--n", str(design.n), "--seed", str(draw.seed)]
        words += [] if design.delta is None else ["--delta", str(design.delta)]
        words += ["--looks", str(_num_looks(design))] if design.looks else []
    elif draw is not None:
        words += [*batch.runs, "--n", str(len(draw.drawn_items)), "--seed", str(draw.seed)]
        words += ["--stratify", draw.stratify] if draw.stratify else []
    elif batch.purpose == "review" and len(batch.items) <= MAX_LISTED:
        words += [*batch.runs, *chain.from_iterable(("--sample", item.sample_id) for item in batch.items)]
    else:
        return ""
    metric = batch.metric if draw is None or draw.comparison is None else draw.comparison.name
    words += ["-m", metric] if metric else []
    words += ["--scale", batch.scale] if batch.scale else []
    words += ["--blind"] if batch.blind else []
    return shlex.join([*words, "--labels", str(batch.journal), "--store", store])


def _num_looks(design: ComparisonDesign) -> int:
    """The number of looks that was asked for: there is none at very few samples."""
    fewest = len(design.looks)
    numbers = range(fewest, design.n + 1)
    return next((k for k in numbers if SequentialDesign.plan(design.n, looks=k).looks == design.looks), fewest)


def result_commands(batch: LabelBatch, store: str) -> list[tuple[str, str]]:
    """What can be done with the labels of a batch, each with its command."""
    labels = str(batch.journal)
    if batch.purpose in ("calibrate", "compare"):
        words = ["auepora", "judge", "calibrate", *batch.runs, "--labels", labels]
        words += ["-m", batch.metric] if batch.metric else []
        words += ["--scale", batch.scale] if batch.scale else []
        return [("The results in a terminal:", shlex.join([*words, "--store", store]))]
    if batch.purpose == "drafts" and batch.accepted_file.exists():
        return [("Check the accepted drafts:", shlex.join(["auepora", "validate", str(batch.accepted_file)]))]
    if batch.purpose != "grade":
        return []
    rescore = ["auepora", "rescore", batch.runs[0], "--store", store]
    if batch.draw is not None:
        words = [*rescore, "--qrels", "QRELS", "--grades", labels]
        return [("Correct the metrics; QRELS are the grades of the model:", shlex.join(words))]
    pool = ["auepora", "pool", *batch.runs, "-o", "pool.jsonl", "--store", store]
    write = ["auepora", "judge", "relevance", "pool.jsonl", "--labels", labels, "-o", "qrels.txt"]
    return [
        ("Pool the documents again:", shlex.join(pool)),
        ("Write the grades as qrels:", shlex.join(write)),
        ("Score a run with them:", shlex.join([*rescore, "--qrels", "qrels.txt"])),
    ]
