"""Whether the chunks changed between two runs, and what each run retrieved and answered for a query."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..features.matching import GoldUnit, Matching, first_rank, gold_ranks, gold_units, span_of
from ..features.rankings import document_gold
from ..features.texts import RefusalDetector
from ..runtime.processes import gc_paused
from ..stats.intervals import Bools
from ..store.records import RunRecord
from ..store.rows import PERTURBED_TAG
from ..store.runs import CachedStore, RunStore
from .golden import ChunkLocations, GoldFinder, SharedQueries, documents_of
from .stores import DocumentFacts, RunOutputs, chunker_versions, run_outputs

_SEVERAL = -1
"""In place of the hash of a text: an id has several texts, or an empty one. Python has no such hash."""
_MAX_KNOWN = 100_000
"""How many documents are remembered to skip them when they are retrieved again."""
_MIN_IDS = 10
"""Two runs that retrieved fewer ids may have none in common because one of them is bad."""
_MOST_CHANGED = 20
"""Fewer than one in this many ids may name another text or span: documents are edited now and then."""


@dataclass(frozen=True, slots=True)
class ChunkChange:
    """That two runs have different chunks, or that the gold has other chunks than both."""

    reason: str
    """How that is known."""
    by_version: bool = False
    """Whether the ``chunker_version`` of the runs differs."""
    ids_reused: bool = False
    """Whether ids that both runs retrieved name another passage in each."""
    parents_known: bool = True
    """Whether the parent document of all gold is known, so that documents can be compared."""
    gold_only: bool = False
    """Whether the chunks of both runs may be the same, and only the gold has others."""
    is_disjoint: bool = False
    """Whether nothing but the ids shows it: a run has no id of the gold or of the other run, and no known place."""
    gold_parents: bool = False
    """Whether all gold names its parent document, or is a parent of retrieved chunks."""

    @property
    def description(self) -> str:
        """Why ids cannot be compared."""
        alone = self.gold_only or self.is_disjoint
        return self.reason if alone else f"chunks were cut differently ({self.reason})"


@dataclass(frozen=True, slots=True)
class SameIds:
    """The ids that two runs have in common, and how many of them name the same passage."""

    common: int = 0
    same: int = 0
    different: int = 0
    ambiguous: int = 0
    """Those of the different ones that have several places in one run, and one in the other."""
    texts: int = 0
    """How many have several texts in one run, at no place or the same one, and one in the other."""

    @property
    def changed(self) -> bool:
        """Whether more ids name another passage than edited documents would explain."""
        return self.different > 0 and self.different * _MOST_CHANGED >= self.same + self.different

    def with_borrowed(self, borrowed: int) -> SameIds:
        """The same ids, of which so many have in one run the text of another id."""
        different, ambiguous = self.different + borrowed, self.ambiguous + borrowed
        return replace(self, different=different, ambiguous=ambiguous, texts=self.texts - borrowed)


@dataclass(frozen=True, slots=True)
class ChunkComparison:
    """The chunks of two runs: whether they changed, and what ids that both retrieved name."""

    change: ChunkChange | None
    """``None`` where nothing shows a change."""
    ids: SameIds


class RunOutputsCache:
    """The outputs of stored runs, and the chunks of pairs of them, compared once for the queries of a dataset."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._runs: dict[str, RunOutputs] = {}
        self._known: dict[tuple[str, str, str], ChunkComparison] = {}

    def of(self, record: RunRecord) -> RunOutputs:
        """The samples and outputs of a run."""
        if record.run_id not in self._runs:
            self._runs[record.run_id] = run_outputs(self._store, record)
        return self._runs[record.run_id]

    def chunks(self, a: RunRecord, b: RunRecord, asked: RunRecord) -> ChunkComparison:
        """The chunks of two runs, with the gold of the samples of a run."""
        key = a.run_id, b.run_id, asked.fingerprint
        if key not in self._known:
            self._known[key] = compare_chunks(self.of(a), self.of(b), self.of(asked).samples)
        return self._known[key]


