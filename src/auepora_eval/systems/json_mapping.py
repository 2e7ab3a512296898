"""Mapping of JSON requests and replies: templates with placeholders, paths into values, outputs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from ..errors import BadTypeError, BadValueError, SystemCallError, did_you_mean
from ..io.codec import LineError, decode_output_line
from ..io.values import parse_json
from ..runtime.secrets import ELLIPSIS

Step = str | int | None
"""A key, an index, or (``None``, written ``[*]``) every item of a list."""
_WHOLE = "."
_STEP = re.compile(r"""\.?(?:"([^"]+)"|'([^']+)'|([^.\[\]"'?\s][^.\[\]"'?]*))|\[(\d+|\*)\]""")
_KINDS = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
_MOST_KEYS_SHOWN = 10


class PathNotFoundError(BadValueError):
    """A path leads nowhere in a value; the message says where it ends and what is there instead."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Where something is in a JSON value."""

    text: str
    """The path as written, without the mark of an optional one."""
    steps: tuple[Step, ...]
    optional: bool = False
    """Whether it may be absent: it was written with a ``?`` at its end."""

    def find(self, value: Any, *, inside: str = "the reply") -> Any:
        """What is there; raises ``PathNotFoundError`` where nothing is. ``inside`` names the value in messages."""
        return self._follow(value, 0, inside)

    def _follow(self, value: Any, start: int, inside: str) -> Any:
        for place in range(start, len(self.steps)):
            step = self.steps[place]
            if step is None and isinstance(value, list):
                return [self._follow(item, place + 1, inside) for item in value]
            if isinstance(step, str):
                is_there = isinstance(value, dict) and step in value
            else:
                is_there = step is not None and isinstance(value, list) and step < len(value)
            if not is_there:
                raise PathNotFoundError(f"{inside} has no '{self.text}'; {self._seen(value, place)}")
            value = value[step]
        return value

    def _seen(self, value: Any, place: int) -> str:
        """What is at the last step that led somewhere."""
        subject = f"'{_path_text(self.steps[:place])}'" if place else "it"
        if isinstance(value, dict):
            keys = list(map(str, value))
            more = f" and {len(keys) - _MOST_KEYS_SHOWN} more" if len(keys) > _MOST_KEYS_SHOWN else ""
            return f"{subject} has: {', '.join(keys[:_MOST_KEYS_SHOWN])}{more}" if keys else f"{subject} is empty"
        if isinstance(value, list) and not isinstance(self.steps[place], str):
            return f"{subject} has {len(value)} items"
        return f"{subject} is {json_type_name(value)}"


def parse_path(text: object, *, what: str) -> JsonPath:
    """The path written as ``text``; ``what`` says in errors whose path it is.

    Keys are separated by dots, ``[n]`` is the n-th item of a list from 0, ``[*]`` every item; a key that holds dots or
    brackets stands in quotes; ``.`` alone is the whole value. A ``?`` at the end allows the path to be absent.
    """
    if not isinstance(text, str):
        raise BadTypeError(f"{what} must be a path such as 'data.answer', not {text!r:.80}")
    written = text.strip()
    optional = written.endswith("?")
    written = written.removesuffix("?")
    if not written:
        raise BadValueError(f"{what} is empty; give a path such as 'data.answer', or '.' for the whole")
    return JsonPath(written, () if written == _WHOLE else tuple(_steps(written, what)), optional)


def json_type_name(value: object) -> str:
    """What a JSON value is, in words."""
    return "null" if value is None else _KINDS.get(type(value), f"a {type(value).__name__}")


def _steps(written: str, what: str) -> Iterator[Step]:
    position = 0
    while position < len(written):
        found = _STEP.match(written, position)
        # A key is set off by a dot from what is before it, and by nothing at the beginning.
        if found is None or (found[4] is None and found[0].startswith(".") is (position == 0)):
            raise BadValueError(
                f"{what}: the path '{written}' cannot be read at its character {position + 1}; "
                'write it like data.hits, choices[0].text or "a.key".text'
            )
        if found[4] is not None:
            yield None if found[4] == "*" else int(found[4])
        else:
            yield found[1] or found[2] or found[3].rstrip()
        position = found.end()


