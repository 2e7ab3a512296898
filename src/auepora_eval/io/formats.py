"""The registry of file formats, and format detection."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError, MissingDependencyError, did_you_mean
from ..runtime.files import plain_suffix, read_head
from .problems import OutputReader, Problems, SampleReader
from .values import syntax_problem

if TYPE_CHECKING:
    from .tables import TableKind, TableOptions

Role = Literal["samples", "outputs"]
"""What a file contains: the samples of a dataset, or the outputs of a system."""

_JSON = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class FileHead:
    """The beginning of a file, for format detection."""

    path: Path
    text: str
    """The first characters, decompressed."""
    keys: frozenset[str] = frozenset()
    """The keys of the first JSON object, or the columns of a table."""
    columns: tuple[str, ...] = ()
    """The columns of a table in their order; the keys of the first record, which may be under a key of an object."""
    kind: TableKind = "json"

    def describe(self, *, other: bool = True) -> str:
        """Return what the file is, and how the columns are named; ``other``: it was read as another format."""
        from .tables import TITLES, example_columns, list_columns

        if self.kind == "json" and len(arrays := _record_arrays(self.text.lstrip())) > 1:
            names = list_columns(arrays)
            return f"this is JSON with records under {names}; name one, as in --columns rows={next(iter(arrays))},..."
        what = f"this is {TITLES[self.kind]} with the columns {list_columns(self.columns)}"
        if self.kind == "json" and "sample_id" in self.columns:
            return f"{what}; use --format jsonl"
        name = TABLE if self.kind in ("json", "parquet") else self.kind
        example = example_columns(self.columns)
        use = f"use --format {name} and " * other
        return f"{what}; {use}say which is which, as in --columns {example}"

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
    conventions: str = "auepora"
    """The preset that ``auto`` means for its samples: ``trec`` for TREC judgements, ``golden`` for golden queries."""

    def reads(self, role: Role) -> bool:
        """Whether files of this role can be read."""
        return (self.read_samples if role == "samples" else self.read_outputs) is not None

    def read(self, role: Role, path: Path, problems: Problems) -> Iterator[Any]:
        """Yield the ``ParsedSample`` or ``ParsedOutput`` of a file that has this role."""
        read = self.read_samples if role == "samples" else self.read_outputs
        assert read is not None
        return read(path, problems)


LINE_FORMATS = ("jsonl", "ragas", "deepeval")
"""Formats with a record on each line."""
SPLIT_FORMATS = (*LINE_FORMATS, "parquet")
"""Formats that can be split into ranges."""
GLOB = re.compile(r"[*?\[]")
TABLE = "table"
"""The format of tables whose columns a user names, or which have well-known names."""
TABLE_NAMES: dict[str, dict[str, Any]] = {
    TABLE: {},
    "csv": {"kind": "csv"},
    "tsv": {"kind": "csv", "delimiter": "\t"},
    "excel": {"kind": "excel"},
    "jsonl": {"kind": "json"},
    "parquet": {"kind": "parquet"},
}
"""The names under which tables are read; the last two only with named columns."""

_FORMATS: dict[str, Format] = {}


def is_sharded(path: str | Path) -> bool:
    """Whether this names several files: a directory of them, or a glob."""
    return os.path.isdir(path) or (not os.path.exists(path) and GLOB.search(str(path)) is not None)


def register_format(new: Format) -> Format:
    """Register a format under its name."""
    _FORMATS[new.name] = new
    return new


def formats() -> dict[str, Format]:
    """Return every format with fields of its own by name, in the order of detection; formats of users come first."""
    order = [name for name in _BUILT_IN if name != TABLE]
    for name in order:
        _load(name)
    return dict(sorted(_FORMATS.items(), key=lambda item: order.index(item[0]) if item[0] in order else -1))


def _load(name: str) -> Format:
    """Return a built-in format; its module is imported when the format is first needed."""
    if name == TABLE or name not in _BUILT_IN:
        made: Format = importlib.import_module(f".{_BUILT_IN[TABLE][0]}", __package__).table_format(name=name)
        return made
    if name not in _FORMATS:
        importlib.import_module(f".{_BUILT_IN[name][0]}", __package__)
    return _FORMATS[name]


def get_format(name: str) -> Format:
    """Return the format of that name."""
    if name in _BUILT_IN or name in TABLE_NAMES:
        return _load(name)
    known = formats()
    if name not in known:
        every = [*known, *(name for name in TABLE_NAMES if name not in known)]
        hint = did_you_mean(name, every, otherwise=f"; there are {', '.join(every)}")
        raise BadValueError(f"unknown format '{name}'{hint}")
    return known[name]


def guess_format(path: Path, role: Role) -> Format:
    """Detect the format of a file from its name and its beginning."""
    head = read_file_head(path)
    for lazy in list(_FORMATS.values()):
        if lazy.name not in _BUILT_IN and lazy.reads(role) and lazy.looks_like(head, role):
            return lazy
    for name, (_, looks_like) in _BUILT_IN.items():
        if looks_like(head, role) and (known_format := _load(name)).reads(role):
            return known_format
    if head.suffix in _JSON and (broken := syntax_problem(path)):
        raise DataFileError(path, *broken)
    other: Role = "outputs" if role == "samples" else "samples"
    for name, (_, looks_like) in _BUILT_IN.items():
        if looks_like(head, other):
            raise DataFileError(path, None, f"this looks like {other} in the format '{name}', not like {role}")
    if head.columns:
        raise DataFileError(path, None, f"cannot tell in which format these {role} are: {head.describe(other=False)}")
    able = ", ".join(name for name, known_format in formats().items() if known_format.reads(role))
    raise DataFileError(
        path, None, f"cannot tell in which format these {role} are; name one of {able} to be told what is wrong with it"
    )


def read_file_head(path: Path, options: TableOptions | None = None) -> FileHead:
    """Read the beginning of a file; ``options`` say what kind of table it is, if its suffix does not."""
    if path.is_dir():
        return FileHead(path, "")
    text = read_head(path)
    start, suffix = text.lstrip(), plain_suffix(path)
    if (options is None and suffix in (*_JSON, "")) or start.startswith(("{", "[")):
        keys = _keys(start)
        has_records = suffix == ".json" and _RECORD_KEYS.isdisjoint(keys)
        arrays = list(_record_arrays(start).values()) if has_records else []
        nested = _keys(arrays[0]) if len(arrays) == 1 else ()
        return FileHead(path, text, frozenset(() if suffix in (".csv", ".tsv") else keys), nested or keys)
    from .tables import TableOptions, looks_like_csv, table_header

    table = options or TableOptions()
    kind = table.kind_of(path)
    if kind == "json" and looks_like_csv(path, text) and not _looks_like_any_trec(text):
        return FileHead(path, text, frozenset(), tuple(table_header(path, text, "csv", table)), "csv")
    names: tuple[str, ...] = ()
    with suppress(*(() if options is not None else (DataFileError, MissingDependencyError))):
        names = () if kind == "json" else tuple(filter(None, table_header(path, text, kind, table)))
    return FileHead(path, text, frozenset(names), names, kind)


def _keys(start: str) -> tuple[str, ...]:
    """Return the keys of the first JSON object."""
    if start.startswith("["):
        start = start[1:].lstrip()
    try:
        first, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        # The object is longer than the head, or the file begins with invalid JSON.
        return tuple(key for key, _ in islice(_entries(start), 1)) or _keys_of_later_lines(start)
    return _mapping_keys(first)


def _keys_of_later_lines(text: str) -> tuple[str, ...]:
    """Return the keys of the first later line that is an object, for a file that begins with invalid JSON."""
    for line in text.split("\n")[1:]:
        try:
            found = _mapping_keys(json.loads(line.strip().rstrip(",]")))
        except (ValueError, RecursionError):
            continue
        if found:
            return found
    return ()


def _mapping_keys(value: Any) -> tuple[str, ...]:
    return tuple(str(key) for key in value) if isinstance(value, Mapping) else ()


def _record_arrays(start: str) -> dict[str, str]:
    """Return the keys of an object whose value is an array of objects, each with the text that begins with it."""
    return {key: value for key, value in _entries(start) if re.match(r"\[\s*\{", value)}


def _entries(start: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of an object, each with the text that begins with its value; the end may be missing."""
    decoder = json.JSONDecoder()
    separator = "{"
    while start.startswith(separator):
        try:
            key, end = decoder.raw_decode(start := start[1:].lstrip())
            if not isinstance(key, str):
                return
            start = start[end:].lstrip().removeprefix(":").lstrip()
            yield key, start
            _, end = decoder.raw_decode(start)
        except (ValueError, RecursionError):
            return
        start, separator = start[end:].lstrip(), ","


