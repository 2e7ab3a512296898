"""Comparison of stored runs: the leaderboard of two or more; the whole comparison of two, and its split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.conventions import Signature
from ..core.grouping import group_pairs
from ..core.metrics_base import BatchMetric, Metric, make_result
from ..core.reduce import Clusters, exact_sum
from ..core.results import Results, display_name, empty_answers, unusable_judges
from ..core.scores import Scores
from ..core.slices import Grouping, Rows, parse_slices
from ..core.types import EvaluationSample, MetricResult, TargetCategory
from ..engine.repeats import result_over_repeats
from ..errors import BadValueError
from ..io.sample_sets import SampleSet, select_samples
from ..render.tables import drift_text
from ..runtime.processes import gc_paused
from ..stats.intervals import encode_clusters
from ..store.records import RunRecord
from ..store.runs import DecisionKind, RunStore, iter_samples, result_summaries
from .analysis import (
    Adjustment,
    Analysis,
    LeaderboardAdjustment,
    compute_comparisons,
    finite_or_none,
    require_adjustment,
)
from .chunks import RunOutputsCache, outputs_cache
from .depths import mark_longer_list
from .golden import CorpusIds, Golden, aggregate_deltas, corpus_ids, golden_queries
from .guardrails import check_guardrails, fallen_metrics, guardrail_margins
from .match import check_coverage
from .metrics import ComparisonInputs, build_comparisons
from .pairing import (
    MetricPair,
    exclude_rows,
    failed_without_value,
    find_metric,
    metric_meta,
    reduce_or_nan,
    selection_note,
    shared_samples,
)
from .queries import compare_run_outputs, require_same_chunks
from .stores import Store, open_store, register_decision, version_notes
from .sweeps import PickedRun, picked_runs, picked_text
from .types import (
    CompareReport,
    ComparisonFindings,
    ComparisonInput,
    MetricComparison,
    findings_of,
    guardrails_document,
    run_labels,
)
from .verdicts import Margin, require_known

# --- the leaderboard: values on the common samples, and a comparison of each pair ------------------------------------


@dataclass(frozen=True, slots=True)
class LeaderboardPair:
    """Two runs of a leaderboard, by their indices; the verdict is about the second."""

    first: int
    second: int
    comparison: MetricComparison

    @property
    def better_and_worse(self) -> tuple[int, int] | None:
        """The run that is significantly better, and the other one; ``None`` where neither is."""
        if self.comparison.verdict == "better":
            return self.second, self.first
        return (self.first, self.second) if self.comparison.verdict == "worse" else None


@dataclass(frozen=True, slots=True)
class LeaderboardMetric:
    """One metric of a leaderboard: the value of each run and the comparison of each pair."""

    name: str
    target: str
    higher_is_better: bool | None
    """``None`` for the proportion of one of several classes."""
    values: tuple[float | None, ...]
    """Each run's value over the samples that all have."""
    pairs: tuple[LeaderboardPair, ...]

    @property
    def label(self) -> str:
        """The name for display."""
        return self.pairs[0].comparison.label or self.name

    @property
    def primary(self) -> bool:
        """Whether there are verdicts on it; otherwise it is exploratory."""
        return all(pair.comparison.primary for pair in self.pairs)

    @property
    def ranking(self) -> list[int]:
        """The indices of the runs, the best value first, runs without a value last; ties in the order given."""
        sign = -1.0 if self.higher_is_better else 1.0
        return sorted(
            range(len(self.values)), key=lambda run: (self.values[run] is None, sign * (self.values[run] or 0))
        )

    @property
    def wins(self) -> list[tuple[int, int]]:
        """Each pair of runs of which the first is significantly better."""
        return [found for pair in self.pairs if (found := pair.better_and_worse) is not None]

    @property
    def has_value(self) -> bool:
        """Whether any run has a value."""
        return any(value is not None for value in self.values)

    def unbeaten(self) -> list[int]:
        """The indices of the runs that no other run is significantly better than."""
        beaten = {worse for _, worse in self.wins}
        return [run for run in self.ranking if run not in beaten and self.values[run] is not None]

    def to_dict(self, run_ids: Sequence[str]) -> dict[str, Any]:
        """The entry of the leaderboard document, without the name."""
        named = [(run_ids[pair.first], run_ids[pair.second], pair.comparison.to_dict()) for pair in self.pairs]
        return {
            "target": self.target,
            "primary": self.primary,
            "values": list(self.values),
            "ranking": [run_ids[run] for run in self.ranking],
            "unbeaten": [run_ids[run] for run in self.unbeaten()],
            "pairs": [{"run_a": first, "run_b": second, **comparison} for first, second, comparison in named],
        }


