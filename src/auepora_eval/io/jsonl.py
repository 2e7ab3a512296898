"""JSONL files: one sample, or one system output, per line; compressed if the suffix is ``.gz`` or ``.zst``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..core.dataset import InMemoryDataset
from ..core.errors import BadValueError, DuplicateIdError
from ..core.gc_pause import gc_paused
from ..core.types import EvaluationSample, SystemOutputs
from .codec import LineError, decode_output_line, decode_sample, encode_output, encode_sample
from .files import plain_stem, plain_suffix, read_lines, write_lines
from .formats import FileHead, Format, Role, register_format
from .reader_types import MISSING_RETRIEVED, ParsedOutput, ParsedSample, Problems, UniqueIds
from .repeated_keys import warn_repeated_keys

__all__ = [
    "OutputsFile",
    "gathered_outputs",
    "iter_outputs",
    "load_jsonl_dataset",
    "load_jsonl_outputs",
    "read_outputs",
    "read_samples",
    "save_jsonl_dataset",
    "save_jsonl_outputs",
]


@dataclass(frozen=True, slots=True)
class OutputsFile:
    """The outputs of a file, with a property of the whole file."""

    outputs: dict[str, SystemOutputs]
    """By sample id, in the order of the file."""
    answers_only: bool
    """Whether no line has ``retrieved`` although there are outputs: the system answers without retrieval."""


def read_samples(path: Path, problems: Problems, *, may_be_empty: bool = False) -> Iterator[ParsedSample]:
    """Yield the samples of a file. An empty file is a problem unless ``may_be_empty``."""
    unique_ids = UniqueIds(path, problems)
    number = None
    for number, line in read_lines(path):
        if problems.collect_all:
            warn_repeated_keys(path, number, line, problems)
        try:
            sample = decode_sample(line)
        except LineError as error:
            _report_problems(path, number, line, "samples", str(error), problems, unique_ids)
            continue
        if unique_ids.is_new(sample.sample_id, number):
            yield ParsedSample(number, sample)
    if number is None and not may_be_empty:
        problems.add(path, None, "the file is empty; each line must be one sample")


def iter_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the outputs of a file."""
    unique_ids = UniqueIds(path, problems)
    number = None
    for number, line in read_lines(path):
        if problems.collect_all:
            warn_repeated_keys(path, number, line, problems)
        try:
            sample_id, output, has_retrieved = decode_output_line(line)
        except LineError as error:
            _report_problems(path, number, line, "outputs", str(error), problems, unique_ids)
            continue
        if unique_ids.is_new(sample_id, number, hint="; put each repeat in a file of its own" if output.repeat else ""):
            yield ParsedOutput(number, sample_id, output, has_retrieved)
    if number is None:
        problems.add(path, None, "the file is empty; each line must be the output for one sample")


def _report_problems(
    path: Path, number: int, line: bytes, role: Role, first: str, problems: Problems, unique_ids: UniqueIds
) -> None:
    from .line_problems import report_line_problems  # imported only for a line with a problem

    report_line_problems(path, number, line, role, first, problems, unique_ids)


def load_jsonl_dataset(path: str | Path, name: str | None = None) -> InMemoryDataset:
    """Load the samples of a file, in its order; an empty file gives an empty dataset.

    The default ``name`` is the file name without its suffix.
    """
    path = Path(path)
    with gc_paused():
        samples = [read.sample for read in read_samples(path, Problems(), may_be_empty=True)]
    return InMemoryDataset(plain_stem(path) if name is None else name, samples)


def load_jsonl_outputs(path: str | Path) -> dict[str, SystemOutputs]:
    """Load the outputs of a file by sample id, in its order."""
    return read_outputs(path).outputs


def read_outputs(path: str | Path) -> OutputsFile:
    """Like ``load_jsonl_outputs``, with ``answers_only``."""
    path = Path(path)
    with gc_paused():
        return gathered_outputs(path, iter_outputs(path, Problems()), Problems())


def gathered_outputs(path: Path, outputs: Iterable[ParsedOutput], problems: Problems) -> OutputsFile:
    """Collect outputs by sample id.

    If some lines have ``retrieved``, a line without it (and without an error) is a mistake of the file: reading it as
    an empty ranking would count against the system.
    """
    by_id: dict[str, SystemOutputs] = {}
    with_ranking = False
    without: ParsedOutput | None = None
    for read in outputs:
        if read.output.error is None:  # a failed output need not have a ranking
            if read.has_retrieved:
                with_ranking = True
            elif without is None:
                without = read
        by_id[read.sample_id] = read.output
    if with_ranking and without is not None:
        problems.add(path, without.line, MISSING_RETRIEVED, record=without.record)
    return OutputsFile(by_id, answers_only=without is not None and not with_ranking)


def save_jsonl_dataset(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write a dataset, or samples, to a file, atomically."""

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
    """Write outputs, by sample id or as pairs of id and output, to a file, atomically."""
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


def _require_new(sample_id: str, seen: set[str]) -> None:
    if sample_id in seen:
        raise DuplicateIdError(f"sample_id {sample_id!r} comes twice; each id may come once in a file")
    seen.add(sample_id)


def _looks_like(head: FileHead, role: Role) -> bool:
    """Any file with ``sample_id``; else any file of that suffix, so that its errors name the expected fields."""
    if head.suffix not in (".jsonl", ".ndjson", ".json", ""):
        return False
    return "sample_id" in head.keys or plain_suffix(head.path) in (".jsonl", ".ndjson")


FORMAT = register_format(
    Format(
        "jsonl",
        "our own: a sample, or an output, per line",
        _looks_like,
        read_samples,
        iter_outputs,
        save_jsonl_dataset,
        save_jsonl_outputs,
    )
)
