"""Encoding and decoding of samples and outputs as JSON lines, field by field."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from ..errors import BadValueError, DuplicateIdError
from .problems import (
    BAD_SPAN,
    TOO_DEEP,
    RowSchema,
    decoding_problem,
    first_invalid_value,
    non_finite_message,
    quote_text,
    too_large_message,
    value_problem,
)

# --- construction of the data types from parsed rows, field by field -------------------------------------------------
# Python constructors take most of the time of reading a file. Rows are already validated, so the objects are created
# empty and their fields are set, which takes half the time. A test compares both ways, so that no field is missing.
# Constructors of samples make reading samples 15 % slower (9.4 ms for 2,000 rows instead of 8.2), those of outputs
# make reading outputs 4 to 7 % slower; that of responses makes no difference above 1.3 %.

_new = object.__new__


class BadSpanError(ValueError):
    """A document whose span runs backwards."""


def build_sample(row: SampleRow[DocumentRow]) -> EvaluationSample:
    """Build the sample of a row; the row must not be used again. ``BadSpanError``: a span runs backwards."""
    sample = _new(EvaluationSample)
    sample.sample_id = row.sample_id
    sample.query = row.query
    sample.relevant_docs = None if row.relevant_docs is None else _documents(row.relevant_docs)
    sample.candidate_docs = None if row.candidate_docs is None else _documents(row.candidate_docs)
    sample.reference_answer = None if row.reference_answer is None else _response(row.reference_answer)
    sample.labels = row.labels
    sample.metadata = row.metadata
    sample.reference_answers = row.reference_answers
    sample.history = row.history
    sample.cluster_id = row.cluster_id
    sample.relevant_groups = row.relevant_groups
    if row.reference_answers:
        sample.__post_init__()
    return sample


def build_output(row: OutputRow[DocumentRow]) -> SystemOutputs:
    """Build the output of a row; the row must not be used again. ``BadSpanError``: a span runs backwards."""
    output = _new(SystemOutputs)
    output.retrieved = [] if row.retrieved is msgspec.UNSET else _ranking(row.retrieved)
    output.response = None if row.response is None else _response(row.response)
    output.timings = row.timings
    output.extra = row.extra
    output.error = row.error
    output.refused = row.refused
    output.citations = row.citations
    output.steps = row.steps
    output.usage = row.usage
    output.repeat = row.repeat
    return output


def _documents(rows: Sequence[DocumentRow | str]) -> list[Document]:
    built = []
    for row in rows:
        if isinstance(row, str):
            built.append(Document(row))
            continue
        document = _new(Document)
        document.doc_id = row.doc_id
        document.text = row.text
        document.metadata = row.metadata
        document.parent_id = row.parent_id
        document.span = row.span
        if row.span is not None and row.has_bad_span:
            raise BadSpanError
        built.append(document)
    return built


def _ranking(rows: Sequence[RetrievedRow[DocumentRow] | str]) -> list[RetrievedDocument]:
    built = []
    for position, row in enumerate(rows, start=1):
        item = _new(RetrievedDocument)
        if isinstance(row, str):
            item.doc = Document(row)
            item.score = None
            item.rank = position
        else:
            document_row = row.doc
            if isinstance(document_row, str):
                item.doc = Document(document_row)
            else:
                # Repeats `_documents`: a function call for each document would take a fifth of the time.
                item.doc = document = _new(Document)
                document.doc_id = document_row.doc_id
                document.text = document_row.text
                document.metadata = document_row.metadata
                document.parent_id = document_row.parent_id
                document.span = document_row.span
                if document_row.span is not None and document_row.has_bad_span:
                    raise BadSpanError
            item.score = row.score
            item.rank = position if row.rank is None else row.rank
        built.append(item)
    return built


def _response(row: ResponseRow | str) -> Response:
    if isinstance(row, str):
        return Response(row)
    sentences = None if row.sentences is None else [build_sentence(sentence) for sentence in row.sentences]
    return Response(row.text or "", row.structured, row.metadata, sentences)


def build_sentence(row: SentenceRow) -> dict[str, Any]:
    """Build a sentence of an answer, as ``Response.sentences`` stores it."""
    if row.citations is msgspec.UNSET:
        return {"text": row.text}
    return {"text": row.text, "citations": row.citations}


# --- JSON lines ------------------------------------------------------------------------------------------------------

Id = Annotated[str, msgspec.Meta(min_length=1)]
"""An id; an empty one is an error, as it comes from a column that was not filled in."""


class LineError(BadValueError):
    """A line, or a value to be written as one, that breaks the wire format. Loaders add the file and the line."""

    def __init__(self, message: str, *others: str) -> None:
        super().__init__(message)
        self.messages = (message, *others)
        """All problems that were found."""


class _WireRow(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Options of every row; ``gc=False`` because rows live only until they are copied into dataclasses."""


