"""Samples and outputs as columns, for the way to another process: a third of the cost of sending the objects.

Everything arrives as it was. A document that several rows use travels once, text and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from .types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs

__all__ = ["pack", "unpack"]

Rows = tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]

# In the order of the constructors. What is nested has columns of its own, and a place here for its number.
_DOCUMENT = ("doc_id", "text", "metadata", "parent_id", "span")
_RESPONSE = ("text", "structured", "metadata", "sentences")
_SAMPLE = ("sample_id", "query", "labels", "metadata", "reference_answers", "history", "cluster_id")
_NOTHINGS = (type(None), dict, list)
_OUTPUT = ("timings", "extra", "error", "refused", "citations", "steps", "usage", "repeat")


def pack(samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> Any:
    """The rows in a form that pickles fast; the rows themselves where anything is not exactly as it should be."""
    packer = _Packer()
    try:
        return packer.pack(samples, outputs)
    except (_OwnTypeError, AttributeError, TypeError):  # whoever scores them says what is wrong, here as there
        return samples, outputs


def unpack(packed: Any) -> Rows:
    """The rows again."""
    return packed if isinstance(packed, tuple) else _unpacked(packed)


class _OwnTypeError(Exception):
    """An object is not exactly of one of our types: its own fields would be lost."""


class _Packer:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._documents: list[Document] = []

    def pack(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> dict[str, Any]:
        given = [output for output in outputs if output is not None]
        _require(samples, EvaluationSample)
        _require(given, SystemOutputs)
        # What the constructors would put right must arrive as wrong as it is.
        _require([sample.labels for sample in samples], dict)
        _require([sample.metadata for sample in samples], dict)
        _require([sample.reference_answers for sample in samples], list)
        if any(sample.reference_answer is None and sample.reference_answers for sample in samples):
            raise _OwnTypeError
        retrieved = [output.retrieved for output in given]
        items = [item for these in retrieved for item in these]
        _require(items, RetrievedDocument)
        responses = [*(sample.reference_answer for sample in samples), *(output.response for output in given)]
        return {
            "samples": _columns(samples, _SAMPLE),
            "relevant": [self._document_numbers(sample.relevant_docs) for sample in samples],
            "candidates": [self._document_numbers(sample.candidate_docs) for sample in samples],
            "there": [output is not None for output in outputs],
            "outputs": _columns(given, _OUTPUT),
            "retrieved": [len(these) for these in retrieved],
            "returned": self._document_numbers([item.doc for item in items]),
            "scores": [item.score for item in items],
            "ranks": [item.rank for item in items],
            "responses": self._responses(responses),
            "answered": [response is not None for response in responses],
            "documents": _columns(self._documents, _DOCUMENT),
        }

    def _document_numbers(self, documents: list[Document] | None) -> list[int] | None:
        if documents is None:
            return None
        _require(documents, Document)
        numbers, known = self._numbers, self._documents
        found = []
        for document in documents:
            number = numbers.setdefault(id(document), len(known))
            if number == len(known):
                known.append(document)
            found.append(number)
        return found

    def _responses(self, responses: list[Response | None]) -> list[list[Any]]:
        given = [response for response in responses if response is not None]
        _require(given, Response)
        _require([response.text for response in given], str)
        return _columns(given, _RESPONSE)


def _require(objects: Sequence[Any], kind: type) -> None:
    if set(map(type, objects)) - {kind}:
        raise _OwnTypeError


def _columns(objects: Sequence[Any], fields: tuple[str, ...]) -> list[Any]:
    return [_column(list(map(attrgetter(name), objects))) for name in fields]


def _column(values: list[Any]) -> Any:
    """The values; only what they are and how many where all are the same nothing, as most fields are."""
    if any(values) or not values:
        return values
    kinds = set(map(type, values))
    for nothing in _NOTHINGS:
        if kinds == {nothing}:
            return nothing, len(values)
    return values


def _spread(column: Any) -> Any:
    if isinstance(column, list):
        return column
    nothing, count = column
    return [nothing() for _ in range(count)]


def _unpacked(packed: dict[str, Any]) -> Rows:
    documents = list(map(Document, *map(_spread, packed["documents"])))
    made = map(Response, *map(_spread, packed["responses"]))
    responses = [next(made) if there else None for there in packed["answered"]]
    names, queries, *rest = map(_spread, packed["samples"])
    of = documents.__getitem__
    relevant, candidates = (
        [None if numbers is None else list(map(of, numbers)) for numbers in packed[side]]
        for side in ("relevant", "candidates")
    )
    references = responses[: len(names)]
    samples = list(map(EvaluationSample, names, queries, relevant, candidates, references, *rest))
    items = list(map(RetrievedDocument, map(of, packed["returned"]), packed["scores"], packed["ranks"]))
    retrieved, start = [], 0
    for count in packed["retrieved"]:
        retrieved.append(items[start : start + count])
        start += count
    given = map(SystemOutputs, retrieved, responses[len(names) :], *map(_spread, packed["outputs"]))
    return samples, [next(given) if there else None for there in packed["there"]]
