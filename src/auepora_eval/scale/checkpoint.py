"""Scoring with a checkpoint folder: its manifest, its units, and the executor that resumes."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..core.conventions import Conventions, function_name
from ..core.metrics_base import BatchMetric, is_judged
from ..core.registry import spec_of
from ..core.results import to_json_value
from ..core.scores import Status
from ..core.slices import Slice
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.executors import (
    SCORING_FAILED,
    WORKER_DIED,
    BatchSource,
    Executor,
    FamilySource,
    Scorable,
    ScoredBatch,
    SourcedBatch,
    SourcedBatchGroup,
    score_batch,
)
from ..errors import AueporaWarning, BadValueError, DataFileError, MetricDefinitionError
from ..runtime.files import atomic_write
from .checkpoint_files import PartFacts, merge_batches, read_part, read_part_facts, without_ids, write_part

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
    joined: bool
    units: tuple[CheckpointUnit, ...]
    version: str = __version__
    specs: Mapping[str, Any] = field(default_factory=dict)
    """By name the spec of each registered metric, for information."""

    @property
    def job(self) -> str:
        """A digest of everything but the results: parts of the same job replace scoring."""
        identity = {**self._identity(), "units": [[one.rows, one.batches] for one in self.units]}
        return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    def _identity(self) -> dict[str, Any]:
        return {
            "input": dict(self.input),
            "metrics": dict(self.metrics),
            "slices": dict(self.slices),
            "conventions": dict(self.conventions),
            "joined": self.joined,
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
            "samples": sum(one.rows for one in self.units),
            **self._identity(),
            "specs": dict(self.specs),
            "units": [
                {"file": one.file, "first": one.first, "rows": one.rows, "batches": one.batches}
                | ({"digest": digests[one.number]} if one.number in digests else {})
                for one in self.units
            ],
        }
        with atomic_write(folder / FILE) as file:
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
        names = ("input", "metrics", "slices", "conventions", "joined", "version", "specs")
        try:
            units = tuple(
                CheckpointUnit(number, one["first"], one["rows"], one["batches"])
                for number, one in enumerate(document["units"])
            )
            return cls(units=units, **{name: document[name] for name in names})
        except (KeyError, TypeError) as error:
            raise DataFileError(
                path, None, f"is a manifest that lacks something ({error}); {_OTHER_FOLDER_HINT}"
            ) from error

    def require_same(self, other: Manifest, folder: Path) -> None:
        """Raise, naming the difference, unless the other is of the same evaluation; units may differ."""
        ours, theirs = json.loads(json.dumps(self._identity())), json.loads(json.dumps(other._identity()))
        differences = [text for key in ours for text in _differences(key, ours[key], theirs[key])]
        if differences:
            raise BadValueError(
                f"{folder} holds the scores of another evaluation: {'; '.join(differences[:4])}"
                f"{f'; and {len(differences) - 4} more' if len(differences) > 4 else ''}; {_OTHER_FOLDER_HINT}"
            )


def _differences(key: str, ours: Any, theirs: Any) -> list[str]:
    if ours == theirs:
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            _OTHER_FILES
            if (key, name) == ("input", "fingerprint")
            else f"{key} {name}: {_shown(theirs.get(name))} there, {_shown(ours.get(name))} here"
            for name in dict.fromkeys([*ours, *theirs])
            if ours.get(name) != theirs.get(name)
        ]
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
    joined: bool,
    unit_size: int,
) -> Manifest:
    """The manifest of an evaluation over batches of these sizes, put together into units of about that many samples."""
    return Manifest(
        input=input_facts,
        metrics={one.name: str(one.signature) for one in metrics},
        slices={one.name: getattr(one.group_of, "path", None) or function_name(one.group_of) for one in slices},
        conventions={key: str(value) for key, value in asdict(conventions).items()},
        joined=joined,
        units=tuple(_units(sizes, unit_size)),
        specs={one.name: spec for one in metrics if (spec := _spec(one)) is not None},
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


# --- checkpoint units: several batches that one worker scores and writes as one part ---------------------------------


@dataclass(frozen=True, slots=True)
class UnitSource:
    """Several sources as one."""

    sources: tuple[BatchSource, ...]

    @property
    def size(self) -> int:
        """How many samples they have together."""
        return sum(one.size for one in self.sources)

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """All samples and their outputs."""
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        for one in self.sources:
            more, theirs = one.read()
            samples += more
            outputs += theirs
        return samples, outputs

    def read_parents(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """The bases of all variants, each once, less those that are samples of a unit themselves."""
        known = {sample.sample_id for sample in self.read()[0]}
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        for one in self.sources:
            assert isinstance(one, FamilySource)
            for sample, output in zip(*one.read_parents(), strict=True):
                if sample.sample_id not in known:
                    known.add(sample.sample_id)
                    samples.append(sample)
                    outputs.append(output)
        return samples, outputs


@dataclass(frozen=True, slots=True)
class PartUnit(SourcedBatchGroup):
    """A unit that a worker scores batch by batch and writes to its part. Doing it twice changes nothing."""

    source: UnitSource
    number: int = 0
    first: int = 0
    path: str = ""
    """The path of its part, on a file system that all workers share."""
    job: str = ""
    names: tuple[str, ...] = ()
    """The metrics of a part: a worker that scores only some of them writes no part."""
    lean: bool = False
    """Whether sample ids are needed in the part only."""

    def batches(self) -> list[SourcedBatch]:
        """Its batches."""
        return [SourcedBatch(one, self.slices, self.keep, self.fields, self.joined) for one in self.source.sources]

    def score_all(self, metrics: Sequence[BatchMetric], memory: dict[Hashable, Any] | None) -> ScoredBatch:
        """The scores of all its batches, written to the part."""
        shared = {} if memory is None else memory
        whole = merge_batches([score_batch(one, metrics, shared) for one in self.batches()])
        if tuple(one.name for one in metrics) != self.names:
            return whole
        write_part(Path(self.path), whole, self.names, job=self.job, unit=self.number, first=self.first)
        return without_ids(whole) if self.lean else whole


def part_unit(
    unit: CheckpointUnit, batches: Sequence[SourcedBatch], names: Sequence[str], *, folder: Path, job: str, lean: bool
) -> PartUnit:
    """A unit of these batches."""
    first = replace(batches[0], keep=True)  # parts always contain the sample ids
    return PartUnit(
        source=UnitSource(tuple(one.source for one in batches)),
        slices=first.slices,
        keep=first.keep,
        fields=first.fields,
        joined=first.joined,
        number=unit.number,
        first=unit.first,
        path=os.path.abspath(folder / unit.file),  # workers may have another working directory
        job=job,
        names=tuple(names),
        lean=lean,
    )


# --- the executor: finished units are read, the others are scored and written ----------------------------------------

RETRIED_REASONS = (WORKER_DIED, SCORING_FAILED)
"""Failure reasons that are not due to the sample: such a unit is tried again when the evaluation resumes."""
_Waiting = tuple[CheckpointUnit, list[SourcedBatch], PartFacts | None]


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

    def __init__(self, others: Executor, folder: Path, manifest: Manifest, *, by_workers: bool) -> None:
        """With ``by_workers`` the worker writes its unit; else it is written by this process."""
        self._others = others
        self._folder = folder
        self._manifest = manifest
        self._job = manifest.job
        self._lean = False  # whether sample ids are not needed; set by the batches
        self._by_workers = by_workers
        self.read = 0
        """How many samples were read from the folder."""
        self._facts: dict[int, PartFacts] = {}
        self._unjudged = 0

    def existing_checkpoint(self, unit: CheckpointUnit) -> PartFacts | None:
        """The metadata of a unit's part, if it exists and belongs to this job."""
        facts = read_part_facts(self._folder / unit.file)
        if facts is None or facts.job != self._job or facts.unit != unit.number:
            return None
        return facts

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The scores of each unit, in order."""
        names = [one.name for one in metrics]
        waiting: deque[_Waiting] = deque()

        def to_score() -> Iterator[Scorable]:
            for unit, members in self._units(batches):
                facts = self.existing_checkpoint(unit)
                if facts is not None and not facts.given_up:
                    waiting.append((unit, [], facts))
                    continue
                waiting.append((unit, members, None))
                if self._by_workers:
                    yield part_unit(unit, members, names, folder=self._folder, job=self._job, lean=self._lean)
                else:
                    yield from (_keep_ids(one) for one in members)

        scored = iter(self._others.score(to_score(), metrics))
        for first in scored:
            yield from self._read_existing(waiting, names)
            unit, members, _ = waiting.popleft()
            if self._by_workers:
                yield self._write_remote(unit, members, first, metrics)
            else:
                whole = merge_batches([first, *islice(scored, len(members) - 1)])
                yield self._write_local(unit, whole, metrics)
        yield from self._read_existing(waiting, names)
        assert not waiting
        if self._unjudged:
            warnings.warn(
                f"{self._unjudged} samples could not be judged; the same command asks about them again",
                AueporaWarning,
                stacklevel=2,
            )
        self._manifest.save(self._folder, self._facts)

    def _units(self, batches: Iterable[Scorable]) -> Iterator[tuple[CheckpointUnit, list[SourcedBatch]]]:
        drawn = iter(batches)
        for unit in self._manifest.units:
            members = [one for one in islice(drawn, unit.batches) if isinstance(one, SourcedBatch)]
            assert len(members) == unit.batches
            self._lean = not members[0].keep
            yield unit, members

    def _read_existing(self, waiting: deque[_Waiting], names: Sequence[str]) -> Iterator[ScoredBatch]:
        while waiting and waiting[0][2] is not None:
            unit = waiting.popleft()[0]
            part = read_part(self._folder / unit.file)
            self.read += unit.rows
            yield self._emit(unit, part.select_metrics(names), part.facts)

    def _write_remote(
        self, unit: CheckpointUnit, members: list[SourcedBatch], scored: ScoredBatch, metrics: Sequence[BatchMetric]
    ) -> ScoredBatch:
        facts = self.existing_checkpoint(unit)
        if facts is not None and not facts.given_up:
            if _has_given_up(scored):  # the worker died after writing it
                scored = read_part(self._folder / unit.file).select_metrics([one.name for one in metrics])
            return self._emit(unit, scored, facts)
        if _has_given_up(scored):
            # Some batch in it kills its worker. Scored one by one, only that batch is lost.
            scored = merge_batches(list(self._others.score(map(_keep_ids, members), metrics)))
        return self._write_local(unit, scored, metrics)

    def _write_local(self, unit: CheckpointUnit, scored: ScoredBatch, metrics: Sequence[BatchMetric]) -> ScoredBatch:
        gave_up, unjudged = _has_given_up(scored), _count_unjudged(scored, metrics)
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
            [one.name for one in metrics],
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
        return without_ids(scored) if self._lean else scored


def _keep_ids(batch: SourcedBatch) -> SourcedBatch:
    return replace(batch, keep=True)


def _has_given_up(scored: ScoredBatch) -> bool:
    return any(scores.with_reason(reason).any() for scores in scored.scores for reason in RETRIED_REASONS)


def _count_unjudged(scored: ScoredBatch, metrics: Sequence[BatchMetric]) -> int:
    """How many samples a judge did not judge, because it was unreachable or the budget was spent."""
    failed = [
        scores.status == Status.MEASURE_FAILED
        for scores, metric in zip(scored.scores, metrics, strict=True)
        if is_judged(metric)
    ]
    return int(np.logical_or.reduce(failed).sum()) if failed else 0