def outputs_cache(store: RunStore) -> RunOutputsCache:
    """The outputs of the runs of a store; the same for all comparisons with a store that caches."""
    if isinstance(store, CachedStore):
        return store.cached(("outputs",), lambda: RunOutputsCache(store))
    return RunOutputsCache(store)


@gc_paused()
def compare_chunks(run_a: RunOutputs, run_b: RunOutputs, queries: Iterable[EvaluationSample]) -> ChunkComparison:
    """Compare the chunks of two runs.

    The chunks changed where both runs name a ``chunker_version`` and they differ, where ids that both retrieved name
    another text or span in each, or where a run never returned a gold id although its chunks cover the gold spans.
    An id that has several places in one run differs, too, unless ids of the other run do as well, as those of whole
    documents. Several texts may be snippets, except under a gold id, where one of them is the text of another id.
    Texts are not compared if the documents of a run were perturbed.
    """
    numbers: dict[str, int] = {}
    a, b = _RunChunks(run_a, numbers), _RunChunks(run_b, numbers)
    is_gold = np.zeros(len(numbers), dtype=np.bool_)
    any_gold, parents, gold_parents, parent_ids = False, True, True, a.parent_ids | b.parent_ids
    for query in queries:
        listed = "expected_doc_ids" in (query.metadata or {})
        for unit in gold_units(query):
            any_gold = True
            if unit.doc_id in numbers:
                is_gold[numbers[unit.doc_id]] = True
            known = [passage.parent_id is not None or hash(passage.doc_id) in parent_ids for passage in unit.passages]
            gold_parents = gold_parents and all(known)
            parents = parents and (listed or all(known))
    texts = not any(PERTURBED_TAG in run.record.tags for run in (run_a, run_b))
    every, of_gold = a.common_ids(b, texts=texts), a.common_ids(b, texts=texts, among=is_gold)
    if of_gold.texts:
        borrowed = a.borrowed_texts(run_a, b, numbers, is_gold) | b.borrowed_texts(run_b, a, numbers, is_gold)
        of_gold = of_gold.with_borrowed(len(borrowed))
    reused = every.changed or of_gold.changed
    version_a, version_b = chunker_versions(run_a.record, run_b.record)
    change: ChunkChange | None = None
    if None not in (version_a, version_b) and version_a != version_b:
        change = ChunkChange(f"chunker_version {version_a} and {version_b}", True, reused, parents or not reused)
    elif reused:
        counts = every if every.changed else of_gold
        reason = (
            f"{counts.different} of {counts.same + counts.different} {'' if every.changed else 'gold '}ids that both "
            "runs retrieved name another text or span in each"
        )
        if counts.ambiguous:
            reason += f", {counts.ambiguous} of them several in one run"
        change = ChunkChange(reason, False, True, parents)
    else:
        without = [name for name, run in zip("AB", (a, b), strict=True) if not run.has_any(is_gold)]
        if any_gold and without:
            change = _gold_never_returned({"A": run_a, "B": run_b}, without, queries, every, parents)
            if change is None and not every.common and min(a.size, b.size) >= _MIN_IDS:
                reason = f"no id that run {without[-1]} retrieved is a gold id or an id of the other run"
                change = ChunkChange(reason, parents_known=parents, is_disjoint=True)
    return ChunkComparison(None if change is None else replace(change, gold_parents=gold_parents), every)


