"""Embeddings of documents and texts, their cosines, and cached inference of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, checked_outputs
from ..core.types import Document
from ..errors import AueporaError, BadTypeError
from ..text.vocabulary import IdTable, TokenIds
from .rankings import retrieved_problem

# --- mean cosines of vectors with each other, in time linear in the number of vectors --------------------------------
# With every vector at length one, the cosines of u with all vectors add up to u · S, where S is the sum of them all. S
# is summed without rounding error in units of 2⁻⁵², so that no bit of a result depends on the order of the vectors.

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Numbers up to 1 as two halves of 26 bits: up to 2**27 of them add up in float64 and every sum is an exact integer.
_HALF = float(1 << 26)
_KEY_HALF = np.uint64(32)
_AT_ONCE = 1 << 12


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Numbers between -1 and 1 as whole multiples of 2**-26, and of 2**-52 for what is left."""
    upper = np.trunc(numbers * _HALF)
    return upper, np.rint((numbers * _HALF - upper) * _HALF)


def _whole(upper: Floats, lower: Floats) -> Floats:
    return upper / _HALF + lower / (_HALF * _HALF)


def cosines_within(units: Floats, counts: Integers) -> Floats:
    """The mean cosine over the pairs within each group of vectors of length one.

    The groups follow each other in ``units`` and have two vectors at least. Of m vectors, the square of their sum is m
    and twice the cosines of their pairs.
    """
    sums = np.add.reduceat(units, np.cumsum(counts) - counts, axis=0)
    return np.asarray(((sums * sums).sum(axis=1) - counts) / (counts * (counts - 1)))


def cosines_to_others(units: Floats) -> Floats:
    """The mean cosine of each vector of length one with all others; there are two at least."""
    parts = [units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE)]
    upper, lower = np.zeros(units.shape[1]), np.zeros(units.shape[1])
    for part in parts:
        above, below = _halves(part)
        upper += above.sum(axis=0)
        lower += below.sum(axis=0)
    total = _whole(upper, lower)
    return _without_itself(np.concatenate([(part * total).sum(axis=1) for part in parts]))


def word_cosines_to_others(texts: TokenIds) -> Floats:
    """The mean cosine of the word counts of each text with those of all others; each has a word, and there are two.

    A text is the vector of how often each word occurs in it. S holds, word by word, what the word weighs in all texts
    together; a text meets it once for every word it has, in the order in which it has them.
    """
    rows, n = texts.rows, len(texts)
    weights = 1 / np.sqrt(_squared_lengths(texts))
    upper, lower = (_sums_by(texts.ids, half.take(rows)) for half in _halves(weights))
    met = _sums_by(rows, _whole(upper, lower).take(texts.ids), n)
    return _without_itself(met * weights)


def _squared_lengths(texts: TokenIds) -> Floats:
    """Per text the squares of how often each word occurs in it, added up; whole numbers, so exact."""
    rows = texts.rows
    numbering = IdTable()
    numbers = numbering.get_or_add((rows.astype(np.uint64) << _KEY_HALF) | texts.ids.astype(np.uint64))
    counts = np.bincount(numbers, minlength=numbering.count)
    row_of = np.zeros(numbering.count, np.int64)
    row_of[numbers] = rows
    return _sums_by(row_of, (counts * counts).astype(np.float64), len(texts))


def _sums_by(codes: npt.NDArray[np.integer[Any]], weights: Floats, least: int = 0) -> Floats:
    """The weights of each code, added up one after the other."""
    return np.asarray(np.bincount(codes, weights=weights, minlength=least), dtype=np.float64)


def _without_itself(sums: Floats) -> Floats:
    """The mean cosine with the others, from the sum of the cosines with all, of which that with itself is 1."""
    return np.asarray((sums - 1) / (len(sums) - 1))


# --- cached inference: a model or function is called once for each different text or pair of texts -------------------

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_CACHED_NUMBERS = 1 << 24
"""Number of cached values after which the cache is cleared, so that a stream does not fill the memory."""