class DocumentRow(_WireRow):
    """A document, or a chunk of one."""

    doc_id: Id
    text: str = ""
    metadata: dict[str, Any] = {}
    parent_id: str | None = None
    span: tuple[int, int] | None = None

    @property
    def has_bad_span(self) -> bool:
        """Whether the span runs backwards."""
        return self.span is not None and not 0 <= self.span[0] <= self.span[1]


class CheckedDocumentRow(DocumentRow):
    """A document row that rejects a span that runs backwards.

    Python code for every document would take a fifth of the time of reading. So this class is used only when values
    are written, and to find the position of a bad span for an error message.
    """

    def __post_init__(self) -> None:
        if self.has_bad_span:
            raise ValueError(BAD_SPAN)


DocumentT = TypeVar("DocumentT", bound=DocumentRow)


class RetrievedRow(_WireRow, Generic[DocumentT]):
    """One position of a ranking; without ``rank`` it is the position in the list."""

    doc: DocumentT | Id
    score: float | None = None
    rank: int | None = None


class SentenceRow(_WireRow):
    """One sentence of an answer with the ids it cites."""

    text: str
    citations: list[str] | msgspec.UnsetType = msgspec.UNSET


class ResponseRow(_WireRow):
    """An answer; a text of ``null`` means an empty text."""

    text: str | None
    structured: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    sentences: list[SentenceRow] | None = None


class SampleRow(_WireRow, Generic[DocumentT]):
    """One line of a dataset."""

    sample_id: Id
    query: str
    relevant_docs: list[DocumentT | Id] | None = None
    candidate_docs: list[DocumentT | Id] | None = None
    reference_answer: ResponseRow | str | None = None
    labels: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    reference_answers: list[str] = []
    history: list[dict[str, Any]] = []
    cluster_id: str | None = None
    relevant_groups: list[list[Id]] = []


class OutputRow(_WireRow, Generic[DocumentT]):
    """One line of an outputs file."""

    sample_id: Id
    retrieved: list[RetrievedRow[DocumentT] | Id] | msgspec.UnsetType = (
        msgspec.UNSET
    )  # [] is written: it means that nothing was retrieved
    response: ResponseRow | str | None = None
    timings: dict[str, float] = {}
    extra: dict[str, Any] = {}
    error: str | None = None
    refused: bool | None = None
    citations: list[str] | None = None
    steps: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    repeat: int = 0


class SampleIdRow(msgspec.Struct, gc=False):
    """The id on a line of either kind."""

    sample_id: Id


ID_DECODER: msgspec.json.Decoder[SampleIdRow] = msgspec.json.Decoder(SampleIdRow)
CheckedSampleRow = SampleRow[CheckedDocumentRow]
CheckedOutputRow = OutputRow[CheckedDocumentRow]
SAMPLE_DECODER: msgspec.json.Decoder[SampleRow[DocumentRow]] = msgspec.json.Decoder(SampleRow[DocumentRow])
_OUTPUTS: msgspec.json.Decoder[OutputRow[DocumentRow]] = msgspec.json.Decoder(OutputRow[DocumentRow])
_ENCODER = msgspec.json.Encoder()
_FIELDS: dict[type, tuple[str, ...]] = {
    Document: DocumentRow.__struct_fields__,
    RetrievedDocument: RetrievedRow.__struct_fields__,
    Response: ResponseRow.__struct_fields__,
}
_OUTPUT_FIELDS = tuple(name for name in OutputRow.__struct_fields__ if name != "sample_id")
_ROW_TYPES: dict[str, type[_WireRow]] = {
    "relevant_docs": DocumentRow,
    "candidate_docs": DocumentRow,
    "doc": DocumentRow,
    "retrieved": RetrievedRow,
    "reference_answer": ResponseRow,
    "response": ResponseRow,
    "sentences": SentenceRow,
}


