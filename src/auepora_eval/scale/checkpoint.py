"""Scoring with a checkpoint folder: its manifest, its units and parts, and the executor that resumes.

A part is a Parquet file with the scores of many samples, from which the same ``ScoredBatch`` can be read. A row is a
sample: ``position`` and ``sample_id``; per metric its value (null where it does not count), ``.status`` and
``.reason``, and where the metric's fold needs them ``.stats`` and ``.key``; per slice the groups it belongs to. What is
not a column (reasons in their order, warnings, which evaluation it belongs to) is JSON in the file's metadata.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b, sha256
from itertools import chain, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._version import __version__
from ..core.conventions import Conventions, function_name
from ..core.metrics_base import BatchMetric, is_judged
from ..core.registry import spec_of
from ..core.results import to_json_value
from ..core.scores import Scores, Status
from ..core.slices import BatchMembership, Rows, Slice
from ..engine.executors import Executor, Scorable, ScoredBatch, SourcedBatch
from ..engine.failed_batches import SCORING_FAILED, WORKER_DIED
from ..errors import AueporaWarning, BadValueError, DataFileError, MetricDefinitionError
from ..io.tables import load_arrow
from ..runtime.files import atomic_write, translate_write_errors
from ..store.score_columns import decode_keys, encode_keys
from .inputs import one_array

if TYPE_CHECKING:
    import pyarrow as pa

# --- parts: the scores of a unit as a Parquet file -------------------------------------------------------------------

_META = b"auepora"
_FAILED_OUTPUTS = b"auepora.failed_outputs"
_STATUSES = [status.name.lower() for status in Status]


@dataclass(frozen=True, slots=True)
class PartFacts:
    """The metadata of a part: which unit of which evaluation it holds."""

    job: str
    """Which evaluation it is of: the digest of its manifest."""
    unit: int
    """Its number in that evaluation."""
    first: int
    """The position of its first sample among all samples."""
    rows: int
    digest: str
    """Of what is in it."""
    given_up: bool = False
    """Whether it has samples that no worker survived scoring or no judge judged: they are tried again."""


# --- merging of batches ----------------------------------------------------------------------------------------------


def merge_batches(batches: Sequence[ScoredBatch]) -> ScoredBatch:
    """Merge the scores of consecutive batches into one batch."""
    if len(batches) == 1:
        return batches[0]
    notes: dict[str, tuple[int, str]] = {}
    for batch in batches:
        for message, (count, first) in batch.notes.items():
            before, earliest = notes.get(message, (0, first))
            notes[message] = before + count, earliest
    known = [batch.members for batch in batches if batch.members is not None]
    assert len(known) in (0, len(batches))
    scores_of_batches = [batch.scores for batch in batches]
    return ScoredBatch(
        sum(batch.size for batch in batches),
        [Scores.concat(scores) for scores in zip(*scores_of_batches, strict=True)],
        notes,
        _merge_members(known) if known else None,
    )


def _merge_members(parts: Sequence[BatchMembership]) -> BatchMembership:
    clustered = any(part.clustered for part in parts)
    groups: dict[tuple[str, str], list[Rows]] = {}
    seen = 0
    for part in parts:
        for key, rows in part.groups.items():
            groups.setdefault(key, []).append(rows + seen)
        seen += part.size
    families: list[tuple[bool, str]] = []
    if clustered:
        for part in parts:
            families += part.families or [(False, name) for name in part.ids]
    gold_sums = Counter[str]()
    for part in parts:
        gold_sums.update(part.gold_sums)
    return BatchMembership(
        size=seen,
        ids=tuple(chain.from_iterable(part.ids for part in parts)),
        clustered=clustered,
        families=tuple(families),
        groups={key: np.concatenate(rows) for key, rows in groups.items()},
        annotated=frozenset[str]().union(*(part.annotated for part in parts)),
        gold_sums=gold_sums,
        failed_outputs=sum(part.failed_outputs for part in parts),
    )


# --- writing ---------------------------------------------------------------------------------------------------------


def write_part(
    path: Path, scored: ScoredBatch, names: Sequence[str], *, job: str, unit: int, first: int, given_up: bool = False
) -> PartFacts:
    """Write the scores of a unit under metrics of these names; the file is written atomically."""
    pa, parquet = load_arrow()
    members = scored.members
    assert members is not None  # units are read by the worker
    assert len(members.ids) == scored.size
    columns: dict[str, Any] = {}

    def put(name: str, column: Any) -> None:
        if name in columns:
            raise BadValueError(f"two columns of a part would be called {name!r}; give a metric another name (as: ...)")
        columns[name] = column

    put("position", pa.array(np.arange(first, first + scored.size, dtype=np.int64)))
    put("sample_id", pa.array(members.ids, pa.string()))
    if members.families:
        put("family.named", pa.array([named for named, _ in members.families], pa.bool_()))
        put("family", pa.array([name for _, name in members.families], pa.string()))
    slices: dict[str, list[str]] = {}
    for name, group in members.groups:
        slices.setdefault(name, []).append(group)
    for name, groups in slices.items():
        put(f"slice.{name}", _group_column([members.groups[name, group] for group in groups], groups, members.size))
    metric_columns = [_put_scores(put, name, scores) for name, scores in zip(names, scored.scores, strict=True)]
    facts = PartFacts(job, unit, first, rows=scored.size, digest=content_digest(scored), given_up=given_up)
    about = {
        "facts": {name: getattr(facts, name) for name in PartFacts.__slots__},
        "metrics": metric_columns,
        "slices": slices,
        "clustered": members.clustered,
        "annotated": sorted(members.annotated),
        "gold_sums": members.gold_sums,
        "notes": {message: list(noted) for message, noted in scored.notes.items()},
    }
    table = pa.table(columns).replace_schema_metadata(
        {_META: json.dumps(about), _FAILED_OUTPUTS: str(members.failed_outputs)}
    )
    with atomic_write(path) as file, translate_write_errors(path):
        parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
    return facts


def _put_scores(put: Any, name: str, scores: Scores) -> dict[str, Any]:
    import pyarrow as pa

    put(name, pa.array(scores.values, pa.float64(), from_pandas=True))  # what does not count is null, not NaN
    put(f"{name}.status", _dictionary_array(scores.status, _STATUSES))
    put(f"{name}.reason", _dictionary_array(scores.reason_codes, list(scores.reason_names), null=0))
    width = None
    if scores.stats is not None:
        width = scores.stats.shape[1]
        flat = pa.array(np.ascontiguousarray(scores.stats).reshape(-1), pa.float64())
        put(f"{name}.stats", pa.FixedSizeListArray.from_arrays(flat, width) if width else pa.nulls(len(scores)))
    if scores.keys is not None:
        lines = encode_keys(scores.keys)
        if lines is None:
            raise BadValueError(
                f"metric '{name}' pairs samples by something that cannot be written to a file; make its keys of texts, "
                "numbers and tuples, or leave 'parts' out"
            )
        put(f"{name}.key", pa.array(lines, pa.string()))
    if scores.cuts is not None:
        put(f"{name}.cut", pa.array(scores.cuts, pa.int8()))
    repeats = [_put_scores(put, f"{name}.repeat{number}", repeat) for number, repeat in enumerate(scores.repeats or ())]
    return {
        "name": name,
        "reasons": list(scores.reason_names),
        "width": width,
        "keyed": scores.keys is not None,
        "repeats": None if scores.repeats is None else repeats,
    }


def _dictionary_array(codes: Any, names: list[str], *, null: int | None = None) -> pa.Array:
    """A dictionary-encoded array of strings."""
    import pyarrow as pa

    mask = None if null is None else codes == null
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=mask), pa.array(names, pa.string()))


def _group_column(rows: Sequence[Rows], groups: Sequence[str], size: int) -> pa.Array:
    """A list column: the groups of each sample."""
    import pyarrow as pa

    of_rows = np.concatenate(rows)
    numbers = np.repeat(np.arange(len(groups), dtype=np.int32), [len(row) for row in rows])
    order = np.argsort(of_rows, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(of_rows, minlength=size))]).astype(np.int32)
    texts = pa.DictionaryArray.from_arrays(pa.array(numbers[order]), pa.array(list(groups), pa.string()))
    return pa.ListArray.from_arrays(pa.array(offsets), texts.cast(pa.string()))


def content_digest(scored: ScoredBatch) -> str:
    """A digest of the scores and the ids of their samples."""
    digest = blake2b(digest_size=16)

    def take(scores: Scores) -> None:
        values = np.where(np.isnan(scores.values), np.nan, scores.values)  # NaNs differ in bits that no file keeps
        digest.update(values.tobytes())
        digest.update(np.ascontiguousarray(scores.status).tobytes())
        digest.update(np.ascontiguousarray(scores.reason_codes).tobytes())
        digest.update(json.dumps(scores.reason_names).encode())
        if scores.stats is not None:
            digest.update(np.ascontiguousarray(scores.stats).tobytes())
        if scores.keys is not None:
            digest.update("\n".join(encode_keys(scores.keys) or ()).encode("utf-8", "surrogatepass"))
        if scores.cuts is not None:
            digest.update(scores.cuts.tobytes())
        for repeat in scores.repeats or ():
            take(repeat)

    for scores in scored.scores:
        take(scores)
    members = scored.members
    if members is not None:
        digest.update(json.dumps([members.ids, members.families, members.clustered]).encode())
        for key in sorted(members.groups):
            digest.update(json.dumps(key).encode())
            digest.update(members.groups[key].astype(np.int64).tobytes())
    return digest.hexdigest()


# --- reading ---------------------------------------------------------------------------------------------------------


def read_part_facts(path: Path) -> PartFacts | None:
    """The metadata of a part; ``None`` if there is no such file, or it is not a part."""
    pa, parquet = load_arrow()
    try:
        about = (parquet.read_schema(path).metadata or {}).get(_META)
    except (OSError, pa.ArrowException):
        return None
    return None if about is None else PartFacts(**json.loads(about)["facts"])


def read_part(path: Path, names: Sequence[str]) -> tuple[PartFacts, ScoredBatch]:
    """The metadata of a part, and the scores of these metrics, exactly as written.

    A file that was changed since is refused.
    """
    pa, parquet = load_arrow()
    try:
        table = parquet.read_table(path, use_threads=False, page_checksum_verification=True)
        about = json.loads((table.schema.metadata or {})[_META])
        facts = PartFacts(**about["facts"])
        groups: dict[tuple[str, str], Rows] = {}
        for name, values in about["slices"].items():
            groups |= _group_rows(table, name, values)
        members = BatchMembership(
            size=facts.rows,
            ids=tuple(table.column("sample_id").to_pylist()),
            clustered=about["clustered"],
            families=_families(table),
            groups=groups,
            annotated=frozenset(about["annotated"]),
            gold_sums=about.get("gold_sums", {}),  # parts of earlier versions have none
            failed_outputs=int(table.schema.metadata.get(_FAILED_OUTPUTS, 0)),
        )
        scores = {written["name"]: _read_scores(table, written) for written in about["metrics"]}
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise DataFileError(
            path, None, f"cannot be read as a part ({error}); delete it, and it is scored again"
        ) from error
    notes = {message: (int(count), str(first)) for message, (count, first) in about["notes"].items()}
    scored = ScoredBatch(facts.rows, list(scores.values()), notes, members)
    if content_digest(scored) != facts.digest:
        raise DataFileError(path, None, "was changed since it was written; delete it, and it is scored again")
    return facts, replace(scored, scores=[scores[name] for name in names])


def _families(table: pa.Table) -> tuple[tuple[bool, str], ...]:
    if "family" not in table.column_names:
        return ()
    named, names = table.column("family.named").to_pylist(), table.column("family").to_pylist()
    return tuple(zip(named, names, strict=True))


def _read_scores(table: pa.Table, about: Mapping[str, Any]) -> Scores:
    name, width = about["name"], about["width"]
    values = table.column(name)
    stats = None
    if width is not None:
        column = one_array(table.column(f"{name}.stats"))
        flat = column.flatten().to_numpy(zero_copy_only=False) if width else np.zeros(0)
        stats = flat.astype(np.float64).reshape(len(values), width)
    cuts = table.column(f"{name}.cut").to_numpy() if f"{name}.cut" in table.column_names else None
    return Scores(
        values.to_numpy().astype(np.float64),
        _codes(table.column(f"{name}.status"), _STATUSES).astype(np.uint8),
        _codes(table.column(f"{name}.reason"), about["reasons"], null=0).astype(np.int16),
        tuple(about["reasons"]),
        stats=stats,
        keys=decode_keys(table.column(f"{name}.key").to_pylist()) if about["keyed"] else None,
        repeats=None if about["repeats"] is None else tuple(_read_scores(table, repeat) for repeat in about["repeats"]),
        cuts=cuts,
    )


def _codes(column: pa.ChunkedArray, names: Sequence[str], *, null: int = -1) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    # In the order that was written, which the file itself need not keep.
    found = compute.index_in(column.cast(pa.string()), value_set=pa.array(list(names), pa.string()))
    there = one_array(compute.fill_null(found, -1)).to_numpy(zero_copy_only=False)
    return np.where(one_array(compute.is_null(column)).to_numpy(zero_copy_only=False), null, there)


def _group_rows(table: pa.Table, name: str, groups: Sequence[str]) -> dict[tuple[str, str], Rows]:
    lists = one_array(table.column(f"slice.{name}"))
    counts = np.diff(lists.offsets.to_numpy())
    rows = np.repeat(np.arange(len(lists), dtype=np.intp), counts)
    codes = _codes(lists.flatten(), groups)
    return {(name, group): rows[codes == number] for number, group in enumerate(groups)}


# --- the manifest: which evaluation the folder contains, and the units and digests of its parts ----------------------

FILE = "manifest.json"
SCHEMA = 1
_KIND = "auepora scores in parts"
_OTHER_FOLDER_HINT = "name another folder, or delete it"
_OTHER_FILES = "the files are others, or have changed since (their names, sizes and times of change are compared)"


@dataclass(frozen=True, slots=True)
class CheckpointUnit:
    """Consecutive batches whose scores are written as one part."""

    number: int
    first: int
    """The position of its first sample."""
    rows: int
    batches: int

    @property
    def file(self) -> str:
        """The file name of its part."""
        return f"part-{self.number:06d}.parquet"


@dataclass(frozen=True, slots=True)
class Manifest:
    """An evaluation over files, by everything that shapes its numbers."""

    input: Mapping[str, Any]
    metrics: Mapping[str, str]
    """By name the signature, which contains conventions and every other option."""
    slices: Mapping[str, str]
    """By name the field or function that gives the group of a sample."""
    conventions: Mapping[str, str]
    units: tuple[CheckpointUnit, ...]
    version: str = __version__
    specs: Mapping[str, Any] = field(default_factory=dict)
    """By name the spec of each registered metric, for information."""

    @property
    def job(self) -> str:
        """A digest of everything but the results: parts of the same job replace scoring."""
        identity = {**self._identity(), "units": [[unit.rows, unit.batches] for unit in self.units]}
        return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def _identity(self) -> dict[str, Any]:
        return {
            "input": dict(self.input),
            "metrics": dict(self.metrics),
            "slices": dict(self.slices),
            "conventions": dict(self.conventions),
            "joined": False,  # no part has scores of pairs; kept, since jobs are recognised by the digest of all this
            "version": self.version,
        }

    def save(self, folder: Path, done: Mapping[int, PartFacts] | None = None) -> None:
        """Write it into the folder; at the end with the digest of every part (``done``)."""
        digests = {} if done is None else {number: facts.digest for number, facts in done.items()}
        document = {
            "kind": _KIND,
            "schema": SCHEMA,
            "job": self.job,
            "complete": done is not None and not any(facts.given_up for facts in done.values()),
            "samples": sum(unit.rows for unit in self.units),
            **self._identity(),
            "specs": dict(self.specs),
            "units": [
                {"file": unit.file, "first": unit.first, "rows": unit.rows, "batches": unit.batches}
                | ({"digest": digests[unit.number]} if unit.number in digests else {})
                for unit in self.units
            ],
        }
        with atomic_write(folder / FILE) as file, translate_write_errors(folder / FILE):
            file.write(json.dumps(document, indent=1).encode())

    @classmethod
    def load(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; ``None`` if it has none."""
        path = folder / FILE
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise DataFileError(path, None, f"cannot be read as a manifest: {error}; {_OTHER_FOLDER_HINT}") from error
        if not isinstance(document, dict) or document.get("kind") != _KIND:
            raise DataFileError(path, None, "is not the manifest of scores in parts; name another folder")
        if document.get("schema") != SCHEMA:
            raise DataFileError(
                path, None, f"is of schema {document.get('schema')!r}, not {SCHEMA}; name another folder"
            )
        names = ("input", "metrics", "slices", "conventions", "version", "specs")
        try:
            units = tuple(
                CheckpointUnit(number, described["first"], described["rows"], described["batches"])
                for number, described in enumerate(document["units"])
            )
            return cls(units=units, **{name: document[name] for name in names})
        except (KeyError, TypeError) as error:
            raise DataFileError(
                path, None, f"is a manifest that lacks something ({error}); {_OTHER_FOLDER_HINT}"
            ) from error

    def require_same(self, other: Manifest, folder: Path) -> None:
        """Raise, naming the difference, unless the other is of the same evaluation; units may differ."""
        ours, theirs = json.loads(json.dumps(self._identity())), json.loads(json.dumps(other._identity()))
        differences = list(chain.from_iterable(_differences(key, ours[key], theirs[key]) for key in ours))
        if differences:
            raise BadValueError(
                f"{folder} holds the scores of another evaluation: {'; '.join(differences[:4])}"
                f"{f'; and {len(differences) - 4} more' if len(differences) > 4 else ''}; {_OTHER_FOLDER_HINT}"
            )


