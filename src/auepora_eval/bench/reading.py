"""Samples and outputs from the files of a benchmark: records, their values by path, and rows of our own format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import DataFileError, did_you_mean
from ..io.cells import id_value, parse_list_cell, text_value
from ..io.codec import LineError, decode_output_line, decode_sample, text_id
from ..io.extract import slotted_reference
from ..io.formats import read_file_head
from ..io.join import align_outputs, load_dataset, read_outputs_file
from ..io.jsonl import OutputsFile, gathered_outputs
from ..io.problems import ParsedOutput, Problems, UniqueIds, quote_text
from ..io.tables import TableOptions, read_records
from ..io.values import parse_json
from ..runtime.files import read_bytes
from ..runtime.imports import import_object
from .entries import Join, Part, Reading
from .paths import path_head, select

_OUTPUT_FIELDS = frozenset(
    {"response", "retrieved", "retrieved_texts", "retrieved_ids", "extra", "timings", "citations", "refused"}
)
"""The fields of an output, by the first part of their name; all others are of a sample."""
_LISTS = frozenset({"reference_answers", "slots", "alternatives", "history"})
_DOCUMENTS = {"relevant": "relevant_docs", "candidate": "candidate_docs", "retrieved": "retrieved"}
"""Fields with documents, by how the fields with their texts and ids begin."""
_ROLES = {"agent": "assistant", "ai": "assistant", "human": "user"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The samples of a benchmark, and an output for each; ``None`` where one is missing."""

    samples: list[EvaluationSample]
    outputs: list[SystemOutputs | None]
    missing: list[str]

    @property
    def has_outputs(self) -> bool:
        """Whether any sample has an output."""
        return len(self.missing) < len(self.samples)


def load_part(
    part: Part, data: Path, outputs: str | Path | None = None, *, settings: Mapping[str, Any], limit: int | None = None
) -> Loaded:
    """The samples and outputs of one part of a benchmark."""
    samples = list(islice(_samples(part, data, settings), limit))
    if not samples:
        raise DataFileError(data, None, "there is no sample in it")
    given: dict[str, SystemOutputs] = {}
    if outputs is not None:
        given = _outputs_file(part, Path(outputs), settings).outputs
    elif part.read is not None and has_outputs(part.read):
        given = _read_outputs(part.read, data, settings).outputs
    if part.drop_query_ids:
        given = {sample_id: without_document(output, sample_id) for sample_id, output in given.items()}
    aligned = align_outputs(samples, given)
    return Loaded(samples, aligned.outputs, aligned.missing)


def without_document(output: SystemOutputs, doc_id: str) -> SystemOutputs:
    """An output without one of its retrieved documents; those behind it move up."""
    kept = [item for item in output.retrieved if item.doc.doc_id != doc_id]
    ranked = [replace(item, rank=rank) for rank, item in enumerate(kept, start=1)]
    return replace(output, retrieved=ranked)


def has_outputs(reading: Reading) -> bool:
    """Whether the records have outputs beside samples."""
    return any(_is_output_field(name) for name in reading.columns)


def _is_output_field(name: str) -> bool:
    return name.partition(".")[0] in _OUTPUT_FIELDS


def _samples(part: Part, data: Path, settings: Mapping[str, Any]) -> Iterator[EvaluationSample]:
    if part.reader is not None:
        yield from import_object(part.reader)(data, **settings)
    elif part.read is None:
        yield from load_dataset(data, part.format)
    else:
        columns = {name: path for name, path in part.read.columns.items() if not _is_output_field(name)}
        problems = Problems()
        unique_ids = UniqueIds(data, problems)
        for line, row in _rows(part.read, columns, data, settings):
            try:
                sample = decode_sample(msgspec.json.encode(row))
            except LineError as error:
                raise DataFileError(data, line, str(error)) from error
            unique_ids.is_new(sample.sample_id, line)
            yield sample


def _outputs_file(part: Part, path: Path, settings: Mapping[str, Any]) -> OutputsFile:
    """The outputs of a file: in our own format, or in the shape of the benchmark's predictions."""
    if part.outputs is None or "sample_id" in read_file_head(path).keys:
        return read_outputs_file(path, part.outputs_format)
    return _read_outputs(part.outputs, path, settings)


