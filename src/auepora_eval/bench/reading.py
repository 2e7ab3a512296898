"""Samples and outputs from the files of a benchmark: records, their values by path, and rows of our own format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DataFileError, did_you_mean
from ..io.cells import id_value, parse_list_cell, text_value
from ..io.codec import LineError, decode_output_line, decode_sample, text_id
from ..io.extract import EXTRACT, extract_values, slotted_reference, split_extracts
from ..io.formats import read_file_head
from ..io.join import align_outputs, load_dataset, read_outputs_file
from ..io.jsonl import gathered_outputs
from ..io.problems import ParsedOutput, Problems, quote_text
from ..io.tables import read_records
from ..io.values import errors_at, parse_json
from ..runtime.files import read_bytes
from ..runtime.imports import import_object
from .entries import Benchmark, Join, Part, Reading, parse_settings
from .paths import path_head, select

_OUTPUT_FIELDS = ("response", "retrieved", "extra", "timings", "citations", "refused")
"""How the names of the fields of an output begin; all others are of a sample."""
_LISTS = ("reference_answers", "slots", "alternatives", "history")
_DOCUMENTS = {"relevant": "relevant_docs", "candidate": "candidate_docs", "retrieved": "retrieved"}
"""Fields with documents, by how the fields with their texts and ids begin."""
_ROLES = {"agent": "assistant", "ai": "assistant", "human": "user"}
Rows = Iterator[tuple[int | None, dict[str, Any]]]
"""Records or rows of our own format, each with its line."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The samples of a part of a benchmark, and an output for each; ``None`` where one is missing."""

    benchmark: Benchmark
    split: str
    settings: Mapping[str, Any]
    samples: list[EvaluationSample]
    outputs: list[SystemOutputs | None]
    missing: list[str]

    @property
    def part(self) -> Part:
        """The part that was read."""
        return self.benchmark.parts[self.split]


def load_part(
    benchmark: Benchmark,
    split: str,
    data: Path,
    outputs: str | Path | None = None,
    *,
    given: Mapping[str, Any],
    limit: int | None = None,
) -> Loaded:
    """The samples and outputs of one part of a benchmark, with the ``given`` settings."""
    part = benchmark.parts[split]
    settings = parse_settings(part, given)
    samples = list(islice(_samples(part, data, settings), limit))
    if not samples:
        raise DataFileError(data, None, "there is no sample in it")
    found: Mapping[str, SystemOutputs] = {}
    if outputs is not None and (part.outputs is None or "sample_id" in read_file_head(Path(outputs)).keys):
        try:
            found = read_outputs_file(outputs).outputs
        except DataFileError as error:
            problem = error.problem.partition("; say which is which")[0]  # by an option of other commands
            expected = "our own JSONL has sample_id and response, a line for each sample"
            raise DataFileError(error.path, error.line, f"{problem}; {expected}") from error
    elif outputs is not None and part.outputs is not None:
        found = _read_outputs(part.outputs, Path(outputs), settings)
    elif part.read is not None and any(name.startswith(_OUTPUT_FIELDS) for name in part.read.columns):
        found = _read_outputs(part.read, data, settings)
    if part.drop_query_ids:
        found = {sample_id: without_document(output, sample_id) for sample_id, output in found.items()}
    aligned = align_outputs(samples, found)
    if part.counts_unjudged:
        if not found:
            raise BadValueError("documents without a judgement are counted in saved outputs: give --outputs FILE")
        relevant = chain.from_iterable(sample.relevant_docs or () for sample in samples)
        judged = {document.doc_id for document in relevant}
        samples = [_with_unjudged(*pair, judged) for pair in zip(samples, aligned.outputs, strict=True)]
    return Loaded(benchmark, split, settings, samples=samples, outputs=aligned.outputs, missing=aligned.missing)


def _with_unjudged(sample: EvaluationSample, output: SystemOutputs | None, judged: Container[str]) -> EvaluationSample:
    """A sample whose relevant documents are the retrieved ones without a judgement."""
    retrieved = [] if output is None else [item.doc for item in output.retrieved]
    return replace(sample, relevant_docs=[document for document in retrieved if document.doc_id not in judged])