# --- how each format is detected -------------------------------------------------------------------------------------

_RECORD_KEYS = frozenset({"sample_id", "query", "question", "user_input", "input"})
"""Keys of a record: an object with one of them has no records under another."""
RAGAS_LEGACY_COLUMNS = frozenset({"contexts", "ground_truth", "ground_truths"})
"""Columns of ragas before version 0.2; next to a question they identify the format."""
_OWN_FORMAT_KEYS = frozenset({"sample_id", "query"})
"""Keys of our own JSONL format; with one of them, unknown keys are typos."""
DEEPEVAL_COLUMNS = frozenset({"actual_output", "context", "expected_output", "retrieval_context"})
"""Columns of deepeval next to its ``input``."""
SQUAD_COLUMNS = frozenset({"answers"})
"""Columns of SQuAD as Hugging Face stores it, next to its ``question``."""
RAGBENCH_COLUMNS = frozenset({"documents"})
"""Columns of RAGBench next to its ``question``."""
OWN_COLUMNS = frozenset(
    {"response", "contexts", "context_ids", "reference", "references", "reference_contexts", "reference_context_ids"}
)
"""Our short names of fields next to ``query``."""
_RECORD_SUFFIXES = (*_JSON, ".csv", ".tsv", ".xlsx", ".xlsm", ".parquet", ".pq", "")
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
    """A Parquet table, by suffix or first bytes; one with the columns of other tools is a table."""
    is_parquet = head.suffix in (".parquet", ".pq") or head.text.startswith("PAR1")
    return is_parquet and not looks_like_table(head, role)


