"""Types of the file readers: samples and outputs with their lines, and the collector of problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..core.errors import AueporaError, DataFileError, DuplicateIdError
from ..core.types import EvaluationSample, SystemOutputs

__all__ = [
    "MISSING_RETRIEVED",
    "DataWarnings",
    "OutputReader",
    "ParsedOutput",
    "ParsedSample",
    "Problem",
    "Problems",
    "SampleReader",
    "UniqueIds",
    "outputs_missing_ranking",
]

MAX_NAMED_LINES = 3
"""How many further lines a repeated warning names; the others are counted."""


class ParsedSample(NamedTuple):
    """A sample with its position in the file."""

    line: int | None
    """The line, counted from 1; ``None`` if the format has no lines."""
    sample: EvaluationSample
    record: int | None = None
    """The number of the record in the file, counted from 1, if several begin on its line; otherwise ``None``."""


class ParsedOutput(NamedTuple):
    """An output with its sample id and its position in the file."""

    line: int | None
    sample_id: str
    output: SystemOutputs
    has_retrieved: bool = True
    """Whether it has a ranking; a system without retrieval differs from one that finds nothing."""
    record: int | None = None
    """As in ``ParsedSample``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file."""

    path: Path
    line: int | None
    message: str
    record: int | None = None
    """The number of the record in the file, if the line is ambiguous."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.full_message}"

    @property
    def full_message(self) -> str:
        """The message, with the number of the record if there is one."""
        return self.message if self.record is None else f"record {self.record}: {self.message}"


class DataWarnings:
    """Warnings by kind: the first of each is reported in full, the others by their lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, str], tuple[str, list[tuple[int | None, int | None]]]] = {}

    def add(self, kind: str, path: Path, line: int | None, message: str, *, record: int | None = None) -> None:
        """Add a warning; only the first message of a kind in a file is reported."""
        self._found.setdefault((path, kind), (message, []))[1].append((line, record))

    def summarize(self) -> list[Problem]:
        """Return one warning for each kind."""
        return [
            Problem(path, positions[0][0], f"{message}{_other_lines(positions[1:])}", positions[0][1])
            for (path, _), (message, positions) in self._found.items()
        ]


def _other_lines(positions: Sequence[tuple[int | None, int | None]]) -> str:
    if not positions:
        return ""
    by_record = all(record is not None for _, record in positions)
    numbers = [record if by_record else line for line, record in positions]
    named = [str(number) for number in numbers[:MAX_NAMED_LINES] if number is not None]
    if not named:
        return f" (and {len(positions)} more)"
    more = f" and {len(positions) - len(named)} more" if len(positions) > len(named) else ""
    what = "in record" if by_record else "on line"
    return f" (also {what}{'s' if len(positions) > 1 else ''} {', '.join(named)}{more})"


class Problems:
    """Collector of problems: the first one is raised, or all are collected and the reader continues."""

    def __init__(self, *, collect_all: bool = False, check_unique_ids: bool = True) -> None:
        """``check_unique_ids``: whether readers check that ids are unique; streams check it in another way."""
        self.collect_all = collect_all
        self.check_unique_ids = check_unique_ids
        self.found: list[Problem] = []
        self.unreadable_ids: set[str] = set()
        """Ids of invalid records whose id can be read: they are not missing."""
        self.warnings = DataWarnings()
        """Warnings about data that can be read but is probably wrong; only if problems are collected."""

    def add(
        self,
        path: Path,
        line: int | None,
        message: str,
        *,
        record: int | None = None,
        kind: type[AueporaError] = DataFileError,
    ) -> None:
        """Raise an error that names file and line, or record it."""
        problem = Problem(path, line, message, record)
        if not self.collect_all:
            if kind is DataFileError:
                raise DataFileError(path, line, problem.full_message)
            if kind is DuplicateIdError:
                raise DuplicateIdError(str(problem), path=path, line=line)
            raise kind(str(problem))
        self.found.append(problem)

    def add_all(self, path: Path, line: int | None, messages: Iterable[str], *, record: int | None = None) -> None:
        """Raise the first problem of one record, or record all of them."""
        for message in messages:
            self.add(path, line, message, record=record)

    def add_error(self, path: Path, error: AueporaError) -> None:
        """Raise an error that ends the reading, or record it without the file name in its message."""
        if not self.collect_all:
            raise error
        if isinstance(error, DataFileError):
            self.found.append(Problem(Path(error.path), error.line, error.problem))
        else:
            self.found.append(Problem(path, None, str(error).removeprefix(f"{path}: ")))


SampleReader = Callable[[Path, Problems], Iterator[ParsedSample]]
"""Reads the samples of a file; invalid ones are added to the problems."""
OutputReader = Callable[[Path, Problems], Iterator[ParsedOutput]]
"""Reads the outputs of a file; invalid ones are added to the problems."""


class UniqueIds:
    """Checks that each id occurs once."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._lines: dict[str, int | None] = {}
        self._records: dict[str, int] = {}

    def is_new(self, sample_id: str, line: int | None, *, record: int | None = None, hint: str = "") -> bool:
        """Whether the id is new; a repeated id is added to the problems."""
        if not self._problems.check_unique_ids:
            return True
        if sample_id not in self._lines:
            self._lines[sample_id] = line
            if record is not None:
                self._records[sample_id] = record
            return True
        first = self._lines[sample_id]
        where = "comes twice" if first is None else f"is already on line {first}"
        if sample_id in self._records:
            where = f"is already that of record {self._records[sample_id]}"
        message = f"sample_id {sample_id!r} {where}; each id may come once{hint}"
        self._problems.add(self._path, line, message, record=record, kind=DuplicateIdError)
        return False


MISSING_RETRIEVED = "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"


def outputs_missing_ranking(outputs: Iterable[ParsedOutput]) -> list[ParsedOutput]:
    """Return the outputs without a ranking if other outputs have one; failed outputs need none."""
    answered = [read for read in outputs if read.output.error is None]
    return [read for read in answered if not read.has_retrieved] if any(read.has_retrieved for read in answered) else []
