"""Parquet files (extra ``parquet``): samples or outputs as rows of a table.

Documents, rankings and answers are typed columns. Free-form fields (labels, metadata, timings, ...) are JSON strings.
Rows are read and written in groups, so that the whole file is never in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError
from ..runtime.files import atomic_write, translate_write_errors
from .codec import (
    LineError,
    decode_output_line,
    decode_sample,
    encode_output,
    encode_outputs,
    encode_sample,
    encode_samples,
)
from .formats import Format, Role, looks_like_parquet, register_format
from .problems import TOO_DEEP, ParsedOutput, ParsedSample, Problems, quote_text
from .tables import (
    PANDAS_INDEX,
    ROW_GROUP,
    load_arrow,
    parquet_errors,
    read_rows,
    require_arrow,
    require_plain_parquet,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "JSON_FIELDS",
    "line_of_row",
    "parquet_errors",
    "read_outputs",
    "read_samples",
    "require_arrow",
    "save_parquet_dataset",
    "save_parquet_outputs",
    "table_schema",
]

JSON_FIELDS = frozenset(
    {"labels", "metadata", "history", "structured", "sentences", "timings", "extra", "steps", "usage"}
)
"""Fields that are stored as JSON strings at any level."""
_DecodedT = TypeVar("_DecodedT")


def read_samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield the samples of a file; the line is the row number, counted from 1."""
    for number, sample in _decode_rows(path, problems, "samples", decode_sample):
        if problems.is_new(path, sample.sample_id, number):
            yield ParsedSample(number, sample)


def read_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the outputs of a file; the line is the row number, counted from 1."""
    for number, (sample_id, output, has_retrieved) in _decode_rows(path, problems, "outputs", decode_output_line):
        if problems.is_new(path, sample_id, number):
            yield ParsedOutput(number, sample_id, output, has_retrieved)


def save_parquet_dataset(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write samples, atomically."""
    _save(
        encode_samples(samples, lambda sample: (f"sample {sample.sample_id!r}", encode_sample(sample))),
        Path(path),
        "samples",
    )


def save_parquet_outputs(outputs: Iterable[tuple[str, SystemOutputs]], path: str | Path) -> None:
    """Write outputs, given as pairs of sample id and output, atomically."""
    rows = encode_outputs(
        outputs, lambda name, output: (f"the output for sample {name!r}", encode_output(name, output))
    )
    _save(rows, Path(path), "outputs")


# --- reading ---------------------------------------------------------------------------------------------------------


def _decode_rows(
    path: Path, problems: Problems, role: Role, decode: Callable[[bytes], _DecodedT]
) -> Iterator[tuple[int, _DecodedT]]:
    number = 0
    for number, row in enumerate(read_rows(path), start=1):
        line = None
        try:
            line = line_of_row(row)
            yield number, decode(line)
        except LineError as error:
            if line is None:
                problems.add(path, number, str(error))
            else:
                from .jsonl import report_line_problems

                report_line_problems(path, number, line, role, first=str(error), problems=problems)
    if not number:
        problems.add(path, None, "the table is empty; each row must be one sample, or the output for one")


def line_of_row(row: dict[str, Any]) -> bytes:
    """Return a row as a line of JSONL, so that the codec of JSONL validates it."""
    try:
        return json.dumps(_decode_json_fields(row, ""), ensure_ascii=False).encode("utf-8", "surrogatepass")
    except TypeError as error:
        raise LineError(f"a value cannot be represented in JSON: {error}") from error
    except RecursionError as error:
        raise LineError(TOO_DEEP) from error


def _decode_json_fields(value: Any, path: str) -> Any:
    """Return the value without null fields, and with JSON strings decoded."""
    if isinstance(value, list):
        return [_decode_json_fields(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        if item is None or key.startswith(PANDAS_INDEX):
            continue
        where = f"{path}.{key}" if path else key
        if key not in JSON_FIELDS:
            found[key] = _decode_json_fields(item, where)
        elif isinstance(item, str):
            try:
                found[key] = json.loads(item)
            except (ValueError, RecursionError) as error:
                raise LineError(f"column {quote_text(where)} must be JSON text: {error}") from error
        else:
            found[key] = item
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def _save(rows: Iterable[tuple[str, bytes]], path: Path, role: Role) -> None:
    """Write rows, given as owner and line."""
    _, parquet = load_arrow()
    require_plain_parquet(path)
    schema = table_schema(role)
    packed = ((owner, _encode_json_fields(json.loads(line))) for owner, line in rows)
    with atomic_write(path) as file:
        writer = parquet.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        try:
            while group := list(islice(packed, ROW_GROUP)):  # errors of the caller's iterable are not translated
                batch = _record_batch(group, schema)
                with translate_write_errors(path):
                    writer.write_batch(batch)
        finally:
            with translate_write_errors(path):
                writer.close()


def _encode_json_fields(value: Any) -> Any:
    """Return the value with its free-form fields as JSON strings."""
    if isinstance(value, list):
        return [_encode_json_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: json.dumps(item, ensure_ascii=False) if key in JSON_FIELDS else _encode_json_fields(item)
        for key, item in value.items()
    }


def _record_batch(group: list[tuple[str, dict[str, Any]]], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        return pa.RecordBatch.from_pylist([row for _, row in group], schema=schema)
    except (pa.ArrowException, OverflowError) as error:
        if len(group) > 1:  # one by one, to name the invalid row
            for row in group:
                _record_batch([row], schema)
        raise BadValueError(f"{group[0][0]} cannot be written: {error}") from error


def table_schema(role: Role) -> pa.Schema:
    """Return the schema of a file of samples, or of outputs."""
    import pyarrow as pa

    text, texts, number = pa.string(), pa.list_(pa.string()), pa.int64()
    document = pa.struct({"doc_id": text, "text": text, "metadata": text, "parent_id": text, "span": pa.list_(number)})
    answer = pa.struct({"text": text, "structured": text, "metadata": text, "sentences": text})
    if role == "samples":
        return pa.schema(
            {
                "sample_id": text,
                "query": text,
                "relevant_docs": pa.list_(document),
                "candidate_docs": pa.list_(document),
                "reference_answer": answer,
                "labels": text,
                "metadata": text,
                "reference_answers": texts,
                "history": text,
                "cluster_id": text,
                "relevant_groups": pa.list_(texts),
            }
        )
    return pa.schema(
        {
            "sample_id": text,
            "retrieved": pa.list_(pa.struct({"doc": document, "score": pa.float64(), "rank": number})),
            "response": answer,
            "timings": text,
            "extra": text,
            "error": text,
            "refused": pa.bool_(),
            "citations": texts,
            "steps": text,
            "usage": text,
            "repeat": number,
        }
    )


FORMAT = register_format(
    Format(
        "parquet",
        "Parquet: samples, or outputs, as rows of a table",
        looks_like_parquet,
        read_samples=read_samples,
        read_outputs=read_outputs,
        write_samples=save_parquet_dataset,
        write_outputs=save_parquet_outputs,
    )
)