def _path_text(steps: tuple[Step, ...]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, str):
            shown = f'"{step}"' if re.search(r"[.\[\]?]", step) else step
            text += f".{shown}" if text else shown
        else:
            text += "[*]" if step is None else f"[{step}]"
    return text


# --- request templates: JSON values whose strings contain placeholders such as ``{query}`` ---------------------------
# Placeholders cannot name the gold of a sample, and its labels and metadata are sent only if the template names them.

_PLAIN = ("query", "sample_id", "top_k", "history", "documents")
_NAMES = (*_PLAIN, "labels", "metadata")
_MARKS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def default_request(
    sample: EvaluationSample, top_k: int, documents: Sequence[Document] | None = None
) -> dict[str, Any]:
    """The request without a template; it has a history only if the sample has one, and documents if some are given."""
    question: dict[str, Any] = {"sample_id": sample.sample_id, "query": sample.query, "top_k": top_k}
    if sample.history:
        question["history"] = sample.history
    if documents is not None:
        question["documents"] = [_document_json(document) for document in documents]
    return question


def _document_json(document: Document) -> dict[str, Any]:
    """A given document as it is sent: id, text and, if there are any, metadata."""
    metadata = {"metadata": document.metadata} if document.metadata else {}
    return {"doc_id": document.doc_id, "text": document.text, **metadata}


