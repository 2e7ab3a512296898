"""The registry of file formats, and format detection."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
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


LINE_FORMATS = ("jsonl", "ragas", "deepeval")
"""Formats with a record on each line."""
SPLIT_FORMATS = (*LINE_FORMATS, "parquet")
"""Formats that can be split into ranges."""
GLOB = re.compile(r"[*?\[]")

_FORMATS: dict[str, Format] = {}


def is_sharded(path: str | Path) -> bool:
    """Whether this names several files: a directory of them, or a glob."""
    return os.path.isdir(path) or (not os.path.exists(path) and GLOB.search(str(path)) is not None)


def register_format(new: Format) -> Format:
    """Register a format under its name."""
    _FORMATS[new.name] = new
    return new


def formats() -> dict[str, Format]:
    """Return every format by name, in the order of detection; formats of users come first."""
    for name in _BUILT_IN:
        _load(name)
    order = list(_BUILT_IN)
    return dict(sorted(_FORMATS.items(), key=lambda item: order.index(item[0]) if item[0] in _BUILT_IN else -1))


def _load(name: str) -> Format:
    """Return a built-in format; its module is imported when the format is first needed."""
    if name not in _FORMATS:
        importlib.import_module(f".{_BUILT_IN[name][0]}", __package__)
    return _FORMATS[name]


def get_format(name: str) -> Format:
    """Return the format of that name."""
    if name in _BUILT_IN:
        return _load(name)
    known = formats()
    if name not in known:
        hint = did_you_mean(name, known, otherwise=f"; there are {', '.join(known)}")
        raise BadValueError(f"unknown format '{name}'{hint}")
    return known[name]


def guess_format(path: Path, role: Role) -> Format:
    """Detect the format of a file from its name and its beginning."""
    head = _read_file_head(path)
    for one in list(_FORMATS.values()):
        if one.name not in _BUILT_IN and one.reads(role) and one.looks_like(head, role):
            return one
    for name, (_, looks_like) in _BUILT_IN.items():
        if looks_like(head, role) and (one := _load(name)).reads(role):
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


# --- how each format is detected -------------------------------------------------------------------------------------

_RAGAS_LEGACY_COLUMNS = frozenset({"contexts", "ground_truth", "ground_truths"})
"""Columns of ragas before version 0.2; next to a question they identify the format."""
_OWN_FORMAT_KEYS = frozenset({"sample_id", "query"})
"""Keys of our own JSONL format; with one of them, unknown keys are typos."""
_DEEPEVAL_COLUMNS = frozenset({"actual_output", "context", "expected_output", "retrieval_context"})
"""Columns of deepeval next to its ``input``."""
_RECORD_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", "")
_SQUAD_PREDICTIONS = re.compile(r'\s*\{\s*"[^"\\]{1,64}"\s*:\s*"')
_OTHER_FORMAT_KEYS = frozenset(
    ["data", "version", "sample_id", "id", "query", "question", "user_input", "input", "topic_id", "run_id", "response"]
)  # keys of other formats, which are not ids


def find_compressed(folder: Path, name: str) -> Path:
    """Return the path of a file in the folder, compressed or not."""
    for suffix in ("", ".gz", ".zst"):
        if (folder / f"{name}{suffix}").exists():
            return folder / f"{name}{suffix}"
    return folder / name


def parse_trec_level(text: bytes) -> int:
    """Parse a level; anything but an integer is a ``ValueError``."""
    if b"_" in text:  # Python accepts 1_000 as a number
        raise ValueError
    return int(text)


def is_qrels_comment(columns: Sequence[bytes]) -> bool:
    """Whether a line of qrels, split into columns, is a comment: it begins with ``#`` and is not a judgement."""
    if not columns or not columns[0].startswith(b"#"):
        return False
    if len(columns) != 4 or columns[0] == b"#":
        return True
    try:
        parse_trec_level(columns[3])
    except ValueError:
        return True
    return False


def looks_like_beir(head: FileHead, role: Role) -> bool:
    """A folder with a corpus and queries, or a file of its judgements."""
    folder = head.path if head.path.is_dir() else head.path.parent.parent
    if not head.path.is_dir() and (head.path.parent.name != "qrels" or head.suffix != ".tsv"):
        return False
    return all(find_compressed(folder, name).exists() for name in ("corpus.jsonl", "queries.jsonl"))


