"""Batches from bare document ids: samples and outputs are created only on access."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.errors import AlignmentError, BadTypeError
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from .rankings import HIGHEST_LEVEL, VIEW_KEYS, Gold, GoldLists, RankingColumns, parse_level

__all__ = ["IdOnlyOutputs", "IdOnlySamples", "rankings_batch"]


def rankings_batch(
    gold: Sequence[Collection[str] | Mapping[str, int] | None],
    ranked: Sequence[Sequence[str] | None],
    ids: Sequence[str],
) -> Batch:
    """A batch from document ids. Its samples and outputs are created only if a metric needs them.

    ``ranked[i] is None`` stands for an output that is missing.
    """
    if len(gold) != len(ranked):
        raise AlignmentError(len(gold), len(ranked), what=("gold entries", "rankings"))
    kinds = set(map(type, ranked))
    columns = RankingColumns(_gold_column(gold, ids), _ranked_column(ranked, kinds, ids), ids)
    missing = np.zeros(len(ranked), dtype=np.bool_)
    if type(None) in kinds:
        missing = np.fromiter((entry is None for entry in ranked), np.bool_, len(ranked))
    # Bare ids have their judged levels, and each is its own document: all views are equal.
    features: dict[Hashable, Any] = dict.fromkeys(VIEW_KEYS, columns)
    features |= {"missing": missing, "failures": [None] * len(gold)}
    return Batch(IdOnlySamples(columns), IdOnlyOutputs(columns, missing), features=features)


def _gold_column(
    gold: Sequence[Collection[str] | Mapping[str, int] | None], ids: Sequence[str]
) -> Sequence[Gold | None]:
    kinds = set(map(type, gold))
    if kinds <= {list, tuple}:
        return GoldLists(gold)  # type: ignore[arg-type]
    if kinds <= {set, frozenset}:
        return gold  # type: ignore[return-value]
    if kinds == {dict} and _are_plain_levels(list(chain.from_iterable(map(dict.values, gold)))):  # type: ignore[arg-type]
        return gold  # type: ignore[return-value]
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
    if type(entry) is dict and _are_plain_levels(list(entry.values())):
        return entry
    return {doc_id: parse_level(level, doc_id, query) for doc_id, level in entry.items()}


def _are_plain_levels(levels: list[int]) -> bool:
    return set(map(type, levels)) <= {int} and max(map(abs, levels), default=0) <= HIGHEST_LEVEL


def _ranked_column(
    ranked: Sequence[Sequence[str] | None], kinds: set[type], ids: Sequence[str]
) -> Sequence[Sequence[str]]:
    if kinds <= {list, tuple}:
        return ranked  # type: ignore[return-value]
    _reject_strings("ranking", ranked, kinds, ids)
    return [_as_ranking(entry, query) for entry, query in zip(ranked, ids, strict=True)]


def _as_ranking(entry: Sequence[str] | None, query: str) -> Sequence[str]:
    if entry is None:
        return ()
    if isinstance(entry, (Mapping, Set)):
        raise BadTypeError(
            f"the ranking of query '{query}' is a {type(entry).__name__}, which has no order; "
            "pass a list of ids, best first"
        )
    try:
        return list(entry)
    except TypeError:
        raise BadTypeError(f"the ranking of query '{query}' is {entry!r}; pass a list of ids, best first") from None


def _reject_strings(what: str, column: Sequence[object], kinds: set[type], ids: Sequence[str]) -> None:
    if any(issubclass(kind, str) for kind in kinds):
        query = next(query for query, entry in zip(ids, column, strict=True) if isinstance(entry, str))
        raise BadTypeError(f"the {what} of query '{query}' is a single string; pass a list of ids")


class IdOnlySamples(Sequence[EvaluationSample]):
    """The samples of a batch of bare ids, created on access."""

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


class IdOnlyOutputs(Sequence[SystemOutputs | None]):
    """The outputs of a batch of bare ids, created on access."""

    def __init__(self, columns: RankingColumns, missing: npt.NDArray[np.bool_]) -> None:
        self._columns, self._missing = columns, missing

    def __len__(self) -> int:
        return len(self._missing)

    def __getitem__(self, index: int) -> SystemOutputs | None:  # type: ignore[override]
        if self._missing[index]:
            return None
        ranked = self._columns.ranked[index]
        return SystemOutputs([RetrievedDocument(Document(i), None, rank) for rank, i in enumerate(ranked, 1)])