@dataclass(frozen=True, slots=True)
class Leaderboard(ComparisonFindings):
    """Two or more runs compared with each other on every metric."""

    run_ids: tuple[str, ...]
    names: tuple[str, ...]
    metrics: list[LeaderboardMetric]
    samples: int = 0
    """How many samples all runs have."""
    notes: tuple[str, ...] = ()
    """Further notes on the runs, which are called A, B, ... in them."""
    only: tuple[int, ...] = ()
    """For each run how many of its samples some other run lacks."""

    @classmethod
    def of_pair(cls, report: CompareReport, names: Sequence[str] | None = None) -> Leaderboard:
        """The leaderboard of two runs that were compared; without ``names`` they are called by their ids."""
        run_ids = report.run_a, report.run_b
        metrics: list[LeaderboardMetric] = []
        samples = 0
        for found in report.metrics:
            pair = LeaderboardPair(0, 1, found)
            values = (found.a, found.b)
            metrics.append(LeaderboardMetric(found.name, found.target, found.higher_is_better, values, (pair,)))
            samples = max(samples, found.n if found.two_stage is None else found.two_stage["samples"])
        names = run_ids if names is None else tuple(names)
        return cls(run_ids, names, metrics, samples, tuple(report.notes), **findings_of(report))

    def metric_label(self, name: str) -> str:
        """The name of a metric for display."""
        return self.metric_labels.get(name, name)

    @property
    def valued(self) -> list[LeaderboardMetric]:
        """The metrics in which a run has a value, the main one first."""
        valued = [metric for metric in self.metrics if metric.has_value]
        places = {name: place for place, name in enumerate(self.ranked)}
        return sorted(valued, key=lambda metric: places.get(metric.name, len(places)))

    @property
    def labels(self) -> list[str]:
        """The labels of the runs: A, B, ..., Z, 27, ..."""
        return run_labels(len(self.run_ids))

    @property
    def pairs(self) -> list[LeaderboardPair]:
        """Every metric and pair of runs."""
        return list(itertools.chain.from_iterable(metric.pairs for metric in self.metrics))

    @property
    def comparisons(self) -> list[MetricComparison]:
        """The comparison of every metric and pair of runs."""
        return [pair.comparison for pair in self.pairs]

    def to_dict(self) -> dict[str, Any]:
        """The leaderboard as a JSON document."""
        return {
            "schema": 1,
            "runs": [
                {"run_id": run_id, "name": name, "missing_outputs": missing}
                for run_id, name, missing in zip(self.run_ids, self.names, self.missing, strict=True)
            ],
            "samples": self.samples,
            "metrics": {metric.name: metric.to_dict(self.run_ids) for metric in self.metrics},
            "refused": dict(self.refused),
            **({"notes": list(self.notes)} if self.notes else {}),
            **({} if self.register is None else {"register": self.register.to_dict()}),
            **({} if self.sample_set is None else {"sample_set": self.sample_set}),
        }

    def record_in(self, store: RunStore, records: Sequence[RunRecord]) -> Leaderboard:
        """The leaderboard with the register of the store, which this comparison is recorded in."""
        kind: DecisionKind = "comparison" if len(self.run_ids) == 2 else "sweep"
        decided: dict[str, Any] = {}
        for metric in self.metrics:
            unbeaten = [self.run_ids[run] for run in metric.unbeaten()]
            if metric.primary:
                decided[metric.name] = unbeaten if kind == "sweep" else metric.pairs[0].comparison.verdict
        return replace(self, register=register_decision(store, records, kind, decided, samples=self.sample_set))


