"""Named sets of samples: ids with the reason why they were selected, saved from a filter or read from a file.

A set is a file ``NAME.json`` in the folder ``sets`` of the labels folder. It is written once and never changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from ..core.types import EvaluationSample
from ..errors import BadValueError, ConflictError, DataFileError, did_you_mean
from ..render.tables import pluralize
from ..runtime.files import move_to_new, read_bytes, read_lines, translate_write_errors, write_lines
from .golden import canonical_line
from .jsonl import current_time
from .problems import type_name
from .values import errors_at, parse_json

FOLDER = "sets"
"""The folder of the sets, inside the labels folder."""
MAX_REASON = 2_000
"""The number of characters of a reason."""
_FORMAT, _VERSION = "auepora-samples", 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class SampleSet:
    """A named list of sample ids, with how they were selected."""

    name: str
    ids: tuple[str, ...]
    reason: str = ""
    """Why these samples belong together, as a person wrote it."""
    search: str = ""
    where: tuple[str, ...] = ()
    """Search text and conditions of the filter that selected the samples."""
    runs: tuple[str, ...] = ()
    """Ids of the runs whose outputs or scores the filter read."""
    fingerprint: str | None = None
    """``content_fingerprint`` of the samples; ``None`` where only the ids are known."""
    dataset: str | None = None
    """Fingerprint of the dataset that the samples were selected from."""
    created: str | None = None
    created_by: str = ""

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.ids)

    @property
    def note(self) -> str:
        """What a comparison on the set is about, in one line."""
        reason = f": {' '.join(self.reason.split())[:200]}" if self.reason else ""
        return f"only the {pluralize(self.count, 'sample')} of the set '{self.name}'{reason}"

    def missing(self, known: Iterable[str]) -> list[str]:
        """The ids of the set that are not among ``known``."""
        ids = frozenset(known)
        return [sample_id for sample_id in self.ids if sample_id not in ids]

    def require_known(self, known: Iterable[str], where: str) -> None:
        """Raise if an id of the set is not among ``known``, those of ``where``."""
        if unknown := self.missing(known):
            named = ", ".join(f"'{sample_id}'" for sample_id in unknown[:_MAX_NAMED])
            more = f" and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
            raise BadValueError(
                f"{where} lacks {len(unknown)} of the {pluralize(self.count, 'sample')} of the set '{self.name}': "
                f"{named}{more}; use a set of this dataset"
            )

    def require_content(self, samples: Iterable[EvaluationSample], where: str) -> None:
        """Raise if the samples, those of the set in ``where``, differ from the ones that were selected."""
        if self.fingerprint is not None and content_fingerprint(samples) != self.fingerprint:
            raise BadValueError(
                f"the samples of the set '{self.name}' have other content in {where} than when the set was saved, "
                "so it belongs to another dataset or another version of it; save the set again, or write its "
                "ids into a file and name that"
            )

    def restrict(self, samples: Sequence[EvaluationSample]) -> Self:
        """The set with some of its samples only."""
        return replace(
            self, ids=tuple(sample.sample_id for sample in samples), fingerprint=content_fingerprint(samples)
        )

    def to_dict(self) -> dict[str, Any]:
        """For a file, and for JSON."""
        return {"format": _FORMAT, "version": _VERSION, **asdict(self)}

    def to_plan(self) -> dict[str, Any]:
        """The entry ``samples`` of the stored plan of a run; the ids are those of the samples of the run."""
        entry = {name: getattr(self, name) for name in ("name", "reason", "runs", "fingerprint", "dataset")}
        return {"count": self.count, **entry, "runs": list(self.runs)}

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any], ids: Iterable[str] = ()) -> Self | None:
        """The set that a run was restricted to, from its stored plan and its ids; ``None`` for a run on all samples."""
        entry = plan.get("samples")
        if not isinstance(entry, Mapping):
            return None
        return cls(
            str(entry.get("name")),
            tuple(ids),
            str(entry.get("reason") or ""),
            runs=tuple(map(str, entry.get("runs") or ())),
            fingerprint=entry.get("fingerprint"),
            dataset=entry.get("dataset"),
        )


def set_label(plan: Mapping[str, Any]) -> str:
    """`` (set NAME)`` for the stored plan of a run on a set of samples; else empty."""
    chosen = SampleSet.from_plan(plan)
    return "" if chosen is None else f" (set {chosen.name})"


def content_fingerprint(samples: Iterable[EvaluationSample]) -> str:
    """A SHA-256 of samples that does not depend on their order."""
    lines = sorted(hashlib.sha256(canonical_line(sample)[0]).digest() for sample in samples)
    return hashlib.sha256(b"".join(lines)).hexdigest()


def select_samples(samples: Iterable[EvaluationSample], chosen: SampleSet | None) -> Iterator[EvaluationSample]:
    """Yield the samples of a set, in the order of the dataset; all of them without a set."""
    ids = None if chosen is None else frozenset(chosen.ids)
    return (sample for sample in samples if ids is None or sample.sample_id in ids)


# --- files -----------------------------------------------------------------------------------------------------------


def save_sample_set(labels: Path, chosen: SampleSet) -> Path:
    """Write a set into the labels folder and return its path. A set that exists is never replaced."""
    if not _NAME.fullmatch(chosen.name):
        raise BadValueError(
            f"a set cannot be called {chosen.name[:80]!r}: a name has up to 80 letters, digits, '.', '_' and '-', and "
            "begins with a letter or a digit"
        )
    if not chosen.ids:
        raise BadValueError("there is no sample to save; a set needs at least one")
    if len(chosen.reason) > MAX_REASON:
        raise BadValueError(f"the reason has {len(chosen.reason):,} characters; at most {MAX_REASON:,} are allowed")
    created = chosen.created or current_time()
    path = sample_set_path(labels, chosen.name)
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    with translate_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_lines(temporary, [json.dumps(replace(chosen, created=created).to_dict(), indent=1).encode()])
        with translate_write_errors(path):
            try:
                move_to_new(temporary, path)
            except FileExistsError as error:
                raise ConflictError(f"there is a set '{chosen.name}' already; choose another name") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def sample_set_path(labels: Path, name: str) -> Path:
    """The file of a set in a labels folder."""
    return labels / FOLDER / f"{name}.json"


def sample_set_names(labels: Path) -> list[str]:
    """The names of the sets in a labels folder."""
    found = (labels / FOLDER).glob("*.json") if (labels / FOLDER).is_dir() else ()
    return sorted(path.stem for path in found if _NAME.fullmatch(path.stem))


def find_sample_set(labels: Path, text: str) -> SampleSet:
    """The set with that name in the labels folder, or that of a file: a saved set, or ids as in ``read_ids``."""
    path = Path(text)
    if text not in sample_set_names(labels) and "\0" not in text and path.is_file():
        if path.suffix == ".json":
            return read_sample_set(path)
        ids = tuple(sorted(read_ids(path)))
        if not ids:
            raise DataFileError(path, None, "there is no sample id in it")
        return SampleSet(path.stem, ids)
    return load_sample_set(labels, text)


def load_sample_set(labels: Path, name: str) -> SampleSet:
    """The set with that name in the labels folder."""
    names = sample_set_names(labels)
    if name not in names:
        listed = f"; the sets are {', '.join(names[:20])}" if names else ""
        hint = did_you_mean(name[:80], names, otherwise=listed)
        raise BadValueError(f"there is no set of samples '{name[:80]}' in {labels / FOLDER}{hint}")
    return replace(read_sample_set(sample_set_path(labels, name)), name=name)  # the file may have been renamed


def read_sample_set(path: Path) -> SampleSet:
    """Read the file of a set; an error names the file and the field."""
    with errors_at(path, None):
        row = parse_json(read_bytes(path, is_document=True))
    if not isinstance(row, dict) or row.get("format") != _FORMAT:
        raise DataFileError(path, None, f'is no sample set: the field "format" is not "{_FORMAT}"')
    if row.get("version") != _VERSION:
        raise DataFileError(path, None, f"its version is {row.get('version')!r:.20}; only {_VERSION} can be read")
    values: dict[str, Any] = {}
    for name in (declared_field.name for declared_field in fields(SampleSet)):
        value = row.get(name)
        if value is None:
            continue
        expected = list if name in ("ids", "where", "runs") else str
        if not isinstance(value, expected) or (expected is list and not all(isinstance(text, str) for text in value)):
            wanted = "a list of strings" if expected is list else "a string"
            raise DataFileError(path, None, f"field {name!r} must be {wanted}, not {type_name(value)}")
        values[name] = tuple(dict.fromkeys(value)) if expected is list else value
    for name in ("name", "ids"):
        if not values.get(name):
            raise DataFileError(path, None, f"field {name!r} is missing or empty")
    return SampleSet(**values)


def read_ids(path: str | Path) -> set[str]:
    """The sample ids of a file: of labels or samples, an object per line, or plain ids, one per line."""
    path = Path(path)
    ids = set()
    for number, line in read_lines(path):
        text = line.decode("utf-8", "replace").strip()
        if not text.startswith("{"):
            ids.add(text)
            continue
        row = parse_json(line)
        name = row.get("sample_id") if isinstance(row, dict) else None
        if not isinstance(name, str):
            raise DataFileError(path, number, "field 'sample_id' is missing; write objects with one, or an id per line")
        ids.add(name)
    return ids
