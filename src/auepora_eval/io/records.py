"""Records of ragas and deepeval, with question, contexts and answer in one record: read and written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..core.types import EvaluationSample, Response, SystemOutputs
from ..errors import BadValueError, DuplicateIdError
from ..runtime.files import plain_suffix, read_bytes, write_lines
from .codec import ErrorCollector, LineError, encode_output, encode_sample, text_id
from .formats import Format, looks_like_deepeval, looks_like_ragas, register_format
from .problems import (
    ParsedOutput,
    ParsedSample,
    Problems,
    RowSchema,
    UniqueIds,
    decoding_problem,
    first_invalid_value,
    quote_text,
)
from .record_columns import (
    DEEPEVAL,
    ID_COLUMNS,
    RAGAS,
    RecordColumns,
    RecordLayout,
    parse_record_output,
    parse_record_sample,
    resolve_columns,
)
from .values import TOO_LONG, read_values

# --- records of a file: a JSON array, a JSON object per line, or a table (CSV, TSV) ----------------------------------

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SHAPE = RowSchema("records", {"": ()}, "records", ())
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}

ParsedRow = dict[str, Any] | LineError


class Record(NamedTuple):
    """One record with its position in the file."""

    number: int
    """Counted from 1 over all records, including those that cannot be read."""
    line: int
    """The line on which it begins."""
    record: int | None
    """The number again if other records begin on the same line."""
    values: dict[str, Any]


def is_table(path: Path) -> bool:
    """Whether the suffix is that of a table, in which every value is a string and an empty one is missing."""
    return plain_suffix(path) in _DELIMITERS


def read_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield the records of a file."""
    before = len(problems.found)
    last = None
    for last in _table_records(path, problems) if is_table(path) else _json_records(path, problems):
        yield last
    if last is None and len(problems.found) == before:
        problems.add(path, None, "there is no record in the file")


def _json_records(path: Path, problems: Problems) -> Iterator[Record]:
    return map(Record._make, read_values(path, problems, decode_object))


def _table_records(path: Path, problems: Problems) -> Iterator[Record]:
    for number, (line, values) in enumerate(_table(path), start=1):
        if isinstance(values, LineError):
            problems.add(path, line, str(values))
        else:
            yield Record(number, line, None, values)


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode one JSON object. ``NaN`` is a missing value, as pandas writes it."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            too_long = isinstance(error, msgspec.ValidationError)  # Python's limit on the digits of an integer
            raise LineError(TOO_LONG if too_long else decoding_problem(data, error, _SHAPE)) from error
        return _check_object(value)
    return _require_object(value)


def _require_object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise LineError(f"each record must be one JSON object, not {_KINDS.get(type(value), 'a number')}")


def _check_object(value: object) -> dict[str, Any]:
    """Check an object of the standard library's reader, which accepts values that are not JSON."""
    values = {key: item for key, item in _require_object(value).items() if item == item}
    problem = first_invalid_value(values)
    if problem is not None:
        raise LineError(problem)
    return values


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(path: Path) -> Iterator[tuple[int, ParsedRow]]:
    rows = _rows(read_bytes(path).decode(), _DELIMITERS[plain_suffix(path)])
    line, header = next(rows, (1, []))
    problem = header if isinstance(header, LineError) else _header_problem(header)
    if problem is not None:
        yield line, problem
        return
    assert not isinstance(header, LineError)
    for line, cells in rows:
        if isinstance(cells, LineError):
            yield line, cells
        elif len(cells) != len(header):
            yield line, LineError(f"the row has {len(cells)} cells, but there are {len(header)} columns")
        else:
            # A column without a name is the index of pandas.
            yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name and cell}