def build_leaderboard(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    metrics: Sequence[str | Metric] | None = None,
    adjust: LeaderboardAdjustment = "max-t",
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    other_dataset: bool = False,
    seed: int = 0,
    golden: Sequence[EvaluationSample] | None = None,
    answers: RunOutputsCache | None = None,
    samples: SampleSet | None = None,
    guardrails: Mapping[str, float] | None = None,
    joint_intervals: bool = False,
) -> Leaderboard:
    """Compare every two of several runs on the samples that all of them have. No text of a document is read.

    ``delta`` is the largest difference that does not matter, for all metrics or by name; without it no metric is called
    equal. All pairs of all ``primary`` metrics share one 5 %; by default those that the plan of the last run names,
    else of the one before it, ..., else all. With ``tukey`` the pairs of each metric share 5 %, by randomised Tukey
    HSD; metrics that are not means keep max-T. ``metrics`` selects by name; a metric object also defines a metric that
    is not registered.

    Gold is matched in one way in all runs: the coarsest of theirs, or by span, text or document if the chunks of the
    runs differ, by their ``chunker_version`` or by what is stored. Metrics are computed again from stored outputs if
    need be; those that cannot match gold so are refused. Expected chunks come from the ``golden`` queries, else from
    the samples of the last run; ``answers`` is a cache of outputs that were read before. ``samples`` restricts the
    comparison to a set, which all runs must have; a run whose outcomes selected the set has no verdict.

    ``guardrails`` are metrics that must not get worse, with the largest loss that is allowed; by default those of the
    plan of the last run that has any. They are checked between two runs. With ``joint_intervals`` every interval allows
    for all comparisons that share the error rate.
    """
    require_adjustment(adjust)
    if len(records) < 2:
        raise BadValueError(f"a leaderboard needs at least two runs, not {len(records)}")
    run_ids = tuple(record.run_id for record in records)
    for run_id in run_ids:
        if run_ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is named twice; name every run once")
    margins = guardrail_margins(records, guardrails)
    guardrail_notes = []
    if margins and len(records) > 2:
        guardrail_notes.append(f"guardrails ({', '.join(margins)}) are checked between two runs only")
        margins = {}
    built = build_comparisons(
        store,
        records,
        metrics=metrics,
        delta=delta,
        primary=primary,
        other_dataset=other_dataset,
        golden=golden,
        answers=answers,
        samples=samples,
        guardrails=margins,
    )
    picked = picked_runs(store, records) if len(records) == 2 else []
    rivals, rival_notes = _rival_inputs(store, records, picked, built, golden=golden, samples=samples)
    inputs = [replace(given, is_joint=joint_intervals) for given in (*built.inputs, *rivals)]
    comparisons = compute_comparisons(inputs, built.shared.clusters, adjust=adjust, seed=seed)
    comparisons = [
        mark_longer_list(given, check_coverage(given, found))
        for given, found in zip(built.inputs, comparisons[: len(built.inputs)], strict=True)
    ]
    require_known(guardrails or (), [*(found.name for found in comparisons), *built.refused])
    clusters = built.shared.clusters
    outcomes = check_guardrails(built.inputs, comparisons, margins, clusters=clusters, refused=built.refused, seed=seed)
    fallen: tuple[str, ...] = ()
    if len(records) == 2 and not margins:
        fallen = fallen_metrics(built.inputs, comparisons, clusters, seed=seed)
    judged = list(zip(built.inputs, comparisons, strict=True))
    undecided = [given for given, found in judged if found.verdict == "inconclusive" and given.name not in fallen]
    uncertain = {given.name: given.cut for given in undecided if given.cut}
    refused = {**built.refused, **uncertain}
    compared = _by_metric([pair for pair in judged if pair[0].name not in uncertain], len(records))
    notes = [
        *([] if samples is None else [samples.note]),
        *([selection_note(built.shared.selecting)] if built.shared.selecting else []),
        *guardrail_notes,
        *(run.note("AB"[run.place]) for run in picked),
        *rival_notes,
        *built.notes,
        *_empty_answer_notes(store, run_ids, compared),
        *_control_notes(store, run_ids),
    ]
    return Leaderboard(
        run_ids,
        tuple(record.name for record in records),
        compared,
        len(built.shared.ids),
        tuple(notes),
        only=tuple(built.shared.only),
        refused=refused,
        missing=tuple(built.missing),
        sample_set=None if samples is None else samples.name,
        refused_primary=tuple(name for name in refused if name in built.primary),
        guardrails=outcomes,
        fallen=fallen,
        metric_labels=built.labels,
        ranked=tuple(built.ranked),
        rivals=len(rivals),
    )