def _differences(key: str, ours: Any, theirs: Any) -> list[str]:
    if ours == theirs:
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = dict.fromkeys([*ours, *theirs])
        return list(
            chain.from_iterable(_differences(f"{key} {name}", ours.get(name), theirs.get(name)) for name in names)
        )
    if key == "input fingerprint":
        return [_OTHER_FILES]
    return [f"{key}: {_shown(theirs)} there, {_shown(ours)} here"]


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else text[:157] + "..."


def manifest_for(
    sizes: Sequence[int],
    metrics: Sequence[BatchMetric],
    slices: Sequence[Slice],
    *,
    conventions: Conventions,
    input_facts: Mapping[str, Any],
    unit_size: int,
) -> Manifest:
    """The manifest of an evaluation over batches of these sizes, put together into units of about that many samples."""
    rules = {key: str(value) for key, value in asdict(conventions).items()}
    if conventions.match == "id":  # as in manifests of versions that knew no other way
        del rules["match"]
    return Manifest(
        input=input_facts,
        metrics={metric.name: str(metric.signature) for metric in metrics},
        slices={group.name: getattr(group.group_of, "path", None) or function_name(group.group_of) for group in slices},
        conventions=rules,
        units=tuple(_units(sizes, unit_size)),
        specs={metric.name: spec for metric in metrics if (spec := _spec(metric)) is not None},
    )


