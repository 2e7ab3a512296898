"""JSONL files: one sample, or one system output, per line; compressed if the suffix is ``.gz`` or ``.zst``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from ..core.dataset import InMemoryDataset
from ..core.types import EvaluationSample, SystemOutputs
from ..runtime.files import plain_stem, read_lines, write_lines
from ..runtime.processes import gc_paused
from .codec import (
    OUTPUT_SHAPE,
    SAMPLE_SHAPE,
    CheckedOutputRow,
    CheckedSampleRow,
    LineError,
    decode_output_line,
    decode_sample,
    encode_output,
    encode_outputs,
    encode_sample,
    encode_samples,
)
from .formats import Format, Role, looks_like_jsonl, register_format
from .problems import (
    MISSING_RETRIEVED,
    TOO_DEEP,
    OverflowedFloat,
    ParsedOutput,
    ParsedSample,
    Problems,
    RowSchema,
    UniqueIds,
    replace_invalid_values,
    value_problem,
)
from .values import warn_repeated_keys

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
        warn_repeated_keys(path, number, line, problems)
        try:
            sample = decode_sample(line)
        except LineError as error:
            report_line_problems(path, number, line, "samples", str(error), problems, unique_ids)
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
        warn_repeated_keys(path, number, line, problems)
        try:
            sample_id, output, has_retrieved = decode_output_line(line)
        except LineError as error:
            report_line_problems(path, number, line, "outputs", str(error), problems, unique_ids)
            continue
        if unique_ids.is_new(sample_id, number, hint="; put each repeat in a file of its own" if output.repeat else ""):
            yield ParsedOutput(number, sample_id, output, has_retrieved)
    if number is None:
        problems.add(path, None, "the file is empty; each line must be the output for one sample")


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
    write_lines(Path(path), encode_samples(samples, encode_sample))


def save_jsonl_outputs(
    outputs: Mapping[str, SystemOutputs] | Iterable[tuple[str, SystemOutputs]], path: str | Path
) -> None:
    """Write outputs, by sample id or as pairs of id and output, to a file, atomically."""
    pairs = outputs.items() if isinstance(outputs, Mapping) else outputs
    write_lines(Path(path), encode_outputs(pairs, encode_output))


FORMAT = register_format(
    Format(
        "jsonl",
        "our own: a sample, or an output, per line",
        looks_like_jsonl,
        read_samples,
        iter_outputs,
        save_jsonl_dataset,
        save_jsonl_outputs,
    )
)


# --- all problems of one line: the parts of a value that does not fit are checked one by one --------------------------

MAX_PROBLEMS = 50
"""How many problems of one line are reported; a line with more is probably of another format."""
_MORE_PROBLEMS = "there are more problems on this line"

_WITH_PATH = re.compile(r"(?s)(.*) - at `\$([^`]*)`")


def find_line_problems(line: bytes, role: Role, first: str) -> tuple[list[str], str | None]:
    """Return every problem of a line that could not be decoded, and its sample id where it can be read.

    ``first`` is the decoding error and always included.
    """
    row, shape = (CheckedSampleRow, SAMPLE_SHAPE) if role == "samples" else (CheckedOutputRow, OUTPUT_SHAPE)
    found, sample_id = _find_problems(line, row, shape, first)
    return found, sample_id if isinstance(sample_id, str) and sample_id else None


def report_line_problems(
    path: Path, number: int, line: bytes, role: Role, first: str, problems: Problems, once: UniqueIds | None = None
) -> None:
    """Raise the first problem of a sample or an output, or record all of them with the sample id."""
    if not problems.collect_all:
        problems.add(path, number, first)
    messages, sample_id = find_line_problems(line, role, first)
    problems.add_all(path, number, messages)
    if sample_id is not None and (once is None or once.is_new(sample_id, number)):
        problems.unreadable_ids.add(sample_id)


def find_struct_problems(data: bytes, kind: Any, shape: RowSchema, first: str) -> list[str]:
    """Return every problem of JSON that does not fit a struct of this type, ``first`` included."""
    return _find_problems(data, kind, shape, first)[0]


def _find_problems(line: bytes, kind: Any, shape: RowSchema, first: str) -> tuple[list[str], Any]:
    """Return the problems, and the sample id."""
    found: list[str] = []
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.append(first)  # it names the byte; with a replacement character the rest can be read
        text = line.decode(errors="replace")
    try:
        raw: Any = json.loads(text, parse_float=_parse_number)
    except (ValueError, RecursionError):
        return list(dict.fromkeys([*found, first])), None
    sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
    found += replace_invalid_values(raw)
    try:
        found += [value_problem(problem, raw, shape) for problem in _invalid_parts(raw, kind, "$")]
    except RecursionError:
        found.append(TOO_DEEP)
    except UnicodeEncodeError:  # the line is one invalid string: reported as the first problem
        pass
    found = list(dict.fromkeys(found if first in found else [first, *found]))
    return (found if len(found) <= MAX_PROBLEMS else [*found[:MAX_PROBLEMS], _MORE_PROBLEMS]), sample_id


def _parse_number(text: str) -> float:
    value = float(text)
    return OverflowedFloat(value) if math.isinf(value) else value


def _invalid_parts(value: Any, kind: Any, path: str) -> list[msgspec.ValidationError]:
    """Return the errors of a value that does not fit a type: those of its parts, or its own if all parts fit."""
    try:
        msgspec.convert(value, kind)
        return []
    except msgspec.ValidationError as error:
        own = str(error)
    found: list[msgspec.ValidationError] = []
    parts: list[tuple[Any, Any, str]] = []
    for one in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        origin, inner = get_origin(one) or one, get_args(one)
        if isinstance(value, list) and origin is list:
            parts += [(item, inner[0], f"{path}[{index}]") for index, item in enumerate(value)]
        elif isinstance(value, dict) and origin is dict:
            parts += [(item, inner[1], f"{path}.{key}") for key, item in value.items()]
        elif isinstance(value, dict) and isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            found += _invalid_fields(value, one, path, others=not origin.__struct_config__.forbid_unknown_fields)
    for part in parts:
        found += _invalid_parts(*part)
    if found:
        return found
    at = _WITH_PATH.fullmatch(own)
    return [msgspec.ValidationError(f"{at[1]} - at `{path}{at[2]}`" if at else f"{own} - at `{path}`")]


def _invalid_fields(
    values: dict[str, Any], struct: Any, path: str, *, others: bool
) -> Iterator[msgspec.ValidationError]:
    """Yield the errors of the fields of a struct; ``others``: whether it may have unknown ones."""
    fields = {one.encode_name: one for one in msgspec.structs.fields(struct)}
    for key, value in values.items():
        if key in fields:
            yield from _invalid_parts(value, fields[key].type, f"{path}.{key}")
        elif not others:
            yield msgspec.ValidationError(f"Object contains unknown field `{key}` - at `{path}`")
    for key, field in fields.items():
        if field.required and key not in values:
            yield msgspec.ValidationError(f"Object missing required field `{key}` - at `{path}`")
