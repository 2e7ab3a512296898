"""What readers hand on: samples and outputs with the line they stand on, and what is wrong with the others."""

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
"""So many lines are named of a finding that comes again and again; the rest is counted."""


class ParsedSample(NamedTuple):
    """A sample, and where it stands."""

    line: int | None
    """The line, counted from 1; ``None`` where the format has none."""
    sample: EvaluationSample
    record: int | None = None
    """Which record of the file it is, counted from 1, where several begin on its line; ``None`` elsewhere."""


class ParsedOutput(NamedTuple):
    """An output, whose it is, and where it stands."""

    line: int | None
    sample_id: str
    output: SystemOutputs
    has_retrieved: bool = True
    """Whether it says what was retrieved; a system that retrieves nothing is not one that finds nothing."""
    record: int | None = None
    """As of a sample."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file."""

    path: Path
    line: int | None
    message: str
    record: int | None = None
    """Which record of the file it is in, where the line alone does not tell."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.told}"

    @property
    def told(self) -> str:
        """The message, with the record where that is needed to find it."""
        return self.message if self.record is None else f"record {self.record}: {self.message}"


class DataWarnings:
    """Findings by kind: the first of each is told whole, the others by their lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, str], tuple[str, list[tuple[int | None, int | None]]]] = {}

    def add(self, kind: str, path: Path, line: int | None, message: str, *, record: int | None = None) -> None:
        """Take one down; ``message`` is told of the first of its kind in this file."""
        self._found.setdefault((path, kind), (message, []))[1].append((line, record))

    def told(self) -> list[Problem]:
        """One problem for each kind."""
        return [
            Problem(path, places[0][0], f"{message}{_other_lines(places[1:])}", places[0][1])
            for (path, _), (message, places) in self._found.items()
        ]


def _other_lines(places: Sequence[tuple[int | None, int | None]]) -> str:
    if not places:
        return ""
    by_record = all(record is not None for _, record in places)
    numbers = [record if by_record else line for line, record in places]
    named = [str(number) for number in numbers[:MAX_NAMED_LINES] if number is not None]
    if not named:
        return f" (and {len(places)} more)"
    more = f" and {len(places) - len(named)} more" if len(places) > len(named) else ""
    what = "in record" if by_record else "on line"
    return f" (also {what}{'s' if len(places) > 1 else ''} {', '.join(named)}{more})"


class Problems:
    """Where readers put what is wrong: the first is raised, or all are gathered and the reader goes on."""

    def __init__(self, *, gather: bool = False, watch_ids: bool = True) -> None:
        """``watch_ids`` says whether readers see to it that an id comes once; whoever streams does so otherwise."""
        self.gather = gather
        self.watch_ids = watch_ids
        self.found: list[Problem] = []
        self.unreadable_ids: set[str] = set()
        """Ids of records that have a problem but say whose they are: they are not missing."""
        self.warnings = DataWarnings()
        """What keeps nothing from being read, but is probably not meant; looked for where problems are gathered."""

    def add(
        self,
        path: Path,
        line: int | None,
        message: str,
        *,
        record: int | None = None,
        kind: type[AueporaError] = DataFileError,
    ) -> None:
        """Raise an error that names file and line, or take it down."""
        problem = Problem(path, line, message, record)
        if not self.gather:
            if kind is DataFileError:
                raise DataFileError(path, line, problem.told)
            if kind is DuplicateIdError:
                raise DuplicateIdError(str(problem), path=path, line=line)
            raise kind(str(problem))
        self.found.append(problem)

    def add_all(self, path: Path, line: int | None, messages: Iterable[str], *, record: int | None = None) -> None:
        """Raise the first of all that is wrong with one record, or take all of it down."""
        for message in messages:
            self.add(path, line, message, record=record)

    def add_error(self, path: Path, error: AueporaError) -> None:
        """Raise an error that ends the reading, or take it down without the file's name, which it has already."""
        if not self.gather:
            raise error
        if isinstance(error, DataFileError):
            self.found.append(Problem(Path(error.path), error.line, error.problem))
        else:
            self.found.append(Problem(path, None, str(error).removeprefix(f"{path}: ")))


SampleReader = Callable[[Path, Problems], Iterator[ParsedSample]]
"""Reads the samples of a file, one after the other; what cannot be read goes to the problems."""
OutputReader = Callable[[Path, Problems], Iterator[ParsedOutput]]
"""Reads the outputs of a file, likewise."""


class UniqueIds:
    """Sees to it that an id comes once."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._lines: dict[str, int | None] = {}
        self._records: dict[str, int] = {}

    def is_new(self, sample_id: str, line: int | None, *, record: int | None = None, hint: str = "") -> bool:
        """Whether the id has not come before; if it has, that is a problem."""
        if not self._problems.watch_ids:
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
    """The outputs that do not say what was retrieved although others do; those that failed need not say it."""
    answered = [read for read in outputs if read.output.error is None]
    return [read for read in answered if not read.has_retrieved] if any(read.has_retrieved for read in answered) else []
