"""Problems in files: messages in plain words, suggestions for unknown keys, and their collection by line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from numbers import Real
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AueporaError, DataFileError, DuplicateIdError, did_you_mean

# --- suggestions for unknown keys: names of other tools, typos, the wrong file, custom keys --------------------------


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The known keys of the rows of one kind of file, for suggestions."""

    rows: str
    """The name of the rows: ``samples``."""
    keys: Mapping[str, Sequence[str]]
    """The known keys, by the field that holds the object; ``""`` is the row itself."""
    other_rows: str
    other_keys: Sequence[str]


def _invert(keys_by_field: Mapping[str, str]) -> dict[str, str]:
    """Invert a mapping of a field to the keys that other tools use for it."""
    inverted: dict[str, str] = {}
    for field, keys in keys_by_field.items():
        inverted |= dict.fromkeys(keys.split(), field)
    return inverted


# The names that other tools and common datasets use for the fields, in lower case.
_IDS = "id _id qid query_id question_id"
_SAMPLES = _invert(
    {
        "sample_id": _IDS,
        "query": "question user_input input prompt",
        "reference_answer": "answer reference expected_output ground_truth gold_answer",
        "reference_answers": "answers references ground_truths",
        "relevant_docs": "relevant relevant_documents reference_contexts gold_docs positive_passages",
    }
)
_OUTPUTS = _invert(
    {
        "sample_id": _IDS,
        "response": "answer prediction output actual_output generated_answer completion",
        "retrieved": "contexts retrieved_contexts retrieval_context documents docs results",
    }
)
# Keys of the other file under the names of other tools, if they match no field of this file.
_OTHER_FILE = {
    "samples": {key: field for key, field in _OUTPUTS.items() if key not in _SAMPLES},
    "outputs": {key: field for key, field in _SAMPLES.items() if key not in _OUTPUTS},
}
_DOCUMENT = _invert(
    {
        "doc_id": "id _id docid document_id passage_id chunk_id",
        "text": "content page_content contents body passage",
        "metadata.relevance": "relevance rel grade relevance_score",
    }
)
_ANSWER = _invert({"text": "answer content output"})
_SYNONYMS = {
    "relevant_docs": _DOCUMENT,
    "candidate_docs": _DOCUMENT,
    "doc": _DOCUMENT,
    "response": _ANSWER,
    "reference_answer": _ANSWER,
}
_CUSTOM_KEYS_FIELD = {  # where custom keys belong
    "relevant_docs": "'metadata'",
    "candidate_docs": "'metadata'",
    "doc": "'metadata'",
    "response": "'metadata'",
    "reference_answer": "'metadata'",
    "retrieved": "'doc.metadata'",
}
_CUSTOM_KEYS_FIELD_OF_ROW = {"samples": "'labels' or 'metadata'", "outputs": "'extra'"}

_POSITION = 'a position of a ranking is {"doc": {"doc_id": "d1", "text": "..."}, "score": 0.5}, or just the id "d1"'
_LEVEL = '; did you mean \'metadata.relevance\'? Write {"doc_id": "d1", "metadata": {"relevance": 2}}'


def unknown_key_hint(path: str, key: str, raw: object, schema: RowSchema) -> str:
    """Return a clause about the unknown ``key`` of the object at ``path`` in the row ``raw``."""
    holder = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    known, word = schema.keys.get(holder, ()), key.lower()
    if not path and (elsewhere := _other_file_hint(key, raw, schema)):
        return elsewhere
    if holder == "retrieved" and (word in schema.keys["doc"] or word in _DOCUMENT):
        return f": {_POSITION}"
    synonyms = _SYNONYMS.get(holder, {}) if path else (_SAMPLES if schema.rows == "samples" else _OUTPUTS)
    meant = synonyms.get(word)
    if meant == "metadata.relevance":
        return _LEVEL
    if meant is not None:
        return f"; did you mean {meant!r}?"
    own = _CUSTOM_KEYS_FIELD.get(holder) if path else _CUSTOM_KEYS_FIELD_OF_ROW[schema.rows]
    listing = f"; known fields: {', '.join(known)}" + (f"; put keys of your own under {own}" if own else "")
    nearest = get_close_matches(key[:80].lower(), known, n=1)  # one: `reference` is near both reference_answer(s)
    return did_you_mean(key[:80], nearest, otherwise=listing)