@dataclass(frozen=True, slots=True)
class InferenceFailure:
    """A failed inference."""

    reason: str
    """In lower case with underscores, as for any outcome."""
    message: str
    """The warning for the user."""


class _AnswerCache:
    """Results for later batches, cleared once there are too many."""

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self._numbers = 0

    def keep(self, fresh: Mapping[Any, Any], numbers: int) -> None:
        if self._numbers > _MAX_CACHED_NUMBERS:
            self.answers, self._numbers = {}, 0
        self.answers |= fresh
        self._numbers += numbers


def model_key(part: object) -> Hashable:
    """The cache key of a model or function: itself if it is hashable, else its id."""
    try:
        hash(part)
    except TypeError:
        return id(part)
    return part


def cached_inference(
    batch: Batch,
    key: Hashable,
    rows: Sequence[Sequence[K]],
    infer: Callable[[list[K]], Sequence[V | InferenceFailure]],
    *,
    count_numbers: Callable[[V], int],
) -> Mapping[K, V | InferenceFailure]:
    """The results for all inputs of each row of a batch, including those of earlier calls for the batch.

    ``infer`` is called once with the inputs that are not cached. A failure emits a warning and is not cached for other
    batches. ``count_numbers`` returns the size of a result.
    """
    in_batch: dict[K, V | InferenceFailure] = batch.feature(("inference", key), lambda _: {})
    memory: _AnswerCache = batch.memory.setdefault(("inference", key), _AnswerCache())
    fresh: list[K] = []
    for question in dict.fromkeys(chain.from_iterable(rows)):
        if question in memory.answers:
            in_batch[question] = memory.answers[question]
        elif question not in in_batch:
            fresh.append(question)
    if not fresh:
        return in_batch
    answers = dict(zip(fresh, infer(fresh), strict=True))
    found = {question: answer for question, answer in answers.items() if not isinstance(answer, InferenceFailure)}
    in_batch |= answers
    memory.keep(found, sum(map(count_numbers, found.values())))
    failures = {question: answer for question, answer in answers.items() if isinstance(answer, InferenceFailure)}
    if failures:
        for sample, row in zip(batch.samples, rows, strict=True):
            for message in dict.fromkeys(failures[question].message for question in row if question in failures):
                batch.note(message, sample.sample_id)
    return in_batch


# --- embeddings: read from metadata or computed by a function, checked and normalised --------------------------------

Mask = npt.NDArray[np.bool_]

EmbedFunction = Callable[[list[str]], Any]
"""Computes a vector for each text: an array with a row per text, or a list of lists."""
Vector = Floats | str
"""A unit vector, or the reason why there is none."""

MODEL_ROUNDING = 1e-5
"""How much the batch of a text may change the output of a model in float32."""
NO_VECTOR = "no_embedding"
UNUSABLE_REASONS = _BAD, _ZERO, _FAILED, _MEMORY = "bad_embedding", "zero_vector", "embed_failed", "out_of_memory"
"""Why a vector cannot be used: not a list of finite numbers, no direction, the function raised, no memory for the text.
The first one takes precedence."""

_ROWS_AT_ONCE = 64
_PAIRS_AT_ONCE = 1 << 12


def unit_vector(raw: object) -> Vector:
    """Numbers as a unit vector; the reason where they are not a valid vector."""
    numbers = _numbers(raw)
    if numbers is None or not np.isfinite(numbers).all():
        return _BAD
    largest = np.abs(numbers).max()
    if not largest:
        return _ZERO
    numbers = numbers / largest  # so that no square is too large or too small for a float
    return np.asarray(numbers / math.sqrt((numbers * numbers).sum()))


def _numbers(raw: object) -> Floats | None:
    """The numbers of a flat list or array; ``None`` where it is not one."""
    try:
        if isinstance(raw, (list, tuple)):
            if not all(map(_is_number_type, set(map(type, raw)))):
                return None
            found = np.asarray(raw, dtype=np.float64)
        elif hasattr(raw, "__array__"):
            found = np.asarray(raw)
        else:
            return None
    except (TypeError, ValueError, OverflowError, RuntimeError):  # whatever the conversion may raise
        return None
    return found.astype(np.float64) if found.dtype.kind in "iuf" and found.ndim == 1 and len(found) else None


