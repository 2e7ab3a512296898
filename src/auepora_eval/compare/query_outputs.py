"""The output of each run for a query, reduced to what may explain a difference: failures, documents, answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.batch import Batch
from ..core.types import EvaluationSample, SystemOutputs
from ..features.gold_match import GoldDocument, Matching, gold_documents, gold_ranks
from ..features.rankings import RankingColumns, document_rankings
from ..features.refusals import RefusalDetector
from ..store.records import RunRecord
from ..store.runs import RunStore
from .match import ChunkLocations, id_or_span
from .rechunking import ChunkChange, chunk_change
from .stores import RunOutputs, read_run_outputs

__all__ = ["GoldRanks", "QueryOutput", "paired_outputs"]


class GoldRanks(NamedTuple):
    """Ranks of gold: for each level of relevance, the highest first, the ranks of gold of at least that level."""

    levels: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int | None:
        """The rank of the first gold document of any level."""
        return min((rank for ranks in self.levels for rank in ranks), default=None)


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


def paired_outputs(
    store: RunStore, record_a: RunRecord, record_b: RunRecord, sample_ids: Iterable[str]
) -> Iterator[tuple[str, QueryOutput, QueryOutput]]:
    """Each of these samples, in the order of run B, with the outputs of both runs.

    Gold is run B's. If the chunks of the runs differ, ids of chunks mean nothing: gold is then a location in a
    document, or the document if a span is unknown.
    """
    run_a, run_b = read_run_outputs(store, record_a), read_run_outputs(store, record_b)
    change = chunk_change(run_a, run_b, run_b.samples)
    names = set(sample_ids)
    samples = [sample for sample in run_b.samples if sample.sample_id in names]
    matching: dict[str, Matching]
    if change is None or change.gold_only:
        expected = {one.sample_id: gold_documents(one) for one in samples}
        runs = [*run_a.outputs, *run_b.outputs]
        matching = {name: id_or_span(gold, [one.get(name) for one in runs]) for name, gold in expected.items()}
    else:
        expected = _located_gold_of_runs(run_a, run_b, samples, change)
        matching = dict.fromkeys(expected, "place")
    outputs_a, outputs_b = (_query_outputs(samples, run, expected, matching) for run in (run_a, run_b))
    for sample, output_a, output_b in zip(samples, outputs_a, outputs_b, strict=True):
        yield sample.sample_id, output_a, output_b


def _located_gold_of_runs(
    run_a: RunOutputs, run_b: RunOutputs, samples: Sequence[EvaluationSample], change: ChunkChange
) -> dict[str, list[GoldDocument]]:
    by_age = sorted([run_a, run_b], key=lambda run: (run.record.created_at, run.record.run_id))
    places = ChunkLocations(samples, by_age, ids_reused=change.ids_reused)
    return {sample.sample_id: places.expected(sample) for sample in samples}


def _query_outputs(
    samples: Sequence[EvaluationSample],
    run: RunOutputs,
    expected: Mapping[str, Sequence[GoldDocument]],
    matching: Mapping[str, Matching],
) -> list[QueryOutput]:
    by_sample = [[outputs.get(sample.sample_id) for outputs in run.outputs] for sample in samples]
    answered_by_sample = [[one for one in repeats if one is not None and one.error is None] for repeats in by_sample]
    documents = document_rankings(
        Batch(samples, [answered[0] if answered else None for answered in answered_by_sample])
    )
    detector = RefusalDetector()
    query_outputs = []
    for row, (sample, repeats, answered) in enumerate(zip(samples, by_sample, answered_by_sample, strict=True)):
        errors = [one.error for one in repeats if one is not None and one.error is not None]
        missing = None if len(answered) == len(repeats) else "no output is stored"
        gold, how = expected[sample.sample_id], matching[sample.sample_id]
        query_outputs.append(
            QueryOutput(
                failed=(len(repeats) - len(answered)) / len(repeats),
                refused=sum(detector.refused(sample, one) is True for one in answered) / len(repeats),
                context=_context(answered[0], how) if answered else None,
                answers=tuple(_answer(one) for one in answered if one.response is not None),
                gold=_gold_ranks(gold, answered[0] if answered else None, how)
                if gold or gold_documents(sample)
                else _listed_gold_ranks(documents, row),
                error=errors[0] if errors else missing,
            )
        )
    return query_outputs


def _context(output: SystemOutputs, matching: Matching) -> tuple[Any, ...]:
    """The documents in their order; if chunks differ between runs, only chunks of the same location are the same."""
    documents = [item.doc for item in output.retrieved]
    if matching != "place":
        return tuple(document.doc_id for document in documents)
    return tuple((one.parent, object() if one.span is None else tuple(one.span)) for one in documents)


def _answer(output: SystemOutputs) -> tuple[Any, ...]:
    """The answer and its citations."""
    response = output.response
    assert response is not None
    cited = None if output.citations is None else tuple(output.citations)
    return response.text, repr(response.structured), repr(response.sentences), cited


def _gold_ranks(gold: Sequence[GoldDocument], output: SystemOutputs | None, matching: Matching) -> GoldRanks | None:
    """The ranks of gold, level by level; ``None`` if it is unknown what its ids name."""
    if not gold:
        return None
    ranks = gold_ranks(gold, [] if output is None else [item.doc for item in output.retrieved], matching)
    hits = [(one.level, found.rank) for one, found in zip(gold, ranks, strict=True) if found.rank is not None]
    return _by_level({one.level for one in gold}, hits)


def _listed_gold_ranks(documents: RankingColumns, row: int) -> GoldRanks | None:
    """The ranks of the documents that the sample lists as expected; ``None`` if it lists none."""
    gold = documents.gold[row] or {}
    levels = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    known = {level for level in levels.values() if level > 0}
    if not known:
        return None
    first: dict[str, int] = {}
    for rank, doc_id in enumerate(documents.ranked[row], 1):
        if doc_id in levels:
            first.setdefault(doc_id, rank)
    return _by_level(known, [(levels[doc_id], rank) for doc_id, rank in first.items()])


def _by_level(levels: Iterable[int], hits: Sequence[tuple[int, int]]) -> GoldRanks:
    return GoldRanks(
        tuple(tuple(sorted(rank for own, rank in hits if own >= level)) for level in sorted(levels, reverse=True))
    )