def _read_outputs(reading: Reading, path: Path, settings: Mapping[str, Any]) -> OutputsFile:
    columns = {name: at for name, at in reading.columns.items() if name == "sample_id" or _is_output_field(name)}

    def parsed() -> Iterator[ParsedOutput]:
        for line, row in _rows(reading, columns, path, settings):
            if reading.by_id:
                row.setdefault("response", "")  # other fields have the id: no answer is a wrong one
            try:
                sample_id, output, has_retrieved = decode_output_line(msgspec.json.encode(row))
            except LineError as error:
                raise DataFileError(path, line, str(error)) from error
            if output.response is not None or has_retrieved or output.extra:
                yield ParsedOutput(line, sample_id, output, has_retrieved)

    return gathered_outputs(path, parsed(), Problems())


# --- records of a file -----------------------------------------------------------------------------------------------


def _rows(
    reading: Reading, columns: Mapping[str, str], path: Path, settings: Mapping[str, Any]
) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The rows of our own format, each with its line."""
    values = {f"@{name}": value for name, value in settings.items()}
    joined = {name: _joined_records(join, path) for name, join in reading.join.items()}
    extract = {name: re.compile(pattern) for name, pattern in reading.extract.items()}
    times: Counter[str] = Counter()
    for index, (line, found) in enumerate(_records(reading, path)):
        record = values | found | {"@index": index}
        for name, join in reading.join.items():
            record[name] = joined[name].get(_key(select(record, join.on)), {})
        try:
            row = _row(record, columns, extract)
        except LineError as error:
            raise DataFileError(path, line, str(error)) from error
        if reading.number_repeats:
            times[row["sample_id"]] += 1
            if times[row["sample_id"]] > 1:
                row["sample_id"] += f"#{times[row['sample_id']]}"
        yield line, row


def _key(value: Any) -> str:
    return "" if value is None else str(value)


def _joined_records(join: Join, path: Path) -> dict[str, Mapping[str, Any]]:
    """The records of a second file by their key."""
    records = read_records(path.parent / join.file, Problems())
    return {_key(select(record.values, join.key)): record.values for record in records}


def _records(reading: Reading, path: Path) -> Iterator[tuple[int | None, dict[str, Any]]]:
    if not reading.rows and not reading.by_id:
        yield from ((found.line, found.values) for found in read_records(path, Problems(), TableOptions()))
        return
    try:
        document = parse_json(read_bytes(path, is_document=True))
    except LineError as error:
        raise DataFileError(path, None, str(error)) from error
    if not isinstance(document, Mapping):
        raise DataFileError(path, None, "must be one object, whose keys have the records")
    if reading.by_id:
        yield from _records_by_id(document)
        return
    names = list(document) if "*" in reading.rows else list(reading.rows)
    missing = [name for name in names if name not in document]
    if missing:
        hint = did_you_mean(missing[0], document, otherwise=f"; there are {', '.join(map(str, document))}")
        raise DataFileError(path, None, f"there is no key {quote_text(missing[0])}{hint}")
    for name in names:
        for record in _records_of(document[name]):
            yield None, {"@rows": name, **record}


def _records_of(value: Any) -> Iterator[dict[str, Any]]:
    """The records of a list, or of an object whose keys are ids."""
    if isinstance(value, Mapping):
        for key, record in value.items():
            if isinstance(record, Mapping):
                yield {"@key": key, **record}
        return
    if isinstance(value, list):
        yield from (dict(record) for record in value if isinstance(record, Mapping))


def _records_by_id(document: Mapping[str, Any]) -> Iterator[tuple[None, dict[str, Any]]]:
    """A record per id from an object that has, by field, an object with a value per id."""
    fields = {name: values for name, values in document.items() if isinstance(values, Mapping)}
    ids: dict[str, None] = {}
    for values in fields.values():
        ids.update(dict.fromkeys(values))
    for sample_id in ids:
        record = {name: values[sample_id] for name, values in fields.items() if sample_id in values}
        yield None, {"@key": sample_id, **record}


# --- a record as a row of our own format -----------------------------------------------------------------------------


def _row(
    record: Mapping[str, Any], columns: Mapping[str, str], extract: Mapping[str, re.Pattern[str]]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, path in columns.items():
        value = select(record, path)
        if name in extract:
            value = _extracted(extract[name], value, path)
        if value is not None:
            found[name] = _cell_list(name, value)
    row: dict[str, Any] = {}
    for start, field in _DOCUMENTS.items():
        texts, ids = found.pop(f"{start}_texts", None), found.pop(f"{start}_ids", None)
        if texts is not None or ids is not None:
            row[field] = _documents(texts, ids, f"{start}_texts", is_ranking=field == "retrieved")
    if "slots" in found:
        slotted = slotted_reference(found.pop("slots"), columns["slots"])
        further = found.pop("reference_answers", ())
        row["reference_answer"] = {"text": slotted.text, "structured": slotted.structured}
        if further:
            row["reference_answer"]["text"] = further[0]
            row["reference_answers"] = further[1:]
    if "alternatives" in found:
        row |= _alternatives(found.pop("alternatives"), columns["alternatives"])
    nuggets = found.get("metadata.nuggets")
    if nuggets is not None:
        found["metadata.nuggets"] = [_nugget(item) for item in nuggets]
    for name, value in found.items():
        head, _, rest = name.partition(".")
        if rest:
            row.setdefault(head, {})[rest] = value
        else:
            row[name] = _field_value(name, value, columns[name])
    return row


def _nugget(item: Any) -> Any:
    """A nugget; a bare text is a vital one."""
    return {"text": item, "importance": "vital"} if isinstance(item, str) else item


def _extracted(pattern: re.Pattern[str], value: Any, path: str) -> str:
    found = pattern.search(text_value(value, path))
    if found is None:
        raise LineError(f"field {quote_text(path)}: {quote_text(pattern.pattern)} is not found in it")
    return found[1]


def _cell_list(name: str, value: Any) -> Any:
    """A list that is written as the text of a cell."""
    is_list = name in _LISTS or name.endswith(("_texts", "_ids"))
    if not is_list or not isinstance(value, str):
        return value
    listed = parse_list_cell(value)
    return [value] if listed is None else listed


def _field_value(name: str, value: Any, path: str) -> Any:
    if name in ("sample_id", "cluster_id"):
        return id_value(value, path)
    if name == "response" and isinstance(value, list):
        return " ".join(text_value(text, path) for text in value)
    if name == "history":
        return [turn for item in value for turn in _turns(item)]
    return value


def _turns(item: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The turns of one item of a conversation: a message, or a question with its answers."""
    if "question" in item:
        yield {"role": "user", "content": item["question"]}
        for answer in islice(item.get("answers", ()), 1):
            yield {"role": "assistant", "content": answer}
        return
    role = item.get("role", item.get("speaker", "user"))
    yield {"role": _ROLES.get(role, role), "content": item.get("content", item.get("text", ""))}


