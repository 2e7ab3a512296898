"""Records of ragas and deepeval, with question, contexts and answer in one record: from files or dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import BadValueError, DuplicateIdError
from ..core.types import EvaluationSample, Response, SystemOutputs
from .codec import LineError
from .error_collector import ErrorCollector
from .formats import FileHead, Format, Role, register_format
from .ids import text_id
from .reader_types import ParsedOutput, ParsedSample, Problems, UniqueIds
from .record_files import Record, is_table, read_records
from .record_parts.columns import (
    DEEPEVAL,
    RAGAS,
    RecordColumns,
    RecordLayout,
    parse_record_output,
    parse_record_sample,
    resolve_columns,
)
from .record_parts.writer import write_records

__all__ = ["outputs_from_records", "samples_from_records", "text_id"]

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

_RAGAS_LEGACY_COLUMNS = frozenset({"contexts", "ground_truth", "ground_truths"})
"""Columns of ragas before version 0.2; next to a question they identify the format."""
_OWN_FORMAT_KEYS = frozenset({"sample_id", "query"})
"""Keys of our own JSONL format; with one of them, unknown keys are typos."""
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", "")


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


def _looks_like_ragas(head: FileHead, role: Role) -> bool:
    before = (
        "question" in head.keys
        and not _RAGAS_LEGACY_COLUMNS.isdisjoint(head.keys)
        and _OWN_FORMAT_KEYS.isdisjoint(head.keys)
    )
    return head.suffix in _SUFFIXES and ("user_input" in head.keys or before)


def _looks_like_deepeval(head: FileHead, role: Role) -> bool:
    others = DEEPEVAL.names() - {"input"}
    return (
        head.suffix in _SUFFIXES and "input" in head.keys and (len(head.keys) == 1 or not others.isdisjoint(head.keys))
    )


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
RAGAS_FORMAT = _format("ragas", "records of ragas: JSON, JSONL or CSV", RAGAS, _looks_like_ragas, f"{_FIELDS} history")
DEEPEVAL_FORMAT = _format(
    "deepeval", "test cases of deepeval: JSON, JSONL or CSV", DEEPEVAL, _looks_like_deepeval, _FIELDS
)