class _RunChunks:
    """What a run says about each chunk that it retrieved: hashes of its parent, span and text, 0 where unknown.

    Chunks are numbered by their ids. A hash takes 8 bytes, and two chunks of one id rarely have the same by chance.
    """

    def __init__(self, run: RunOutputs, numbers: dict[str, int]) -> None:
        self.parent_ids: set[int] = set()
        seen, several = bytearray(), bytearray()
        parents, spans, texts = array("q"), array("q"), array("q")
        known: set[DocumentFacts] = set()
        for documents in run.documents():
            # Most documents are retrieved for many queries; once is enough for each.
            fresh = set(documents) - known
            if len(known) > _MAX_KNOWN:
                known.clear()
            known |= fresh
            for doc_id, parent_id, place, key in fresh:
                number = numbers.setdefault(doc_id, len(numbers))
                if number >= len(seen):
                    missing = number + 1 - len(seen)
                    seen.extend(bytes(missing))
                    several.extend(bytes(missing))
                    for column in (parents, spans, texts):
                        column.extend([0] * missing)
                parent = 0 if parent_id is None else hash(parent_id) or 1
                if parent:
                    self.parent_ids.add(hash(parent_id))
                found = None if place is None else span_of(Document(doc_id, span=place))
                span = 0 if found is None else hash(found) or 1
                if not seen[number]:
                    seen[number], parents[number], spans[number] = 1, parent, span
                elif seen[number] == 1 and (parents[number] != parent or spans[number] != span):
                    several[number] = _differ(parents[number], parent) + 2 * _differ(spans[number], span)
                    seen[number], parents[number], spans[number] = 2, 0, 0  # several places: none is known
                if key is not None:
                    text = hash(key) or 1 if key else _SEVERAL
                    if text != _SEVERAL != texts[number]:
                        several[number] |= 4 * _differ(texts[number], text)
                    texts[number] = text if texts[number] in (0, text) else _SEVERAL
        self._several = np.frombuffer(several, np.uint8)
        """1 for several parents, 2 for several spans, 4 for several texts."""
        self._seen = np.frombuffer(seen, np.uint8) > 0
        self._columns = [np.frombuffer(column, np.int64) for column in (parents, spans, texts)]
        self.size = int(self._seen.sum())
        """How many chunks were retrieved."""

    def has_any(self, among: Bools) -> bool:
        """Whether any chunk in the mask was retrieved."""
        return bool((self._seen & among[: len(self._seen)]).any())

    def common_ids(self, other: _RunChunks, *, texts: bool, among: Bools | None = None) -> SameIds:
        """How many ids both runs retrieved, those in the mask, and whether they name the same passages."""
        n = min(len(self._seen), len(other._seen))
        common = self._seen[:n] & other._seen[:n]
        if among is not None:
            common &= among[:n]
        same = different = 0
        unknown = common
        for index, (own, others) in enumerate(zip(self._columns, other._columns, strict=True)):
            both = unknown & (own[:n] != 0) & (others[:n] != 0)
            if index == 2:
                both &= (own[:n] != _SEVERAL) & (others[:n] != _SEVERAL) & texts
            equal = own[:n] == others[:n]
            different += int((both & ~equal).sum())
            if index == 0:
                unknown = unknown & ~(both & ~equal)
                continue
            # The same location with another text is the same chunk.
            same += int((both & equal).sum())
            unknown = unknown & ~both
        one_sided = [self._several_in_one(other, common, index) for index in range(3)]
        of_place = one_sided[0] | one_sided[1]
        ambiguous, of_text = int(of_place.sum()), int((one_sided[2] & ~of_place & texts).sum())
        return SameIds(int(common.sum()), same, different + ambiguous, ambiguous, of_text)

    def borrowed_texts(self, run: RunOutputs, other: _RunChunks, numbers: Mapping[str, int], among: Bools) -> set[int]:
        """The chunks in the mask without a place under whose id the run returned the text of another chunk.

        The other run has a single text for each of them, and it is not that one.
        """
        texts, other_texts = self._columns[2], other._columns[2]
        owners: dict[int, int] = {}
        for column in (texts, other_texts):
            owners.update(zip(column.tolist(), range(len(column)), strict=True))
        n = min(len(self._seen), len(other._seen), len(among))
        asked = among[:n] & (texts[:n] == _SEVERAL) & (other_texts[:n] != 0) & (other_texts[:n] != _SEVERAL)
        borrowed = set()
        for doc_id, _, place, key in chain.from_iterable(run.documents()):
            number = numbers[doc_id]
            if number >= n or not asked[number] or place is not None or not key:
                continue
            text = hash(key) or 1
            if text != other_texts[number] and owners.get(text, number) != number:
                borrowed.add(number)
        return borrowed

    def _several_in_one(self, other: _RunChunks, common: Bools, index: int) -> Bools:
        """The common ids with several values in a column of one run and one in the other, where ids have one each."""
        n, bit = len(common), 1 << index
        found = np.zeros(n, dtype=np.bool_)
        for chunks, reference in ((self, other), (other, self)):
            of_reference = reference._several & bit > 0
            if int(of_reference.sum()) * _MOST_CHANGED < reference.size:
                column = reference._columns[index][:n]
                known = (column != 0) & (column != _SEVERAL)
                found |= common & known & (chunks._several[:n] & bit > 0)
        return found


