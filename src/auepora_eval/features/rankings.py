"""Ranking columns: per query the validated gold ids and returned ids; also from bare ids."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, add_note, checked_outputs
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..errors import AlignmentError, BadTypeError, BadValueError

Gold = frozenset[str] | set[str] | dict[str, int]
"""Gold ids of one query: a set (all of level 1), or a level per judged id."""

HIGHEST_LEVEL = 1_000
"""Higher levels are mistakes; 2 to their power overflows."""
RANK_CONTRADICTION = "'rank' contradicts the order of 'retrieved'; the list order is what counts"
_NUMBERS = int, float, np.number
_INFINITE = math.inf
_IDS_ARE_STRINGS = "document ids must be strings"
VIEW_KEYS = _KEY, _JUDGED, _DOCUMENTS = "rankings", "judged_rankings", "document_rankings"


class GoldLists(Sequence[Gold]):
    """Gold given as lists of ids. Their sets are created one by one on access.

    That is faster than creating all beforehand: a set is used while its ids are in the processor cache, and the next
    one reuses its memory.
    """

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self.lists = lists

    def __len__(self) -> int:
        return len(self.lists)

    def __getitem__(self, index: int) -> Gold:  # type: ignore[override]
        return frozenset(self.lists[index])

    def __iter__(self) -> Iterator[Gold]:
        return map(frozenset, self.lists)


@dataclass(frozen=True, slots=True)
class RankingColumns:
    """Gold and returned ids, query by query."""

    gold: Sequence[Gold | None]
    """``None`` where the query was not annotated."""
    ranked: Sequence[Sequence[str]]
    ids: Sequence[str]
    """The samples' ids, for messages."""
    known_distinct: bool = False
    """Whether it is already known that no ranking contains an id twice."""


def rankings(batch: Batch) -> RankingColumns:
    """The ranking columns of a batch."""
    return batch.feature(_KEY, _from_objects)


def judged_rankings(batch: Batch) -> RankingColumns:
    """The rankings with every judged id as gold: candidates outside the relevant documents have level 0."""
    return batch.feature(_JUDGED, _with_candidates)


def document_rankings(batch: Batch) -> RankingColumns:
    """The rankings of parent documents: positions count chunks, ids are those of their parents.

    Gold is ``metadata["expected_doc_ids"]`` where given, else the parents of the relevant documents.
    """
    return batch.feature(_DOCUMENTS, _parent_rankings)


def _with_candidates(batch: Batch) -> RankingColumns:
    columns = rankings(batch)
    if not any(sample.candidate_docs for sample in batch.samples):
        return columns
    gold: list[Gold | None] = []
    for sample, known in zip(batch.samples, columns.gold, strict=True):
        if known is None or not sample.candidate_docs:
            gold.append(known)
        else:
            levels = dict.fromkeys([document.doc_id for document in sample.candidate_docs], 0)
            gold.append(levels | (known if isinstance(known, dict) else dict.fromkeys(known, 1)))
    return RankingColumns(gold, columns.ranked, columns.ids)


def _parent_rankings(batch: Batch) -> RankingColumns:
    columns = rankings(batch)
    # No ids: a missing or failed output, or an empty ranking. Reading the ids also validates them.
    ranked: list[Sequence[str]] = [
        [item.doc.parent for item in output.retrieved] if ids and output is not None else []
        for ids, output in zip(columns.ranked, batch.outputs, strict=True)
    ]
    return RankingColumns([document_gold(sample) for sample in batch.samples], ranked, columns.ids)


def document_gold(sample: EvaluationSample) -> Gold | None:
    """The gold documents of a sample: those listed as expected, else the parents of the relevant documents."""
    expected = sample.metadata.get("expected_doc_ids")
    if expected is not None:
        listed = isinstance(expected, (list, tuple, set, frozenset))
        if not listed or not all(isinstance(doc_id, str) for doc_id in expected):
            raise BadTypeError(f"sample '{sample.sample_id}': metadata 'expected_doc_ids' must be a list of ids")
        return frozenset(expected)
    return None if sample.relevant_docs is None else highest_levels(sample, key=attrgetter("parent"))


def _from_objects(batch: Batch) -> RankingColumns:
    ids = [sample.sample_id for sample in batch.samples]
    return RankingColumns([_gold_of(sample) for sample in batch.samples], ReturnedIds(batch, ids), ids)


class ReturnedIds(Sequence[Sequence[str]]):
    """The ids that each output of a batch returned, read on access; invalid documents and scores raise.

    Most batches are read once, to find hits. Ids are kept only from the second pass on: storing and reading them again
    would take a sixth of the whole time.
    """

    def __init__(self, batch: Batch, ids: Sequence[str]) -> None:
        # No reference to the batch, which would be a reference cycle.
        self._ids, self._notes = ids, batch.notes
        # Documents of a failed output are ignored.
        self._retrieved = [
            () if output is None or output.error is not None else output.retrieved for output in checked_outputs(batch)
        ]
        self._looked_through = False

    def __len__(self) -> int:
        return len(self._retrieved)

    def __iter__(self) -> Iterator[Sequence[str]]:
        return iter(self._kept) if self._looked_through else self._look_through()

    def __getitem__(self, index: int) -> Sequence[str]:  # type: ignore[override]
        return self._kept[index]

    @cached_property
    def _kept(self) -> list[Sequence[str]]:
        return list(self._look_through())

    def _look_through(self) -> Iterator[Sequence[str]]:
        contradictory = []
        for sample_id, returned in zip(self._ids, self._retrieved, strict=True):
            try:
                seen = _fast_ids(returned)
            except (AttributeError, TypeError, ValueError):
                seen = None
            ids, falls = _checked_ids(returned, sample_id) if seen is None else (seen, False)
            if falls:
                contradictory.append(sample_id)
            yield ids
        if not self._looked_through:
            self._looked_through = True
            for sample_id in contradictory:
                add_note(self._notes, RANK_CONTRADICTION, sample_id)


