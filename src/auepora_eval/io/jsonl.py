"""JSONL files: one sample, or one system output, per line; compressed where the name ends in ``.gz``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..core.collector import collector_paused
from ..core.dataset import InMemoryDataset
from ..core.errors import BadValueError, DataFileError, DuplicateIdError
from ..core.types import EvaluationSample, SystemOutputs
from .codec import LineError, decode_output_line, decode_sample, encode_output, encode_sample
from .files import is_gzip, read_lines, write_lines

__all__ = [
    "OutputsFile",
    "load_jsonl_dataset",
    "load_jsonl_outputs",
    "read_outputs",
    "save_jsonl_dataset",
    "save_jsonl_outputs",
]


@dataclass(frozen=True, slots=True)
class OutputsFile:
    """The outputs of a file, and what only the file can tell."""

    outputs: dict[str, SystemOutputs]
    """By sample id, in the order of the file."""
    answers_only: bool
    """Whether ``retrieved`` is on no line, although something came back: the system answers and retrieves nothing."""


def load_jsonl_dataset(path: str | Path, name: str | None = None) -> InMemoryDataset:
    """The samples of a file, in its order. Without ``name`` the dataset is called as the file, less its suffix."""
    path = Path(path)
    samples: list[EvaluationSample] = []
    lines: dict[str, int] = {}
    with collector_paused():
        for number, line in read_lines(path):
            try:
                sample = decode_sample(line)
            except LineError as error:
                raise DataFileError(path, number, str(error)) from error
            if lines.setdefault(sample.sample_id, number) != number:
                raise DuplicateIdError(_twice(path, number, sample.sample_id, lines[sample.sample_id]))
            samples.append(sample)
    if not samples:
        raise DataFileError(path, None, "the file is empty; each line must be one sample")
    if name is None:
        name = Path(path.stem).stem if is_gzip(path) else path.stem
    return InMemoryDataset(name, samples)


def load_jsonl_outputs(path: str | Path) -> dict[str, SystemOutputs]:
    """The outputs of a file by sample id, in its order."""
    return read_outputs(path).outputs


def read_outputs(path: str | Path) -> OutputsFile:
    """What ``load_jsonl_outputs`` gives, with what is known of the file.

    Where some lines say what was retrieved, one that does not (and names no error) was written by mistake: taking it
    for an empty ranking would count against the system what is the file's fault.
    """
    path = Path(path)
    outputs: dict[str, SystemOutputs] = {}
    lines: dict[str, int] = {}
    with_ranking, without = False, 0
    with collector_paused():
        for number, line in read_lines(path):
            try:
                sample_id, output, has_retrieved = decode_output_line(line)
            except LineError as error:
                raise DataFileError(path, number, str(error)) from error
            if lines.setdefault(sample_id, number) != number:
                repeated = outputs[sample_id].repeat != output.repeat
                hint = "; put each repeat in a file of its own" if repeated else ""
                raise DuplicateIdError(_twice(path, number, sample_id, lines[sample_id]) + hint)
            if has_retrieved:
                with_ranking = True
            elif not without and output.error is None:
                without = number
            outputs[sample_id] = output
    if not outputs:
        raise DataFileError(path, None, "the file is empty; each line must be the output for one sample")
    if with_ranking and without:
        raise DataFileError(
            path, without, "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"
        )
    return OutputsFile(outputs, answers_only=without > 0)


def save_jsonl_dataset(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write a dataset, or samples, to a file: whole, or (on any error) not at all."""

    def lines() -> Iterator[bytes]:
        seen: set[str] = set()
        for sample in samples:
            try:
                line = encode_sample(sample)
            except LineError as error:
                raise BadValueError(f"sample {sample.sample_id!r} cannot be written: {error}") from error
            _require_new(sample.sample_id, seen)
            yield line

    write_lines(Path(path), lines())


def save_jsonl_outputs(
    outputs: Mapping[str, SystemOutputs] | Iterable[tuple[str, SystemOutputs]], path: str | Path
) -> None:
    """Write outputs, by sample id or as pairs of id and output, to a file: whole, or (on any error) not at all."""
    pairs = outputs.items() if isinstance(outputs, Mapping) else outputs

    def lines() -> Iterator[bytes]:
        seen: set[str] = set()
        for sample_id, output in pairs:
            try:
                line = encode_output(sample_id, output)
            except LineError as error:
                raise BadValueError(f"the output for sample {sample_id!r} cannot be written: {error}") from error
            _require_new(sample_id, seen)
            yield line

    write_lines(Path(path), lines())


def _twice(path: Path, line: int, sample_id: str, first: int) -> str:
    return f"{path}:{line}: sample_id {sample_id!r} is already on line {first}; each id may come once"


def _require_new(sample_id: str, seen: set[str]) -> None:
    if sample_id in seen:
        raise DuplicateIdError(f"sample_id {sample_id!r} comes twice; each id may come once in a file")
    seen.add(sample_id)
