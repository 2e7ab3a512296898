"""The files of a batch: ``NAME.batch.json``, its draw ``NAME.draw.json``, its labels ``NAME.jsonl``."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import msgspec

from ..errors import AueporaError, BadValueError, ConflictError, DataFileError, UnknownBatchError
from ..io.jsonl import current_time, save_jsonl_dataset
from ..io.labels import write_labels
from ..runtime.files import is_writable, read_bytes, translate_write_errors, write_lines
from ..runtime.processes import gc_paused
from ..store.connect import default_labels
from ..store.runs import RunStore
from .batch import LabelBatch
from .batch_plans import BATCH_ID, BatchOptions, BatchPlan
from .draws import LabelDraw, draw_path, fix_design, record_draw
from .pair_draws import write_pair_draw

BATCH_SUFFIX = ".batch.json"
BATCH_VERSION = 1


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
        runs=tuple(one.run_id for one in plan.runs),
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
    del row["folder"], row["name"]
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