def _fast_ids(returned: Sequence[RetrievedDocument]) -> list[str] | None:
    """The ids; ``None``, or an error, where each document must be checked, as where ranks decrease.

    One expression, since it runs millions of times. Comparisons with NaN are false, and None or other types cannot be
    compared with a number, except types such as ``Decimal``: for those the first score decides.
    """
    if not returned:
        return []
    first = returned[0]
    if not isinstance(first.score, _NUMBERS):
        return None
    last = first.rank
    ids = [item.doc.doc_id for item in returned if last <= (last := item.rank) and item.score <= _INFINITE]  # type: ignore[operator]
    return ids if len(ids) == len(returned) else None


def _checked_ids(returned: Sequence[RetrievedDocument], sample_id: str) -> tuple[list[str], bool]:
    """The ids, and whether ranks decrease, checked one by one; raises for invalid documents or scores."""
    problem = _first_problem(returned)
    if problem is not None:
        kind = BadValueError if "NaN" in problem else BadTypeError
        raise kind(f"sample '{sample_id}': {problem}")
    return [item.doc.doc_id for item in returned], _contradicts([item.rank for item in returned])


def _contradicts(ranks: list[int]) -> bool:
    """Whether the ranks decrease anywhere; unknown ones are ignored."""
    try:
        return ranks != sorted(ranks)
    except TypeError:
        return False


def retrieved_problem(output: SystemOutputs) -> str | None:
    """Why the retrieved documents of an output cannot be used; ``None`` where they can."""
    problem = _first_problem(output.retrieved)
    return None if problem is None else f"cannot be used: {problem}"


def _first_problem(returned: Sequence[RetrievedDocument]) -> str | None:
    for place, item in enumerate(returned, 1):
        if not isinstance(item, RetrievedDocument):
            return f"position {place} of 'retrieved' is a {type(item).__name__}, not a RetrievedDocument"
        if not isinstance(item.doc, Document):
            return f"position {place} of 'retrieved' holds a {type(item.doc).__name__} as 'doc', not a Document"
        if not isinstance(item.doc.doc_id, str):
            return (
                f"the returned id {item.doc.doc_id!r} is of type {type(item.doc.doc_id).__name__}; {_IDS_ARE_STRINGS}"
            )
        if item.score is not None and not isinstance(item.score, _NUMBERS):
            return f"the score at position {place} is {item.score!r}, not a number"
        if item.score is not None and item.score != item.score:
            return f"the score of '{item.doc.doc_id}' at position {place} is NaN; give a number, or None if unknown"
    return None


def _gold_of(sample: EvaluationSample) -> Gold | None:
    documents = sample.relevant_docs
    if documents is None:
        return None
    ungraded = [document.doc_id for document in documents if type(document) is Document and not document.metadata]
    if len(ungraded) == len(documents):
        return frozenset(ungraded)
    require_documents(documents, sample.sample_id)
    return highest_levels(sample)


def highest_levels(sample: EvaluationSample, key: Callable[[Document], Any] = attrgetter("doc_id")) -> dict[Any, int]:
    """The level of each gold id; of one that is given several times the highest."""
    levels: dict[Any, int] = {}
    for document in sample.relevant_docs or ():
        given = document.metadata.get("relevance", 1) if document.metadata else 1
        level = parse_level(given, document.doc_id, sample.sample_id)
        levels[key(document)] = max(level, levels.get(key(document), level))
    return levels


def require_documents(documents: Sequence[Document], sample_id: str) -> None:
    """Raise unless all relevant documents of a sample are documents."""
    for document in documents:
        if not isinstance(document, Document):
            raise BadTypeError(
                f"sample '{sample_id}': 'relevant_docs' holds a {type(document).__name__}, not a Document"
            )


def parse_level(level: Any, doc_id: str, sample_id: str) -> int:
    """A judged level as an integer."""
    is_integer = isinstance(level, (int, np.integer)) and not isinstance(level, bool)
    if not is_integer and not (isinstance(level, float) and level.is_integer()):
        raise BadTypeError(f"sample '{sample_id}': the relevance of '{doc_id}' is {level!r}; it must be an integer")
    if abs(level) > HIGHEST_LEVEL:
        raise BadValueError(f"sample '{sample_id}': the relevance {level!r} of '{doc_id}' is out of range")
    return int(level)


# --- batches of bare document ids: samples and outputs are created only on access ------------------------------------


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
    features |= {"missing": missing, "failures": [None] * len(gold), ("has_groups",): False}
    return Batch(IdOnlySamples(columns), IdOnlyOutputs(columns, missing), features=features)


def _gold_column(
    gold: Sequence[Collection[str] | Mapping[str, int] | None], ids: Sequence[str]
) -> Sequence[Gold | None]:
    kinds = set(map(type, gold))
    if kinds <= {list, tuple}:
        return GoldLists(gold)  # type: ignore[arg-type]
    is_plain = kinds == {dict} and _are_plain_levels(list(chain.from_iterable(map(dict.values, gold))))  # type: ignore[arg-type]
    if is_plain or kinds <= {set, frozenset}:
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
