"""A dataset and its outputs looked at as a whole: every problem, what is odd, what there is, what it is good for."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.collector import collector_paused
from ..core.errors import AueporaError, DataFileError, did_you_mean
from .align import require_common_id
from .checking.findings import output_warnings, sample_problems, sample_warnings
from .checking.inventory import count_outputs, count_samples
from .checking.support import TargetSupport, supported_targets
from .formats import Format, Role
from .load import chosen_format
from .reading import Problem, Problems, ReadOutput, ReadSample

__all__ = ["Validation", "validate_files"]

RecordT = TypeVar("RecordT", ReadSample, ReadOutput)

SCHEMA = 1
GUESSES = 20
"""So many ids without a partner are held against those of the other file: a suggestion each would take too long."""
_FIELD = re.compile(r"(?:unknown )?field ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


@dataclass(frozen=True, slots=True)
class Validation:
    """What there is to say about a dataset, and outputs for it."""

    files: dict[Role, tuple[Path, str | None]]
    """The files, each with the name of its format; ``None`` where it cannot be told."""
    problems: list[Problem]
    """What keeps the files from being scored, in the order of files and lines."""
    warnings: list[Problem]
    """What does not, but is probably not meant."""
    samples: dict[str, Any]
    """Counts; see ``inventory.count_samples``."""
    outputs: dict[str, Any] | None
    """Counts; ``None`` where no outputs were given."""
    targets: list[TargetSupport] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The validation document (schema 1)."""
        return {
            "schema": SCHEMA,
            "fine": self.fine,
            "files": {role: {"path": str(path), "format": name} for role, (path, name) in self.files.items()},
            "problems": list(map(_plain, self.problems)),
            "warnings": list(map(_plain, self.warnings)),
            "samples": self.samples,
            "outputs": self.outputs,
            "targets": [
                {
                    "target": one.target.name,
                    "supported": bool(one.metrics),
                    "metrics": list(one.metrics),
                    "missing": one.missing or None,
                }
                for one in self.targets
            ],
        }


def validate_files(
    dataset: str | Path,
    outputs: str | Path | None = None,
    *,
    dataset_format: str | None = None,
    outputs_format: str | None = None,
) -> Validation:
    """Read a dataset, and the outputs for it, to the end whatever is wrong with them.

    A format that keeps a sample and its output in one record is looked at for both, even where only the dataset is
    named.
    """
    dataset = Path(dataset)
    with collector_paused():
        samples = _samples(dataset, dataset_format)
        returned = _beside(samples) if outputs is None else _outputs(Path(outputs), outputs_format)
        rows = [read.sample for read in samples.records]
        problems = [samples.problems + sample_problems(dataset, samples.records)]
        warnings = sample_warnings(dataset, samples.records, samples.unread)
        files: dict[Role, tuple[Path, str | None]] = {"samples": (dataset, samples.format_name)}
        if returned is None:
            return Validation(
                files, _sorted(problems), warnings, count_samples(rows), None, supported_targets(rows, None)
            )
        files["outputs"] = (returned.path, returned.format_name)
        problems.append(returned.problems + _without_retrieved(returned))
        # Last: what has no partner is often what could not be read.
        problems += _without_partner(samples, returned)
        warnings += output_warnings(returned.path, returned.records)
        by_id = {read.sample_id: read.output for read in returned.records}
        aligned = [by_id.get(row.sample_id) for row in rows]
        retrieves = any(read.has_retrieved for read in returned.records)
        targets = (
            supported_targets(rows, aligned, retrieves=retrieves)
            if any(output is not None for output in aligned)
            else supported_targets(rows, None)  # nothing meets; what the samples could support is still worth saying
        )
    return Validation(files, _sorted(problems), warnings, count_samples(rows), count_outputs(by_id.values()), targets)


@dataclass(frozen=True, slots=True)
class _File(Generic[RecordT]):
    """A file that was read to its end."""

    path: Path
    format: Format | None
    records: list[RecordT]
    problems: list[Problem]
    unread: set[str]

    @property
    def format_name(self) -> str | None:
        return None if self.format is None else self.format.name

    @property
    def has_nameless(self) -> bool:
        """Whether there are records with problems that do not say whose they are."""
        return len({problem.line for problem in self.problems}) > len(self.unread)


