"""Records as ragas and deepeval keep them, question, contexts and answer side by side: from files or any dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..core.errors import BadValueError, DuplicateIdError
from ..core.types import EvaluationSample, Response, SystemOutputs
from .codec import LineError
from .formats import Format, Head, Role, register_format
from .ids import text_id
from .reading import Once, Problems, ReadOutput, ReadSample
from .record_parts.columns import DEEPEVAL, RAGAS, Columns, SampleIds, chosen_columns, output_of, sample_of
from .record_parts.writing import write_records
from .rows import Record, is_table, read_records

__all__ = ["outputs_from_records", "samples_from_records", "text_id"]

# Of documents only ids and texts have a column, of answers only the text.
_LOST = frozenset(
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

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", "")


def samples_from_records(
    records: Iterable[Mapping[str, Any]], columns: str | Mapping[str, str] = "ragas"
) -> list[EvaluationSample]:
    """The samples in records of any origin: a Hugging Face dataset, a data frame's ``to_dict("records")``, ...

    ``columns`` is ``"ragas"``, ``"deepeval"``, or says by our names which column holds what, such as
    ``{"query": "question", "reference_answer": "answer"}``. ``None`` and NaN are absent values; columns that hold
    nothing known become metadata.
    """
    chosen = chosen_columns(columns)
    return [
        _told(number, sample_of, values, sample_id, column, chosen)
        for number, values, sample_id, column in _identified(records, chosen)
    ]


def outputs_from_records(
    records: Iterable[Mapping[str, Any]], columns: str | Mapping[str, str] = "ragas"
) -> dict[str, SystemOutputs]:
    """The outputs in such records by sample id. A record with neither an answer nor anything retrieved has none."""
    chosen = chosen_columns(columns)
    outputs = {}
    for number, values, sample_id, _ in _identified(records, chosen):
        found = _told(number, output_of, values, chosen)
        if found is not None:
            outputs[sample_id] = found[0]
    return outputs


def _identified(
    records: Iterable[Mapping[str, Any]], columns: Columns
) -> Iterator[tuple[int, Mapping[str, Any], str, str | None]]:
    ids = SampleIds(columns)
    seen: dict[str, int] = {}
    for number, values in enumerate(records, start=1):
        if not isinstance(values, Mapping):
            raise BadValueError(f"record {number} must be a dict, not a value of type '{type(values).__name__}'")
        sample_id = _told(number, ids.of, values, number)
        if seen.setdefault(sample_id, number) != number:
            raise DuplicateIdError(
                f"record {number}: sample_id {sample_id!r} is already that of record {seen[sample_id]}"
            )
        yield number, values, sample_id, ids.column


def _told(number: int, make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except LineError as error:
        raise BadValueError(f"record {number}: {error}") from error


# --- files -----------------------------------------------------------------------------------------------------------


def _read_samples(columns: Columns, path: Path, problems: Problems) -> Iterator[ReadSample]:
    ids, once = SampleIds(columns), Once(path, problems)
    for record in read_records(path, problems):
        try:
            sample_id = ids.of(record.values, record.number)
            sample = sample_of(record.values, sample_id, ids.column, columns)
        except LineError as error:
            problems.add(path, record.line, str(error))
            continue
        if once.is_new(sample_id, record.line):
            yield ReadSample(record.line, sample)


def _read_outputs(columns: Columns, path: Path, problems: Problems) -> Iterator[ReadOutput]:
    ids, once = SampleIds(columns), Once(path, problems)
    records: Iterable[Record] = read_records(path, problems)
    answers = False
    if is_table(path):
        records = list(records)
        answers = any(columns.response in record.values for record in records)
    for record in records:
        try:
            sample_id = ids.of(record.values, record.number)
            found = output_of(record.values, columns)
        except LineError as error:
            problems.add(path, record.line, str(error))
            continue
        if not once.is_new(sample_id, record.line) or found is None:
            continue
        output, has_retrieved = found
        if answers and has_retrieved and output.response is None:
            # A table cannot tell an empty answer from none; beside what was retrieved, among other answers, it is one.
            output.response = Response("")
        yield ReadOutput(record.line, sample_id, output, has_retrieved)


def _write_samples(columns: Columns, samples: Iterable[EvaluationSample], path: Path) -> None:
    write_records(columns, ((sample, None) for sample in samples), path)


def _looks_like_ragas(head: Head, role: Role) -> bool:
    return head.suffix in _SUFFIXES and "user_input" in head.keys


def _looks_like_deepeval(head: Head, role: Role) -> bool:
    others = DEEPEVAL.names() - {"input"}
    return (
        head.suffix in _SUFFIXES and "input" in head.keys and (len(head.keys) == 1 or not others.isdisjoint(head.keys))
    )


def _format(
    name: str,
    title: str,
    columns: Columns,
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
            nested_losses=_LOST,
            one_file=True,
        )
    )


_FIELDS = "sample_id query relevant_docs reference_answer metadata"
RAGAS_FORMAT = _format("ragas", "records of ragas: JSON, JSONL or CSV", RAGAS, _looks_like_ragas, f"{_FIELDS} history")
DEEPEVAL_FORMAT = _format(
    "deepeval", "test cases of deepeval: JSON, JSONL or CSV", DEEPEVAL, _looks_like_deepeval, _FIELDS
)