def _is_number_type(kind: type) -> bool:
    return issubclass(kind, (int, float, np.integer, np.floating)) and not issubclass(kind, bool)


def document_vector(document: Document) -> Vector:
    """The vector under ``metadata["embedding"]``."""
    raw = document.metadata.get("embedding") if isinstance(document.metadata, Mapping) else None
    return NO_VECTOR if raw is None else unit_vector(raw)


@dataclass(frozen=True, slots=True)
class EmbeddingBatch:
    """The result of an ``Encoder``: vectors, and which texts were truncated."""

    rows: Sequence[Any]
    """A vector for each text, or a ``Lost``."""
    cut: Sequence[bool]
    """Which texts were truncated."""


@runtime_checkable
class Encoder(Protocol):
    """An embedder that reports which texts were truncated and which failed."""

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts."""


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of texts of a batch by one embedder."""

    vectors: Mapping[str, tuple[Vector, bool] | InferenceFailure]

    def __getitem__(self, text: str) -> Vector:
        """The vector of a text, or the reason why there is none; an empty text has none."""
        if not text:
            return NO_VECTOR
        found = self.vectors[text]
        return found.reason if isinstance(found, InferenceFailure) else found[0]

    def was_cut(self, text: str) -> bool:
        """Whether a text was truncated by the model."""
        found = self.vectors.get(text)
        return isinstance(found, tuple) and found[1]


def embed_texts(batch: Batch, embed: EmbedFunction | Encoder, texts: Sequence[Sequence[str]]) -> TextVectors:
    """The vectors of all texts of each row; each different text is embedded once, an empty one never."""
    rows = [[text for text in these if text] for these in texts]
    found = cached_inference(
        batch,
        ("vectors", model_key(embed)),
        rows,
        lambda fresh: _embed_fresh(embed, fresh),
        count_numbers=lambda found: len(found[0]),
    )
    return TextVectors(found)


def _embed_fresh(embed: EmbedFunction | Encoder, fresh: list[str]) -> list[tuple[Vector, bool] | InferenceFailure]:
    rows: Any
    cut: Sequence[bool] = [False] * len(fresh)
    try:
        if isinstance(embed, Encoder):
            encoded = embed.embed_batch(list(fresh))
            rows, cut = encoded.rows, encoded.cut
        else:
            rows = embed(list(fresh))
            rows = rows if isinstance(rows, np.ndarray) else list(rows)
        if len(rows) != len(fresh):
            raise ValueError(f"{len(rows)} vectors for {len(fresh)} texts; it must give one for each")
    except AueporaError:
        raise  # a missing model is missing for the next text, too
    except Exception as error:  # an error of the user's function is not a system failure
        return [InferenceFailure(_FAILED, f"'embed' raised {type(error).__name__}: {error}")] * len(fresh)
    units = unit_vectors(rows)
    return [
        unit if isinstance(unit, InferenceFailure) else (unit, bool(was)) for unit, was in zip(units, cut, strict=True)
    ]