def _row_schema(rows: str, row: type[_WireRow], other_rows: str, other: type[_WireRow]) -> RowSchema:
    keys = {holder: kind.__struct_fields__ for holder, kind in {"": row, **_ROW_TYPES}.items()}
    return RowSchema(rows, keys, other_rows, tuple(set(other.__struct_fields__) - set(row.__struct_fields__)))


SAMPLE_SHAPE = _row_schema("samples", SampleRow, "outputs", OutputRow)
OUTPUT_SHAPE = _row_schema("outputs", OutputRow, "samples", SampleRow)


def decode_sample(line: bytes) -> EvaluationSample:
    """Decode one line of a dataset; ``LineError`` explains what is wrong with it."""
    try:
        row = SAMPLE_DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise LineError(decoding_problem(line, error, SAMPLE_SHAPE)) from error
    try:
        return build_sample(row)
    except BadSpanError as error:
        raise _span_error(line, CheckedSampleRow, SAMPLE_SHAPE) from error


def decode_output(line: bytes) -> tuple[str, SystemOutputs]:
    """Decode the sample id and the output on one line; ``LineError`` explains what is wrong with it."""
    return decode_output_line(line)[:2]


def decode_output_line(line: bytes) -> tuple[str, SystemOutputs, bool]:
    """Like ``decode_output``, and also return whether the line has the field ``retrieved``."""
    try:
        row = _OUTPUTS.decode(line)
    except (ValueError, RecursionError) as error:
        raise LineError(decoding_problem(line, error, OUTPUT_SHAPE)) from error
    try:
        return row.sample_id, build_output(row), row.retrieved is not msgspec.UNSET
    except BadSpanError as error:
        raise _span_error(line, CheckedOutputRow, OUTPUT_SHAPE) from error


def encode_sample(sample: EvaluationSample) -> bytes:
    """Encode a sample as one line without a newline; fields with their default value are omitted."""
    return _encode(_to_json_fields(sample, SampleRow.__struct_fields__), CheckedSampleRow, SAMPLE_SHAPE)


def encode_output(sample_id: str, output: SystemOutputs) -> bytes:
    """Encode an output as one line without a newline; fields with their default value are omitted."""
    values = _to_json_fields(output, _OUTPUT_FIELDS)
    ranking = values.pop("retrieved") if isinstance(output.retrieved, UnknownRanking) else values["retrieved"]
    for position, item in enumerate(ranking if isinstance(ranking, list) else (), start=1):
        if isinstance(item, dict) and item.get("rank") == position:
            del item["rank"]
    return _encode({"sample_id": _to_json_value(sample_id, "sample_id"), **values}, CheckedOutputRow, OUTPUT_SHAPE)


def _span_error(line: bytes, row: Any, shape: RowSchema) -> LineError:
    """Return the error for a span that runs backwards; the line is read again to find its path."""
    try:
        msgspec.json.decode(line, type=row)
    except ValueError as error:
        return LineError(decoding_problem(line, error, shape))
    return LineError("a span runs backwards")


def _to_json_fields(holder: object, names: Sequence[str]) -> dict[str, Any]:
    try:
        return {name: _to_json_value(getattr(holder, name), name) for name in names}
    except RecursionError as error:
        raise LineError(TOO_DEEP) from error