def _header_problem(header: list[str]) -> LineError | None:
    for place, name in enumerate(header):
        if name and name in header[:place]:
            return LineError(f"two columns have the name {quote_text(name)}")
    return None


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | LineError]]:
    """Yield the rows that are not blank, each with its first line.

    The standard library's reader rejects cells above 128 KiB, unless a limit of the whole program is raised.
    """
    cell = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|((?!")[^{delimiter}\r\n]*))({delimiter}|\r\n|\r|\n|\Z)')
    place = 0
    line = first_line = 1
    cells: list[str] = []
    while place < len(text) or cells:
        found = cell.match(text, place)
        if found is None:
            yield line, LineError("a cell begins with a quotation mark, but has none at its end")
            return
        quoted, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        line += found[0].count("\n")
        place = found.end()
        if end != delimiter:
            if cells != [""]:
                yield first_line, cells
            cells, first_line = [], line


# --- writing of samples and outputs in the columns of another tool ---------------------------------------------------

_ID_COLUMN = ID_COLUMNS[0]


def write_records(
    columns: RecordColumns, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]], path: Path
) -> None:
    """Write a record per sample: a JSON array, a table, or (with any other suffix) an object per line."""
    records = _records(columns, pairs)
    if is_table(path):
        lines = _table_lines(list(records), "\t" if plain_suffix(path) == ".tsv" else ",", columns)
    elif plain_suffix(path) == ".json":
        lines = _array_lines(records)
    else:
        lines = map(msgspec.json.encode, records)
    write_lines(path, lines)