def looks_like_trec(head: FileHead, role: Role) -> bool:
    """Lines of four columns are qrels, lines of six are a run."""
    rows = (line.split() for line in head.text.splitlines() if line.strip())
    if role == "samples":
        rows = (columns for columns in rows if not is_qrels_comment(" ".join(columns).encode().split()))
    lines = list(islice(rows, 3))
    return bool(lines) and all(_is_trec_row(columns, role) for columns in lines)


def _looks_like_any_trec(text: str) -> bool:
    head = FileHead(Path(), text)
    return looks_like_trec(head, "samples") or looks_like_trec(head, "outputs")


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


def _has_ragas_columns(head: FileHead) -> bool:
    names = set(head.columns)
    legacy = "question" in names and not RAGAS_LEGACY_COLUMNS.isdisjoint(names) and _OWN_FORMAT_KEYS.isdisjoint(names)
    return "user_input" in names or legacy


def looks_like_ragas(head: FileHead, role: Role) -> bool:
    """Records with the columns of ragas."""
    return head.suffix in _RECORD_SUFFIXES and _has_ragas_columns(head)


def _has_deepeval_columns(head: FileHead) -> bool:
    return "input" in head.columns and (len(head.columns) == 1 or not DEEPEVAL_COLUMNS.isdisjoint(head.columns))


def looks_like_deepeval(head: FileHead, role: Role) -> bool:
    """Records with the columns of deepeval."""
    return head.suffix in _RECORD_SUFFIXES and _has_deepeval_columns(head)


def looks_like_table(head: FileHead, role: Role) -> bool:
    """A table with well-known columns; our own names are recognised where they cannot be those of a JSONL file."""
    names = set(head.columns)
    if head.suffix not in _RECORD_SUFFIXES or not names:
        return head.kind == "excel"
    if "question" in names and not names.isdisjoint((*SQUAD_COLUMNS, *RAGBENCH_COLUMNS)):
        return True
    return head.kind != "json" and (
        ("query" in names and not OWN_COLUMNS.isdisjoint(names))
        or _has_ragas_columns(head)
        or _has_deepeval_columns(head)
    )


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
    "trec_rag": ("trec_format", looks_like_trec_rag),
    "squad": ("squad", looks_like_squad),
    TABLE: ("records", looks_like_table),
    "jsonl": ("jsonl", looks_like_jsonl),
}
"""The module and the detection of each built-in format, in the order of detection: the more specific first."""