def _differ(first: int, second: int) -> bool:
    """Whether two hashes are known and differ."""
    return 0 not in (first, second) and first != second


def _gold_never_returned(
    runs: Mapping[str, RunOutputs],
    without: Sequence[str],
    queries: Iterable[EvaluationSample],
    ids: SameIds,
    parents_known: bool,
) -> ChunkChange | None:
    """The change that the gold shows: runs ``without`` any of the gold ids, and yet with the passages they name."""
    locations = ChunkLocations(queries, list(runs.values()))
    places = {query.sample_id: locations.expected(query) for query in queries}
    covering = [name for name in without if _hits_gold(runs[name], places, by="span")]
    if len(covering) == 2:
        reason = "neither run ever returns a gold id, and the chunks of both cover gold spans"
        return ChunkChange(reason, parents_known=parents_known, gold_only=True)
    if covering and not ids.same:
        reason = f"run {covering[0]} never returns a gold id, and its chunks cover gold spans"
        return ChunkChange(reason, parents_known=parents_known)
    if len(without) == 1 and not ids.common and _hits_gold(runs[without[0]], places, by="document"):
        reason = f"run {without[0]} never returns a gold id, and the two runs have no id in common, but documents"
        return ChunkChange(reason, parents_known=parents_known)
    return None


def _hits_gold(run: RunOutputs, gold: Mapping[str, Sequence[GoldUnit]], *, by: str) -> bool:
    """Whether any output hits gold by a span, or at least by its document."""
    kinds = ("span",) if by == "span" else ("span", "document")
    outputs = ((gold.get(row.sample_id, ()), row.output) for row in run.stored(None, None))
    return any(first_rank(gold_ranks(units, documents_of(output), "place")).by in kinds for units, output in outputs)


# --- outputs of each run for a query: failures, documents, answers ---------------------------------------------------


class GoldRanks(NamedTuple):
    """Ranks of gold: for each level of relevance, the highest first, the ranks of gold of at least that level."""

    levels: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int | None:
        """The rank of the first gold document of any level."""
        return min(chain.from_iterable(self.levels), default=None)


@dataclass(frozen=True, slots=True)
class QueryOutput:
    """The outputs of one run for one query, over all repeats."""

    failed: float
    """The proportion of repeats that failed; 0 or 1 without repeats."""
    refused: float
    """The proportion of repeats that refused to answer."""
    context: tuple[Any, ...] | None
    """The ranking of the first output that did not fail; ``None`` if all failed."""
    answers: tuple[Any, ...]
    """The answer of each output that did not fail; empty if the system only retrieves."""
    gold: GoldRanks | None
    """``None`` where no gold is annotated."""
    error: str | None = None
    """The error of the first failed output."""

    @property
    def first_gold_rank(self) -> int | None:
        """The rank of the first gold document; ``None`` where none was returned, or none is annotated."""
        return None if self.gold is None else self.gold.first


