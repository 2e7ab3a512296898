"""Ranking columns: per query the gold ids and the returned ids, checked, whatever form they came in."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..core.batch import Batch, checked_outputs
from ..core.errors import AlignmentError, BadTypeError, BadValueError
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs

__all__ = ["RankingColumns", "rankings", "rankings_batch"]

Gold = frozenset[str] | set[str] | dict[str, int]
"""Gold ids of one query: a set (all of level 1), or a level per judged id."""

_KEY = "rankings"


@dataclass(frozen=True, slots=True)
class RankingColumns:
    """Gold and returned ids, query by query."""

    gold: list[Gold | None]
    """``None`` where the query was not annotated."""
    ranked: list[Sequence[str]]
    ids: Sequence[str]
    """The samples' ids, for messages."""


def rankings(batch: Batch) -> RankingColumns:
    """The ranking columns of a batch."""
    return batch.feature(_KEY, _from_objects)


def _from_objects(batch: Batch) -> RankingColumns:
    ids = [sample.sample_id for sample in batch.samples]
    gold = [_gold_of(sample) for sample in batch.samples]
    ranked: list[Sequence[str]] = []
    for sample_id, output in zip(ids, checked_outputs(batch), strict=True):
        returned = output.retrieved if output is not None else ()
        try:
            ranked.append([item.doc.doc_id for item in returned])
            scores = [item.score for item in returned]
            ranks = [item.rank for item in returned]
        except AttributeError:
            _require_retrieved(sample_id, returned)
            raise
        if not _all_numbers(scores):
            _require_retrieved(sample_id, returned)  # an unknown score is fine, anything else is not
        if _contradicts(ranks):
            batch.note("'rank' contradicts the order of 'retrieved'; the list order is what counts", sample_id)
    return RankingColumns(gold, ranked, ids)


def _all_numbers(scores: list[float | None]) -> bool:
    """Whether all are numbers and none is NaN, by one sum in C: NaN spreads through it, and anything else stops it."""
    try:
        total = sum(scores)  # type: ignore[arg-type]
    except TypeError:
        return False
    return total == total


def _contradicts(ranks: list[int]) -> bool:
    """Whether the ranks go down anywhere; unknown ones contradict nothing."""
    try:
        return ranks != sorted(ranks)
    except TypeError:
        return False


def _require_numbers(sample_id: str, returned: Sequence[RetrievedDocument]) -> None:
    for place, item in enumerate(returned, 1):
        if item.score is not None and item.score != item.score:
            raise BadValueError(
                f"sample '{sample_id}': the score of '{item.doc.doc_id}' at position {place} is NaN; "
                "give a number, or None where it is unknown"
            )


def _require_retrieved(sample_id: str, returned: Sequence[RetrievedDocument]) -> None:
    for place, item in enumerate(returned, 1):
        if not isinstance(item, RetrievedDocument) or not isinstance(item.doc, Document):
            raise BadTypeError(
                f"sample '{sample_id}': position {place} of 'retrieved' is a {type(item).__name__}, "
                "not a RetrievedDocument that holds a Document"
            )
        if item.score is not None and not isinstance(item.score, (int, float, np.number)):
            raise BadTypeError(f"sample '{sample_id}': the score at position {place} is {item.score!r}, not a number")
    _require_numbers(sample_id, returned)


def _gold_of(sample: EvaluationSample) -> Gold | None:
    documents = sample.relevant_docs
    if documents is None:
        return None
    if not any(document.metadata for document in documents):
        return frozenset([document.doc_id for document in documents])
    levels: dict[str, int] = {}
    for document in documents:
        level = _level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id)
        levels[document.doc_id] = max(level, levels.get(document.doc_id, level))
    return levels


def _level(level: Any, doc_id: str, sample_id: str) -> int:
    if isinstance(level, (int, np.integer)) and not isinstance(level, bool):
        return int(level)
    if isinstance(level, float) and level.is_integer():
        return int(level)
    raise BadTypeError(f"sample '{sample_id}': the relevance of '{doc_id}' is {level!r}; it must be a whole number")