def unit_vectors(rows: Sequence[Any] | npt.NDArray[Any]) -> list[Vector | InferenceFailure]:
    """Each row as a unit vector, or the reason why it is not one; failures are passed through."""
    if not (isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "iuf" and rows.shape[1]):
        return [row if isinstance(row, InferenceFailure) else unit_vector(row) for row in rows]
    # The steps of ``unit_vector`` for all rows at once.
    numbers = rows.astype(np.float64)
    largest = np.abs(numbers).max(axis=1)  # NaN and infinity show in it
    usable = np.isfinite(largest) & (largest > 0)
    numbers /= np.where(usable, largest, 1.0)[:, None]
    numbers[~usable] = 0.0
    lengths = np.sqrt((numbers * numbers).sum(axis=1))
    numbers /= np.where(usable, lengths, 1.0)[:, None]
    return [
        unit if fine else (_ZERO if size == 0 else _BAD)
        for unit, fine, size in zip(numbers, usable.tolist(), largest.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class PairCosines:
    """The cosine of each of some pairs of texts."""

    values: Floats
    """0 where there is none."""
    problems: list[str | None]
    """Per pair why there is none."""


def text_cosines(vectors: TextVectors, pairs: Sequence[tuple[str, str]]) -> PairCosines:
    """The cosine similarity of the two texts of each pair."""
    precedence = (NO_VECTOR, *UNUSABLE_REASONS)
    problems: list[str | None] = []
    by_size: dict[int, list[int]] = {}
    for place, (text, other) in enumerate(pairs):
        both = vectors[text], vectors[other]
        reasons = [vector for vector in both if isinstance(vector, str)]
        if not reasons and len(both[0]) != len(both[1]):
            reasons = [_BAD]
        problems.append(min(reasons, key=precedence.index) if reasons else None)
        if not reasons:
            by_size.setdefault(len(both[0]), []).append(place)
    values = np.zeros(len(pairs))
    for places in by_size.values():
        for start in range(0, len(places), _PAIRS_AT_ONCE):
            some = places[start : start + _PAIRS_AT_ONCE]
            ours, theirs = (np.array([vectors[pairs[place][side]] for place in some]) for side in (0, 1))
            values[some] = np.clip((ours * theirs).sum(axis=1), -1.0, 1.0)
    return PairCosines(values, problems)


@dataclass(frozen=True, slots=True)
class MeanCosines:
    """The mean cosine similarity of the first documents of each row."""

    values: Floats
    """The mean cosine over pairs of documents; 0 where there is none."""
    counts: Integers
    """The number of documents."""
    problems: dict[str, Mask]
    """Per reason the rows with a document that has no vector."""


def list_cosines(batch: Batch, k: int | None, embed: EmbedFunction | None) -> MeanCosines:
    """The cosines of the first ``k`` returned documents; their vectors come from ``embed``, else from metadata."""
    return batch.feature(
        ("list_cosines", k, None if embed is None else model_key(embed)), lambda b: _list_cosines(b, k, embed)
    )


def _list_cosines(batch: Batch, k: int | None, embed: EmbedFunction | None) -> MeanCosines:
    lists = document_vectors(batch, _retrieved_documents(batch, k), embed)
    problems = {reason: np.zeros(len(batch), np.bool_) for reason in (NO_VECTOR, *UNUSABLE_REASONS)}
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
            values[some] = cosines_within(np.array(list(chain.from_iterable(lists[row] for row in some))), counts[some])
    return MeanCosines(values, counts, problems)


def document_vectors(batch: Batch, lists: list[list[Document]], embed: EmbedFunction | None) -> list[list[Vector]]:
    """The vectors of the documents of each row, computed from their texts or else read from their metadata."""
    if embed is not None:
        rows = zip(batch.samples, lists, strict=True)
        texts = [[_text(document, sample.sample_id) for document in documents] for sample, documents in rows]
        vectors = embed_texts(batch, embed, texts)
        return [[vectors[text] for text in these] for these in texts]
    return [[document_vector(document) for document in documents] for documents in lists]


def _text(document: Document, sample_id: str) -> str:
    if document.text is not None and not isinstance(document.text, str):
        raise BadTypeError(f"sample '{sample_id}': the text of a document is {document.text!r}, not a string")
    return document.text or ""


def _retrieved_documents(batch: Batch, k: int | None) -> list[list[Document]]:
    """The first retrieved documents, row by row; none for failed outputs."""
    found: list[list[Document]] = []
    for sample, output in zip(batch.samples, checked_outputs(batch), strict=True):
        items = output.retrieved[:k] if output is not None and output.error is None else []
        documents = [getattr(item, "doc", None) for item in items]
        found.append([document for document in documents if isinstance(document, Document)])
        if output is not None and len(found[-1]) != len(documents):
            raise BadTypeError(f"the output for sample '{sample.sample_id}' {retrieved_problem(output)}")
    return found
