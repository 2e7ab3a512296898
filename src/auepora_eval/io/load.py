"""Datasets and outputs from files of any format: the one way in for the command, the client and plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core.collector import collector_paused
from ..core.dataset import InMemoryDataset
from ..core.errors import BadValueError, DataFileError
from ..core.types import EvaluationSample, SystemOutputs
from .files import bare_name
from .formats import Format, Role, format_named, guess_format
from .jsonl import OutputsFile, gathered_outputs
from .reading import Problems, ReadOutput, ReadSample

__all__ = ["chosen_format", "iter_outputs", "iter_samples", "load_dataset", "load_outputs", "read_outputs_file"]


def chosen_format(path: Path, role: Role, name: str | None = None) -> Format:
    """The format of that name, or the one the file is probably in; one that can be read for this role."""
    if name is None:
        return guess_format(path, role)
    chosen = format_named(name)
    if not chosen.reads(role):
        raise BadValueError(f"the format '{name}' has no {role}")
    return chosen


def iter_samples(path: str | Path, format: str | None = None, problems: Problems | None = None) -> Iterator[ReadSample]:
    """The samples of a file with their lines, one after the other."""
    path = Path(path)
    read = chosen_format(path, "samples", format).read_samples
    assert read is not None
    return read(path, problems or Problems())


def iter_outputs(path: str | Path, format: str | None = None, problems: Problems | None = None) -> Iterator[ReadOutput]:
    """The outputs of a file with their lines, one after the other."""
    path = Path(path)
    read = chosen_format(path, "outputs", format).read_outputs
    assert read is not None
    return read(path, problems or Problems())


def load_dataset(path: str | Path, format: str | None = None, *, name: str | None = None) -> InMemoryDataset:
    """The samples of a file, in its order. Without ``format`` it is guessed from the file."""
    path = Path(path)
    with collector_paused():
        samples: list[EvaluationSample] = [read.sample for read in iter_samples(path, format)]
    if not samples:
        raise DataFileError(path, None, "there is no sample in it")
    return InMemoryDataset(bare_name(path) if name is None else name, samples)


def load_outputs(path: str | Path, format: str | None = None) -> dict[str, SystemOutputs]:
    """The outputs of a file by sample id, in its order. Without ``format`` it is guessed from the file."""
    return read_outputs_file(path, format).outputs


def read_outputs_file(path: str | Path, format: str | None = None) -> OutputsFile:
    """What ``load_outputs`` gives, with what is known of the file."""
    path = Path(path)
    with collector_paused():
        read = gathered_outputs(path, iter_outputs(path, format), Problems())
    if not read.outputs:
        raise DataFileError(path, None, "there is no output in it")
    return read