def without_document(output: SystemOutputs, doc_id: str) -> SystemOutputs:
    """An output without one of its retrieved documents; those behind it move up."""
    kept = [item for item in output.retrieved if item.doc.doc_id != doc_id]
    return replace(output, retrieved=[replace(item, rank=rank) for rank, item in enumerate(kept, start=1)])


def _samples(part: Part, data: Path, settings: Mapping[str, Any]) -> Iterator[EvaluationSample]:
    if part.reader is not None:
        yield from import_object(part.reader)(data, **settings)
    elif part.read is None:
        yield from load_dataset(data, part.format)
    else:
        problems = Problems()
        for line, row in _rows(part.read, data, settings, of_outputs=False):
            with errors_at(data, line):
                sample = decode_sample(msgspec.json.encode(row))
            problems.is_new(data, sample.sample_id, line)
            yield sample


def _read_outputs(reading: Reading, path: Path, settings: Mapping[str, Any]) -> Mapping[str, SystemOutputs]:
    parsed: list[ParsedOutput] = []
    for line, row in _rows(reading, path, settings, of_outputs=True):
        if reading.by_id:
            row.setdefault("response", "")  # other fields have the id: no answer is a wrong one
        with errors_at(path, line):
            sample_id, output, has_retrieved = decode_output_line(msgspec.json.encode(row))
        if len(row) > 1:
            parsed.append(ParsedOutput(line, sample_id, output, has_retrieved))
    return gathered_outputs(path, parsed, Problems()).outputs


# --- records of a file -----------------------------------------------------------------------------------------------


def _rows(reading: Reading, path: Path, settings: Mapping[str, Any], *, of_outputs: bool) -> Rows:
    """The rows of our own format, of samples or of outputs."""
    every, extracts = split_extracts(reading.columns)
    fields = [name for name in every if name == "sample_id" or name.startswith(_OUTPUT_FIELDS) is of_outputs]
    columns = {name: every[name] for name in fields}
    values = {f"@{name}": value for name, value in settings.items()}
    joined = {name: _joined_records(join, path) for name, join in reading.join.items()}
    prepare = None if reading.prepare is None else import_object(reading.prepare)
    times: Counter[str] = Counter()
    for index, (line, found) in enumerate(_records(reading, path)):
        record = values | found | {"@index": index}
        if prepare is not None:
            record |= prepare(found, **settings)
        for name, join in reading.join.items():
            record[name] = joined[name].get(str(select(record, join.on)), {})
        with errors_at(path, line):
            row = _row(extract_values(record, extracts), columns)
            if "sample_id" not in row:
                raise LineError(f"there is nothing at {quote_text(columns['sample_id'])}, which is the id of a sample")
        times[row["sample_id"]] += 1
        if reading.number_repeats and times[row["sample_id"]] > 1:
            row["sample_id"] += f"#{times[row['sample_id']]}"
        yield line, row


def _joined_records(join: Join, path: Path) -> dict[str, Mapping[str, Any]]:
    """The records of a second file by their key."""
    records = read_records(path.parent / join.file, Problems())
    return {str(select(record.values, join.key)): record.values for record in records}


def _records(reading: Reading, path: Path) -> Rows:
    if not reading.rows and not reading.by_id:
        yield from ((found.line, found.values) for found in read_records(path, Problems()))
        return
    with errors_at(path, None):
        document = parse_json(read_bytes(path, is_document=True))
    if not isinstance(document, Mapping):
        raise DataFileError(path, None, "must be one object, whose keys have the records")
    if reading.by_id:
        fields = {name: values for name, values in document.items() if isinstance(values, Mapping)}
        for sample_id in dict.fromkeys(chain.from_iterable(fields.values())):
            record = {name: values[sample_id] for name, values in fields.items() if sample_id in values}
            yield None, {"@key": sample_id, **record}
        return
    names = document if "*" in reading.rows else reading.rows
    for name in names:
        if name not in document:
            hint = did_you_mean(name, document, otherwise=f"; there are {', '.join(document)}")
            raise DataFileError(path, None, f"there is no key {quote_text(name)}{hint}")
        found = document[name]
        pairs = found.items() if isinstance(found, Mapping) else enumerate(found)
        yield from ((None, {"@rows": name, "@key": key, **record}) for key, record in pairs)


