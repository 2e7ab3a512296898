"""What readers hand on: samples and outputs with the line they stand on, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..core.errors import AueporaError, DataFileError, DuplicateIdError
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["Once", "OutputReader", "Problem", "Problems", "ReadOutput", "ReadSample", "SampleReader"]


class ReadSample(NamedTuple):
    """A sample, and where it stands."""

    line: int | None
    """The line, counted from 1; ``None`` where the format has none."""
    sample: EvaluationSample


class ReadOutput(NamedTuple):
    """An output, whose it is, and where it stands."""

    line: int | None
    sample_id: str
    output: SystemOutputs
    has_retrieved: bool = True
    """Whether it says what was retrieved; a system that retrieves nothing is not one that finds nothing."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a file."""

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.line is None else f"{self.path}:{self.line}: {self.message}"


class Problems:
    """Where readers put what is wrong: the first is raised, or all are gathered and the reader goes on."""

    def __init__(self, *, gather: bool = False, watch_ids: bool = True) -> None:
        """``watch_ids`` says whether readers see to it that an id comes once; whoever streams does so otherwise."""
        self.gather = gather
        self.watch_ids = watch_ids
        self.found: list[Problem] = []
        self.unread: set[str] = set()
        """Ids of records that have a problem but say whose they are: they are not missing."""

    def add(self, path: Path, line: int | None, message: str, *, kind: type[AueporaError] = DataFileError) -> None:
        """Raise an error that names file and line, or take it down."""
        problem = Problem(path, line, message)
        if not self.gather:
            raise DataFileError(path, line, message) if kind is DataFileError else kind(str(problem))
        self.found.append(problem)

    def add_error(self, path: Path, error: AueporaError) -> None:
        """Raise an error that ends the reading, or take it down without the file's name, which it has already."""
        if not self.gather:
            raise error
        if isinstance(error, DataFileError):
            self.found.append(Problem(Path(error.path), error.line, error.problem))
        else:
            self.found.append(Problem(path, None, str(error).removeprefix(f"{path}: ")))


SampleReader = Callable[[Path, Problems], Iterator[ReadSample]]
"""Reads the samples of a file, one after the other; what cannot be read goes to the problems."""
OutputReader = Callable[[Path, Problems], Iterator[ReadOutput]]
"""Reads the outputs of a file, likewise."""


class Once:
    """Sees to it that an id comes once."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path = path
        self._problems = problems
        self._lines: dict[str, int | None] = {}

    def is_new(self, sample_id: str, line: int | None, *, hint: str = "") -> bool:
        """Whether the id has not come before; if it has, that is a problem."""
        if not self._problems.watch_ids:
            return True
        if sample_id not in self._lines:
            self._lines[sample_id] = line
            return True
        first = self._lines[sample_id]
        where = "comes twice" if first is None else f"is already on line {first}"
        message = f"sample_id {sample_id!r} {where}; each id may come once{hint}"
        self._problems.add(self._path, line, message, kind=DuplicateIdError)
        return False
