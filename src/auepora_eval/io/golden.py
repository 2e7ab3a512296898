"""Golden queries in YAML, and the fingerprint of a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..core.types import Document, EvaluationSample, Response
from ..errors import BadValueError, did_you_mean
from ..features.rankings import parse_level
from ..runtime.files import read_bytes, write_lines
from .codec import (
    SAMPLE_DECODER,
    CheckedDocumentRow,
    CheckedSampleRow,
    DocumentRow,
    LineError,
    ResponseRow,
    SampleRow,
    SentenceRow,
    encode_sample,
    encode_samples,
)
from .formats import Format, looks_like_golden, register_format
from .problems import TOO_DEEP, ParsedSample, Problems, quote_text
from .yaml_values import YamlError, YamlNode, YamlValues, dump_yaml, node_line, parse_yaml, scalar_text

ResultT = TypeVar("ResultT")

_HEADER = """\
# Golden queries. Of each: id, query, and what is expected of the system:
#   expected_chunk_ids  the chunks that should be found
#   expected_doc_ids    the documents they belong to; [] means that nothing answers the query: the system should refuse
#   must_contain        what the answer must say, all of it; forbidden: what it must not say
#   lang, difficulty    to look at groups apart; more of that kind under labels
#   spans               where an expected chunk lies: {chunk id: {parent_id: document, span: [start, end]}}
version: 1
queries:"""
_ID_LISTS = ("expected_chunk_ids", "expected_doc_ids")
_TEXT_FIELDS = ("must_contain", "forbidden")
_KEYS = ("id", "query", *_ID_LISTS, *_TEXT_FIELDS, "lang", "difficulty", "spans", "labels", "metadata")


def read_samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield the queries of a file as samples, in its order, each with its first line."""
    data = read_bytes(path, is_document=True)
    reader = _QueryReader(YamlValues(len(data)))
    nodes, last = [], []
    try:
        nodes = reader.queries(parse_yaml(data))
    except YamlError as error:
        last = [(error.line, error.message)]
    for line, message in reader.take_errors() + last:
        problems.add(path, line, message)
    for node in nodes:
        try:
            sample = reader.sample(node)
        except RecursionError:
            reader.take_errors()
            problems.add(path, node_line(node), TOO_DEEP)
            continue
        errors = reader.take_errors()
        for line, message in errors:
            problems.add(path, line, message)
        if sample is None or not problems.is_new(path, sample.sample_id, node_line(node)):
            continue
        if errors:
            problems.unreadable_ids.add(sample.sample_id)
        else:
            yield ParsedSample(node_line(node), sample)