def _other_file_hint(key: str, raw: object, schema: RowSchema) -> str:
    own = set(schema.keys[""]) - {"sample_id"}
    of_this_file = isinstance(raw, Mapping) and not own.isdisjoint(raw)
    place = f"leave it out, or put it under {_CUSTOM_KEYS_FIELD_OF_ROW[schema.rows]}"
    if key in schema.other_keys:
        clause = f": {schema.other_rows} have it, {schema.rows} do not"
        return f"{clause}; {place}" if of_this_file else f"{clause} (are the two files swapped?)"
    meant = _OTHER_FILE[schema.rows].get(key.lower())
    return "" if meant is None else f": that is {meant!r} in the file of the {schema.other_rows}; {place}"


# --- messages: errors of msgspec in field names and plain words ------------------------------------------------------

TOO_DEEP = "the values are nested too deeply"
BAD_SPAN = "span"
"""The message of a document whose span runs backwards; msgspec adds the path of the document."""


class OverflowedFloat(float):
    """An infinite float that was a finite number in the file, too large for a float."""


_WITH_PATH = re.compile(r"(?s)(.*) - at `\$\.?([^`]*)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_EMPTY = "Expected `str` of length >= 1"  # only ids have a minimum length
_MALFORMED = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_ID_PATH = re.compile(
    r"(?:^|\.)(?:(?:sample|doc|parent|cluster|_)_?id|doc"
    r"|(?:relevant_docs|candidate_docs|retrieved|citations|references|relevant_groups\[\d+\])\[\d+\])$"
)
"""The paths of ids, which may be bare in a list of documents."""
MAX_NAMED_IDS = 3
"""How many ids a warning names; the others are counted."""
PUT_IN_QUOTES = "; ids are strings, so put it in quotes"
_SPAN = re.compile(r"(.*\bspan)(?:\[\d\])?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


def decoding_problem(line: bytes, error: Exception, schema: RowSchema) -> str:
    """Return why ``line`` could not be decoded, given the error of the decoder."""
    try:
        text = line.decode()
    except UnicodeDecodeError as bad:
        return f"byte 0x{line[bad.start]:02x} in column {_column(line, bad.start)} is not valid UTF-8"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    raw = None
    with suppress(ValueError, RecursionError):
        # The standard library accepts NaN, Infinity and lone surrogates, which messages can then name.
        raw = json.loads(text)
    if isinstance(error, msgspec.ValidationError):
        return value_problem(error, raw, schema)
    invalid = first_invalid_value(raw)
    return _syntax_message(line, str(error)) if invalid is None else invalid


def value_problem(error: Exception, raw: object, schema: RowSchema) -> str:
    """Return why the values ``raw`` are not a valid row, given the error of msgspec."""
    message, path = str(error), ""
    if found := _WITH_PATH.fullmatch(message):
        message, path = found[1], found[2]
    if message == BAD_SPAN:
        path = join_key(path, "span")
    if found := _UNKNOWN.fullmatch(message):
        return f"unknown field {quote_text(join_key(path, found[1]))}{unknown_key_hint(path, found[1], raw, schema)}"
    if found := _MISSING.fullmatch(message):
        return f"field {quote_text(join_key(path, found[1]))} is missing"
    if "out of range" in message:
        return too_large_message(
            next(
                (invalid_value[0] for invalid_value in _invalid_values(raw) if isinstance(invalid_value[1], float)),
                _complete_path(path, raw),
            )
        )
    if found := _SPAN.fullmatch(path):
        return f"field {quote_text(found[1])} must be [start, end] with 0 <= start <= end"
    if message == _EMPTY:
        return f"field {quote_text(path)} is empty; an id needs at least one character"
    if found := _EXPECTED.fullmatch(message):
        expected, got = found[1].split(" | "), found[2]
        if not path:
            return f"each line must be one JSON object, not {_type_name(got, expected)}"
        types = " or ".join(", ".join(_TYPE_NAMES.get(kind, kind) for kind in expected).rsplit(", ", 1))
        quotes = PUT_IN_QUOTES if got in ("int", "float") and _ID_PATH.search(path) else ""
        return f"field {quote_text(_complete_path(path, raw))} must be {types}, not {_type_name(got, expected)}{quotes}"
    return f"field {quote_text(path)}: {message}" if path else message


def first_invalid_value(raw: object) -> str | None:
    """Return a message about the first number or string that JSON in UTF-8 cannot represent, or ``None``."""
    return next((_invalid_value_message(path, value) for path, value, _, _ in _invalid_values(raw)), None)


def replace_invalid_values(raw: object) -> list[str]:
    """Replace all numbers and strings that JSON in UTF-8 cannot represent, and return messages about them."""
    found = list(_invalid_values(raw))
    for _, value, holder, place in sorted(
        found, key=lambda problem: problem[3] is None
    ):  # keys last: values are found by their keys
        if place is None:
            holder[_LONE_SURROGATE.sub("?", str(value))] = holder.pop(value)
        else:
            holder[place] = 0 if isinstance(value, float) else _LONE_SURROGATE.sub("?", value)
    return list(dict.fromkeys(_invalid_value_message(path, value) for path, value, _, _ in found))


def _invalid_value_message(path: str, value: float | str) -> str:
    if isinstance(value, OverflowedFloat):
        return too_large_message(path)
    if isinstance(value, float):
        return non_finite_message(path, value)
    return f"field {quote_text(path)} holds half of a surrogate pair, which is not valid text"


def non_finite_message(path: str, value: float) -> str:
    """Return the message for a number that is not finite."""
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"field {quote_text(path)} is {name}; numbers must be finite"


def too_large_message(path: str) -> str:
    """Return the message for a number above the largest float, or an integer above Python's limit."""
    return f"field {quote_text(path)} is too large a number"


def quote_text(text: str, limit: int = 80) -> str:
    """Return ``text`` in quotes, escaped for printing, and shortened to ``limit`` characters."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def name_ids(ids: Collection[str]) -> str:
    """Return the first ids in quotes, and how many more there are."""
    names = ", ".join(repr(name) for name in islice(ids, MAX_NAMED_IDS))
    return names if len(ids) <= MAX_NAMED_IDS else f"{names} and {len(ids) - MAX_NAMED_IDS} more"


def type_name(value: object) -> str:
    """Return the JSON type of a value in words."""
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


def _invalid_values(raw: object) -> Iterator[tuple[str, float | str, Any, Any]]:
    """Yield numbers that are not finite and strings that are not valid UTF-8, as ``walk_json`` does."""
    for path, value, holder, place in walk_json(raw):
        is_invalid_number = isinstance(value, float) and not math.isfinite(value)
        if is_invalid_number or (isinstance(value, str) and _LONE_SURROGATE.search(value)):
            yield path, value, holder, place


def walk_json(raw: object) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield a JSON value and all values inside it, in reading order.

    Each with its path, the object or array that contains it, and its key or index there (``None`` for a key itself).
    """
    # An explicit stack: the data may be nested deeper than the recursion limit.
    pending: list[tuple[str, object, Any, Any]] = [("", raw, [raw], 0)]
    while pending:
        path, value, holder, place = pending.pop()
        yield path, value, holder, place
        if isinstance(value, dict):
            pending.extend([(join_key(path, str(key)), item, value, key) for key, item in value.items()][::-1])
            pending.extend((path, key, value, None) for key in value)
        elif isinstance(value, list):
            pending.extend([(f"{path}[{index}]", item, value, index) for index, item in enumerate(value)][::-1])


def join_key(path: str, key: str) -> str:
    """The path of a key within another."""
    return f"{path}.{key}" if path else key


def _complete_path(path: str, raw: object) -> str:
    """Return ``path`` with the key that msgspec omits (``timings[...]``)."""
    holder = path.partition("[...]")[0]
    values = raw.get(holder) if isinstance(raw, dict) else None
    if holder != path and isinstance(values, dict):
        for key, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return join_key(holder, str(key))
    return holder


def _type_name(kind: str, expected: Sequence[str]) -> str:
    if kind == "int":
        return "a number"
    if kind == "float":
        return "a number with decimals" if "int" in expected else "a number"
    return _TYPE_NAMES.get(kind, f"a {kind}")


def _syntax_message(line: bytes, message: str) -> str:
    if found := _MALFORMED.fullmatch(message):
        return f"not valid JSON: {found[1]} near column {_column(line, int(found[2]))}"
    if message == "Input data was truncated":
        return "not valid JSON: the line ends too early (each line must hold one whole object)"
    return f"not valid JSON: {message}"


def _column(line: bytes, offset: int) -> int:
    return len(line[:offset].decode(errors="replace")) + 1


# --- all problems of one value: the parts of a value that does not fit are checked one by one -------------------------

MAX_PROBLEMS = 50
"""How many problems of one line are reported; a line with more is probably of another format."""
_MORE_PROBLEMS = "there are more problems on this line"
_WITH_ROOT_PATH = re.compile(r"(?s)(.*) - at `\$([^`]*)`")


def find_struct_problems(line: bytes, kind: Any, schema: RowSchema, first: str) -> tuple[list[str], Any]:
    """Return every problem of JSON that does not fit a struct of this type, ``first`` included; and its sample id."""
    found: list[str] = []
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.append(first)  # it names the byte; with a replacement character the rest can be read
        text = line.decode(errors="replace")
    try:
        raw: Any = json.loads(text, parse_float=_parse_number)
    except (ValueError, RecursionError):
        return list(dict.fromkeys([*found, first])), None
    sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
    found += replace_invalid_values(raw)
    try:
        found += [value_problem(problem, raw, schema) for problem in _invalid_parts(raw, kind, "$")]
    except RecursionError:
        found.append(TOO_DEEP)
    except UnicodeEncodeError:  # the line is one invalid string: reported as the first problem
        pass
    found = list(dict.fromkeys(found if first in found else [first, *found]))
    return (found if len(found) <= MAX_PROBLEMS else [*found[:MAX_PROBLEMS], _MORE_PROBLEMS]), sample_id


def _parse_number(text: str) -> float:
    value = float(text)
    return OverflowedFloat(value) if math.isinf(value) else value


def _invalid_parts(value: Any, kind: Any, path: str) -> list[msgspec.ValidationError]:
    """Return the errors of a value that does not fit a type: those of its parts, or its own if all parts fit."""
    try:
        msgspec.convert(value, kind)
        return []
    except msgspec.ValidationError as error:
        own = str(error)
    found: list[msgspec.ValidationError] = []
    parts: list[tuple[Any, Any, str]] = []
    for part in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        origin, inner = get_origin(part) or part, get_args(part)
        if isinstance(value, list) and origin is list:
            parts += [(item, inner[0], f"{path}[{index}]") for index, item in enumerate(value)]
        elif isinstance(value, dict) and origin is dict:
            parts += [(item, inner[1], f"{path}.{key}") for key, item in value.items()]
        elif isinstance(value, dict) and isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            found += _invalid_fields(value, part, path, others=not origin.__struct_config__.forbid_unknown_fields)
    for part in parts:
        found += _invalid_parts(*part)
    if found:
        return found
    at = _WITH_ROOT_PATH.fullmatch(own)
    return [msgspec.ValidationError(f"{at[1]} - at `{path}{at[2]}`" if at else f"{own} - at `{path}`")]


def _invalid_fields(
    values: dict[str, Any], struct: Any, path: str, *, others: bool
) -> Iterator[msgspec.ValidationError]:
    """Yield the errors of the fields of a struct; ``others``: whether it may have unknown ones."""
    fields = {declared_field.encode_name: declared_field for declared_field in msgspec.structs.fields(struct)}
    for key, value in values.items():
        if key in fields:
            yield from _invalid_parts(value, fields[key].type, f"{path}.{key}")
        elif not others:
            yield msgspec.ValidationError(f"Object contains unknown field `{key}` - at `{path}`")
    for key, field in fields.items():
        if field.required and key not in values:
            yield msgspec.ValidationError(f"Object missing required field `{key}` - at `{path}`")


# --- types of the readers: samples and outputs with their lines, and the collector of problems -----------------------

MAX_NAMED_LINES = 3
"""How many further lines a repeated warning names; the others are counted."""


class ParsedSample(NamedTuple):
    """A sample with its position in the file."""

    line: int | None
    """The line, counted from 1; ``None`` if the format has no lines."""
    sample: EvaluationSample
    record: int | None = None
    """The number of the record in the file, counted from 1, if several begin on its line; otherwise ``None``."""


class ParsedOutput(NamedTuple):
    """An output with its sample id and its position in the file."""

    line: int | None
    sample_id: str
    output: SystemOutputs
    has_retrieved: bool = True
    """Whether it has a ranking; a system without retrieval differs from one that finds nothing."""
    record: int | None = None
    """As in ``ParsedSample``."""
    question: str | None = None
    """The question of a record that has one and is identified by its number only."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file."""

    path: Path
    line: int | None
    message: str
    record: int | None = None
    """The number of the record in the file, if the line is ambiguous."""

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.full_message}"

    @property
    def full_message(self) -> str:
        """The message, with the number of the record if there is one."""
        return self.message if self.record is None else f"record {self.record}: {self.message}"


class DataWarnings:
    """Warnings by kind: the first of each is reported in full, the others by their lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[Path, str], tuple[str, list[tuple[int | None, int | None]]]] = {}

    def add(self, kind: str, message: str, *, path: Path, line: int | None, record: int | None = None) -> None:
        """Add a warning; only the first message of a kind in a file is reported."""
        self._found.setdefault((path, kind), (message, []))[1].append((line, record))

    def summarize(self) -> list[Problem]:
        """Return one warning for each kind."""
        return [
            Problem(path, positions[0][0], f"{message}{_other_lines(positions[1:])}", positions[0][1])
            for (path, _), (message, positions) in self._found.items()
        ]


def _other_lines(positions: Sequence[tuple[int | None, int | None]]) -> str:
    if not positions:
        return ""
    by_record = all(record is not None for _, record in positions)
    numbers = [position[by_record] for position in positions]  # records, or lines
    named = [str(number) for number in numbers[:MAX_NAMED_LINES] if number is not None]
    if not named:
        return f" (and {len(positions)} more)"
    more = f" and {len(positions) - len(named)} more" if len(positions) > len(named) else ""
    what = "in record" if by_record else "on line"
    return f" (also {what}{'s' if len(positions) > 1 else ''} {', '.join(named)}{more})"


class Problems:
    """Collector of problems of one file: the first is raised, or all are collected and the reader continues."""

    def __init__(self, *, collect_all: bool = False, check_unique_ids: bool = True) -> None:
        """``check_unique_ids``: whether readers check that ids are unique; streams check it in another way."""
        self.collect_all = collect_all
        self.check_unique_ids = check_unique_ids
        self.found: list[Problem] = []
        self.unreadable_ids: set[str] = set()
        """Ids of invalid records whose id can be read: they are not missing."""
        self.warnings = DataWarnings()
        """Warnings about data that can be read but is probably wrong; only if problems are collected."""
        self._first_places: dict[str, tuple[int | None, int | None]] = {}

    def add(
        self,
        path: Path,
        line: int | None,
        message: str,
        *,
        record: int | None = None,
        kind: type[AueporaError] = DataFileError,
    ) -> None:
        """Raise an error that names file and line, or record it."""
        problem = Problem(path, line, message, record)
        if not self.collect_all:
            if kind is DataFileError:
                raise DataFileError(path, line, problem.full_message)
            if kind is DuplicateIdError:
                raise DuplicateIdError(str(problem), path=path, line=line)
            raise kind(str(problem))
        self.found.append(problem)

    def add_all(self, path: Path, line: int | None, messages: Iterable[str], *, record: int | None = None) -> None:
        """Raise the first problem of one record, or record all of them."""
        for message in messages:
            self.add(path, line, message, record=record)

    def add_record(
        self,
        path: Path,
        line: int | None,
        messages: Iterable[str],
        sample_id: str | None,
        *,
        record: int | None = None,
    ) -> None:
        """Like ``add_all``; the record is not missing if its id can be read."""
        self.add_all(path, line, messages, record=record)
        if sample_id and self.is_new(path, sample_id, line, record=record):
            self.unreadable_ids.add(sample_id)

    def is_new(
        self, path: Path, sample_id: str, line: int | None = None, *, record: int | None = None, hint: str = ""
    ) -> bool:
        """Whether a sample id is new in the file; a repeated id is a problem."""
        if not self.check_unique_ids:
            return True
        if sample_id not in self._first_places:
            self._first_places[sample_id] = line, record
            return True
        first_line, first_record = self._first_places[sample_id]
        where = "occurs twice" if first_line is None else f"is already on line {first_line}"
        if first_record is not None:
            where = f"is already that of record {first_record}"
        message = f"sample_id {sample_id!r} {where}; each id may come once{hint}"
        self.add(path, line, message, record=record, kind=DuplicateIdError)
        return False

    def add_error(self, path: Path, error: AueporaError) -> None:
        """Raise an error that ends the reading, or record it without the file name in its message."""
        if not self.collect_all:
            raise error
        if isinstance(error, DataFileError):
            self.found.append(Problem(Path(error.path), error.line, error.problem))
        else:
            self.found.append(Problem(path, None, str(error).removeprefix(f"{path}: ")))


SampleReader = Callable[[Path, Problems], Iterator[ParsedSample]]
"""Reads the samples of a file; invalid ones are added to the problems."""
OutputReader = Callable[[Path, Problems], Iterator[ParsedOutput]]
"""Reads the outputs of a file; invalid ones are added to the problems."""


MISSING_RETRIEVED = "field 'retrieved' is missing; other lines have it: write [] where nothing was returned"


def outputs_missing_ranking(outputs: Iterable[ParsedOutput]) -> list[ParsedOutput]:
    """Return the outputs without a ranking if other outputs have one; failed outputs need none."""
    answered = [read for read in outputs if read.output.error is None]
    return [read for read in answered if not read.has_retrieved] if any(read.has_retrieved for read in answered) else []