def _rival_inputs(
    store: RunStore,
    records: Sequence[RunRecord],
    picked: Sequence[PickedRun],
    built: ComparisonInputs,
    *,
    golden: Sequence[EvaluationSample] | None,
    samples: SampleSet | None,
) -> tuple[list[ComparisonInput], list[str]]:
    """The comparisons that two runs were picked by: all of a sweep with the other run; all pairs if both were picked.

    They share the error rate of the primary metrics, and are not shown. The notes name runs that cannot be compared.
    """
    listed = itertools.chain.from_iterable(run.others for run in picked)
    others = {rival.run_id: rival for rival in listed}
    names = [given.name for given in built.inputs if given.primary]
    if not others or not names:
        return [], []
    build = partial(build_comparisons, store, delta=None, other_dataset=False, golden=golden, samples=samples)
    found = build([*records, *others.values()], metrics=names, primary=names)
    rivals, notes = [given for given in found.inputs if given.runs != (0, 1)], []
    for name, reason in found.refused.items():  # without those that cannot be compared, as with other chunks
        alone = {rival.name: build([*records, rival], metrics=[name], primary=[name]) for rival in others.values()}
        left_out = [label for label, inputs in alone.items() if inputs.refused]
        kept = [rival for rival in others.values() if rival.name not in left_out]
        rest = build([*records, *kept], metrics=[name], primary=[name])
        rivals += [given for given in rest.inputs if given.runs != (0, 1)]
        notes.append(f"{name}: not adjusted for {len(left_out)} of the sweep ({', '.join(left_out[:3])}): {reason}")
    if len(picked) < 2:
        rivals = [given for given in rivals if 1 - picked[0].place in given.runs]
    return rivals, notes


def _by_metric(judged: Iterable[tuple[ComparisonInput, MetricComparison]], runs: int) -> list[LeaderboardMetric]:
    metrics = []
    for name, of_metric in group_pairs((found.name, (given, found)) for given, found in judged).items():
        pairs = tuple(LeaderboardPair(*given.runs, found) for given, found in of_metric)
        inputs, first = [given for given, _ in of_metric], pairs[0].comparison
        values = (first.a, first.b) if runs == 2 else _values(inputs, runs)
        metrics.append(LeaderboardMetric(name, first.target, inputs[0].definition.direction, values, pairs))
    return metrics


def _values(inputs: Sequence[ComparisonInput], runs: int) -> tuple[float | None, ...]:
    """Each run's value; a sample on which any run has a failure without a score is left out for all."""
    definition = inputs[0].definition
    read = [(given.runs, given.pair) for given in inputs]
    scores = {runs[0]: pair.first for runs, pair in read} | {runs[1]: pair.second for runs, pair in read}
    stored = dict(itertools.chain.from_iterable(zip(given.runs, given.stored or (), strict=False) for given in inputs))
    reducer = definition.reducer
    if reducer is None or (stored and any(given.two_stage is not None for given in inputs)):
        return tuple(stored.get(run) for run in range(runs))
    excluded = np.logical_or.reduce([failed_without_value(score) for score in scores.values()])
    values = [reduce_or_nan(reducer, exclude_rows(scores[run], excluded)) for run in range(runs)]
    return tuple(finite_or_none(value) for value in values)


def _empty_answer_notes(store: RunStore, run_ids: Sequence[str], metrics: Iterable[LeaderboardMetric]) -> Iterator[str]:
    """Notes on runs with many empty answers, if abstention metrics are compared."""
    names = [metric.name for metric in metrics if metric.target == TargetCategory.NEGATIVE_REJECTION.name]
    for label, run_id in zip(run_labels(len(run_ids)), run_ids, strict=True):
        found = next(filter(None, (empty_answers(store.result(run_id, name)) for name in names)), None)
        if found is not None:
            yield f"{label}: {found}; abstention metrics count an empty answer as a refusal"


def _control_notes(store: RunStore, run_ids: Sequence[str]) -> Iterator[str]:
    """Notes on judges that are not usable, and on verdicts on control items that differ between two runs."""
    labels = run_labels(len(run_ids))
    results = [result_summaries(store, run_id) for run_id in run_ids]
    for label, own in zip(labels, results, strict=True):
        yield from (f"{label}: {text}" for text in unusable_judges(own).values())
    for (label, first), (_, second) in itertools.pairwise(zip(labels, results, strict=True)):
        earlier = {result.name: result for result in first if result.details.controls}
        if not earlier:
            continue
        from ..judge.controls import control_drift  # judges are slow to import, and most runs have none

        for result in second:
            if result.name in earlier and (drift := control_drift(earlier[result.name], result)) is not None:
                yield f"{display_name(result)}: {drift_text({'run_id': label, **drift})}"