class _QueryReader:
    """Converts the YAML nodes of one file to samples."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self._errors: list[tuple[int | None, str]] = []

    def take_errors(self) -> list[tuple[int | None, str]]:
        """Return the errors since the last call, with their lines."""
        errors, self._errors = self._errors, []
        return errors

    def _try(self, make: Callable[..., ResultT], *arguments: Any) -> ResultT | None:
        """Return a part of a query; record an error and return ``None``, so that other parts are still checked."""
        try:
            return make(*arguments)
        except YamlError as error:
            self._errors.append((error.line, error.message))
            return None

    def queries(self, root: Any) -> list[Any]:
        """Return the nodes of the queries."""
        if root is None:
            raise YamlError(None, "the file is empty; it must be a list of queries")
        if root.id == "mapping":
            fields = self._fields(root, ("version", "queries"))
            if "queries" not in fields:
                raise _error(
                    root, "field 'queries' is missing; a file is a list of queries, or has one under 'queries'"
                )
            root = fields["queries"]
        if root.id != "sequence":
            raise _error(root, f"the queries must be a list, not {_node_kind(root)}")
        if not root.value:
            raise _error(root, "the list of queries is empty")
        return list(root.value)

    def sample(self, node: Any) -> EvaluationSample | None:
        """Return the sample of a query, as far as it is valid; ``None`` if its id is unknown."""
        fields = self._try(self._query, node) or {}
        labels = self._try(self._object, fields, "labels") or {}
        metadata = self._try(self._object, fields, "metadata") or {}
        into_labels = partial(self._add, labels, fields, "labels")
        into_metadata = partial(self._add, metadata, fields, "metadata")
        self._try(into_labels, "lang", self._text)
        self._try(into_labels, "difficulty", self._scalar)
        self._try(into_metadata, "expected_doc_ids", self._ids)
        for key in _TEXT_FIELDS:
            self._try(into_metadata, key, self._text_or_texts)
        sample_id = self._try(self._id, fields["id"]) if "id" in fields else None
        query = self._try(self._text, fields["query"], "query") if "query" in fields else None
        chunks = self._try(self._chunks, fields)
        if sample_id is None:
            return None
        return EvaluationSample(sample_id, query or "", chunks, labels=labels, metadata=metadata)

    def _query(self, node: Any) -> dict[str, Any]:
        if node.id != "mapping":
            raise _error(node, f"each query must be an object with 'id' and 'query', not {_node_kind(node)}")
        fields = self._fields(node, _KEYS)
        for key in ("id", "query"):
            if key not in fields:
                self._errors.append((node_line(node), f"field {key!r} is missing"))
        return fields

    def _id(self, node: Any) -> str:
        sample_id = self._text(node, "id")
        if not sample_id:
            raise _error(node, "field 'id' is empty; an id needs at least one character")
        return sample_id

    def _fields(self, node: Any, known: tuple[str, ...]) -> dict[str, Any]:
        fields = {}
        for key, key_node, value in self._values.pairs(node):
            if key in known:
                fields[key] = value
                continue
            place = "; put keys of your own under 'labels' or 'metadata'" if known is _KEYS else ""
            hint = did_you_mean(key[:80], known, otherwise=f"; known fields: {', '.join(known)}{place}")
            self._errors.append((node_line(key_node), f"unknown field {quote_text(key)}{hint}"))
        return fields

    def _object(self, fields: dict[str, Any], key: str) -> dict[str, Any]:
        if key not in fields:
            return {}
        value = self._values.value(fields[key], key)
        if not isinstance(value, dict):
            raise _error(fields[key], f"field {key!r} must be an object, not {_node_kind(fields[key])}")
        return value

    def _add(
        self, holder: dict[str, Any], fields: dict[str, Any], place: str, key: str, read: Callable[[Any, str], Any]
    ) -> None:
        """Copy a field of the query into its labels or metadata."""
        if key in fields:
            if key in holder:
                raise _error(fields[key], f"field {key!r} is also under {place!r}; give it once")
            holder[key] = read(fields[key], key)

    def _chunks(self, fields: dict[str, Any]) -> list[Document] | None:
        spans = self._spans(fields)
        if "expected_chunk_ids" not in fields:
            if spans:
                raise _error(fields["spans"], "field 'spans' needs 'expected_chunk_ids', whose chunks it places")
            return None
        ids = self._ids(fields["expected_chunk_ids"], "expected_chunk_ids")
        for chunk in spans:
            if chunk not in ids:
                raise _error(
                    fields["spans"], f"field 'spans' has {quote_text(chunk)}, which is not in 'expected_chunk_ids'"
                )
        return [Document(chunk, "", {}, *spans.get(chunk, (None, None))) for chunk in ids]

    def _spans(self, fields: dict[str, Any]) -> dict[str, tuple[str | None, tuple[int, int] | None]]:
        if "spans" not in fields:
            return {}
        if fields["spans"].id != "mapping":
            raise _error(
                fields["spans"], f"field 'spans' must be an object by chunk id, not {_node_kind(fields['spans'])}"
            )
        found: dict[str, tuple[str | None, tuple[int, int] | None]] = {}
        for chunk, _, node in self._values.pairs(fields["spans"]):
            path = f"spans.{chunk}"
            if node.id != "mapping":
                raise _error(
                    node,
                    f"field {quote_text(path)} must be an object with 'parent_id' and 'span', not {_node_kind(node)}",
                )
            place = self._fields(node, ("parent_id", "span"))
            parent = self._text(place["parent_id"], f"{path}.parent_id") if "parent_id" in place else None
            found[chunk] = (parent, self._span(place["span"], f"{path}.span") if "span" in place else None)
        return found

    def _span(self, node: Any, path: str) -> tuple[int, int]:
        value = self._values.value(node, path)
        if isinstance(value, list) and len(value) == 2 and {type(end) for end in value} == {int}:
            start, end = value
            if 0 <= start <= end:
                return start, end
        raise _error(node, f"field {quote_text(path)} must be [start, end] with 0 <= start <= end")

    def _text(self, node: Any, path: str) -> str:
        text = scalar_text(node)
        if text is None:
            raise _error(node, f"field {quote_text(path)} must be a string, not {_node_kind(node)}")
        return text

    def _scalar(self, node: Any, path: str) -> Any:
        self._text(node, path)  # neither a list nor null
        return self._values.value(node, path)

    def _ids(self, node: Any, path: str) -> list[str]:
        if node.id != "sequence":
            what = _node_kind(node)
            hint = "; write [] where nothing is expected, or leave the field out" if what == "null" else ""
            raise _error(node, f"field {quote_text(path)} must be a list of ids, not {what}{hint}")
        ids = [self._text(item, f"{path}[{place}]") for place, item in enumerate(node.value)]
        if "" in ids:
            raise _error(node, f"field {quote_text(path)} has an empty id; an id needs at least one character")
        return ids

    def _text_or_texts(self, node: Any, path: str) -> str | list[str]:
        if node.id == "sequence":
            return [self._text(item, f"{path}[{place}]") for place, item in enumerate(node.value)]
        return self._text(node, path)


def _error(node: YamlNode, message: str) -> YamlError:
    return YamlError(node_line(node), message)


def _node_kind(node: Any) -> str:
    if node.id == "scalar":
        return "null" if node.tag.endswith(":null") else "a single value"
    return "a list" if node.id == "sequence" else "an object"


# --- writing ---------------------------------------------------------------------------------------------------------


def save_golden(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write the queries below a comment that explains the fields. Texts of documents are not written."""

    def lines() -> Iterator[bytes]:
        yield _HEADER.encode()
        empty = True
        for record in encode_samples(samples, _record):
            empty = False
            yield dump_yaml([record]).encode()
        if empty:
            raise BadValueError("there is no sample to write; a golden file has at least one query")

    write_lines(Path(path), lines())


