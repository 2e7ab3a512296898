"""JSONL files: one sample, or one system output, per line; compressed if the suffix is ``.gz`` or ``.zst``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    BAD_SPAN,
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


# --- all problems of one line: each is recorded and repaired, then decoding is tried again ---------------------------

MAX_PROBLEMS = 50
"""How many problems of one line are reported; a line with more is probably of another format."""
_MORE_PROBLEMS = "there are more problems on this line"

_PLACEHOLDERS: dict[str, Any] = {
    "null": None,
    "str": "?",
    "object": {"text": ""},  # every required field of any object that cannot be a string instead
    "array": [],
    "int": 0,
    "float": 0,
    "bool": False,
}
"""The replacement of an invalid value by its expected type; the first type that is allowed is used."""
_WITH_PATH = re.compile(r"(?s)(.*) - at `\$\.?([^`]*)`")
_FIELD_ERROR = re.compile(r"(?s)Object (contains unknown|missing required) field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True, slots=True)
class LineProblems:
    """The problems of a line, and its sample id where it can be read."""

    messages: list[str]
    sample_id: str | None


def find_line_problems(line: bytes, role: Role, first: str) -> LineProblems:
    """Return every problem of a line that could not be decoded; ``first`` is the decoding error and always included."""
    row, shape = (CheckedSampleRow, SAMPLE_SHAPE) if role == "samples" else (CheckedOutputRow, OUTPUT_SHAPE)
    found, raw = _find_problems(line, row, shape, first)
    sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
    return LineProblems(found, sample_id if isinstance(sample_id, str) and sample_id else None)


def report_line_problems(
    path: Path, number: int, line: bytes, role: Role, first: str, problems: Problems, once: UniqueIds | None = None
) -> None:
    """Raise the first problem of a sample or an output, or record all of them with the sample id."""
    if not problems.collect_all:
        problems.add(path, number, first)
    found = find_line_problems(line, role, first)
    problems.add_all(path, number, found.messages)
    if found.sample_id is not None and (once is None or once.is_new(found.sample_id, number)):
        problems.unreadable_ids.add(found.sample_id)


def find_struct_problems(data: bytes, kind: Any, shape: RowSchema, first: str) -> list[str]:
    """Return every problem of JSON that does not fit a struct of this type, ``first`` included."""
    return _find_problems(data, kind, shape, first)[0]


def _find_problems(line: bytes, kind: Any, shape: RowSchema, first: str) -> tuple[list[str], Any]:
    """Return the problems, and the values before repair."""
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
    original = copy(raw)
    found += replace_invalid_values(raw)
    added: set[str] = set()
    for _ in range(2 * MAX_PROBLEMS):
        try:
            msgspec.convert(raw, kind)
            break
        except msgspec.ValidationError as error:
            message, noticed = str(error), value_problem(error, raw, shape)
        except RecursionError:
            found.append(TOO_DEEP)
            break
        except UnicodeEncodeError:  # the line is one invalid string: reported as the first problem
            break
        at = _WITH_PATH.fullmatch(message)
        if at is None or at[2] not in added:  # otherwise the message is about a placeholder for a missing field
            found.append(noticed)
        if len(found) > MAX_PROBLEMS or not _repair(raw, message):
            break
        if named := _FIELD_ERROR.fullmatch(at[1] if at else message):
            added.add(f"{at[2]}.{named[2]}" if at and at[2] else named[2])
    found = list(dict.fromkeys(found if first in found else [first, *found]))
    return (found if len(found) <= MAX_PROBLEMS else [*found[:MAX_PROBLEMS], _MORE_PROBLEMS]), original


def _parse_number(text: str) -> float:
    value = float(text)
    return OverflowedFloat(value) if math.isinf(value) else value


def _repair(raw: Any, message: str) -> bool:
    """Replace the value that msgspec rejected by a valid one; return whether that was possible."""
    path = ""
    if at := _WITH_PATH.fullmatch(message):
        message, path = at[1], at[2]
    steps: list[str | int | None] = [
        None if step[0] == "[...]" else int(step[2]) if step[2] else step[1] for step in _STEP.finditer(path)
    ]
    named = _FIELD_ERROR.fullmatch(message)
    if named is None and (message == BAD_SPAN or "span" in steps):
        return _remove(_value_at(raw, steps[: steps.index("span")] if "span" in steps else steps), "span")
    if named is not None:
        holder = _value_at(raw, steps)
        if named[1] == "contains unknown":
            return _remove(holder, named[2])
        if isinstance(holder, dict):
            holder[named[2]] = "?"  # every required field may be a string
        return isinstance(holder, dict)
    return bool(steps) and _replace(_value_at(raw, steps[:-1]), steps[-1], message)


def _value_at(raw: Any, steps: list[str | int | None]) -> Any:
    for step in steps:
        try:
            raw = raw[step]
        except (LookupError, TypeError):
            return None
    return raw


def _remove(holder: Any, key: str) -> bool:
    return isinstance(holder, dict) and holder.pop(key, holder) is not holder


def _replace(holder: Any, step: str | int | None, message: str) -> bool:
    """Replace one value by a placeholder of the expected type."""
    expected = _EXPECTED.match(message)
    kinds = expected[1].split(" | ") if expected else ["null"]
    placeholder = next((value for kind, value in _PLACEHOLDERS.items() if kind in kinds), "?")
    key = _first_non_numeric_key(holder) if step is None else step
    if isinstance(holder, dict) and key in holder:
        known: Any = key
    elif isinstance(holder, list) and isinstance(key, int) and key < len(holder):
        known = key
    else:
        return False
    holder[known] = copy(placeholder)
    return True


def _first_non_numeric_key(holder: Any) -> str | None:
    """Return the key that msgspec omits from a path (``timings[...]``); such values are always numbers."""
    for key, value in holder.items() if isinstance(holder, dict) else ():
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(key)
    return None
