"""Vectors of documents and texts: read from metadata or made by a function, checked, and brought to length one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, checked_outputs
from ..core.errors import BadTypeError, BadValueError
from ..core.types import Document
from ..stats.distances import cosines_within
from .rankings import retrieved_problem

__all__ = [
    "NO_VECTOR",
    "UNUSABLE",
    "Embed",
    "ListCosines",
    "Vector",
    "document_vector",
    "embedded",
    "list_cosines",
    "unit_vector",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Embed = Callable[[list[str]], Any]
"""Makes a vector for each of some texts: a table with a row per text, or a list of lists."""
Vector = Floats | str
"""A vector of length one, or the reason why there is none."""

NO_VECTOR = "no_embedding"
UNUSABLE = _BAD, _ZERO, _FAILED = "bad_embedding", "zero_vector", "embed_failed"
"""Why a vector cannot be used: not a list of finite numbers, no direction, the function raised. The first one wins."""

_ROWS_AT_ONCE = 64


def unit_vector(held: object) -> Vector:
    """Numbers as a vector of length one; the reason where they are none."""
    numbers = _numbers(held)
    if numbers is None or not np.isfinite(numbers).all():
        return _BAD
    largest = np.abs(numbers).max()
    if not largest:
        return _ZERO
    numbers = numbers / largest  # so that no square is too large or too small for a float
    unit: Floats = numbers / math.sqrt((numbers * numbers).sum())
    return unit


def _numbers(held: object) -> Floats | None:
    """The numbers of a flat list or array; ``None`` where it is not one."""
    try:
        if isinstance(held, (list, tuple)):
            if not all(map(_is_number_type, set(map(type, held)))):
                return None
            found = np.asarray(held, dtype=np.float64)
        elif hasattr(held, "__array__"):
            found = np.asarray(held)
        else:
            return None
    except (TypeError, ValueError, OverflowError, RuntimeError):  # whatever a number or an array may object to
        return None
    return found.astype(np.float64) if found.dtype.kind in "iuf" and found.ndim == 1 and len(found) else None


def _is_number_type(kind: type) -> bool:
    return issubclass(kind, (int, float, np.integer, np.floating)) and not issubclass(kind, bool)


def document_vector(document: Document) -> Vector:
    """The vector under ``metadata["embedding"]``."""
    held = document.metadata.get("embedding") if isinstance(document.metadata, Mapping) else None
    return NO_VECTOR if held is None else unit_vector(held)


def embedded(batch: Batch, embed: Embed, texts: Sequence[Sequence[str]]) -> dict[str, Vector]:
    """The vector of every text of each row; every different text of a batch is asked for once, an empty one never."""
    known: dict[str, Vector] = batch.feature(("embedded", id(embed)), lambda _: {"": NO_VECTOR})
    fresh = list(dict.fromkeys(text for these in texts for text in these if text not in known))
    if not fresh:
        return known
    try:
        vectors = list(embed(list(fresh)))
        if len(vectors) != len(fresh):
            raise BadValueError(f"{len(vectors)} vectors for {len(fresh)} texts; it must give one for each")
    except Exception as error:  # the user's function or model: what it cannot do is not the system's failure
        lost = dict.fromkeys(fresh, _FAILED)
        known |= lost
        for sample, these in zip(batch.samples, texts, strict=True):
            if not lost.keys().isdisjoint(these):
                batch.note(f"'embed' raised {type(error).__name__}: {error}", sample.sample_id)
        return known
    known |= zip(fresh, map(unit_vector, vectors), strict=True)
    return known


@dataclass(frozen=True, slots=True)
class ListCosines:
    """How alike the first documents of each row are."""

    values: Floats
    """The mean cosine over their pairs; 0 where there is none."""
    counts: Integers
    """How many there are."""
    problems: dict[str, Mask]
    """Per reason the rows with a document that has no vector for it."""


def list_cosines(batch: Batch, k: int | None, embed: Embed | None) -> ListCosines:
    """The cosines of the first ``k`` returned documents; their vectors come from ``embed``, else from metadata."""
    return batch.feature(("list_cosines", k, id(embed)), lambda b: _list_cosines(b, k, embed))


def _list_cosines(batch: Batch, k: int | None, embed: Embed | None) -> ListCosines:
    lists = _listed_vectors(batch, _returned(batch, k), embed)
    problems = {reason: np.zeros(len(batch), np.bool_) for reason in (NO_VECTOR, *UNUSABLE)}
    by_size: dict[int, list[int]] = {}
    for row, vectors in enumerate(lists):
        reasons = {vector for vector in vectors if isinstance(vector, str)}
        sizes = set(map(len, vectors))
        if not reasons and len(sizes) > 1:
            reasons = {_BAD}
        for reason in reasons:
            problems[reason][row] = True
        if not reasons and len(vectors) > 1:
            by_size.setdefault(sizes.pop(), []).append(row)
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    values = np.zeros(len(batch))
    for rows in by_size.values():
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            values[some] = cosines_within(np.array([vector for row in some for vector in lists[row]]), counts[some])
    return ListCosines(values, counts, problems)


def _listed_vectors(batch: Batch, lists: list[list[Document]], embed: Embed | None) -> list[list[Vector]]:
    if embed is not None:
        rows = zip(batch.samples, lists, strict=True)
        texts = [[_text(document, sample.sample_id) for document in documents] for sample, documents in rows]
        vectors = embedded(batch, embed, texts)
        return [[vectors[text] for text in these] for these in texts]
    # A document that several rows or cut-offs share is read once.
    known: dict[int, Vector] = batch.feature("document_vectors", lambda _: {})
    for documents in lists:
        for document in documents:
            if id(document) not in known:
                known[id(document)] = document_vector(document)
    return [[known[id(document)] for document in documents] for documents in lists]


def _text(document: Document, sample_id: str) -> str:
    if document.text is not None and not isinstance(document.text, str):
        raise BadTypeError(f"sample '{sample_id}': the text of a document is {document.text!r}, not a text")
    return document.text or ""


def _returned(batch: Batch, k: int | None) -> list[list[Document]]:
    """The first documents returned, row by row; what a failed system returned is not looked at."""
    found: list[list[Document]] = []
    for sample, output in zip(batch.samples, checked_outputs(batch), strict=True):
        items = output.retrieved[:k] if output is not None and output.error is None else []
        documents = [getattr(item, "doc", None) for item in items]
        found.append([document for document in documents if isinstance(document, Document)])
        if output is not None and len(found[-1]) != len(documents):
            raise BadTypeError(f"the output for sample '{sample.sample_id}' {retrieved_problem(output)}")
    return found
