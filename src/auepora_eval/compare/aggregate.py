"""The golden-query metrics of one stored run, computed by the conventions ``golden``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core.conventions import Conventions
from ..core.engine import evaluate, resolve_metrics
from ..core.errors import AueporaWarning
from ..core.plan import with_corpus_ids
from ..core.repeats import evaluate_repeats
from ..core.results import Results
from ..core.types import EvaluationSample, SystemOutputs, UnknownRanking
from ..features.gold_match import gold_documents, has_spans
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore
from .golden import Golden, expected_ids, golden_queries, known_queries
from .match import Rank, rank_of
from .stores import RunOutputs, Store, open_store, read_run_outputs
from .types import AggregateMetrics

__all__ = [
    "CorpusIds",
    "RankMetrics",
    "aggregate_deltas",
    "aggregate_of",
    "compute_aggregate",
    "corpus_ids",
    "store_aggregate",
    "store_missing_aggregate",
]

CorpusIds = str | Path | Iterable[str]
"""The path of a corpus (JSONL), or the ids of its documents."""

GOLDEN_CONVENTIONS = Conventions.of("golden")
DIGITS = 4
"""How many decimals are stored."""
_SCALAR_METRICS = ("mrr", "citation_coverage", "groundedness", "empty_result_rate", "refusal_correctness")


@dataclass(frozen=True, slots=True)
class RankMetrics:
    """Hit rate at each cut-off and mean reciprocal rank, from the ranks of queries."""

    hit_at_k: Mapping[int, float | None]
    mrr: float | None

    @classmethod
    def of(cls, ranks: Sequence[int | None]) -> RankMetrics:
        """The metrics of these ranks; ``None`` is a miss."""

        def mean(values: list[float]) -> float | None:
            return math.fsum(values) / len(values) if values else None

        return cls(
            hit_at_k={
                k: mean([float(one is not None and one <= k) for one in ranks]) for k in GOLDEN_CONVENTIONS.k_values
            },
            mrr=mean([0.0 if one is None else 1.0 / one for one in ranks]),
        )

    def put_into(self, aggregate: AggregateMetrics) -> AggregateMetrics:
        """The aggregate with its hit rates and MRR replaced by these."""
        return replace(aggregate, hit_at_k=self.hit_at_k, mrr=self.mrr)


def compute_aggregate(
    run_id: str, *, store: Store = None, golden: Golden | None = None, corpus: CorpusIds | None = None
) -> AggregateMetrics:
    """The golden-query metrics of a stored run, unrounded; ``None`` where no query enters one. No system is called.

    ``run_id`` is whatever ``RunStore.find`` takes: an id, the beginning of one, a name, ``latest``. Expected chunks are
    read from ``golden``, a file or samples, else from the samples stored with the run. Golden queries that the run
    lacks, and queries of the run that are not golden, are left out and named in a warning; if none is common, that
    is an error. Citations must name documents of ``corpus``, else documents that were retrieved. If the run has
    repeats, a query's value is the mean over its outputs.
    """
    with open_store(store) as opened:
        run = read_run_outputs(opened, opened.find(run_id))
    samples = run.samples
    if golden is not None:
        samples, messages = known_queries(golden_queries(golden), run.ids, where=run.record.run_id)
        for message in messages:
            warnings.warn(message, AueporaWarning, stacklevel=2)
    missing = run.unanswered
    if missing and run.record.status is not RunStatus.FINISHED:
        warnings.warn(
            f"{run.record.run_id} is {run.record.status} and lacks {missing} answers; they count as failed",
            AueporaWarning,
            stacklevel=2,
        )
    return aggregate_of(run, samples, corpus=corpus)


def store_aggregate(run_id: str, agg: AggregateMetrics, *, store: Store = None) -> None:
    """Write a run's aggregate into ``eval_runs.aggregate_json``: four decimals, ``null`` if undefined."""
    with open_store(store) as opened:
        opened.set_aggregate(opened.find(run_id).run_id, agg.to_dict(digits=DIGITS))


def store_missing_aggregate(
    store: RunStore, record: RunRecord, *, corpus: CorpusIds | None = None, again: bool = False
) -> None:
    """Store the aggregate of a run with expected chunks, unless it has one; ``again`` replaces it.

    A run without any known ranking has none.
    """
    if record.aggregate is not None and not again:
        return
    run = read_run_outputs(store, record)
    answers = [output for outputs in run.outputs for output in outputs.values() if output.error is None]
    unknown = bool(answers) and all(isinstance(output.retrieved, UnknownRanking) for output in answers)
    if any(map(expected_ids, run.samples)) and not unknown:
        store_aggregate(record.run_id, aggregate_of(run, run.samples, corpus=corpus), store=store)