def looks_like_golden(head: FileHead, role: Role) -> bool:
    """Golden queries are in YAML."""
    return role == "samples" and head.suffix in (".yaml", ".yml")


def looks_like_parquet(head: FileHead, role: Role) -> bool:
    """A Parquet table, by suffix or first bytes."""
    return head.suffix in (".parquet", ".pq") or head.text.startswith("PAR1")


def looks_like_trec(head: FileHead, role: Role) -> bool:
    """Lines of four columns are qrels, lines of six are a run."""
    rows = (line.split() for line in head.text.splitlines() if line.strip())
    if role == "samples":
        rows = (columns for columns in rows if not is_qrels_comment([column.encode() for column in columns]))
    lines = list(islice(rows, 3))
    return bool(lines) and all(_is_trec_row(columns, role) for columns in lines)


def _is_trec_row(columns: list[str], role: Role) -> bool:
    try:
        if role == "samples":
            return len(columns) == 4 and int(columns[3]) is not None
        return len(columns) >= 6 and int(columns[3]) is not None and not math.isnan(float(columns[4]))
    except ValueError:
        return False


def looks_like_traces(head: FileHead, role: Role) -> bool:
    """JSON with the ids of traces and spans."""
    if head.suffix not in (".jsonl", ".ndjson", ".json", "") or "sample_id" in head.keys:
        return False
    if head.keys & {"resourceSpans", "resource_spans", "context.trace_id"}:
        return True
    quoted = {word for word in ("trace_id", "traceId", "span_id", "spanId") if f'"{word}"' in head.text}
    return {"trace_id", "span_id"} <= quoted or {"traceId", "spanId"} <= quoted


def looks_like_ragas(head: FileHead, role: Role) -> bool:
    """Records with the columns of ragas."""
    before = (
        "question" in head.keys
        and not _RAGAS_LEGACY_COLUMNS.isdisjoint(head.keys)
        and _OWN_FORMAT_KEYS.isdisjoint(head.keys)
    )
    return head.suffix in _RECORD_SUFFIXES and ("user_input" in head.keys or before)


def looks_like_deepeval(head: FileHead, role: Role) -> bool:
    """Records with the columns of deepeval."""
    known = len(head.keys) == 1 or not _DEEPEVAL_COLUMNS.isdisjoint(head.keys)
    return head.suffix in _RECORD_SUFFIXES and "input" in head.keys and known


def looks_like_trec_rag(head: FileHead, role: Role) -> bool:
    """Answers with references and a topic."""
    return {"references", "answer"} <= head.keys and not head.keys.isdisjoint(("topic_id", "metadata"))


def looks_like_squad(head: FileHead, role: Role) -> bool:
    """Questions by paragraph, or an object of answers by id."""
    if head.suffix != ".json":
        return False
    if role == "samples":
        return not head.keys.isdisjoint(("data", "version")) and '"paragraphs"' in head.text
    return _OTHER_FORMAT_KEYS.isdisjoint(head.keys) and _SQUAD_PREDICTIONS.match(head.text) is not None


def looks_like_jsonl(head: FileHead, role: Role) -> bool:
    """Any file with ``sample_id``; else any file of that suffix, so that its errors name the expected fields."""
    if head.suffix not in (".jsonl", ".ndjson", ".json", ""):
        return False
    return "sample_id" in head.keys or plain_suffix(head.path) in (".jsonl", ".ndjson")


_BUILT_IN: dict[str, tuple[str, Callable[[FileHead, Role], bool]]] = {
    "beir": ("beir", looks_like_beir),
    "golden": ("golden", looks_like_golden),
    "parquet": ("parquet", looks_like_parquet),
    "trec": ("trec_format", looks_like_trec),
    "traces": ("traces", looks_like_traces),
    "ragas": ("records", looks_like_ragas),
    "deepeval": ("records", looks_like_deepeval),
    "trec_rag": ("trec_rag", looks_like_trec_rag),
    "squad": ("squad", looks_like_squad),
    "jsonl": ("jsonl", looks_like_jsonl),
}
"""The module and the detection of each built-in format, in the order of detection: the more specific first."""
