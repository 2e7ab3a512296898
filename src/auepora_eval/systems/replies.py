"""Parsing the reply of a system: outputs from JSON in our own format, or at configured paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import BadTypeError, BadValueError, SystemCallError, did_you_mean
from ..core.secrets import ELLIPSIS
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking
from ..io.codec import LineError, decode_output_line
from ..io.json_values import parse_json
from .json_paths import JsonPath, PathNotFoundError, json_type_name, parse_path
from .templates import json_text

__all__ = ["ReplyPaths", "bad_output", "excerpt", "parse_own_reply"]

_EXCERPT = 300
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ITEM_DEFAULTS = {
    "doc_id": "doc_id",
    "text": "text?",
    "score": "score?",
    "parent_id": "parent_id?",
    "metadata": "metadata?",
}
_REPLY_KEYS = ("answer", "retrieved", "citations", "refused", "error", "usage", "timings", "steps", "sample_id")
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

    ``answer``, ``retrieved``, ``citations``, ``refused``, ``error``, ``usage``, ``timings``, ``steps`` and
    ``sample_id`` (only compared) lead into the reply; ``doc_id``, ``text``, ``score``, ``parent_id`` and ``metadata``
    into each item of ``retrieved``, where items that are texts or numbers are ids themselves.
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
        return SystemOutputs(
            retrieved=UnknownRanking()
            if retrieved is None
            else list(map(self._position, retrieved, range(1, len(retrieved) + 1))),
            response=None if answer is None else Response(answer),
            timings=self._find(reply, "timings", _seconds) or {},
            refused=self._find(reply, "refused", _yes_or_no),
            citations=self._find(reply, "citations", _identifiers),
            steps=self._find(reply, "steps", _objects) or [],
            usage=self._find(reply, "usage", _object) or {},
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
        if not found:
            return None
        return f"system_error: {excerpt(found if isinstance(found, str) else json_text(found))}"

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
    if found is None and path.optional:
        return None
    return read(found, f"'{path.text}' of {inside}")


def _wrong(where: str, value: object, wanted: str) -> SystemCallError:
    return bad_output(f"{where} is {json_type_name(value)}, not {wanted}: {excerpt(json_text(value))}")


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(where, value, "a text")
    return value


def _identifier(value: Any, where: str) -> str:
    """An id as text: many databases number their documents."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _wrong(where, value, "an id")
    if value == "":
        raise bad_output(f"{where} is an empty id")
    return str(value)


def _optional_identifier(value: Any, where: str) -> str | None:
    return None if value is None else _identifier(value, where)


def _identifiers(value: Any, where: str) -> list[str] | None:
    if value is None:
        return None
    return [_identifier(item, f"an item of {where}") for item in _list(value, where)]


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    return value


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    return [] if value is None else [_object(item, f"an item of {where}") for item in _list(value, where)]


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
    read = {key: _number(item, f"'{key}' of {where}") for key, item in _object(value, where).items()}
    return {key: number for key, number in read.items() if number is not None}


def _yes_or_no(value: Any, where: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


_ITEM_READERS: dict[str, Callable[[Any, str], Any]] = {
    "doc_id": _identifier,
    "text": _text,
    "score": _number,
    "parent_id": _optional_identifier,
    "metadata": _object,
}