def corpus_ids(corpus: CorpusIds) -> list[str]:
    """The ids of a corpus, from its file or as given."""
    if not isinstance(corpus, (str, Path)):
        return list(corpus)
    from ..io.corpus import Corpus

    with Corpus.open(corpus) as opened:
        return list(opened.ids)


def aggregate_of(
    run: RunOutputs,
    samples: Sequence[EvaluationSample],
    *,
    counts_only: bool = False,
    corpus: CorpusIds | None = None,
) -> AggregateMetrics:
    """The metrics over these queries of a run; a query without an output counts as failed.

    With ``counts_only`` no metric is computed: they are ``None``.
    """
    results = () if counts_only else _results(run, samples, corpus)
    values = {result.name: result.value if result.defined else None for result in results}
    aggregate = AggregateMetrics(
        hit_at_k={k: values.get(f"hit_rate@{k}") for k in GOLDEN_CONVENTIONS.k_values},
        recall_at_k_doc={k: values.get(f"recall_doc@{k}") for k in GOLDEN_CONVENTIONS.k_values},
        total_queries=len(samples),
        failed_queries=sum(_has_failed(run, sample.sample_id) for sample in samples),
        **{name: values.get(name) for name in _SCALAR_METRICS},
    )
    ranks = None if counts_only else _ranks_by_span(run, samples)
    return aggregate if ranks is None else ranks.put_into(aggregate)


def _ranks_by_span(run: RunOutputs, samples: Sequence[EvaluationSample]) -> RankMetrics | None:
    """Hit rates and MRR where an expected chunk is hit by its span; ``None`` where ids alone decide."""
    if not any(map(has_spans, samples)):
        return None
    expected = {sample.sample_id: gold for sample in samples if (gold := gold_documents(sample))}
    ranks = [
        Rank(None)
        if (output := outputs.get(sample_id)) is None or output.error is not None
        else rank_of(gold, output, "id_or_span")
        for outputs in run.outputs
        for sample_id, gold in expected.items()
    ]
    return RankMetrics.of([one.position for one in ranks]) if any(one.by_span for one in ranks) else None


def aggregate_deltas(a: AggregateMetrics, b: AggregateMetrics) -> dict[str, Any]:
    """b - a for each metric, with JSON keys; ``None`` where one of the two is undefined."""

    def difference(first: Any, second: Any) -> Any:
        if isinstance(first, Mapping):
            return {str(k): difference(first[k], second.get(k)) for k in first}
        return None if first is None or second is None else second - first

    ours, others = asdict(a), asdict(b)
    return {name: difference(ours[name], others[name]) for name in ours if not name.endswith("_queries")}


def _results(run: RunOutputs, samples: Sequence[EvaluationSample], corpus: CorpusIds | None) -> Results:
    annotated = any(sample.relevant_docs is not None for sample in samples)
    specs = [f"{name}@{k}" for name in ("hit_rate", "recall_doc") for k in GOLDEN_CONVENTIONS.k_values]
    # A metric whose annotation no query has is undefined; the engine would raise an error.
    chosen = [
        one
        for one in resolve_metrics([*specs, *_SCALAR_METRICS], GOLDEN_CONVENTIONS)
        if annotated or "relevant_docs" not in one.required_fields()
    ]
    if corpus is not None:
        chosen = with_corpus_ids(chosen, partial(corpus_ids, corpus))
    if len(run.outputs) == 1:
        return evaluate(samples, run.outputs[0], chosen, keep_scores=False)
    return evaluate_repeats(samples, [partial(_align_outputs, samples, outputs) for outputs in run.outputs], chosen)


def _align_outputs(
    samples: Sequence[EvaluationSample], outputs: Mapping[str, SystemOutputs]
) -> Iterator[SystemOutputs | None]:
    return (outputs.get(sample.sample_id) for sample in samples)


def _has_failed(run: RunOutputs, sample_id: str) -> bool:
    """Whether any output of a query failed or is missing."""
    answers = [outputs.get(sample_id) for outputs in run.outputs]
    return any(answer is None or answer.error is not None for answer in answers)
