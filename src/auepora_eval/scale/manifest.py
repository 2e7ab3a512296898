"""The manifest of a checkpoint folder: which evaluation it holds, and the units and digests of its parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from .._version import __version__
from ..core.conventions import Conventions
from ..core.errors import BadValueError, DataFileError, MetricDefinitionError
from ..core.metrics_base import BatchMetric
from ..core.registry import spec_of
from ..core.results import to_json_value
from ..core.signature import function_name
from ..core.slices import Slice
from ..io.files import atomic_write
from .checkpoint_files import PartFacts

__all__ = ["CheckpointUnit", "Manifest", "manifest_for"]

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
