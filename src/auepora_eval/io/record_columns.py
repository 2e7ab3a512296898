"""Conversion of one record with named columns, as in other tools, to a sample and an output."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..errors import BadValueError, did_you_mean
from .codec import LineError, collect_errors, text_id
from .problems import quote_text

# --- lists in cells: as JSON, or as Python literals, which pandas writes to CSV files --------------------------------


def parse_list_cell(cell: str) -> list[Any] | None:
    """Parse the list in a cell; ``None`` if it does not begin like a list."""
    text = cell.strip()
    if not text.startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _parse_literal(text)
    if not isinstance(value, list):
        raise LineError(f"{quote_text(cell, 40)} is not a list, neither as JSON nor as Python writes it")
    return value


def _parse_literal(text: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a string is not our error
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if repr(value) != text and _has_adjacent_strings(text):
        raise LineError(
            f"{quote_text(text, 40)} looks like a NumPy array, whose strings cannot be separated; "
            "write lists (array.tolist()) to the file"
        )
    return value


def _has_adjacent_strings(text: str) -> bool:
    """Whether two strings are adjacent without a comma, which Python would concatenate silently."""
    before = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                continue
            if token.type == before == tokenize.STRING:
                return True
            before = token.type
    except (tokenize.TokenError, SyntaxError):
        return True
    return False


# --- columns and layout of a record ----------------------------------------------------------------------------------

ID_COLUMNS = ("sample_id", "id", "question_id", "query_id")
"""The columns that may contain the id of a record, in order of precedence."""
_USER, _ASSISTANT = ("human", "user"), ("ai", "assistant")


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """The column of each field; ``None`` if there is none."""

    query: str | None = None
    sample_id: str | None = None
    """``None``: one of ``ID_COLUMNS``, else the number of the record."""
    reference_answer: str | None = None
    reference_answers: str | None = None
    """A list of strings."""
    relevant_texts: str | None = None
    relevant_ids: str | None = None
    retrieved_texts: str | None = None
    retrieved_ids: str | None = None
    response: str | None = None
    labels: str | None = None
    """An object."""
    separator: str | None = None
    """The separator of a list that is written as one string."""

    def names(self) -> set[str]:
        """Return the names of all columns."""
        known = (getattr(self, one.name) for one in fields(self) if one.name != "separator")
        return {name for name in known if name is not None}


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
_PRESETS = {"ragas": RAGAS, "deepeval": DEEPEVAL}


def resolve_columns(columns: str | Mapping[str, str]) -> RecordColumns:
    """Return the columns of a tool, or custom ones given as a mapping of fields to columns."""
    if isinstance(columns, str):
        if columns not in _PRESETS:
            raise BadValueError(
                f"unknown columns {quote_text(columns)}; choose 'ragas' or 'deepeval', or give a mapping"
            )
        return _PRESETS[columns]
    known = [one.name for one in fields(RecordColumns)]
    for key, name in columns.items():
        if key not in known:
            hint = did_you_mean(str(key), known, otherwise=f"; known are {', '.join(known)}")
            raise BadValueError(f"no column can hold {quote_text(str(key))}{hint}")
        if not isinstance(name, str):
            raise BadValueError(f"the column of {quote_text(key)} must be a name, not {name!r:.80}")
    return RecordColumns(**columns)


class RecordLayout:
    """The layout of the records of a file; the first record decides it for all.

    It consists of the id column, and of which of the two sets of ragas columns is used.
    """

    def __init__(self, columns: RecordColumns) -> None:
        self.columns = columns
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
            self.id_column = next(
                (name for name in self._names if _get_value(values, name) is not None), self.id_column
            )
            if self.columns is RAGAS and str(RAGAS.query) not in values and str(RAGAS_LEGACY.query) in values:
                self.columns = RAGAS_LEGACY
            self.known = {*self.columns.names(), self.id_column}
        if self.id_column is None:
            return str(number)
        value = _get_value(values, self.id_column)
        if value is None:
            others = "; the first record has one" if self._numbered else ""
            raise LineError(f"field {quote_text(self.id_column)} is missing{others}")
        return _id(value, self.id_column)


def parse_record_sample(values: Mapping[str, Any], number: int, layout: RecordLayout) -> EvaluationSample:
    """Return the sample of a record; unknown columns become its metadata."""
    try:
        sample_id = layout.get_id(values, number)
        columns = layout.columns
        query, history, _ = _question(values, columns)
        labels = _labels(values, columns)
        relevant, _ = _documents(values, columns)
        reference = _answer(values, columns.reference_answer)
        references = _texts(values, columns.reference_answers, columns)
    except LineError as error:
        columns = layout.columns
        calls = [(one, values, columns) for one in (_question, _labels, _documents)]
        answers = ((_answer, values, columns.reference_answer), (_texts, values, columns.reference_answers, columns))
        raise collect_errors((layout.get_id, values, number), *calls, *answers) or error from error
    return EvaluationSample(
        sample_id=sample_id,
        query=query,
        relevant_docs=relevant,
        reference_answer=None if reference is None else Response(reference),
        labels=labels,
        metadata={
            str(name): value
            for name in values
            if name not in layout.known and (value := _plain(_get_value(values, name))) is not None
        },
        reference_answers=references or [],
        history=history,
    )


def parse_record_output(
    values: Mapping[str, Any], number: int, layout: RecordLayout
) -> tuple[str, tuple[SystemOutputs, bool] | None]:
    """Return the id of a record; and its output with whether it has a ranking, or ``None`` without an output."""
    try:
        sample_id = layout.get_id(values, number)
        answer = _returned_answer(values, layout.columns)
        _, retrieved = _documents(values, layout.columns)
    except LineError as error:
        calls = [(one, values, layout.columns) for one in (_returned_answer, _documents)]
        raise collect_errors((layout.get_id, values, number), *calls) or error from error
    if answer is None and retrieved is None:
        return sample_id, None
    ranking = [RetrievedDocument(doc, None, rank) for rank, doc in enumerate(retrieved or (), start=1)]
    output = SystemOutputs(ranking, None if answer is None else Response(answer))
    return sample_id, (output, retrieved is not None)


# --- values of a record: question, documents, answer -----------------------------------------------------------------


def _question(values: Mapping[str, Any], columns: RecordColumns) -> tuple[str, list[dict[str, Any]], str | None]:
    """Return the query, the conversation before it, and the answer of the assistant after it."""
    name = columns.query
    if name is None:
        raise BadValueError("the columns must say which one holds the 'query'")
    value = _plain(_get_value(values, name))
    if value is None:
        raise LineError(f"field {quote_text(name)} is missing")
    if isinstance(value, str) and value.startswith("[{"):  # a conversation in a cell of a table
        with contextlib.suppress(LineError):
            value = parse_list_cell(value)
    return _split_conversation(value, name) if isinstance(value, list) else (_text(value, name), [], None)


def _split_conversation(messages: list[Any], name: str) -> tuple[str, list[dict[str, Any]], str | None]:
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        path = f"{name}[{index}]"
        if not isinstance(message, Mapping):
            raise LineError(
                f"field {quote_text(path)} must be a message: an object with 'content' and 'type' or 'role'"
            )
        role = _text(message.get("role", message.get("type")), f"{path}.type")
        role = "user" if role in _USER else "assistant" if role in _ASSISTANT else role
        content = _text(message.get("content"), f"{path}.content")
        rest = {key: item for key, item in message.items() if key not in ("role", "type", "content")}
        turns.append({"role": role, "content": content, **rest})
    last = max((index for index, turn in enumerate(turns) if turn["role"] == "user"), default=None)
    if last is None:
        raise LineError(f"field {quote_text(name)} has no message of the user (type 'human', or role 'user')")
    answers = [turn["content"] for turn in turns[last + 1 :] if turn["role"] == "assistant"]
    return turns[last]["content"], turns[:last], answers[-1] if answers else None


def _returned_answer(values: Mapping[str, Any], columns: RecordColumns) -> str | None:
    """Return the answer of the system: its column, else the last turn of the conversation."""
    answer = _answer(values, columns.response)
    if answer is None and _get_value(values, columns.query) is not None:
        answer = _question(values, columns)[2]
    return answer


def _answer(values: Mapping[str, Any], name: str | None) -> str | None:
    value = _get_value(values, name)
    return None if value is None else _text(value, str(name))


def _labels(values: Mapping[str, Any], columns: RecordColumns) -> dict[str, Any]:
    labels = _get_value(values, columns.labels)
    if labels is not None and not isinstance(labels, Mapping):
        raise LineError(f"field {quote_text(str(columns.labels))} must be an object, not {_type_name(labels)}")
    return {} if labels is None else dict(labels)


def _documents(
    values: Mapping[str, Any], columns: RecordColumns
) -> tuple[list[Document] | None, list[Document] | None]:
    """Return the relevant and the retrieved documents. A text without an id gets that of an equal text, or a new one.

    Both lists are read together, so that a text with an id in only one of them is the same document in both.
    """
    gold = (values, columns.relevant_texts, columns.relevant_ids, columns)
    returned = (values, columns.retrieved_texts, columns.retrieved_ids, columns)
    try:
        relevant, retrieved = _pairs(*gold), _pairs(*returned)
    except LineError as error:
        raise collect_errors((_pairs, *gold), (_pairs, *returned)) or error from error
    if (
        relevant
        and retrieved
        and (_is_ids_against_texts(relevant, retrieved) or _is_ids_against_texts(retrieved, relevant))
    ):
        raise LineError("one of relevant and retrieved contexts has only ids, the other only texts: they cannot meet")
    named = {text: doc_id for doc_id, text in [*(relevant or ()), *(retrieved or ())] if doc_id is not None and text}
    converted = [
        None
        if pairs is None
        else [Document(doc_id or named.get(text) or text_id(text), text) for doc_id, text in pairs]
        for pairs in (relevant, retrieved)
    ]
    return converted[0], converted[1]


def _is_ids_against_texts(one: list[tuple[str | None, str]], other: list[tuple[str | None, str]]) -> bool:
    """Whether the first has only ids and the second only texts."""
    return one[0][0] is not None and other[0][0] is None and not any(text for _, text in one)


def _pairs(
    values: Mapping[str, Any], texts_name: str | None, ids_name: str | None, columns: RecordColumns
) -> list[tuple[str | None, str]] | None:
    try:
        texts, ids = _texts(values, texts_name, columns), _ids(values, ids_name, columns)
    except LineError as error:
        raise (
            collect_errors((_texts, values, texts_name, columns), (_ids, values, ids_name, columns)) or error
        ) from error
    if not ids:
        return [] if texts is None and ids is not None else None if texts is None else [(None, text) for text in texts]
    if texts and len(texts) != len(ids):
        raise LineError(f"there are {len(texts)} {texts_name}, but {len(ids)} {ids_name}")
    return list(zip(ids, texts or [""] * len(ids), strict=True))


def _texts(values: Mapping[str, Any], name: str | None, columns: RecordColumns) -> list[str] | None:
    return _convert_each(_text, _list(values, name, columns), name)


def _ids(values: Mapping[str, Any], name: str | None, columns: RecordColumns) -> list[str] | None:
    return _convert_each(_id, _list(values, name, columns), name)


def _convert_each(
    converted: Callable[[Any, str], str], found: Sequence[Any] | None, name: str | None
) -> list[str] | None:
    if found is None:
        return None
    try:
        return [converted(one, f"{name}[{index}]") for index, one in enumerate(found)]
    except LineError as error:
        raise (
            collect_errors(*((converted, one, f"{name}[{index}]") for index, one in enumerate(found))) or error
        ) from error


def _list(values: Mapping[str, Any], name: str | None, columns: RecordColumns) -> Sequence[Any] | None:
    value = _plain(_get_value(values, name))
    if value is None or isinstance(value, list | tuple):
        return value
    if isinstance(value, str):
        found = parse_list_cell(value)
        if found is not None:
            return found
        if columns.separator is not None:
            return value.split(columns.separator)
        raise LineError(
            f'field {quote_text(str(name))} must be a list, such as ["first", "second"], not {quote_text(value, 40)}'
        )
    raise LineError(f"field {quote_text(str(name))} must be an array, not {_type_name(value)}")


def _get_value(values: Mapping[str, Any], name: str | None) -> Any:
    """Return the value of a column; ``None`` if it is missing, which data frames represent as NaN."""
    value = None if name is None else values.get(name)
    if value is None or type(value).__name__ in (
        "NAType",
        "NaTType",
    ):  # missing values of pandas, checked without importing it
        return None
    return None if isinstance(value, Real) and value != value else value


def _plain(value: Any) -> Any:
    """Convert arrays and numbers of NumPy to Python types."""
    return value.tolist() if hasattr(value, "tolist") else value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise LineError(f"field {quote_text(path)} must be a string, not {_type_name(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LineError(f"field {quote_text(path)} holds half of a surrogate pair, which is not valid text") from error
    return str(value)


def _id(value: Any, path: str) -> str:
    if isinstance(value, Integral) and not isinstance(value, bool):
        return _format_integer(value, path)
    if isinstance(value, float) and value.is_integer():  # pandas stores integers with missing values as floats
        return _format_integer(int(value), path)
    if not isinstance(value, str):
        raise LineError(f"field {quote_text(path)} must be a string or an integer, not {_type_name(value)}")
    if not value:
        raise LineError(f"field {quote_text(path)} is empty; an id needs at least one character")
    return _text(value, path)


def _format_integer(value: Integral | int, path: str) -> str:
    try:
        return str(int(value))
    except ValueError as error:  # Python's limit on the digits of an integer
        raise LineError(f"field {quote_text(path)} is too large a number") from error


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Real):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "an object"
    return "an array" if isinstance(value, Sequence) else f"a value of type '{type(value).__name__}'"