def json_text(value: object) -> str:
    """``value`` as ASCII JSON; ``bad_request`` if JSON cannot represent it."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SystemCallError("bad_request", f"the question cannot be written as JSON: {error}") from error


def plain_text(value: object) -> str:
    """A string as it is, any other value as ASCII JSON."""
    return value if isinstance(value, str) else json_text(value)


def _part_value(path: str | JsonPath, facts: Mapping[str, Any]) -> Any:
    """What stands at a part of a string: the part itself, or what its placeholder names."""
    if isinstance(path, str):
        return path
    try:
        return path.find(facts, inside=f"sample '{facts['sample_id']}'")
    except PathNotFoundError as error:
        if path.optional:
            return None
        raise SystemCallError(
            "bad_request", f"{error}, and the request asks for it; '{{{path.text}?}}' may be absent"
        ) from error


@dataclass(frozen=True, slots=True)
class _Text:
    """A string with placeholders, which are paths into the facts about a sample."""

    parts: tuple[str | JsonPath, ...]

    def fill(self, facts: Mapping[str, Any]) -> Any:
        values = [_part_value(part, facts) for part in self.parts]
        if len(values) == 1:
            return values[0]  # alone, a value keeps its type
        return "".join(plain_text(value) for value in values if value is not None)


class Template:
    """A JSON value whose strings contain placeholders; checked when it is created, filled for each sample.

    ``{query}``, ``{sample_id}``, ``{top_k}``, ``{history}``, ``{documents}`` (null unless documents are given),
    ``{labels.lang}`` and ``{metadata.a.b}`` are known. A string that is one placeholder and nothing else becomes the
    value itself (``"{top_k}"`` becomes ``5``); otherwise strings are inserted as they are and other values as JSON.
    ``{{`` and ``}}`` are braces. Keys are not changed.
    """

    def __init__(self, value: object) -> None:
        self._value = _compile(value, "request")
        self.names = frozenset(_placeholder_names(self._value))
        """The placeholders, without the paths into them."""

    def fill(self, sample: EvaluationSample, top_k: int, documents: Sequence[Document] | None = None) -> Any:
        """The request for ``sample``; ``SystemCallError`` if it lacks a label or metadata that the template names."""
        facts = {
            "query": sample.query,
            "sample_id": sample.sample_id,
            "top_k": top_k,
            "history": sample.history,
            "documents": None if documents is None else [_document_json(document) for document in documents],
            "labels": sample.labels,
            "metadata": sample.metadata,
        }
        return _fill(self._value, facts)


def _compile(value: object, where: str) -> Any:
    if isinstance(value, str):
        return _Text(tuple(_parts(value, where)))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise BadTypeError(f"{where} has the key {key!r}; keys must be texts")
            if len(value) == 1 and inner is None and key.partition(".")[0] in _NAMES:
                # YAML reads {query} without quotes as a mapping with one empty key
                raise BadValueError(f'{where}: write the placeholder in quotes: "{{{key}}}"')
        return {key: _compile(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_compile(item, f"{where}[{place}]") for place, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise BadTypeError(f"{where} holds {value!r:.80}, which JSON cannot carry; put it in quotes")


def _placeholder_names(value: Any) -> Iterator[str]:
    if isinstance(value, _Text):
        yield from (str(part.steps[0]) for part in value.parts if isinstance(part, JsonPath))
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _placeholder_names(item)


def _parts(text: str, where: str) -> list[str | JsonPath]:
    parts: list[str | JsonPath] = []
    position = 0
    for mark in _MARKS.finditer(text):
        if before := text[position : mark.start()]:
            parts.append(before)
        position = mark.end()
        if mark[0] in ("{{", "}}"):
            parts.append(mark[0][0])
        elif mark[1] is None:
            raise BadValueError(
                f"{where}: a single '{mark[0]}' in {text!r:.80}; write '{mark[0] * 2}' for the character"
            )
        else:
            parts.append(_placeholder(mark[1], where))
    if rest := text[position:]:
        parts.append(rest)
    return parts


def _placeholder(name: str, where: str) -> JsonPath:
    first = name.strip().removesuffix("?").partition(".")[0].partition("[")[0]
    listing = f"; known are {', '.join(f'{{{known}}}' for known in _PLAIN)}, {{labels.NAME}} and {{metadata.NAME}}"
    if first not in _NAMES:
        raise BadValueError(
            f"{where}: there is no placeholder '{{{name}}}'{did_you_mean(first, _NAMES, otherwise=listing)}"
        )
    path = parse_path(name, what=f"{where}: '{{{name}}}'")
    if first in _PLAIN and len(path.steps) > 1 and first not in ("history", "documents"):
        raise BadValueError(f"{where}: '{{{name}}}' leads into '{first}', which holds nothing; write '{{{first}}}'")
    return path


def _fill(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, _Text):
        return value.fill(facts)
    if isinstance(value, dict):
        return {key: _fill(item, facts) for key, item in value.items()}
    return [_fill(item, facts) for item in value] if isinstance(value, list) else value


# --- replies: outputs from JSON in our own format, or at configured paths --------------------------------------------

_EXCERPT = 300
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ITEM_DEFAULTS = {
    "doc_id": "doc_id",
    "text": "text?",
    "score": "score?",
    "parent_id": "parent_id?",
    "metadata": "metadata?",
}
_REPLY_KEYS = (
    *("answer", "retrieved", "citations", "refused", "error", "usage", "model", "timings", "first_token", "steps"),
    "sample_id",
)
_NOTHING = "it says neither what was retrieved nor what was answered"


def excerpt(body: bytes | str) -> str:
    """The beginning of a reply on one line, for a message."""
    looked_at = body[: 4 * _EXCERPT]  # a character takes up to four bytes
    text = looked_at.decode(errors="replace") if isinstance(looked_at, bytes) else looked_at
    line = " ".join(text.split())
    return line[:_EXCERPT] + ELLIPSIS if len(line) > _EXCERPT or len(looked_at) < len(body) else line


def parse_own_reply(body: bytes, sample: EvaluationSample, *, echoes_id: bool = False) -> SystemOutputs:
    """The outputs in a reply that is one line of an outputs file.

    It may leave ``sample_id`` out unless ``echoes_id``; where it has one, it must be the sample's.
    """
    body = body.strip().removeprefix(_BYTE_ORDER_MARK)
    try:
        sample_id, output, has_retrieved = decode_output_line(body)
        _check_id(sample_id, sample)
    except LineError as error:
        value = _value(body)
        if not isinstance(value, dict):
            raise bad_output(f"the reply is {json_type_name(value)}, not an object: {excerpt(body)}") from None
        if "sample_id" in value or echoes_id:
            raise bad_output(f"{error}: {excerpt(body)}") from None
        output, has_retrieved = _without_id(body, value)
    if not has_retrieved:
        if output.response is None and output.error is None:
            raise bad_output(f"{_NOTHING}: {excerpt(body)}")
        output.retrieved = UnknownRanking()
    return output


def _without_id(body: bytes, value: dict[str, Any]) -> tuple[SystemOutputs, bool]:
    """Decode a reply without a ``sample_id``: a placeholder id is inserted, since the format requires one."""
    with_id = b'{"sample_id":"-"' + (b"," if value else b"") + body[1:]
    try:
        _, output, has_retrieved = decode_output_line(with_id)
    except LineError as error:
        raise bad_output(f"{error}: {excerpt(body)}") from None
    return output, has_retrieved


class ReplyPaths:
    """The paths of the outputs in the replies of an endpoint with its own format.

    ``answer``, ``retrieved``, ``citations``, ``refused``, ``error``, ``usage``, ``model``, ``timings``,
    ``first_token`` (seconds), ``steps`` and ``sample_id`` (only compared) lead into the reply; ``doc_id``, ``text``,
    ``score``, ``parent_id`` and ``metadata`` into each item of ``retrieved``, where items that are texts or numbers are
    ids themselves.
    """

    def __init__(self, paths: Mapping[str, str], *, what: str = "response") -> None:
        if not isinstance(paths, Mapping):
            raise BadTypeError(f"{what} must map names to paths, such as answer: data.answer, not {paths!r:.80}")
        known = (*_REPLY_KEYS, *_ITEM_DEFAULTS)
        for key in paths:
            if key not in known:
                listing = f"; known are: {', '.join(known)}"
                raise BadValueError(f"{what} has no '{key}'{did_you_mean(str(key), known, otherwise=listing)}")
        read = {key: parse_path(path, what=f"{what}.{key}") for key, path in paths.items()}
        if "answer" not in read and "retrieved" not in read:
            raise BadValueError(
                f"{what} must say where the answer is, or what was retrieved: give 'answer' or 'retrieved'"
            )
        inner = [key for key in read if key in _ITEM_DEFAULTS]
        if inner and "retrieved" not in read:
            raise BadValueError(f"{what}.{inner[0]} leads into the items of 'retrieved', which has no path")
        self._paths = {key: path for key, path in read.items() if key in _REPLY_KEYS}
        self._item = {key: read.get(key) or parse_path(default, what=what) for key, default in _ITEM_DEFAULTS.items()}
        self._bare_ids = "doc_id" not in read

    def outputs(self, body: bytes, sample: EvaluationSample) -> SystemOutputs:
        """The outputs in ``body``; ``bad_output`` says what is missing or of the wrong type."""
        reply = _value(body)
        if (echo := self._find(reply, "sample_id", _identifier)) is not None:
            _check_id(echo, sample)
        error = self._error(reply)
        if error is not None:  # a reply with an error needs nothing else
            return SystemOutputs(retrieved=UnknownRanking(), error=error)
        retrieved = self._find(reply, "retrieved", _list)
        answer = self._find(reply, "answer", _text)
        model, first_token = self._find(reply, "model", _text), self._find(reply, "first_token", _number)
        return SystemOutputs(
            retrieved=UnknownRanking()
            if retrieved is None
            else list(map(self._position, retrieved, range(1, len(retrieved) + 1))),
            response=None if answer is None else Response(answer),
            timings=(self._find(reply, "timings", _seconds) or {})
            | ({} if first_token is None else {"first_token": first_token}),
            refused=self._find(reply, "refused", _yes_or_no),
            citations=self._find(reply, "citations", _identifiers),
            steps=self._find(reply, "steps", _objects) or [],
            usage=(self._find(reply, "usage", _object) or {}) | ({} if model is None else {"model": model}),
        )

    def _find(self, reply: Any, key: str, read: Callable[[Any, str], Any]) -> Any:
        path = self._paths.get(key)
        return None if path is None else _at(path, reply, "the reply", read)

    def _error(self, reply: Any) -> str | None:
        path = self._paths.get("error")
        try:
            found = None if path is None else path.find(reply)
        except PathNotFoundError:  # an error is there only when there is one
            return None
        return f"system_error: {excerpt(plain_text(found))}" if found else None

    def _position(self, item: Any, rank: int) -> RetrievedDocument:
        inside = f"item {rank} of 'retrieved'"
        if self._bare_ids and isinstance(item, (str, int, float)):
            return RetrievedDocument(Document(_identifier(item, inside)), None, rank)
        found = {key: _at(path, item, inside, _ITEM_READERS[key]) for key, path in self._item.items()}
        document = Document(found["doc_id"], found["text"] or "", found["metadata"] or {}, found["parent_id"])
        return RetrievedDocument(document, found["score"], rank)


def bad_output(message: str, *, retry: bool = False) -> SystemCallError:
    """The error for a reply that cannot be used."""
    return SystemCallError("bad_output", message, retry=retry)


def _value(body: bytes) -> Any:
    try:
        return parse_json(body.removeprefix(_BYTE_ORDER_MARK))
    except LineError as error:
        # Half a reply or a proxy's page: a retry may help.
        raise bad_output(f"{error}: {excerpt(body)}", retry=True) from None


def _check_id(found: str, sample: EvaluationSample) -> None:
    if found != sample.sample_id:
        raise bad_output(f"the reply is for sample '{found[:100]}', not for '{sample.sample_id}'")


def _at(path: JsonPath, value: Any, inside: str, read: Callable[[Any, str], Any]) -> Any:
    try:
        found = path.find(value, inside=inside)
    except PathNotFoundError as error:
        if path.optional:
            return None
        raise bad_output(str(error)) from None
    return None if found is None and path.optional else read(found, f"'{path.text}' of {inside}")


def _wrong(where: str, value: object, wanted: str) -> SystemCallError:
    return bad_output(f"{where} is {json_type_name(value)}, not {wanted}: {excerpt(json_text(value))}")


def _typed(kind: type, wanted: str, null: object = None) -> Callable[[Any, str], Any]:
    """A reader of values of one type, with the value that null stands for."""

    def read(value: Any, where: str) -> Any:
        if value is not None and not isinstance(value, kind):
            raise _wrong(where, value, wanted)
        return null if value is None else value

    return read


_text, _object, _yes_or_no = _typed(str, "a text", ""), _typed(dict, "an object"), _typed(bool, "true or false")


def _identifier(value: Any, where: str) -> str:
    """An id as text: many databases number their documents."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _wrong(where, value, "an id")
    if value == "":
        raise bad_output(f"{where} is an empty id")
    return str(value)


def _identifiers(value: Any, where: str) -> list[str] | None:
    return None if value is None else [_identifier(item, f"an item of {where}") for item in _list(value, where)]


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    return value


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    return [] if value is None else [_object(item, f"an item of {where}") or {} for item in _list(value, where)]


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(where, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise bad_output(f"{where} is too large a number") from None


def _seconds(value: Any, where: str) -> dict[str, float]:
    read = {key: _number(item, f"'{key}' of {where}") for key, item in (_object(value, where) or {}).items()}
    return {key: number for key, number in read.items() if number is not None}


_ITEM_READERS: dict[str, Callable[[Any, str], Any]] = {
    "doc_id": _identifier,
    "text": _text,
    "score": _number,
    "parent_id": lambda value, where: None if value is None else _identifier(value, where),
    "metadata": _object,
}