# --- one run on a set of samples -------------------------------------------------------------------------------------


def results_on_set(store: RunStore, record: RunRecord, results: Results, samples: SampleSet) -> Results:
    """The results of a run over the samples of a set, from the stored scores.

    A metric that is not known in this process, or without a score per sample, is left out.
    """
    shared = shared_samples(store, [record], samples=samples)
    slices = parse_slices(record.plan.get("slices") or ())
    grouping = Grouping(slices, keep=True)
    if slices:
        grouping.add(list(iter_samples(store, record.run_id, positions=set(shared.rows[0].tolist()), texts=False)))
    found = []
    for stored in results:
        metric = find_metric(stored, record) if isinstance(stored.scores, Scores) else None
        if metric is None or not isinstance(stored.scores, Scores) or len(stored.scores) != record.num_samples:
            continue
        reduced = partial(_reduce, metric, shared.take(stored.scores, 0), stored, shared.clusters)
        result = reduced()
        for name, groups in grouping.rows().items():
            result.slices[name] = {group: reduced(rows) for group, rows in groups.items()}
        found.append(result)
    return Results(found, sample_ids=shared.ids, run_id=record.run_id)


def _reduce(
    metric: BatchMetric, scores: Scores, stored: MetricResult, clusters: Clusters | None, rows: Rows | None = None
) -> MetricResult:
    """The result of a metric over some scores of a stored result."""
    if rows is not None:
        scores, clusters = scores.take(rows), None if clusters is None else clusters[rows]
    signature = Signature.parse(stored.signature or stored.name)
    if scores.repeats is None:
        return make_result(metric, scores, signature=signature, clusters=clusters)
    return result_over_repeats(metric, scores.repeats, signature=signature, clusters=clusters)


# --- two runs: the comparisons of their metrics by name --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetricComparisons(ComparisonFindings):
    """Every metric that two runs can be compared on, and why not on the others."""

    metrics: list[MetricComparison]
    only_in_a: int = 0
    """How many samples only the first run has."""
    only_in_b: int = 0

    @property
    def by_name(self) -> dict[str, MetricComparison]:
        """The comparisons by the name of their metric."""
        return {metric.name: metric for metric in self.metrics}

    def to_dict(self) -> dict[str, Any]:
        """As the comparison document has them."""
        return {
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "missing_outputs": dict(zip("ab", self.missing, strict=True)),
            "metrics": {metric.name: metric.to_dict() for metric in self.metrics},
            "refused": dict(self.refused),
            **guardrails_document(self.guardrails, self.fallen),
        }


def compare_metrics(store: RunStore, record_a: RunRecord, record_b: RunRecord, **options: Any) -> MetricComparisons:
    """Compare two runs on all metrics that both have, over the samples that both have.

    The options are those of ``build_leaderboard``.
    """
    board = build_leaderboard(store, [record_a, record_b], **options)
    only_in_a, only_in_b = board.only
    return MetricComparisons(board.comparisons, only_in_a, only_in_b, **findings_of(board))


def picked_comparisons(
    store: RunStore, records: Sequence[RunRecord], metrics: Iterable[str], *, samples: SampleSet | None
) -> tuple[dict[str, MetricComparison], str]:
    """Where one of two runs was picked in a sweep, comparisons by metric with intervals that allow for it; else none.

    Also where it was picked. Each metric has its own 5 %, which the configurations share.
    """
    picked = [run for run in picked_runs(store, records) if run.others]
    text = " and ".join(dict.fromkeys(picked_text(run.sweep) for run in picked))
    found: dict[str, MetricComparison] = {}
    for name in metrics if picked else ():
        board = build_leaderboard(
            store, records, metrics=[name], primary=[name], samples=samples, guardrails={}, joint_intervals=True
        )
        found |= {comparison.name: comparison for comparison in board.comparisons}
    return found, text


# --- comparison by golden queries, as a report that metrics can be added to ------------------------------------------