def _to_json_value(value: object, path: str) -> Any:
    """Convert ``value`` to JSON types. A value that JSON cannot represent is an error, never silently changed."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise LineError(non_finite_message(path, value))
    if isinstance(value, dict):
        return {_to_json_key(key, path): _to_json_value(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json_value(item, f"{path}[{index}]") for index, item in enumerate(value)]
    for parent, names in _FIELDS.items():
        if isinstance(value, parent):
            return {name: _to_json_value(getattr(value, name), f"{path}.{name}") for name in names}
    return str.__str__(value) if isinstance(value, str) else _to_json_number(value, path)


def _to_json_number(value: object, path: str) -> int | float:
    """Convert a number of another library, such as NumPy, to a Python number."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError as error:
            raise LineError(too_large_message(path)) from error
        if math.isfinite(number):
            return number
        raise LineError(non_finite_message(path, number))
    raise LineError(f"field {quote_text(path)} holds a value of type '{type(value).__name__}', which JSON cannot carry")


def _to_json_key(key: object, path: str) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise LineError(f"field {quote_text(path)} has a key that is not a string: {key!r:.80}")


def _encode(values: dict[str, Any], row: Any, shape: RowSchema) -> bytes:
    try:
        return _ENCODER.encode(msgspec.convert(values, row))
    except msgspec.ValidationError as error:
        raise LineError(value_problem(error, values, shape)) from error
    except UnicodeEncodeError as error:
        raise LineError(first_invalid_value(values) or str(error)) from error
    except RecursionError as error:
        raise LineError(TOO_DEEP) from error
    except ValueError as error:  # Python's limit on the digits of an integer
        raise LineError(f"an integer has too many digits: {error}") from error


# --- encoding of all samples or outputs of a file ---------------------------------------------------------------------

ResultT = TypeVar("ResultT")


def encode_samples(
    samples: Iterable[EvaluationSample], encode: Callable[[EvaluationSample], ResultT]
) -> Iterator[ResultT]:
    """Encode each sample; one that cannot be written, or an id that occurs twice, is an error that names the sample."""
    return encode_each("sample", ((sample.sample_id, (sample,)) for sample in samples), encode)


def encode_outputs(
    outputs: Iterable[tuple[str, SystemOutputs]], encode: Callable[[str, SystemOutputs], ResultT]
) -> Iterator[ResultT]:
    """Encode each output with its sample id, like ``encode_samples``."""
    return encode_each("the output for sample", ((output[0], output) for output in outputs), encode)


def encode_each(
    owner: str, rows: Iterable[tuple[str, tuple[Any, ...]]], encode: Callable[..., ResultT]
) -> Iterator[ResultT]:
    """Encode each row, given as its sample id and the arguments of ``encode``; ``owner`` is what a message calls it."""
    seen: set[str] = set()
    for sample_id, arguments in rows:
        try:
            encoded = encode(*arguments)
        except LineError as error:
            raise BadValueError(f"{owner} {sample_id!r} cannot be written: {error}") from error
        if sample_id in seen:
            raise DuplicateIdError(f"sample_id {sample_id!r} occurs twice; each id may come once in a file")
        seen.add(sample_id)
        yield encoded


def bracketed_lines(items: Iterable[bytes], brackets: bytes) -> Iterator[bytes]:
    """Yield the lines of a JSON array or object with one item per line."""
    before = brackets[:1]
    for item in items:
        yield before
        before = item + b","
    yield before.removesuffix(b",")
    yield brackets[1:]


# --- collection of all errors of a record ----------------------------------------------------------------------------


class ErrorCollector:
    """Calls functions that may raise ``LineError``, and collects the messages."""

    def __init__(self) -> None:
        self._messages: list[str] = []

    def add(self, message: str) -> None:
        """Add a message."""
        self._messages.append(message)

    def call(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT | None:
        """Return the result of a function; ``None`` if it raises ``LineError``."""
        try:
            return function(*arguments)
        except LineError as error:
            self._messages += error.messages
            return None

    def call_each(self, function: Callable[..., ResultT], arguments: Iterable[tuple[Any, ...]]) -> list[ResultT]:
        """Call a function for each tuple of arguments; return the results of the calls without error."""
        results = [self.call(function, *argument) for argument in arguments]
        return [result for result in results if result is not None]

    def raise_errors(self) -> None:
        """Raise one ``LineError`` with all messages, if there are any."""
        if self._messages:
            raise LineError(*dict.fromkeys(self._messages))


# --- ids derived from texts ------------------------------------------------------------------------------------------


def text_id(text: str) -> str:
    """Return an id of 16 hex digits from the SHA-256 of a text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