def _documents(texts: Any, ids: Any, name: str, *, is_ranking: bool) -> list[Any]:
    """Documents with texts, ids or both; a text without an id has one that is made of it."""
    if texts is None:
        return [id_value(doc_id, name) for doc_id in ids]
    flat: list[str] = []
    for item in texts:
        flat += item if isinstance(item, list) else [item]
    named = [text_id(text_value(text, name)) for text in flat] if ids is None else list(map(str, ids))
    if len(named) != len(flat):
        raise LineError(f"there are {len(flat)} texts of documents, but {len(named)} ids")
    documents = [{"doc_id": doc_id, "text": text} for doc_id, text in zip(named, flat, strict=True)]
    if is_ranking:
        return [{"doc": document} for document in documents]
    unique = {document["doc_id"]: document for document in documents}
    return list(unique.values())


def _alternatives(value: Any, path: str) -> dict[str, Any]:
    """References that are alternatives, each a list of things to name; a flat list has alternatives of one thing."""
    listed = [[item] if isinstance(item, str) else list(item) for item in value]
    if not listed or not all(listed):
        raise LineError(f"field {quote_text(path)} is empty; it needs a reference")
    texts = [" ".join(text_value(text, path) for text in item) for item in listed]
    first = {"text": texts[0], "structured": {"alternatives": listed}}
    return {"reference_answer": first, "reference_answers": texts[1:]}


def required_keys(part: Part) -> frozenset[str]:
    """The keys that a file of this part has."""
    if part.keys or part.read is None:
        return frozenset(part.keys)
    heads = _heads(part.read)
    return frozenset(heads - {"", *part.read.join})


def _heads(reading: Reading) -> set[str]:
    """The keys that the columns of a reading begin with."""
    heads: set[str] = set()
    for path in reading.columns.values():
        heads.update(path_head(piece.strip()) for piece in path.removesuffix("?").split(" + "))
    return heads