def _record(sample: EvaluationSample) -> dict[str, Any]:
    kept = replace(
        sample, candidate_docs=None, reference_answer=None, reference_answers=[], history=[], cluster_id=None
    )
    row: dict[str, Any] = json.loads(encode_sample(kept))
    record: dict[str, Any] = {"id": row["sample_id"], "query": row["query"]}
    labels, metadata = row.get("labels", {}), row.get("metadata", {})
    if "relevant_docs" in row:
        record["expected_chunk_ids"] = [doc["doc_id"] for doc in row["relevant_docs"]]
    for key in (*_ID_LISTS[1:], *_TEXT_FIELDS):
        if key in metadata:
            record[key] = _check_expectation(metadata.pop(key), key)
    if isinstance(labels.get("lang"), str):
        record["lang"] = labels.pop("lang")
    if isinstance(labels.get("difficulty"), (str, int, float)):
        record["difficulty"] = labels.pop("difficulty")
    spans: dict[str, dict[str, Any]] = {}
    for doc in row.get("relevant_docs", ()):
        if parse_level(doc.get("metadata", {}).get("relevance", 1), doc["doc_id"], sample.sample_id) != 1:
            raise LineError(f"the relevance of {doc['doc_id']!r} is not 1, and golden queries have no levels")
        place = {key: doc[key] for key in ("parent_id", "span") if key in doc}
        if spans.setdefault(doc["doc_id"], place) != place:
            raise LineError(f"{doc['doc_id']!r} occurs twice, in different places")
    if any(spans.values()):
        record["spans"] = {chunk: place for chunk, place in spans.items() if place}
    return record | {key: value for key, value in (("labels", labels), ("metadata", metadata)) if value}