def _samples(path: Path, name: str | None) -> _File[ReadSample]:
    found = Problems(gather=True)
    chosen = _format(path, "samples", name, found)
    read = None if chosen is None else chosen.read_samples
    return _File(path, chosen, _records(path, read, found, "sample"), found.found, found.unread)


def _outputs(path: Path, name: str | None) -> _File[ReadOutput]:
    found = Problems(gather=True)
    chosen = _format(path, "outputs", name, found)
    read = None if chosen is None else chosen.read_outputs
    return _File(path, chosen, _records(path, read, found, "output"), found.found, found.unread)


def _beside(samples: _File[ReadSample]) -> _File[ReadOutput] | None:
    """The outputs in the file of the samples itself, where its format keeps both and there are any."""
    chosen = samples.format
    if chosen is None or not chosen.one_file:
        return None
    found = _outputs(samples.path, chosen.name)
    return found if found.records else None


def _format(path: Path, role: Role, name: str | None, problems: Problems) -> Format | None:
    """The format of a file; that it cannot be told, or that there is no file, is a problem of the file."""
    try:
        return chosen_format(path, role, name)
    except DataFileError as error:
        problems.add_error(path, error)
        return None


def _records(
    path: Path, read: Callable[[Path, Problems], Iterator[RecordT]] | None, problems: Problems, what: str
) -> list[RecordT]:
    found: list[RecordT] = []
    if read is None:
        return found
    try:
        found.extend(read(path, problems))  # what came before an error stays
    except AueporaError as error:  # the file itself broke off
        problems.add_error(path, error)
    if not found and not problems.found:
        problems.add(path, None, f"there is no {what} in it")
    return found


def _without_retrieved(outputs: _File[ReadOutput]) -> list[Problem]:
    """Outputs that do not say what was retrieved where others do."""
    if not any(read.has_retrieved for read in outputs.records):
        return []
    message = "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"
    silent = [read for read in outputs.records if not read.has_retrieved and read.output.error is None]
    return [Problem(outputs.path, read.line, message) for read in silent]


def _without_partner(samples: _File[ReadSample], outputs: _File[ReadOutput]) -> tuple[list[Problem], list[Problem]]:
    """The samples without an output, and the outputs without a sample."""
    asked = {read.sample.sample_id: read.line for read in samples.records}
    given = {read.sample_id: read.line for read in outputs.records}
    if not asked or not given:
        return [], []
    missing = {one: line for one, line in asked.items() if one not in given and one not in outputs.unread}
    unknown = {one: line for one, line in given.items() if one not in asked and one not in samples.unread}
    if len(missing) == len(asked) and len(unknown) == len(given):
        try:
            require_common_id(asked, given, what=("sample", "output"))
        except AueporaError as error:
            return [], [Problem(outputs.path, None, str(error))]
    no_output, no_sample = (
        " (unless it is in a record that cannot be read)" if file.has_nameless else "" for file in (outputs, samples)
    )
    near = missing if 0 < len(missing) <= GUESSES and len(unknown) <= GUESSES else {}
    return (
        [
            Problem(samples.path, line, f"sample {one!r} has no output in {outputs.path}{no_output}")
            for one, line in missing.items()
        ],
        [
            Problem(
                outputs.path,
                line,
                f"no sample of {samples.path} has the sample_id {one!r}{no_sample}{did_you_mean(one, near)}",
            )
            for one, line in unknown.items()
        ],
    )


def _sorted(lists: list[list[Problem]]) -> list[Problem]:
    """The problems of each file by line, each once: a record that is read for both roles is wrong once."""
    ordered = [one for some in lists for one in sorted(some, key=lambda problem: problem.line or 0)]
    return list(dict.fromkeys(ordered))


def _plain(problem: Problem) -> Mapping[str, Any]:
    named = _FIELD.match(problem.message)
    return {
        "file": str(problem.path),
        "line": problem.line,
        "field": None if named is None else ast.literal_eval(named[1]),
        "message": problem.message,
    }
