"""Samples and outputs as columns for pickling: a third of the cost of pickling the objects.

The objects are restored exactly. A document that several rows use is sent once. Objects are created empty and their
fields set: that is faster than calling constructors, which would also correct invalid values that must be preserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from operator import attrgetter
from typing import Any

from .types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, UnknownRanking

__all__ = ["pack", "unpack"]

Rows = tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]

# Nested objects have columns of their own.
_DOCUMENT = ("doc_id", "text", "metadata", "parent_id", "span")
_RETRIEVED = ("score", "rank")
_RESPONSE = ("text", "structured", "metadata", "sentences")
_SAMPLE = ("sample_id", "query", "labels", "metadata", "reference_answers", "history", "cluster_id")
_OUTPUT = ("timings", "extra", "error", "refused", "citations", "steps", "usage", "repeat")
_EMPTY_TYPES = (type(None), dict, list)
_empty = object.__new__


def pack(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> Any:
    """The rows in a form that pickles fast; the rows themselves where any object has an unexpected type."""
    try:
        return _to_columns(samples, outputs)
    except (_UnexpectedTypeError, AttributeError, TypeError):  # the worker reports what is invalid
        return samples, outputs


def unpack(packed: Any) -> Rows:
    """The rows from their packed form."""
    return packed if isinstance(packed, tuple) else _from_columns(packed)


# --- to columns -------------------------------------------------------------------------------------------------------


class _UnexpectedTypeError(Exception):
    """An object is not exactly of one of our types: its own fields would be lost."""


def _to_columns(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> dict[str, Any]:
    given = [output for output in outputs if output is not None]
    _require(samples, EvaluationSample)
    _require(given, SystemOutputs)
    named = [sample.relevant_docs for sample in samples] + [sample.candidate_docs for sample in samples]
    _require([these for these in named if these is not None], list)
    returned = [output.retrieved for output in given]
    _require(returned, list, UnknownRanking)
    _require([these for these in returned if these], list)
    items = list(chain.from_iterable(returned))
    _require(items, RetrievedDocument)
    responses = [*(sample.reference_answer for sample in samples), *(output.response for output in given)]
    answers = [response for response in responses if response is not None]
    _require(answers, Response)
    documents, numbers = _deduplicate([*chain.from_iterable(filter(None, named)), *(item.doc for item in items)])
    return {
        "samples": _columns(samples, _SAMPLE),
        "named": [-1 if these is None else len(these) for these in named],
        "outputs": _columns(given, _OUTPUT),
        "there": None if len(given) == len(outputs) else [output is not None for output in outputs],
        "returned": [-1 if type(these) is UnknownRanking else len(these) for these in returned],
        "items": _columns(items, _RETRIEVED),
        "responses": _columns(answers, _RESPONSE),
        "answered": None if len(answers) == len(responses) else [response is not None for response in responses],
        "documents": _columns(documents, _DOCUMENT),
        "numbers": numbers,
    }


def _deduplicate(documents: list[Document]) -> tuple[list[Document], list[int] | None]:
    """Every document once, and the index of the document at each position; None where none is used twice."""
    _require(documents, Document)
    keys = list(map(id, documents))
    known = dict(zip(keys, documents, strict=True))
    if len(known) == len(documents):
        return documents, None
    places = dict(zip(known, range(len(known)), strict=True))
    return list(known.values()), list(map(places.__getitem__, keys))


def _require(objects: Sequence[Any], *kinds: type) -> None:
    if set(map(type, objects)) - set(kinds):
        raise _UnexpectedTypeError


def _columns(objects: Sequence[Any], fields: tuple[str, ...]) -> list[Any]:
    return [_column(list(map(attrgetter(name), objects))) for name in fields]


def _column(values: list[Any]) -> Any:
    """The values; only type and count where all are empty or None, as in most fields."""
    if any(values) or not values:
        return values
    kinds = set(map(type, values))
    for nothing in _EMPTY_TYPES:
        if kinds == {nothing}:
            return nothing, len(values)
    return values


# --- from columns -----------------------------------------------------------------------------------------------------


def _from_columns(packed: dict[str, Any]) -> Rows:
    documents, numbers = _documents(packed["documents"]), packed["numbers"]
    in_use = iter(documents if numbers is None else map(documents.__getitem__, numbers))
    named = [None if count < 0 else list(islice(in_use, count)) for count in packed["named"]]
    items = iter(_retrieved(in_use, packed["items"]))
    returned = [UnknownRanking() if count < 0 else list(islice(items, count)) for count in packed["returned"]]
    responses = _fill_gaps(packed["answered"], _responses(packed["responses"]))
    count = len(named) // 2
    samples = _samples(named[:count], named[count:], responses[:count], packed["samples"])
    return samples, _fill_gaps(packed["there"], _outputs(returned, responses[count:], packed["outputs"]))


def _fill_gaps(there: list[bool] | None, made: list[Any]) -> list[Any]:
    """The objects, with None where there is none."""
    if there is None:
        return made
    to_come = iter(made)
    return [next(to_come) if one else None for one in there]


def _iter_rows(columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_values, columns), strict=True)


def _values(column: Any) -> Iterable[Any]:
    if isinstance(column, list):
        return column
    nothing, count = column
    return repeat(None, count) if nothing is type(None) else [nothing() for _ in range(count)]


def _documents(columns: list[Any]) -> list[Document]:
    made = []
    for doc_id, text, metadata, parent_id, span in _iter_rows(columns):
        one = _empty(Document)
        one.doc_id = doc_id
        one.text = text
        one.metadata = metadata
        one.parent_id = parent_id
        one.span = span
        made.append(one)
    return made


def _retrieved(documents: Iterable[Document], columns: list[Any]) -> list[RetrievedDocument]:
    made = []
    for document, score, rank in zip(documents, *map(_values, columns), strict=True):
        one = _empty(RetrievedDocument)
        one.doc = document
        one.score = score
        one.rank = rank
        made.append(one)
    return made


def _responses(columns: list[Any]) -> list[Response]:
    made = []
    for text, structured, metadata, sentences in _iter_rows(columns):
        one = _empty(Response)
        one.text = text
        one.structured = structured
        one.metadata = metadata
        one.sentences = sentences
        made.append(one)
    return made


def _samples(
    relevant: list[Any], candidates: list[Any], references: list[Any], columns: list[Any]
) -> list[EvaluationSample]:
    made = []
    nested = zip(relevant, candidates, references, strict=True)
    for (relevant_docs, candidate_docs, reference), fields in zip(nested, _iter_rows(columns), strict=True):
        one = _empty(EvaluationSample)
        one.relevant_docs = relevant_docs
        one.candidate_docs = candidate_docs
        one.reference_answer = reference
        (
            one.sample_id,
            one.query,
            one.labels,
            one.metadata,
            one.reference_answers,
            one.history,
            one.cluster_id,
        ) = fields
        made.append(one)
    return made


def _outputs(retrieved: list[Any], responses: list[Any], columns: list[Any]) -> list[SystemOutputs]:
    made = []
    for these, response, fields in zip(retrieved, responses, _iter_rows(columns), strict=True):
        one = _empty(SystemOutputs)
        one.retrieved = these
        one.response = response
        (
            one.timings,
            one.extra,
            one.error,
            one.refused,
            one.citations,
            one.steps,
            one.usage,
            one.repeat,
        ) = fields
        made.append(one)
    return made