@gc_paused()
def golden_report(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    *,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    answers: RunOutputsCache | None = None,
    is_part: bool = False,
) -> CompareReport:
    """Compare two runs by their golden queries: aggregates, their differences, each query. No other metric is in it.

    The aggregates are over the queries that both runs have, with the same expected chunks, so that they can be
    subtracted. If chunks are matched by location or span, hit rates and MRR are those of these ranks; stored values do
    not change. Without ``aggregates`` only queries and failures are counted. Citations must name documents of
    ``corpus``, else documents that were retrieved. ``answers`` is a cache of outputs that were read before. With
    ``is_part`` no note names the queries that are not golden.
    """
    if strict_chunker_version:
        require_same_chunks(record_a, record_b)
    answers = outputs_cache(store) if answers is None else answers
    run_a, run_b = answers.of(record_a), answers.of(record_b)
    queries = compare_run_outputs(
        run_a,
        run_b,
        golden=None if golden is None else golden_queries(golden),
        strict_chunker_version=strict_chunker_version,
        aggregates=aggregates,
        corpus=None if corpus is None else corpus_ids(corpus),
        answers=answers,
        is_part=is_part,
    )
    a, b = queries.aggregate_a, queries.aggregate_b
    return CompareReport(
        run_a=record_a.run_id,
        run_b=record_b.run_id,
        aggregate_a=a,
        aggregate_b=b,
        deltas={**queries.deltas(), **aggregate_deltas(a, b), "metrics": {}},
        per_query=queries.per_query,
        notes=[*version_notes(record_a, record_b, unanswered=(run_a.unanswered, run_b.unanswered)), *queries.notes],
    )


# --- the whole comparison: golden queries, every metric, other differences -------------------------------------------


def compare_runs(
    a: str,
    b: str,
    *,
    store: Store = None,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    adjust: Adjustment = "max-t",
    metrics: Sequence[str | Metric] | None = None,
    other_dataset: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    seed: int = 0,
    samples: SampleSet | None = None,
    guardrails: Mapping[str, float] | None = None,
) -> CompareReport:
    """Compare run B with run A. Differences are B - A, over the samples that both have. No document's text is read.

    Runs are named as ``RunStore.find`` takes them: an id or the beginning of one, a name, ``latest``, ``latest~1``.
    ``golden`` names the golden queries if they are not the samples stored with the runs. ``delta`` is the largest
    difference that does not matter, ``primary`` the metrics that share one 5 %; see ``build_leaderboard``. Without
    ``aggregates`` the metrics of golden queries are not computed again from what is stored. ``corpus`` names the
    documents that golden answers may cite: the path of a corpus, or its ids. ``samples`` restricts the comparison to a
    set of samples. ``guardrails`` are metrics that must not get worse, with the largest loss that is allowed.
    ``store`` is an open store or its path, ``metrics`` selects some. ``strict_chunker_version`` refuses runs with other
    chunks, ``other_dataset`` allows another dataset; ``adjust`` says how p-values are adjusted, ``seed`` is that of
    resampling. B is judged against A.

    Returns:
        A report with a verdict per metric; ``print`` shows the conclusion first.

    Example:
        >>> report = compare("baseline", "candidate", store="runs.sqlite")
        >>> report.metrics[0].name, report.metrics[0].verdict
        ('recall@1', 'equal')
    """
    with open_store(store) as opened:
        record_a, record_b = opened.find(a), opened.find(b)
        if strict_chunker_version:
            require_same_chunks(record_a, record_b)
        answers = outputs_cache(opened)
        queries = None if golden is None else golden_queries(golden)
        if samples is not None:
            every = iter_samples(opened, record_b.run_id, texts=False) if queries is None else queries
            queries = list(select_samples(every, samples))
        board = build_leaderboard(
            opened,
            [record_a, record_b],
            delta=delta,
            primary=primary,
            adjust=adjust,
            metrics=metrics,
            other_dataset=other_dataset,
            seed=seed,
            golden=queries,
            answers=answers,
            samples=samples,
            guardrails=guardrails,
        )
        report = golden_report(
            opened,
            record_a,
            record_b,
            golden=queries,
            strict_chunker_version=strict_chunker_version,
            aggregates=aggregates,
            corpus=corpus,
            answers=answers,
            is_part=samples is not None and golden is None,
        )
        board = board.record_in(opened, [record_a, record_b])
    differences = {comparison.name: comparison.to_dict() for comparison in board.comparisons}
    return replace(
        report,
        notes=list(dict.fromkeys([*report.notes, *board.notes])),
        deltas={**report.deltas, "metrics": differences},
        metrics=board.comparisons,
        **findings_of(board),
    )