def paired_outputs(queries: SharedQueries, finder: GoldFinder) -> Iterator[tuple[str, QueryOutput, QueryOutput]]:
    """Each of these samples with the outputs of both runs, in which ``finder`` looks for the gold."""
    detector = RefusalDetector()
    for query, in_a, in_b in queries.rows():
        gold, matching = finder.find(query, [*in_a, *in_b])
        output_a, output_b = (_query_output(query, repeats, gold, matching, detector) for repeats in (in_a, in_b))
        yield query.sample_id, output_a, output_b


def _query_output(
    sample: EvaluationSample,
    repeats: Sequence[SystemOutputs | None],
    gold: Sequence[GoldUnit],
    matching: Matching,
    detector: RefusalDetector,
) -> QueryOutput:
    answered = [output for output in repeats if output is not None and output.error is None]
    errors = [output.error for output in repeats if output is not None and output.error is not None]
    missing = None if len(answered) == len(repeats) else "no output is stored"
    first = answered[0] if answered else None
    has_gold = bool(gold or gold_units(sample))
    ranks = _gold_ranks(gold, first, matching) if has_gold else _listed_gold_ranks(sample, first)
    return QueryOutput(
        failed=(len(repeats) - len(answered)) / len(repeats),
        refused=sum(detector.refused(sample, output) is True for output in answered) / len(repeats),
        context=None if first is None else _context(first, matching),
        answers=tuple(_answer(output) for output in answered if output.response is not None),
        gold=ranks,
        error=errors[0] if errors else missing,
    )


def _context(output: SystemOutputs, matching: Matching) -> tuple[Any, ...]:
    """The documents in their order; if chunks differ between runs, only chunks of the same location are the same."""
    documents = documents_of(output)
    if matching != "place":
        return tuple(document.doc_id for document in documents)
    unknown = (object(),)  # no span of the other run is the same
    return tuple((document.parent, tuple(document.span or unknown)) for document in documents)


def _answer(output: SystemOutputs) -> tuple[Any, ...]:
    """The answer and its citations."""
    response = output.response
    assert response is not None
    cited = None if output.citations is None else tuple(output.citations)
    return response.text, repr(response.structured), repr(response.sentences), cited


def _gold_ranks(gold: Sequence[GoldUnit], output: SystemOutputs | None, matching: Matching) -> GoldRanks | None:
    """The ranks of gold, level by level; ``None`` if it is unknown what its ids name."""
    if not gold:
        return None
    ranks = gold_ranks(gold, documents_of(output), matching)
    hits = [(unit.level, found.rank) for unit, found in zip(gold, ranks, strict=True) if found.rank is not None]
    return ranks_by_level({unit.level for unit in gold}, hits)


def _listed_gold_ranks(sample: EvaluationSample, output: SystemOutputs | None) -> GoldRanks | None:
    """The ranks of the documents that the sample lists as expected; ``None`` if it lists none."""
    gold = document_gold(sample) or {}
    levels = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    known = {level for level in levels.values() if level > 0}
    if not known:
        return None
    first: dict[str, int] = {}
    retrieved = [] if output is None else output.retrieved
    for rank, item in enumerate(retrieved, 1):
        if item.doc.parent in levels:
            first.setdefault(item.doc.parent, rank)
    return ranks_by_level(known, [(levels[doc_id], rank) for doc_id, rank in first.items()])


def ranks_by_level(levels: Iterable[int], hits: Sequence[tuple[int, int]]) -> GoldRanks:
    """The ranks of gold at each of the levels; ``hits`` are a level and a rank each."""
    found: list[tuple[int, ...]] = []
    for level in sorted(levels, reverse=True):
        ranks = [rank for own, rank in hits if own >= level]
        found.append(tuple(sorted(ranks)))
    return GoldRanks(tuple(found))
