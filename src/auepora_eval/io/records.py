"""Records with named columns: those of ragas, deepeval and Hugging Face, and tables with columns of any names."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field as dataclass_field, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import BadValueError, DataFileError, DuplicateIdError, did_you_mean
from ..runtime.files import plain_suffix, write_lines
from .cells import column_head, get_value, id_value, parse_list_cell, plain_value, require_no_flag, text_value
from .codec import ErrorCollector, LineError, bracketed_lines, encode_each, encode_output, encode_sample, text_id
from .extract import Extracts, extract_values, refuse_answer, refuse_parts, slotted_reference, split_extracts
from .formats import (
    DEEPEVAL_COLUMNS,
    OWN_COLUMNS,
    RAGAS_LEGACY_COLUMNS,
    RAGBENCH_COLUMNS,
    SQUAD_COLUMNS,
    TABLE,
    TABLE_NAMES,
    Format,
    looks_like_deepeval,
    looks_like_ragas,
    looks_like_table,
    read_file_head,
    register_format,
)
from .problems import ParsedOutput, ParsedSample, Problems, quote_text, type_name
from .tables import KINDS, TITLES, Record, TableOptions, read_records

# --- columns and layout of a record ----------------------------------------------------------------------------------

ID_COLUMNS = ("sample_id", "id", "question_id", "query_id")
"""The columns that may contain the id of a record, in order of precedence."""
_USER, _ASSISTANT = ("human", "user"), ("ai", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns(TableOptions):
    """The column of each field; ``None`` if there is none. A dot separates the keys of nested objects."""

    query: str | None = None
    sample_id: str | None = None
    """``None``: one of ``ID_COLUMNS``, else the number of the record."""
    reference_answer: str | None = None
    reference_answers: str | None = None
    """A list of strings."""
    slots: str | None = None
    """What the answer must name: texts, or lists of spellings."""
    relevant_texts: str | None = None
    relevant_ids: str | None = None
    relevant_groups: str | None = None
    """A list of lists of relevant ids."""
    retrieved_texts: str | None = None
    retrieved_ids: str | None = None
    response: str | None = None
    labels: str | None = None
    """An object."""
    separator: str | None = None
    """The separator of a list that is written as one string."""
    extracts: Extracts = dataclass_field(default_factory=dict)
    """The columns that are parts of others."""

    def by_field(self) -> dict[str, str]:
        """Return the columns by field."""
        known = {name: getattr(self, name) for name in COLUMN_FIELDS}
        return {field: name for field, name in known.items() if name is not None}

    def names(self) -> set[str]:
        """Return the names of all columns."""
        return {self.extracts.get(name, (name, None))[0] for name in self.by_field().values()}


_OPTIONS = (*(column.name for column in fields(TableOptions)), "separator", "extracts")
COLUMN_FIELDS = tuple(column.name for column in fields(RecordColumns) if column.name not in _OPTIONS)
"""The fields that a column may contain."""
FIELD_ALIASES = {
    "id": "sample_id",
    "question": "query",
    "contexts": "retrieved_texts",
    "context_ids": "retrieved_ids",
    "reference": "reference_answer",
    "references": "reference_answers",
    "reference_contexts": "relevant_texts",
    "reference_context_ids": "relevant_ids",
}
"""Short names of fields, which ``--columns`` accepts too."""

RAGAS = RecordColumns(
    query="user_input",
    reference_answer="reference",
    relevant_texts="reference_contexts",
    relevant_ids="reference_context_ids",
    retrieved_texts="retrieved_contexts",
    retrieved_ids="retrieved_context_ids",
    response="response",
)
DEEPEVAL = RecordColumns(
    query="input",
    reference_answer="expected_output",
    relevant_texts="context",
    retrieved_texts="retrieval_context",
    response="actual_output",
    separator="|",
)
RAGAS_LEGACY = RecordColumns(
    query="question",
    reference_answer="ground_truth",
    reference_answers="ground_truths",
    retrieved_texts="contexts",
    response="answer",
)
"""The columns of ragas before version 0.2."""
_SQUAD_ROWS = RecordColumns(query="question", relevant_texts="context", reference_answers="answers.text")
"""SQuAD as Hugging Face stores it, and datasets that follow it."""
_OWN_NAMES = RecordColumns(
    query="query",
    reference_answer="reference",
    reference_answers="references",
    relevant_texts="reference_contexts",
    relevant_ids="reference_context_ids",
    retrieved_texts="contexts",
    retrieved_ids="context_ids",
    response="response",
)
PRESETS = {"ragas": RAGAS, "deepeval": DEEPEVAL}


def resolve_columns(columns: str | Mapping[str, str]) -> RecordColumns:
    """Return the columns of a tool, or custom ones given as a mapping of fields to columns."""
    if isinstance(columns, str):
        if columns not in PRESETS:
            raise BadValueError(
                f"unknown columns {quote_text(columns)}; choose 'ragas' or 'deepeval', or give a mapping"
            )
        return PRESETS[columns]
    known = [column.name for column in fields(RecordColumns) if column.name not in ("kind", "extracts")]
    given: dict[str, str] = {}
    columns, extracts = split_extracts(columns)
    for key, name in columns.items():
        field = FIELD_ALIASES.get(key, key)
        if field not in known:
            every = f"; known are {', '.join((*known, *FIELD_ALIASES))}"
            hint = did_you_mean(str(key), [*known, *FIELD_ALIASES], otherwise=every)
            raise BadValueError(f"no column can hold {quote_text(str(key))}{hint}")
        if not isinstance(name, str) or not name:
            raise BadValueError(f"the column of {quote_text(key)} must be a name, not {name!r:.80}")
        if field in given:
            raise BadValueError(
                f"the field '{field}' has two columns, {quote_text(given[field])} and {quote_text(name)}"
            )
        given[field] = name
    if len(given.get("delimiter", ",")) != 1:
        raise BadValueError(f"a delimiter is one character, not {quote_text(given['delimiter'])}")
    resolved = RecordColumns(**given, extracts=extracts)  # type: ignore[arg-type]  # `kind` is not among them
    _refuse_shared_columns(resolved)
    return resolved


_MAY_SHARE = ({"relevant_texts", "relevant_ids"}, {"retrieved_texts", "retrieved_ids"})


def _refuse_shared_columns(columns: RecordColumns) -> None:
    """Raise if two fields have the same column; an id may be the text that it identifies."""
    first: dict[str, str] = {}
    for field, name in columns.by_field().items():
        before = first.setdefault(name, field)
        if before != field and "sample_id" not in (before, field) and {before, field} not in _MAY_SHARE:
            raise BadValueError(f"the column {quote_text(name)} cannot be both '{before}' and '{field}'")


_WELL_KNOWN: tuple[tuple[RecordColumns, Collection[str]], ...] = (
    (RAGAS, RAGAS.names()),
    (RAGAS_LEGACY, RAGAS_LEGACY_COLUMNS),
    (DEEPEVAL, DEEPEVAL_COLUMNS),
    (_SQUAD_ROWS, SQUAD_COLUMNS),
    (RecordColumns(query="question", retrieved_texts="documents", response="response"), RAGBENCH_COLUMNS),
    (_OWN_NAMES, OWN_COLUMNS),
)
"""Columns that are recognised by the one of the query and at least one of these."""


def recognise_columns(names: Collection[str]) -> RecordColumns | None:
    """Return the columns of a table with well-known names, as far as it has them; ``None`` if they are others."""
    for columns, others in _WELL_KNOWN:
        if columns.query in names and not set(others).isdisjoint(names):
            there = {key: name for key, name in columns.by_field().items() if name.partition(".")[0] in names}
            return RecordColumns(**there, separator=columns.separator)  # type: ignore[arg-type]  # all are strings
    return None


class RecordLayout:
    """The layout of the records of a file; the first record decides it for all.

    It consists of the id column, and of which of the two sets of ragas columns is used.
    """

    def __init__(self, columns: RecordColumns, *, flexible: bool = False) -> None:
        self.columns = columns
        self.flexible = flexible
        """Whether one string may stand for a list of one, and a list of strings for one, as in tables of any origin."""
        self.id_column = columns.sample_id
        """The id column; ``None`` if records are identified by number."""
        self._names = ID_COLUMNS if columns.sample_id is None else (columns.sample_id,)
        self._numbered = columns.sample_id is None
        self._decided = False
        self.known: set[str | None] = set()
        """The known columns."""

    def get_id(self, values: Mapping[str, Any], number: int) -> str:
        """Return the id of the record with that number."""
        if not self._decided:
            self._decided = True
            self.id_column = next((name for name in self._names if get_value(values, name) is not None), self.id_column)
            if self.columns is RAGAS and str(RAGAS.query) not in values and str(RAGAS_LEGACY.query) in values:
                self.columns = RAGAS_LEGACY
            names = self.columns.names()
            self.known = {*names, *map(column_head, names), *self.columns.extracts, self.id_column}
        if self.id_column is None:
            return str(number)
        value = get_value(values, self.id_column)
        if value is None:
            others = "; the first record has one" if self._numbered else ""
            raise LineError(f"field {quote_text(self.id_column)} is missing{others}")
        return id_value(value, self.id_column)

    def get_question(self, values: Mapping[str, Any]) -> str | None:
        """Return the question of an output that has only a number: the row must be the one of that question."""
        if self.id_column is not None:
            return None
        names = ("question", "query") if self.columns.query is None else (self.columns.query,)
        questions = [value for name in names if isinstance(value := get_value(values, name), str)]
        return questions[0] if questions and not questions[0].startswith("[{") else None  # that is a conversation


def parse_record_sample(values: Mapping[str, Any], number: int, layout: RecordLayout) -> EvaluationSample:
    """Return the sample of a record; unknown columns become its metadata."""
    errors, values = ErrorCollector(), extract_values(values, layout.columns.extracts)
    sample_id = errors.call(layout.get_id, values, number)
    columns = layout.columns
    question = errors.call(_question, values, columns)
    labels = errors.call(_labels, values, columns)
    documents = errors.call(_documents, values, layout)
    references = errors.call(_references, values, layout)
    refuse_parts(get_value(values, columns.reference_answers), str(columns.reference_answers), values)
    further = errors.call(_texts, values, columns.reference_answers, layout)
    parts = get_value(values, columns.slots)
    reference = None if parts is None else errors.call(slotted_reference, plain_value(parts), str(columns.slots))
    groups = errors.call(_groups, values, layout)
    query, history, _ = question or ("", [], None)
    references = references or []
    if columns.query not in columns.extracts:
        errors.call(refuse_answer, query, str(columns.query), [*references, *(further or ())])
    errors.raise_errors()
    relevant, _ = documents or (None, None)
    several = len(references) > 1
    if references and not several:
        reference = Response(references[0])
    return EvaluationSample(
        sample_id=str(sample_id),
        query=query,
        relevant_docs=relevant,
        reference_answer=reference,
        labels=labels or {},
        metadata={
            str(name): value
            for name in values
            if name not in layout.known and (value := plain_value(get_value(values, name))) is not None
        },
        reference_answers=[*(references if several else ()), *(further or ())],
        history=history,
        relevant_groups=groups or [],
    )


def parse_record_output(
    values: Mapping[str, Any], number: int, layout: RecordLayout
) -> tuple[str, tuple[SystemOutputs, bool] | None]:
    """Return the id of a record; and its output with whether it has a ranking, or ``None`` without an output."""
    errors, values = ErrorCollector(), extract_values(values, layout.columns.extracts)
    sample_id = errors.call(layout.get_id, values, number)
    answer = errors.call(_returned_answer, values, layout.columns)
    documents = errors.call(_documents, values, layout)
    errors.raise_errors()
    _, retrieved = documents or (None, None)
    if answer is None and retrieved is None:
        return str(sample_id), None
    ranking = [RetrievedDocument(doc, None, rank) for rank, doc in enumerate(retrieved or (), start=1)]
    output = SystemOutputs(ranking, None if answer is None else Response(answer))
    return str(sample_id), (output, retrieved is not None)


# --- values of a record: question, documents, answer -----------------------------------------------------------------


def _question(values: Mapping[str, Any], columns: RecordColumns) -> tuple[str, list[dict[str, Any]], str | None]:
    """Return the query, the conversation before it, and the answer of the assistant after it."""
    name = columns.query
    if name is None:
        raise BadValueError("the columns must say which one holds the 'query'")
    value = plain_value(get_value(values, name))
    if value is None:
        raise LineError(f"field {quote_text(name)} is missing")
    if isinstance(value, str) and value.startswith("[{"):  # a conversation in a cell of a table
        with contextlib.suppress(LineError):
            value = parse_list_cell(value)
    if isinstance(value, list):
        return _split_conversation(value, name)
    return text_value(value, name), [], None


def _split_conversation(messages: list[Any], name: str) -> tuple[str, list[dict[str, Any]], str | None]:
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        path = f"{name}[{index}]"
        if not isinstance(message, Mapping):
            raise LineError(
                f"field {quote_text(path)} must be a message: an object with 'content' and 'type' or 'role'"
            )
        role = text_value(message.get("role", message.get("type")), f"{path}.type")
        role = "user" if role in _USER else "assistant" if role in _ASSISTANT else role
        content = text_value(message.get("content"), f"{path}.content")
        rest = {key: item for key, item in message.items() if key not in ("role", "type", "content")}
        turns.append({"role": role, "content": content, **rest})
    last = max((index for index, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if last is None:
        raise LineError(f"field {quote_text(name)} has no message of the user (type 'human', or role 'user')")
    answers = [turn["content"] for turn in turns[last + 1 :] if turn["role"] == "assistant"]
    return turns[last]["content"], turns[:last], answers[-1] if answers else None


def _returned_answer(values: Mapping[str, Any], columns: RecordColumns) -> str | None:
    """Return the answer of the system: its column, else the last turn of the conversation."""
    answer = get_value(values, columns.response)
    if answer is not None:
        return text_value(answer, str(columns.response))
    return None if get_value(values, columns.query) is None else _question(values, columns)[2]


def _references(values: Mapping[str, Any], layout: RecordLayout) -> list[str]:
    """Return the reference answer, or several where the column has a list."""
    name = layout.columns.reference_answer
    value = plain_value(get_value(values, name))
    if layout.flexible and isinstance(value, list | tuple):
        return _texts(values, name, layout) or []
    return [] if value is None else [text_value(value, str(name))]


def _labels(values: Mapping[str, Any], columns: RecordColumns) -> dict[str, Any]:
    labels = get_value(values, columns.labels)
    if labels is not None and not isinstance(labels, Mapping):
        raise LineError(f"field {quote_text(str(columns.labels))} must be an object, not {type_name(labels)}")
    return {} if labels is None else dict(labels)


def _documents(values: Mapping[str, Any], layout: RecordLayout) -> tuple[list[Document] | None, list[Document] | None]:
    """Return the relevant and the retrieved documents. A text without an id gets that of an equal text, or a new one.

    Both lists are read together, so that a text with an id in only one of them is the same document in both.
    """
    columns, errors = layout.columns, ErrorCollector()
    for name in (columns.relevant_texts, columns.relevant_ids):
        errors.call(require_no_flag, values, name)
    relevant = errors.call(_pairs, values, columns.relevant_texts, columns.relevant_ids, layout)
    retrieved = errors.call(_pairs, values, columns.retrieved_texts, columns.retrieved_ids, layout)
    errors.raise_errors()
    if (
        relevant
        and retrieved
        and (_is_ids_against_texts(relevant, retrieved) or _is_ids_against_texts(retrieved, relevant))
    ):
        raise LineError("one of relevant and retrieved contexts has only ids, the other only texts: they cannot meet")
    named = {text: doc_id for doc_id, text in [*(relevant or ()), *(retrieved or ())] if doc_id is not None and text}

    def documents(pairs: list[tuple[str | None, str]] | None) -> list[Document] | None:
        if pairs is None:
            return None
        return [Document(doc_id or named.get(text) or text_id(text), text) for doc_id, text in pairs]

    return documents(relevant), documents(retrieved)


def _groups(values: Mapping[str, Any], layout: RecordLayout) -> list[list[str]]:
    """Return the groups of relevant ids; a group of one may be a bare id."""
    name, groups = layout.columns.relevant_groups, []
    for index, group in enumerate(_list(values, name, layout) or ()):
        path = f"{name}[{index}]"
        groups.append(_convert_list(id_value, {path: group}, path, layout) or [])
    return groups


def _is_ids_against_texts(pairs: list[tuple[str | None, str]], other: list[tuple[str | None, str]]) -> bool:
    """Whether the first has only ids and the second only texts."""
    return pairs[0][0] is not None and other[0][0] is None and not any(text for _, text in pairs)


def _pairs(
    values: Mapping[str, Any], texts_name: str | None, ids_name: str | None, layout: RecordLayout
) -> list[tuple[str | None, str]] | None:
    errors = ErrorCollector()
    texts = errors.call(_texts, values, texts_name, layout)
    ids = errors.call(_convert_list, id_value, values, ids_name, layout)
    errors.raise_errors()
    if not ids:
        return [] if texts is None and ids is not None else None if texts is None else [(None, text) for text in texts]
    if texts and len(texts) != len(ids):
        raise LineError(f"there are {len(texts)} {texts_name}, but {len(ids)} {ids_name}")
    return list(zip(ids, texts or [""] * len(ids), strict=True))


def _texts(values: Mapping[str, Any], name: str | None, layout: RecordLayout) -> list[str] | None:
    return _convert_list(text_value, values, name, layout)


def _convert_list(
    convert: Callable[[Any, str], str], values: Mapping[str, Any], name: str | None, layout: RecordLayout
) -> list[str] | None:
    found = _list(values, name, layout)
    if found is None:
        return None
    errors = ErrorCollector()
    converted = errors.call_each(convert, [(value, f"{name}[{index}]") for index, value in enumerate(found)])
    errors.raise_errors()
    return converted


def _list(values: Mapping[str, Any], name: str | None, layout: RecordLayout) -> Sequence[Any] | None:
    value = plain_value(get_value(values, name))
    if value is None or isinstance(value, list | tuple):
        return value
    if isinstance(value, str):
        found = parse_list_cell(value)
        if found is not None:
            return found
        if layout.columns.separator is not None:
            return value.split(layout.columns.separator)
        if layout.flexible:
            return [value]
        raise LineError(
            f'field {quote_text(str(name))} must be a list, such as ["first", "second"], not {quote_text(value, 40)}'
        )
    raise LineError(f"field {quote_text(str(name))} must be an array, not {type_name(value)}")


# --- writing of samples and outputs in the columns of another tool ---------------------------------------------------

_ID_COLUMN = ID_COLUMNS[0]


def write_records(
    columns: RecordColumns, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]], path: Path
) -> None:
    """Write a record per sample: a JSON array, a table, or (with any other suffix) an object per line."""
    records = encode_each(
        "sample", ((sample.sample_id, (columns, sample, output)) for sample, output in pairs), _record
    )
    if KINDS.get(plain_suffix(path), "csv") != "csv":
        raise BadValueError(f"records are written as JSON, JSONL or CSV; name another file than {path}")
    if plain_suffix(path) in KINDS:
        lines = _table_lines(list(records), "\t" if plain_suffix(path) == ".tsv" else ",", columns)
    elif plain_suffix(path) == ".json":
        lines = bracketed_lines(map(msgspec.json.encode, records), b"[]")
    else:
        lines = map(msgspec.json.encode, records)
    write_lines(path, lines)


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
    retrieved, relevant = _ids_and_texts(out.get("retrieved")), _ids_and_texts(row.get("relevant_docs"))
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


def _ids_and_texts(docs: list[dict[str, Any]] | None) -> list[tuple[str, str]] | None:
    """Return ids and texts of relevant documents, or of positions of a ranking."""
    if docs is None:
        return None
    documents = [item.get("doc", item) for item in docs]
    return [(document["doc_id"], document.get("text", "")) for document in documents]


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


def _table_lines(records: list[dict[str, Any]], delimiter: str, columns: RecordColumns) -> Iterator[bytes]:
    header = list(dict.fromkeys(chain.from_iterable(records)))
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
    [
        *("relevant_docs.metadata", "relevant_docs.parent_id", "relevant_docs.span"),
        *("reference_answer.structured", "reference_answer.metadata", "reference_answer.sentences"),
        *("retrieved.score", "retrieved.doc.metadata", "retrieved.doc.parent_id", "retrieved.doc.span"),
        *("response.structured", "response.metadata", "response.sentences"),
    ]
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


class _RecordFile:
    """The records of a file, with their layout and their problems."""

    def __init__(self, columns: RecordColumns, path: Path, problems: Problems, *, named: bool) -> None:
        """``named``: whether a user named the columns, so that each of them must be there."""
        self._path, self._problems = path, problems
        self.is_table = columns.kind_of(path) in ("csv", "excel")
        self.layout = RecordLayout(columns, flexible=named or self.is_table)
        names = {*columns.names(), *(RAGAS_LEGACY.names() if columns is RAGAS else ())}
        self.records = read_records(path, problems, columns, names=names, required=columns.names() if named else ())

    def parse(
        self, records: Iterable[Record], convert: Callable[[Mapping[str, Any], int, RecordLayout], ResultT]
    ) -> Iterator[tuple[Record, ResultT]]:
        """Yield the records with their conversion; for an invalid one, record all problems and its sample id."""
        for record in records:
            try:
                yield record, convert(record.values, record.number, self.layout)
            except LineError as error:
                sample_id = ErrorCollector().call(self.layout.get_id, record.values, record.number)
                self._problems.add_record(self._path, record.line, error.messages, sample_id, record=record.record)


def _read_samples(
    columns: RecordColumns, path: Path, problems: Problems, *, named: bool = False
) -> Iterator[ParsedSample]:
    file = _RecordFile(columns, path, problems, named=named)
    for record, sample in file.parse(file.records, parse_record_sample):
        if problems.is_new(path, sample.sample_id, record.line, record=record.record):
            yield ParsedSample(record.line, sample, record.record)


def _read_outputs(
    columns: RecordColumns, path: Path, problems: Problems, *, named: bool = False
) -> Iterator[ParsedOutput]:
    file = _RecordFile(columns, path, problems, named=named)
    records: Iterable[Record] = file.records
    filled: set[str] = set()
    if file.is_table:
        records = list(records)
        for record in records:
            filled |= {name for name, value in record.values.items() if value is not None}
    for record, (sample_id, found) in file.parse(records, parse_record_output):
        if not problems.is_new(path, sample_id, record.line, record=record.record) or found is None:
            continue
        output, has_retrieved = found
        columns = file.layout.columns
        # In a table of any origin, an empty cell of a column that others fill means that nothing was retrieved.
        has_retrieved |= named and not filled.isdisjoint((columns.retrieved_texts, columns.retrieved_ids))
        if columns.response in filled and has_retrieved and output.response is None:
            # A table does not distinguish an empty answer from a missing one; with a ranking, it is an empty answer.
            output.response = Response("")
        question = file.layout.get_question(record.values)
        yield ParsedOutput(record.line, sample_id, output, has_retrieved, record.record, question=question)


def require_same_question(path: str | Path, read: ParsedOutput, query: str) -> None:
    """Raise if an output that is joined by its row number has another question than its sample."""
    if read.question is None or read.question.strip() == query.strip():
        return
    raise DataFileError(
        path,
        read.line,
        f"row {read.sample_id} answers {quote_text(read.question)}, but this row of the samples asks "
        f"{quote_text(query)}; without an id, rows are joined by their number: name the column of the question as the "
        "id of both files, as in --columns id=question,... --outputs-columns id=question,...",
    )


def require_same_questions(
    path: str | Path, outputs: Iterable[ParsedOutput], samples: Iterable[EvaluationSample]
) -> None:
    """Raise if an output that is joined by its row number has another question than its sample."""
    numbered = {read.sample_id: read for read in outputs if read.question is not None}
    if not numbered:
        return
    for sample in samples:
        if sample.sample_id in numbered:
            require_same_question(path, numbered[sample.sample_id], sample.query)


def _write_samples(columns: RecordColumns, samples: Iterable[EvaluationSample], path: Path) -> None:
    write_records(columns, ((sample, None) for sample in samples), path)


def _format(name: str, title: str, columns: RecordColumns, looks_like: Any, sample_fields: str) -> Format:
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
            output_fields=frozenset({"retrieved", "response"}),
            nested_losses=_NESTED_LOSSES,
            one_file=True,
        )
    )


_FIELDS = "sample_id query relevant_docs reference_answer metadata"
RAGAS_FORMAT = _format("ragas", "records of ragas: JSON, JSONL or CSV", RAGAS, looks_like_ragas, f"{_FIELDS} history")
DEEPEVAL_FORMAT = _format(
    "deepeval", "test cases of deepeval: JSON, JSONL or CSV", DEEPEVAL, looks_like_deepeval, _FIELDS
)


def table_format(columns: str | Mapping[str, str] | None = None, name: str = TABLE) -> Format:
    """Return the format of a table with these columns; without ``columns`` they must have well-known names.

    ``name`` is one of ``TABLE_NAMES``: the kind of the file, for one whose suffix does not tell.
    """
    if columns is not None and name not in TABLE_NAMES:
        raise BadValueError(f"the format '{name}' has columns of its own; leave out the format, or the columns")
    options = TABLE_NAMES[name]
    given = None if columns is None else replace(resolve_columns(columns), **options)

    def read(reader: Callable[..., Iterator[Any]], path: Path, problems: Problems) -> Iterator[Any]:
        return reader(given or _recognise_file(path, options), path, problems, named=True)

    title = "named columns of CSV, Excel, Parquet or JSON"
    return Format(
        TABLE, title, looks_like_table, partial(read, _read_samples), partial(read, _read_outputs), one_file=True
    )


def _recognise_file(path: Path, options: Mapping[str, Any]) -> RecordColumns:
    """Return the columns of a file by their well-known names."""
    table = TableOptions(**options)
    head = read_file_head(path, table)
    if head.kind != table.kind_of(path):
        raise DataFileError(path, None, f"this is {TITLES[head.kind]}, not {TITLES[table.kind_of(path)]}")
    found = recognise_columns(head.columns)
    if found is None:
        raise DataFileError(path, None, head.describe())
    return replace(found, **options)
