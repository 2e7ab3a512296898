"""The registry of file formats, and format detection."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError, did_you_mean
from ..runtime.files import plain_suffix, read_head
from .problems import OutputReader, SampleReader
from .values import syntax_problem

Role = Literal["samples", "outputs"]
"""What a file contains: the samples of a dataset, or the outputs of a system."""

_JSON = (".json", ".jsonl", ".ndjson")

# The modules of the formats. Each registers its format on import, which happens when a format is first needed.
# Detection tries them in this order: the more specific first.
_MODULES: tuple[str, ...] = (
    "beir", "golden", "parquet", "trec_format", "traces", "records", "trec_rag", "squad", "jsonl",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileHead:
    """The beginning of a file, for format detection."""

    path: Path
    text: str
    """The first characters, decompressed."""
    keys: frozenset[str] = field(default=frozenset())
    """The keys of the first JSON object, or the columns of a table."""

    @property
    def suffix(self) -> str:
        """The suffix without that of a compression, in lower case: ``.jsonl``."""
        return plain_suffix(self.path)


@dataclass(frozen=True, slots=True)
class Format:
    """A file format of samples or outputs."""

    name: str
    title: str
    """A short description."""
    looks_like: Callable[[FileHead, Role], bool]
    """Whether a file that begins like this is probably in this format, for that role."""
    read_samples: SampleReader | None = None
    read_outputs: OutputReader | None = None
    write_samples: Callable[[Iterable[EvaluationSample], Path], None] | None = None
    write_outputs: Callable[[Iterable[tuple[str, SystemOutputs]], Path], None] | None = None
    write_both: Callable[[Iterable[tuple[EvaluationSample, SystemOutputs | None]], Path], None] | None = None
    """For a format that stores a sample and its output in one record."""
    sample_fields: frozenset[str] | None = None
    """The fields of a sample it can store; ``None`` means all."""
    output_fields: frozenset[str] | None = None
    """The fields of an output it can store; ``None`` means all."""

    nested_losses: frozenset[str] = frozenset()
    """Subfields of stored fields that it cannot store: ``relevant_docs.metadata``, ``retrieved.score``."""
    one_file: bool = False
    """Whether samples and outputs are in the same file."""
    judged_pool: bool = False
    """Whether its samples are TREC judgements, for which the conventions of trec_eval are the default."""

    def reads(self, role: Role) -> bool:
        """Whether files of this role can be read."""
        return (self.read_samples if role == "samples" else self.read_outputs) is not None


_FORMATS: dict[str, Format] = {}


def register_format(new: Format) -> Format:
    """Register a format under its name."""
    _FORMATS[new.name] = new
    return new


def formats() -> dict[str, Format]:
    """Return every format by name, in the order of detection."""
    for module in _MODULES:
        importlib.import_module(f".{module}", __package__)
    return dict(sorted(_FORMATS.items(), key=lambda item: _priority(item[1])))


def _priority(one: Format) -> int:
    """Return the position in the order of detection, independent of import order; formats of users come first."""
    module = one.looks_like.__module__.rpartition(".")[2]
    return _MODULES.index(module) if module in _MODULES else -1


def get_format(name: str) -> Format:
    """Return the format of that name."""
    known = formats()
    if name not in known:
        hint = did_you_mean(name, known, otherwise=f"; there are {', '.join(known)}")
        raise BadValueError(f"unknown format '{name}'{hint}")
    return known[name]


def guess_format(path: Path, role: Role) -> Format:
    """Detect the format of a file from its name and its beginning."""
    head = _read_file_head(path)
    for one in formats().values():
        if one.reads(role) and one.looks_like(head, role):
            return one
    if head.suffix in _JSON and (broken := syntax_problem(path)):
        raise DataFileError(path, *broken)
    able = ", ".join(name for name, one in formats().items() if one.reads(role))
    raise DataFileError(
        path, None, f"cannot tell in which format these {role} are; name one of {able} to be told what is wrong with it"
    )


def _read_file_head(path: Path) -> FileHead:
    if path.is_dir():
        return FileHead(path, "")
    text = read_head(path)
    return FileHead(path, text, _keys(plain_suffix(path), text))


def _keys(suffix: str, text: str) -> frozenset[str]:
    """Return the keys of the first JSON object, or the columns of a table."""
    if suffix in (".csv", ".tsv"):
        rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if suffix == ".tsv" else ",")
        try:
            return frozenset(next(rows, []))
        except csv.Error:
            return frozenset()
    start = text.lstrip()
    if start.startswith("["):
        start = start[1:].lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return _truncated_object_keys(start) or _keys_of_later_lines(start)
    return _mapping_keys(first)


def _keys_of_later_lines(text: str) -> frozenset[str]:
    """Return the keys of the first later line that is an object, for a file that begins with invalid JSON."""
    for line in text.split("\n")[1:]:
        try:
            found = _mapping_keys(json.loads(line.strip().rstrip(",]")))
        except (ValueError, RecursionError):
            continue
        if found:
            return found
    return frozenset()


def _mapping_keys(value: Any) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, Mapping) else frozenset()


def _truncated_object_keys(start: str) -> frozenset[str]:
    """Return the first key of an object that is longer than the head."""
    if not start.startswith("{"):
        return frozenset()
    try:
        key, _ = json.JSONDecoder().raw_decode(start[1:].lstrip())
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset({key}) if isinstance(key, str) else frozenset()