# --- a record as a row of our own format -----------------------------------------------------------------------------


def _row(record: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, path in columns.items():
        value = select(record, path)
        if isinstance(value, str) and name.endswith(("_texts", "_ids", *_LISTS)):
            value = parse_list_cell(value) or [value]
        if value is not None and (value != "" or not name.startswith("labels.")):  # an empty cell is no label
            found[name] = value
    row: dict[str, Any] = {}
    for start, field in _DOCUMENTS.items():
        texts, ids = found.pop(f"{start}_texts", None), found.pop(f"{start}_ids", None)
        if texts is not None or ids is not None:
            path = columns.get(f"{start}_texts", f"{start}_ids")
            row[field] = _documents(texts, ids, path, is_ranking=field == "retrieved")
    if "slots" in found:
        slotted = slotted_reference(found.pop("slots"), columns["slots"])
        texts = [*found.pop("reference_answers", ()), slotted.text]
        row["reference_answer"] = {"text": texts[0], "structured": slotted.structured}
        row["reference_answers"] = texts[1:-1]
    if "alternatives" in found:
        row |= _alternatives(found.pop("alternatives"), columns["alternatives"])
    for name, value in found.items():
        head, _, rest = name.partition(".")
        if rest:
            row.setdefault(head, {})[rest] = _field_value(name, value, columns[name])
        else:
            row[name] = _field_value(name, value, columns[name])
    return row


def _field_value(name: str, value: Any, path: str) -> Any:
    if name in ("sample_id", "cluster_id"):
        return id_value(value, path)
    if name == "response":
        return _joined_text(value, path)
    if name == "metadata.nuggets":
        return [_nugget(item) for item in value]
    return [_turn(item) for item in value] if name == "history" else value


def _joined_text(value: Any, path: str) -> str:
    """A text; of a list of texts, these with blanks between them."""
    return " ".join(text_value(part, path) for part in _as_list(value))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _nugget(item: Any) -> Any:
    return {"text": item, "importance": "vital"} if isinstance(item, str) else item


def _turn(item: Mapping[str, Any]) -> dict[str, str]:
    """A turn of a conversation in our own form; one without a role is a question."""
    role = item.get("role", item.get("speaker", "user"))
    content = item.get("content", item.get("text", item.get("question", "")))
    return {"role": _ROLES.get(role, role), "content": content}


def _documents(texts: Any, ids: Any, name: str, *, is_ranking: bool) -> list[Any]:
    """Documents with texts, ids or both; a text without an id has one that is made of it."""
    if texts is None:
        return [id_value(doc_id, name) for doc_id in ids]
    flat = [_joined_text(text, name) for text in texts]
    named = [text_id(text) for text in flat] if ids is None else [id_value(doc_id, name) for doc_id in ids]
    if len(named) != len(flat):
        raise LineError(f"there are {len(flat)} texts of documents, but {len(named)} ids")
    documents = [{"doc_id": doc_id, "text": text} for doc_id, text in zip(named, flat, strict=True)]
    if is_ranking:
        return [{"doc": document} for document in documents]
    return list({document["doc_id"]: document for document in documents}.values())


def _alternatives(value: Any, path: str) -> dict[str, Any]:
    """References that are alternatives, each a list of things to name; a flat list has alternatives of one thing."""
    texts = [_joined_text(item, path) for item in value]
    if not all(texts) or not texts:
        raise LineError(f"field {quote_text(path)} is empty; it needs a reference")
    first = {"text": texts[0], "structured": {"alternatives": [_as_list(item) for item in value]}}
    return {"reference_answer": first, "reference_answers": texts[1:]}


def required_keys(part: Part) -> frozenset[str]:
    """The keys that a file of this part has."""
    if part.keys or part.read is None:
        return frozenset(part.keys)
    paths = [path for name, path in part.read.columns.items() if not name.startswith(EXTRACT)]
    pieces = chain.from_iterable(path.removesuffix("?").split(" + ") for path in paths)
    return frozenset(path_head(piece.strip()) for piece in pieces) - {"", *part.read.join}