def _check_expectation(value: Any, key: str) -> Any:
    texts = value if isinstance(value, list) else None if key in _ID_LISTS else [value]
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise LineError(f"field 'metadata.{key}' must be a list of strings")
    if key in _ID_LISTS and "" in texts:
        raise LineError(f"field 'metadata.{key}' has an empty id")
    return value


FORMAT = register_format(
    Format(
        "golden",
        "golden queries in YAML: expected chunks, and what the answer must say",
        looks_like_golden,
        read_samples=read_samples,
        write_samples=save_golden,
        sample_fields=frozenset({"sample_id", "query", "relevant_docs", "labels", "metadata"}),
        nested_losses=frozenset({"relevant_docs.text"}),
        conventions="golden",
    )
)


# --- the fingerprint of a dataset: a hash of its samples in their order ----------------------------------------------

_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")
_CHECKED_ROW_DECODER: msgspec.json.Decoder[SampleRow[CheckedDocumentRow]] = msgspec.json.Decoder(CheckedSampleRow)


def dataset_fingerprint(samples: Iterable[EvaluationSample]) -> str:
    """Return the SHA-256 of the samples' canonical JSON lines; ``LineError``: a value is not valid JSON."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(canonical_line(sample)[0])
        digest.update(b"\n")
    return digest.hexdigest()


def canonical_line(sample: EvaluationSample) -> tuple[bytes, SampleRow[DocumentRow]]:
    """Return the sample as a JSON line with sorted keys and without defaults; and its row.

    The row is built without checks. The line is read back: if it differs, some value is not plain JSON, and the
    checked encoder of dataset files is used.
    """
    try:
        row = to_sample_row(sample)
        line = _SORTED_ENCODER.encode(row)
        if _decode_row(line) == row:
            return line, row
    except Exception:  # noqa: S110 - the checked encoder reports the problem
        pass
    return _checked_canonical_line(sample)


def _checked_canonical_line(sample: EvaluationSample) -> tuple[bytes, SampleRow[DocumentRow]]:
    try:
        row = SAMPLE_DECODER.decode(encode_sample(sample))
    except LineError as error:
        raise LineError(f"sample {sample.sample_id!r:.80}: {error}") from error
    return _SORTED_ENCODER.encode(row), row


def _decode_row(line: bytes) -> SampleRow[DocumentRow]:
    if b'"span"' not in line:
        return SAMPLE_DECODER.decode(line)
    _CHECKED_ROW_DECODER.decode(line)  # rejects a span that runs backwards
    return SAMPLE_DECODER.decode(line)


def to_sample_row(sample: EvaluationSample) -> SampleRow[DocumentRow]:
    """Return the sample as a row, without checking its values."""
    relevant, candidates = sample.relevant_docs, sample.candidate_docs
    return SampleRow(
        sample.sample_id,
        sample.query,
        relevant_docs=None if relevant is None else [_document(doc) for doc in relevant],
        candidate_docs=None if candidates is None else [_document(doc) for doc in candidates],
        reference_answer=_response(sample.reference_answer),
        labels=sample.labels,
        metadata=sample.metadata,
        reference_answers=sample.reference_answers,
        history=sample.history,
        cluster_id=sample.cluster_id,
        relevant_groups=sample.relevant_groups,
    )


def _document(doc: Document) -> DocumentRow:
    return DocumentRow(doc.doc_id, doc.text, doc.metadata, doc.parent_id, doc.span)


def _response(response: Response | None) -> ResponseRow | None:
    if response is None:
        return None
    sentences = None
    if response.sentences is not None:
        sentences = [SentenceRow(**sentence) for sentence in response.sentences]
    return ResponseRow(response.text, response.structured, response.metadata, sentences)
