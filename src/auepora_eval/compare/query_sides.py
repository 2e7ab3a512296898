"""What one run gave for a query, as far as it may tell why the other run did better: failures, documents, answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.batch import Batch
from ..core.types import EvaluationSample, SystemOutputs
from ..features.rankings import RankingColumns, document_rankings, rankings
from ..features.refusals import RefusalDetector
from ..store.records import RunRecord
from ..store.runs import RunStore

__all__ = ["GoldRanks", "QuerySide", "both_sides"]

Outputs = Mapping[str, Sequence[SystemOutputs | None]]
"""By the id of a sample what came back for it, repeat by repeat; ``None`` where nothing is stored."""


class GoldRanks(NamedTuple):
    """Where gold stands: for each level of relevance, the highest first, the ranks of gold of at least that level."""

    levels: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int | None:
        """The rank of the first gold document, of whatever level."""
        return min((rank for ranks in self.levels for rank in ranks), default=None)


@dataclass(frozen=True, slots=True)
class QuerySide:
    """What one run gave for one query."""

    failed: float
    """The share of its answers that failed; 0 or 1 where it was asked once."""
    refused: float
    """The share of its answers that decline to answer."""
    context: tuple[Any, ...] | None
    """Its documents in their order, of the first answer that did not fail; ``None`` where all did."""
    answers: tuple[Any, ...]
    """What it answered, each time it did not fail; empty where no answer was asked for."""
    gold: GoldRanks | None
    """``None`` where no gold is annotated."""
    error: str | None = None
    """Why the first of the failures failed."""


def both_sides(
    store: RunStore, record_a: RunRecord, record_b: RunRecord, wanted: Iterable[str]
) -> Iterator[tuple[str, QuerySide, QuerySide]]:
    """The id of each wanted sample, in the order of run B, with what both runs gave for it.

    Gold is run B's. Where both runs say which chunker cut their documents, and it is not the same one, ids of chunks
    mean nothing: gold is then a document, and any chunk of it will do.
    """
    names = set(wanted)
    samples = [sample for sample in store.samples(record_b.run_id, texts=False) if sample.sample_id in names]
    outputs_a, outputs_b = _outputs(store, record_a, names), _outputs(store, record_b, names)
    recut = _recut(record_a, record_b)
    if recut:
        samples = _with_parents(samples, (outputs_a, outputs_b))
    sides_a, sides_b = _sides(samples, outputs_a, recut=recut), _sides(samples, outputs_b, recut=recut)
    for sample, side_a, side_b in zip(samples, sides_a, sides_b, strict=True):
        yield sample.sample_id, side_a, side_b


def _recut(record_a: RunRecord, record_b: RunRecord) -> bool:
    versions = [record.config.get("chunker_version") for record in (record_a, record_b)]
    return None not in versions and str(versions[0]) != str(versions[1])


def _outputs(store: RunStore, record: RunRecord, wanted: Iterable[str]) -> Outputs:
    found: dict[str, list[SystemOutputs | None]] = {name: [None] * max(record.repeats, 1) for name in wanted}
    for row in store.outputs(record.run_id, texts=False):
        if row.sample_id in found:
            found[row.sample_id][row.repeat] = row.output
    return found


def _with_parents(samples: Sequence[EvaluationSample], runs: Sequence[Outputs]) -> list[EvaluationSample]:
    """The samples, gold chunks that do not name their document getting it from a hit of the same id."""
    parents: dict[str, str] = {}
    for outputs in runs:
        given = (output for repeats in outputs.values() for output in repeats if output is not None)
        for item in (item for output in given for item in output.retrieved):
            if item.doc.parent_id is not None:
                parents.setdefault(item.doc.doc_id, item.doc.parent_id)
    return [
        sample
        if sample.relevant_docs is None
        else replace(
            sample,
            relevant_docs=[
                replace(gold, parent_id=parents.get(gold.doc_id)) if gold.parent_id is None else gold
                for gold in sample.relevant_docs
            ],
        )
        for sample in samples
    ]


def _sides(samples: Sequence[EvaluationSample], outputs: Outputs, *, recut: bool) -> list[QuerySide]:
    each = [outputs[sample.sample_id] for sample in samples]
    answered = [[one for one in repeats if one is not None and one.error is None] for repeats in each]
    batch = Batch(samples, [given[0] if given else None for given in answered])
    columns = (document_rankings(batch),) if recut else (rankings(batch), document_rankings(batch))
    detector = RefusalDetector()
    sides = []
    for row, (sample, repeats, given) in enumerate(zip(samples, each, answered, strict=True)):
        errors = [one.error for one in repeats if one is not None and one.error is not None]
        missing = None if len(given) == len(repeats) else "no output is stored"
        sides.append(
            QuerySide(
                failed=(len(repeats) - len(given)) / len(repeats),
                refused=sum(detector.refused(sample, one) is True for one in given) / len(repeats),
                context=_context(given[0], recut=recut) if given else None,
                answers=tuple(_answer(one) for one in given if one.response is not None),
                gold=_gold_ranks(columns, row),
                error=errors[0] if errors else missing,
            )
        )
    return sides


def _context(output: SystemOutputs, *, recut: bool) -> tuple[Any, ...]:
    """The documents in their order. Cut by another chunker, only what is known to lie in the same place is the same."""
    documents = [item.doc for item in output.retrieved]
    if not recut:
        return tuple(document.doc_id for document in documents)
    return tuple((one.parent, object() if one.span is None else tuple(one.span)) for one in documents)


def _answer(output: SystemOutputs) -> tuple[Any, ...]:
    """What was answered, with what it cites."""
    response = output.response
    assert response is not None
    cited = None if output.citations is None else tuple(output.citations)
    return response.text, repr(response.structured), repr(response.sentences), cited


def _gold_ranks(columns: Sequence[RankingColumns], row: int) -> GoldRanks | None:
    """Where gold stands, by the first of these columns that has any for this query."""
    for one in columns:
        gold = one.gold[row] or {}
        levels = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
        known = sorted({level for level in levels.values() if level > 0}, reverse=True)
        if not known:
            continue
        first: dict[str, int] = {}
        for rank, doc_id in enumerate(one.ranked[row], 1):
            if doc_id in levels:
                first.setdefault(doc_id, rank)
        return GoldRanks(
            tuple(tuple(rank for doc_id, rank in first.items() if levels[doc_id] >= level) for level in known)
        )
    return None