compare = compare_runs


# --- the split of a difference into a part from retrieval and a part from generation ---------------------------------
# Between run A and run B is a third run, in which B's generator answered from A's documents. On every sample
#
# B - A = (B - replayed) + (replayed - A)
#
# where the first part differs only in the documents, and the second only in the generator.


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """A difference with its interval and p-value."""

    value: float | None
    """``None`` where no sample has a score in all three runs."""
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    """By sign flips; ``None`` for metrics that are not means. Not adjusted for several metrics."""
    flags: tuple[str, ...] = ()
    """Why the coverage of the interval may be below its level."""


@dataclass(frozen=True, slots=True)
class MetricSplit:
    """One metric's difference between two runs, in its parts, over the samples that have a score in all three."""

    name: str
    target: str
    a: float | None
    replayed: float | None
    """B's generator on A's documents."""
    b: float | None
    delta: DifferencePart
    """b - a, which is the sum of the two parts."""
    retrieval: DifferencePart
    """b - replayed: the same generator, other documents."""
    generation: DifferencePart
    """replayed - a: the same documents, another generator."""
    n: int
    units: int
    """Clusters if there are any, samples otherwise."""
    left_out: int
    """Samples without a score in one of the three."""
    scores: Mapping[str, tuple[float, float, float]] = field(repr=False, default_factory=dict)
    """By the id of a sample its scores in A, replayed, and in B."""
    label: str = ""
    """The name for display; empty if it is the name."""

    def to_dict(self) -> dict[str, Any]:
        """The split as a JSON object, without the scores."""
        values = asdict(self)
        del values["scores"], values["label"]
        return values


def split_difference(
    metric: BatchMetric,
    sample_ids: Sequence[str],
    first: Scores,
    replayed: Scores,
    second: Scores,
    clusters: Clusters | None = None,
    *,
    label: str = "",
) -> MetricSplit:
    """Split the difference between two runs, given a metric's scores in both and in the replay, sample by sample.

    ``label`` is the name of the metric for display.
    """
    scored = first.counted & replayed.counted & second.counted
    rows = np.flatnonzero(scored)
    a, r, b = (scores.take(rows) for scores in (first, replayed, second))
    inside = None if clusters is None else clusters[rows]
    codes = encode_clusters(inside, len(rows))
    delta, retrieval, generation = _parts(metric, [(a, b), (r, b), (a, r)], inside)
    names = [sample_ids[row] for row in rows.tolist()]
    columns = zip(a.values.tolist(), r.values.tolist(), b.values.tolist(), strict=True)
    return MetricSplit(
        metric.name,
        metric.target.name,
        a=finite_or_none(metric.reducer.value(a)),
        replayed=finite_or_none(metric.reducer.value(r)),
        b=finite_or_none(metric.reducer.value(b)),
        delta=delta,
        retrieval=retrieval,
        generation=generation,
        n=len(rows),
        units=len(rows) if codes is None else len(np.unique(codes)),
        left_out=len(scored) - len(rows),
        scores=dict(zip(names, columns, strict=True)),
        label=label,
    )


def _parts(
    metric: BatchMetric, pairs: Sequence[tuple[Scores, Scores]], clusters: Clusters | None
) -> Iterator[DifferencePart]:
    """Each difference with its interval. Those of metrics that are not means add up in total, not sample by sample."""
    definition = metric_meta(metric, pairs[0][0])
    inputs = [
        ComparisonInput(metric.name, definition, partial(MetricPair, metric.name, definition, before, after), "")
        for before, after in pairs
    ]
    analysis = Analysis(inputs, clusters)
    for place, (before, after) in enumerate(pairs):
        value, p_value = metric.reducer.value(after) - metric.reducer.value(before), None
        if definition.is_mean and len(before):
            # One exact sum: each part is rounded once, so that the parts add up to rounding.
            value = exact_sum(np.concatenate([after.values, -before.values])) / len(before)
            p_value = float(analysis.p_values[place])
        interval = analysis.intervals[place]
        ends = None if interval is None else (interval.low, interval.high)
        yield DifferencePart(finite_or_none(value), ends, p_value, () if interval is None else interval.flags)