def rankings_batch(
    gold: Sequence[Collection[str] | Mapping[str, int] | None],
    ranked: Sequence[Sequence[str] | None],
    ids: Sequence[str],
) -> Batch:
    """A batch straight from ids. Its samples and outputs are made only if a metric asks for them.

    ``ranked[i] is None`` stands for an output that is missing.
    """
    if len(gold) != len(ranked):
        raise AlignmentError(len(gold), len(ranked), what=("gold entries", "rankings"))
    columns = RankingColumns(_gold_column(gold, ids), _ranked_column(ranked, ids), ids)
    missing = np.zeros(len(ranked), dtype=np.bool_)
    if type(None) in set(map(type, ranked)):
        missing = np.fromiter((entry is None for entry in ranked), np.bool_, len(ranked))
    features: dict[Hashable, Any] = {_KEY: columns, "missing": missing, "failures": [None] * len(gold)}
    return Batch(_Samples(columns), _Outputs(columns, ranked), features=features)


def _gold_column(gold: Sequence[Collection[str] | Mapping[str, int] | None], ids: Sequence[str]) -> list[Gold | None]:
    kinds = set(map(type, gold))
    if kinds <= {list, tuple}:  # the usual case, at the speed of C
        try:
            return list(map(frozenset, gold))  # type: ignore[arg-type]
        except TypeError:
            pass  # an id that cannot be looked up: found and named below
    if kinds == {dict} and set(map(type, chain.from_iterable(map(dict.values, gold)))) <= {int}:  # type: ignore[arg-type]
        return list(gold)  # type: ignore[arg-type]
    _reject_strings("gold", gold, kinds, ids)
    return [_as_gold(entry, query) for entry, query in zip(gold, ids, strict=True)]


def _as_gold(entry: Collection[str] | Mapping[str, int] | None, query: str) -> Gold | None:
    if entry is None or isinstance(entry, (frozenset, set)):
        return entry
    if not isinstance(entry, Mapping):
        try:
            return frozenset(entry)
        except TypeError:
            raise BadTypeError(f"the gold of query '{query}' is {entry!r}; pass a collection of ids") from None
    if type(entry) is dict and set(map(type, entry.values())) <= {int}:
        return entry
    return {doc_id: _level(level, doc_id, query) for doc_id, level in entry.items()}


def _ranked_column(ranked: Sequence[Sequence[str] | None], ids: Sequence[str]) -> list[Sequence[str]]:
    kinds = set(map(type, ranked))
    if kinds <= {list, tuple}:
        return list(ranked)  # type: ignore[arg-type]
    _reject_strings("ranking", ranked, kinds, ids)
    return [() if entry is None else entry if isinstance(entry, (list, tuple)) else list(entry) for entry in ranked]


def _reject_strings(what: str, column: Sequence[object], kinds: set[type], ids: Sequence[str]) -> None:
    if any(issubclass(kind, str) for kind in kinds):
        query = next(query for query, entry in zip(ids, column, strict=True) if isinstance(entry, str))
        raise BadTypeError(f"the {what} of query '{query}' is a single string; pass a list of ids")


class _Samples(Sequence[EvaluationSample]):
    """The samples a rankings batch would have had, made on reading."""

    def __init__(self, columns: RankingColumns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns.gold)

    def __getitem__(self, index: int) -> EvaluationSample:  # type: ignore[override]
        gold = self._columns.gold[index]
        documents = None
        if isinstance(gold, Mapping):
            documents = [Document(i, metadata={} if level == 1 else {"relevance": level}) for i, level in gold.items()]
        elif gold is not None:
            documents = [Document(i) for i in gold]
        return EvaluationSample(self._columns.ids[index], query="", relevant_docs=documents)


class _Outputs(Sequence[SystemOutputs | None]):
    """The outputs a rankings batch would have had, made on reading."""

    def __init__(self, columns: RankingColumns, given: Sequence[Sequence[str] | None]) -> None:
        self._columns, self._given = columns, given

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, index: int) -> SystemOutputs | None:  # type: ignore[override]
        if self._given[index] is None:
            return None
        ranked = self._columns.ranked[index]
        return SystemOutputs([RetrievedDocument(Document(i), None, rank) for rank, i in enumerate(ranked, 1)])