def _records(
    columns: RecordColumns, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for sample, output in pairs:
        try:
            record = _record(columns, sample, output)
        except LineError as error:
            raise BadValueError(f"sample {sample.sample_id!r} cannot be written: {error}") from error
        if sample.sample_id in seen:
            raise DuplicateIdError(f"sample_id {sample.sample_id!r} comes twice; each id may come once in a file")
        seen.add(sample.sample_id)
        yield record


def _record(columns: RecordColumns, sample: EvaluationSample, output: SystemOutputs | None) -> dict[str, Any]:
    # Through our own codec: invalid values raise the usual errors, and the rest is plain JSON.
    row = msgspec.json.decode(encode_sample(sample))
    # A failed output is omitted: a sample without output counts as a failure too.
    failed = output is None or output.error is not None
    out = {} if failed or output is None else msgspec.json.decode(encode_output(sample.sample_id, output))
    answer = _answer(out.get("response"))
    record: dict[str, Any] = {str(columns.query): row["query"]}  # first, since format detection uses the first key
    if "history" in row and columns is RAGAS:
        record[str(columns.query)] = _messages(row["history"], row["query"], answer)
        answer = None
    record[_ID_COLUMN] = row["sample_id"]
    retrieved, relevant = _pairs(out.get("retrieved")), _pairs(row.get("relevant_docs"))
    derived = all(doc_id == text_id(text) for doc_id, text in [*(retrieved or ()), *(relevant or ())])
    for name, ids_name, pairs in (
        (columns.retrieved_texts, columns.retrieved_ids, retrieved),
        (columns.relevant_texts, columns.relevant_ids, relevant),
    ):
        if pairs is not None:
            record |= _contexts(str(name), None if derived else ids_name, pairs, texts_only=ids_name is None)
    record[str(columns.response)] = answer
    record[str(columns.reference_answer)] = _answer(row.get("reference_answer"))
    for key, value in row.get("metadata", {}).items():
        if key in columns.names() or key in ID_COLUMNS:
            raise LineError(f"field {quote_text(f'metadata.{key}')} has the name of a column; rename it")
        record[key] = value
    return {key: value for key, value in record.items() if value is not None}


def _answer(response: dict[str, Any] | str | None) -> str | None:
    return response["text"] if isinstance(response, dict) else response


def _messages(history: list[dict[str, Any]], query: str, answer: str | None) -> list[dict[str, Any]]:
    """Return a conversation in the format of ragas, which ends with the answer."""
    kinds = {"user": "human", "assistant": "ai"}
    messages = []
    for index, turn in enumerate(history):
        role, content = turn.get("role", turn.get("type")), turn.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise LineError(f"field 'history[{index}]' needs a string as 'role' and as 'content'")
        rest = {key: value for key, value in turn.items() if key not in ("role", "type", "content")}
        messages.append({"content": content, "type": kinds.get(role, role), **rest})
    messages.append({"content": query, "type": "human"})
    return messages if answer is None else [*messages, {"content": answer, "type": "ai"}]


def _pairs(docs: list[dict[str, Any]] | None) -> list[tuple[str, str]] | None:
    """Return ids and texts of relevant documents, or of positions of a ranking."""
    if docs is None:
        return None
    return [(doc["doc_id"], doc.get("text", "")) for doc in (one.get("doc", one) for one in docs)]


def _contexts(
    texts_name: str, ids_name: str | None, pairs: list[tuple[str, str]], *, texts_only: bool
) -> dict[str, Any]:
    """Return the columns of some documents; without a column for ids, they are omitted."""
    bare = next((doc_id for doc_id, text in pairs if not text), None)
    if texts_only and bare is not None:
        raise LineError(f"document {quote_text(bare)} has no text, and this format has no place for ids")
    columns: dict[str, Any] = {texts_name: [text for _, text in pairs]}
    if ids_name is None or not pairs:
        return columns
    ids = {ids_name: [doc_id for doc_id, _ in pairs]}
    return columns | ids if any(text for _, text in pairs) else ids


def _array_lines(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    before = b"["
    for record in records:
        yield before
        before = msgspec.json.encode(record) + b","
    yield before.removesuffix(b",")
    yield b"]"


def _table_lines(records: list[dict[str, Any]], delimiter: str, columns: RecordColumns) -> Iterator[bytes]:
    header = list(dict.fromkeys(name for record in records for name in record))
    yield _csv_line(header, delimiter)
    answers = any(record.get(str(columns.response)) for record in records)
    for record in records:
        unclear = _ambiguous_column(record, columns, answers)
        if unclear is not None:
            problem = f"a table cannot tell an empty {unclear} from none; write a file that ends in '.jsonl'"
            raise BadValueError(f"sample {record[_ID_COLUMN]!r} cannot be written: {problem}")
        yield _csv_line([_cell(record.get(name)) for name in header], delimiter)


def _ambiguous_column(record: dict[str, Any], columns: RecordColumns, answers: bool) -> str | None:
    """Return the column that a reader could not restore; empty answers can be restored if others are not empty."""
    response = str(columns.response)
    empty = [name for name in sorted(columns.names() & record.keys()) if record[name] == "" and name != response]
    if empty:
        return empty[0]
    answer = record.get(response)
    turns = record[str(columns.query)]
    if answer is None and isinstance(turns, list) and turns[-1]["type"] == "ai":
        return None
    has_output = not {columns.retrieved_texts, columns.retrieved_ids}.isdisjoint(record)
    return response if has_output and (answer is None if answers else answer == "") else None


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _csv_line(cells: list[str], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n").encode()


# --- samples and outputs from records of files or dicts --------------------------------------------------------------

ResultT = TypeVar("ResultT")

# Documents have columns only for ids and texts, answers only for the text.
_NESTED_LOSSES = frozenset(
    f"{field}.{part}"
    for field, parts in {
        "relevant_docs": "metadata parent_id span",
        "reference_answer": "structured metadata sentences",
        "retrieved": "score",
        "retrieved.doc": "metadata parent_id span",
        "response": "structured metadata sentences",
    }.items()
    for part in parts.split()
)


def samples_from_records(
    records: Iterable[Mapping[str, Any]], columns: str | Mapping[str, str] = "ragas"
) -> list[EvaluationSample]:
    """Convert records to samples: a Hugging Face dataset, a data frame's ``to_dict("records")``, ...

    ``columns`` is ``"ragas"``, ``"deepeval"``, or a mapping of our field names to columns, such as
    ``{"query": "question", "reference_answer": "answer"}``. ``None`` and NaN are missing values; unknown columns
    become metadata.
    """
    return [sample for _, sample in _convert_records(records, columns, _sample)]


def outputs_from_records(
    records: Iterable[Mapping[str, Any]], columns: str | Mapping[str, str] = "ragas"
) -> dict[str, SystemOutputs]:
    """Convert records to outputs by sample id. A record with neither an answer nor a ranking has no output."""
    converted = _convert_records(records, columns, parse_record_output)
    return {sample_id: parsed[0] for sample_id, parsed in converted if parsed is not None}


def _sample(values: Mapping[str, Any], number: int, layout: RecordLayout) -> tuple[str, EvaluationSample]:
    sample = parse_record_sample(values, number, layout)
    return sample.sample_id, sample


def _convert_records(
    records: Iterable[Mapping[str, Any]],
    columns: str | Mapping[str, str],
    convert: Callable[[Mapping[str, Any], int, RecordLayout], tuple[str, ResultT]],
) -> Iterator[tuple[str, ResultT]]:
    """Yield the id and the conversion of each record."""
    layout = RecordLayout(resolve_columns(columns))
    seen: dict[str, int] = {}
    for number, values in enumerate(records, start=1):
        if not isinstance(values, Mapping):
            raise BadValueError(f"record {number} must be a dict, not a value of type '{type(values).__name__}'")
        try:
            sample_id, converted = convert(values, number, layout)
        except LineError as error:
            raise BadValueError(f"record {number}: {error}") from error
        if seen.setdefault(sample_id, number) != number:
            raise DuplicateIdError(
                f"record {number}: sample_id {sample_id!r} is already that of record {seen[sample_id]}"
            )
        yield sample_id, converted


# --- files -----------------------------------------------------------------------------------------------------------


def _read_samples(columns: RecordColumns, path: Path, problems: Problems) -> Iterator[ParsedSample]:
    layout, unique_ids = RecordLayout(columns), UniqueIds(path, problems)
    for record in read_records(path, problems):
        try:
            sample = parse_record_sample(record.values, record.number, layout)
        except LineError as error:
            _report_problems(path, record, layout, error, problems, unique_ids)
            continue
        if unique_ids.is_new(sample.sample_id, record.line, record=record.record):
            yield ParsedSample(record.line, sample, record.record)


def _read_outputs(columns: RecordColumns, path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    layout, unique_ids = RecordLayout(columns), UniqueIds(path, problems)
    records: Iterable[Record] = read_records(path, problems)
    names: set[str] = set()
    if is_table(path):
        records = list(records)
        names = {name for record in records for name in record.values}
    for record in records:
        try:
            sample_id, found = parse_record_output(record.values, record.number, layout)
        except LineError as error:
            _report_problems(path, record, layout, error, problems, unique_ids)
            continue
        if not unique_ids.is_new(sample_id, record.line, record=record.record) or found is None:
            continue
        output, has_retrieved = found
        if layout.columns.response in names and has_retrieved and output.response is None:
            # A table does not distinguish an empty answer from a missing one; with a ranking, it is an empty answer.
            output.response = Response("")
        yield ParsedOutput(record.line, sample_id, output, has_retrieved, record.record)


def _report_problems(
    path: Path, record: Record, layout: RecordLayout, error: LineError, problems: Problems, unique_ids: UniqueIds
) -> None:
    """Record all problems of a record, and its sample id."""
    problems.add_all(path, record.line, error.messages, record=record.record)
    sample_id = ErrorCollector().call(layout.get_id, record.values, record.number)
    if sample_id is not None and unique_ids.is_new(sample_id, record.line, record=record.record):
        problems.unreadable_ids.add(sample_id)


def _write_samples(columns: RecordColumns, samples: Iterable[EvaluationSample], path: Path) -> None:
    write_records(columns, ((sample, None) for sample in samples), path)


def _format(
    name: str,
    title: str,
    columns: RecordColumns,
    looks_like: Any,
    sample_fields: str,
    output_fields: str = "retrieved response",
) -> Format:
    return register_format(
        Format(
            name,
            title,
            looks_like,
            partial(_read_samples, columns),
            partial(_read_outputs, columns),
            write_samples=partial(_write_samples, columns),
            write_both=partial(write_records, columns),
            sample_fields=frozenset(sample_fields.split()),
            output_fields=frozenset(output_fields.split()),
            nested_losses=_NESTED_LOSSES,
            one_file=True,
        )
    )


_FIELDS = "sample_id query relevant_docs reference_answer metadata"
RAGAS_FORMAT = _format("ragas", "records of ragas: JSON, JSONL or CSV", RAGAS, looks_like_ragas, f"{_FIELDS} history")
DEEPEVAL_FORMAT = _format(
    "deepeval", "test cases of deepeval: JSON, JSONL or CSV", DEEPEVAL, looks_like_deepeval, _FIELDS
)