def _spec(metric: BatchMetric) -> Any:
    try:
        return to_json_value(spec_of(metric))
    except MetricDefinitionError:
        return None


def _units(sizes: Sequence[int], unit_size: int) -> list[CheckpointUnit]:
    units: list[CheckpointUnit] = []
    first = rows = batches = 0
    for size in sizes:
        if batches and rows + size > unit_size:
            units.append(CheckpointUnit(len(units), first, rows, batches))
            first, rows, batches = first + rows, 0, 0
        rows, batches = rows + size, batches + 1
    if batches:
        units.append(CheckpointUnit(len(units), first, rows, batches))
    return units


# --- the executor: finished units are read, the others are scored and written ----------------------------------------

RETRIED_REASONS = (WORKER_DIED, SCORING_FAILED)
"""Failure reasons that are not due to the sample: such a unit is tried again when the evaluation resumes."""
_Waiting = deque[tuple[CheckpointUnit, bool]]
"""The units that are neither read nor scored yet, each with whether its part is finished."""


def open_checkpoint(folder: Path, wanted: Manifest) -> Manifest:
    """The manifest of a checkpoint folder: the existing one if it is of the same evaluation, else a new one.

    A folder of another evaluation, or with other files in it, is refused.
    """
    found = Manifest.load(folder) if folder.exists() else None
    if found is not None:
        wanted.require_same(found, folder)
        return found
    if folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise BadValueError(f"{folder} is not a folder of parts; name a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    wanted.save(folder)
    return wanted


class CheckpointExecutor:
    """An executor that reads finished units from a folder, scores the others with another executor, and writes them."""

    asks_judges = True  # by the inner executor, so that units in the folder are not judged again

    def __init__(self, others: Executor, folder: Path, manifest: Manifest) -> None:
        self._others = others
        self._folder = folder
        self._manifest = manifest
        self._job = manifest.job
        self._lean = False  # whether sample ids are not needed; set by the batches
        self.read = 0
        """How many samples were read from the folder."""
        self._facts: dict[int, PartFacts] = {}
        self._unjudged = 0

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The scores of each unit, in order."""
        names = [metric.name for metric in metrics]
        drawn, waiting = iter(batches), _Waiting()

        def to_score() -> Iterator[Scorable]:
            for unit in self._manifest.units:
                members = [member for member in islice(drawn, unit.batches) if isinstance(member, SourcedBatch)]
                assert len(members) == unit.batches
                self._lean = not members[0].keep
                waiting.append((unit, self._is_finished(unit)))
                if not waiting[-1][1]:
                    yield from (replace(member, keep=True) for member in members)  # parts always contain the sample ids

        scored = iter(self._others.score(to_score(), metrics))
        for first in scored:
            yield from self._read_finished(waiting, names)
            unit, _ = waiting.popleft()
            yield self._write(unit, merge_batches([first, *islice(scored, unit.batches - 1)]), metrics)
        yield from self._read_finished(waiting, names)
        assert not waiting
        if self._unjudged:
            warnings.warn(
                f"{self._unjudged} samples could not be judged; the same command asks about them again",
                AueporaWarning,
                stacklevel=2,
            )
        self._manifest.save(self._folder, self._facts)

    def _is_finished(self, unit: CheckpointUnit) -> bool:
        """Whether the folder has the part of a unit of this job, without samples to try again."""
        facts = read_part_facts(self._folder / unit.file)
        return facts is not None and (facts.job, facts.unit, facts.given_up) == (self._job, unit.number, False)

    def _read_finished(self, waiting: _Waiting, names: Sequence[str]) -> Iterator[ScoredBatch]:
        while waiting and waiting[0][1]:
            unit, _ = waiting.popleft()
            facts, scored = read_part(self._folder / unit.file, names)
            self.read += unit.rows
            yield self._emit(unit, scored, facts)

    def _write(self, unit: CheckpointUnit, scored: ScoredBatch, metrics: Sequence[BatchMetric]) -> ScoredBatch:
        given_up = (scores.with_reason(reason) for scores, reason in product(scored.scores, RETRIED_REASONS))
        gave_up = any(mask.any() for mask in given_up)
        judged = [scores for scores, metric in zip(scored.scores, metrics, strict=True) if is_judged(metric)]
        # Not judged because the judge was unreachable, or the budget was spent.
        failed = [scores.status == Status.MEASURE_FAILED for scores in judged]
        unjudged = int(np.logical_or.reduce(failed).sum()) if failed else 0
        self._unjudged += unjudged
        if gave_up:
            warnings.warn(
                f"{unit.file} has samples whose workers died; the same command scores them again",
                AueporaWarning,
                stacklevel=2,
            )
        facts = write_part(
            self._folder / unit.file,
            scored,
            [metric.name for metric in metrics],
            job=self._job,
            unit=unit.number,
            first=unit.first,
            given_up=gave_up or unjudged > 0,
        )
        return self._emit(unit, scored, facts)

    def _emit(self, unit: CheckpointUnit, scored: ScoredBatch, facts: PartFacts) -> ScoredBatch:
        if scored.size != unit.rows:
            raise BadValueError(
                f"{unit.file} has {scored.size} samples where {unit.rows} were counted; start again with a new folder"
            )
        self._facts[unit.number] = facts
        if self._lean and scored.members is not None:
            return replace(scored, members=replace(scored.members, ids=(), families=()))
        return scored
