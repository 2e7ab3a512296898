"""The metrics that two or more runs can be compared on, with their scores, and the headline metric."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, combinations, islice

import numpy as np

from ..core.conventions import Match, Signature
from ..core.grouping import group_pairs
from ..core.metrics_base import BatchMetric, Metric
from ..core.results import Results, display_name, metric_labels, registered_name, sequential_details
from ..core.scores import NOT_JUDGED, Scores
from ..core.types import EvaluationSample, MetricResult, TargetCategory
from ..engine.repeats import mean_over_repeats
from ..errors import BadValueError, SignatureMismatchError
from ..io.sample_sets import SampleSet
from ..render.short import first_names
from ..store.records import RunRecord
from ..store.runs import RunStore, result_summaries, result_with_scores
from .chunks import RunOutputsCache, compare_chunks, outputs_cache
from .depths import RunDepths
from .match import (
    NO_OTHER_WAY,
    ComparisonMatch,
    Coverage,
    budget_note,
    coarsest,
    comparison_match,
    covered_difference,
    measure_coverage,
    other_way,
    recompute,
)
from .pairing import (
    NO_VERDICT,
    MetricMeta,
    MetricPair,
    MissingOutputs,
    SharedSamples,
    comparable_signature,
    exclude_rows,
    fill_with_worst,
    find_metric,
    kept_results,
    lookup_metric,
    metrics_judged_until,
    missing_outputs,
    shared_samples,
    without_top_k,
)
from .stores import TEXT_MATCHES, biased_metrics
from .types import ComparisonInput, DowngradeReason, SequentialComparison, TwoStageComparison, run_labels
from .verdicts import (
    OVERLAP_NOTE,
    QUESTION_OVERLAP,
    Margin,
    margin_of,
    missing_basis_reason,
    require_known,
    require_margin,
)


class RunResults:
    """A run and its results without scores, those of each name oldest first; scores are read metric by metric."""

    def __init__(self, store: RunStore, record: RunRecord) -> None:
        """A run without any result is refused."""
        self.record = record
        self._store = store
        self._kept = lru_cache(kept_results(record.num_samples))(self._read)
        self.judged_until = metrics_judged_until(store, record)
        summaries = result_summaries(store, record.run_id, every_signature=True)
        self.results = group_pairs((result.name, result) for result in summaries)
        if not self.results:
            raise BadValueError(
                f"{record.run_id} ({record.name}) has no results; it is {record.status.value}: resume it, or score "
                "what is there with `auepora rescore`"
            )
        every = (self.with_scores(result) for result in chain.from_iterable(self.results.values()))
        self.missing: MissingOutputs = missing_outputs(store, record, every)

    def with_scores(self, result: MetricResult) -> MetricResult:
        """One of the results with its scores; one that was computed again has them."""
        return result if result.scores is not None else self._kept(result.name, result.signature)

    def scores_of(self, result: MetricResult) -> Scores:
        """The scores of a result; all skipped where there are none."""
        scores, n = self.with_scores(result).scores, self.record.num_samples
        return (
            scores if isinstance(scores, Scores) else Scores.of(np.zeros(n), skip={"no_scores": np.ones(n, np.bool_)})
        )

    def _read(self, name: str, signature: str | None) -> MetricResult:
        (summary,) = [result for result in self.results[name] if result.signature == signature]
        result = result_with_scores(self._store, self.record.run_id, summary)
        if result.scores is not None and len(result.scores) != self.record.num_samples:
            result.scores = None  # a result added by hand: which samples the scores belong to is unknown
        return result


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonInputs:
    """The inputs of all comparisons between some runs."""

    shared: SharedSamples
    inputs: list[ComparisonInput]
    """One for each metric and each pair of runs."""
    refused: dict[str, str]
    """Metrics that cannot be compared, and why."""
    primary: set[str]
    """The names of the primary metrics."""
    missing: list[int]
    """For each run how many outputs it lacks, of the samples that all runs have."""
    notes: list[str]
    """How gold is matched, which values have gold corrections, and which runs lack them."""
    labels: Mapping[str, str]
    """The names of metrics for display."""
    ranked: list[str]
    """The compared metrics, the most important first, as ``rank_shared_metrics`` orders them."""


def build_comparisons(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    metrics: Sequence[str | Metric] | None,
    delta: Margin,
    primary: Sequence[str] | None,
    other_dataset: bool,
    golden: Sequence[EvaluationSample] | None = None,
    answers: RunOutputsCache | None = None,
    samples: SampleSet | None = None,
    guardrails: Collection[str] = (),
) -> ComparisonInputs:
    """The samples that all runs have, and the input of the comparison of each metric and pair of runs.

    Metrics that are ``guardrails`` are compared even if ``metrics`` does not select them.
    """
    shared = shared_samples(store, records, other_dataset=other_dataset, samples=samples)
    runs = [RunResults(store, record) for record in records]
    names = select_metric_names(runs, metrics)
    require_margin(delta, names)
    known = select_metric_names(runs, None)
    names += [name for name in guardrails if name in known and name not in names]
    metric_objects = {metric.name: metric for metric in metrics or () if isinstance(metric, Metric)}
    read = answers or outputs_cache(store)
    matcher = _RunMatcher(runs, read, golden)
    matcher.match_alike(names, metric_objects)
    primaries = primary_metrics(reversed(records), primary, names, guardrails)
    inputs, refused = pair_metrics(
        runs,
        shared,
        RunDepths(store, records, shared, read),
        matcher,
        names=names,
        metric_objects=metric_objects,
        primary=primaries,
        margin=delta,
    )
    refused |= {name: reason for name, reason in biased_metrics(store, records).items() if name in names}
    inputs = [matcher.with_coverage(given, shared) for given in inputs if given.name not in refused]
    missing = [run.missing.take(rows).total for run, rows in zip(runs, shared.rows, strict=True)]
    notes = [*matcher.notes(inputs), *_correction_notes(runs, names)]
    compared = {given.name for given in inputs}
    every, newest = [], []
    for run in runs:
        every.append([results[-1] for results in run.results.values()])
        newest.append([result for result in every[-1] if result.name in compared])
    return ComparisonInputs(
        shared,
        inputs,
        refused,
        primaries,
        missing=missing,
        notes=notes,
        labels=metric_labels(*every),
        ranked=rank_shared_metrics(records, newest, primary),
    )


def primary_metrics(
    records: Iterable[RunRecord], chosen: Sequence[str] | None, known: Iterable[str], guardrails: Collection[str] = ()
) -> set[str]:
    """The metrics that share one 5 %: those given, else those of the first plan that names any, else all.

    Guardrails are among them only if they are named.
    """
    names = list(known)
    if chosen is not None:
        require_known(chosen, names)
        return set(chosen)
    planned = planned_primary(records)
    return set(planned) if planned else set(names).difference(guardrails)


def planned_primary(records: Iterable[RunRecord]) -> Sequence[str]:
    """The primary metrics of the first plan that names any; empty where none does."""
    return next((record.plan["primary"] for record in records if record.plan.get("primary")), ())


def pair_metrics(
    runs: Sequence[RunResults],
    shared: SharedSamples,
    depths: RunDepths,
    matcher: _RunMatcher,
    *,
    names: Sequence[str],
    metric_objects: Mapping[str, Metric],
    primary: set[str],
    margin: Margin,
) -> tuple[list[ComparisonInput], dict[str, str]]:
    """The input for each metric and each pair of runs, and why some metrics are refused."""
    inputs: list[ComparisonInput] = []
    refused: dict[str, str] = {}
    for name in names:
        results = matcher.refused.get(name) or _comparable_results(runs, name)
        if isinstance(results, str):
            refused[name] = results
            continue
        definition = replace(
            lookup_metric(runs[-1].with_scores(results[-1]), runs[-1].record, metric_objects),
            label=display_name(results[-1]),
        )
        reason = (
            depths.hits_problem(results[-1])
            or _chunk_problem(definition, matcher)
            or _repeats_problem(runs, results, definition)
        )
        if reason is not None:
            refused[name] = reason
            continue
        make = partial(_comparison_input, runs, shared=shared, primary=name in primary, margin=margin_of(margin, name))
        metrics = [find_metric(result, run.record) for run, result in zip(runs, results, strict=True)]
        cut, best = depths.cut_problem(definition, metrics, results)
        if not cut:
            for pair in combinations(range(len(runs)), 2):
                given = make(results=results, definition=definition, pair=pair)
                inputs.append(depths.describe(given, results[-1].signature))
        elif len(runs) == 2 and best != results and "|p:returned" not in (results[-1].signature or ""):
            definition = replace(definition, note=f"{cut}; so at both ends, and the smaller difference is shown")
            ends = [[best[0], results[1]], [results[0], best[1]]]
            first, second = (make(results=end, definition=definition, pair=(0, 1)) for end in ends)
            inputs.append(replace(first, cut=cut, other_end=replace(second, name=f"{name} at the other end")))
        else:
            refused[name] = cut
    return inputs, refused


def _repeats_problem(runs: Sequence[RunResults], results: Sequence[MetricResult], definition: MetricMeta) -> str | None:
    """Why a metric that is not a mean cannot be compared over repeats; ``None`` where it can."""
    repeats = [run.record.repeats for run in runs]
    whole = definition.reducer is None or definition.is_mean or definition.joins_repeats
    if whole or max(repeats) <= 1:
        return None
    if len(set(repeats)) > 1:
        times = " and ".join(str(count) for count in repeats)
        return f"it is not a mean, and the runs asked unequally often ({times} times); compare runs with equal repeats"
    for run, result in zip(runs, results, strict=True):
        scores = run.with_scores(result).scores
        if not isinstance(scores, Scores) or scores.repeats is None:
            return (
                f"it is not a mean, and what each repeat gave was not kept apart when {run.record.run_id} was scored; "
                f"`auepora rescore {run.record.run_id} -m '{result.name}'` does so"
            )
    return None


def select_metric_names(runs: Sequence[RunResults], metrics: Sequence[str | Metric] | None) -> list[str]:
    """The names of the selected metrics, or of all that any of the runs has."""
    known = list(dict.fromkeys(chain.from_iterable(run.results for run in runs)))
    if metrics is None:
        return known
    names = dict.fromkeys(str(getattr(metric, "name", metric)) for metric in metrics)
    require_known(names, known)
    return list(names)


def _comparable_results(runs: Sequence[RunResults], name: str) -> list[MetricResult] | str:
    """The newest results of that name with the same signature in all runs; otherwise why there are none."""
    for run in runs:
        if name not in run.results and name in run.judged_until:
            return (
                f"{run.record.run_id} is judged by it until a verdict, and judging has not ended; before that its "
                f"p-value is not sequentially valid: `auepora rescore {run.record.run_id}` continues"
            )
        if name not in run.results:
            return f"{run.record.run_id} does not have it; `auepora rescore {run.record.run_id} -m '{name}'` adds it"
    by_signature = [_by_signature(run.results[name]) for run in runs]
    for last in reversed(runs[-1].results[name]):
        signature = without_top_k(last.signature)
        if all(signature in results for results in by_signature):
            return [results[signature] for results in by_signature]
    newest = [run.results[name][-1].signature or "" for run in runs]
    others = [signature for signature in newest if signature != newest[-1]]
    return _mismatch(newest[-1], [*others, newest[0]][0])


def _by_signature(results: Iterable[MetricResult]) -> dict[str | None, MetricResult]:
    """The newest result of each signature, whatever the number of documents that was asked for."""
    return {without_top_k(result.signature): result for result in results}


def _correction_notes(runs: Sequence[RunResults], names: Sequence[str]) -> list[str]:
    """Which metrics are compared with gold corrections, and which without since only some runs have them."""
    listed: dict[tuple[bool, str], list[str]] = {}
    for name in names:
        results = _comparable_results(runs, name)
        if isinstance(results, str):
            continue
        corrections = results[-1].details.corrections
        labels = zip(run_labels(len(runs)), runs, strict=True)
        have = [label for label, run in labels if run.results[name][-1].details.corrections]
        if corrections:
            what = f"with {corrections['count']} gold correction{'s' * (corrections['count'] != 1)}"
        elif have:
            what = f"without the gold corrections that only {' and '.join(have)} has"
        else:
            continue
        listed.setdefault((not corrections, what), []).append(display_name(results[-1]))
    advice = ("`auepora show RUN --all` has the values without", "`auepora gold apply` scores all runs with them")
    ordered = sorted(listed.items(), key=lambda group: group[0][0])
    return [f"{what}: {first_names(group, 5)}; {advice[lacks]}" for (lacks, what), group in ordered]


def _mismatch(second: str, first: str) -> str:
    try:
        Signature.parse(first).require_same(Signature.parse(second))
    except SignatureMismatchError as error:
        return str(error)
    except BadValueError:
        pass
    return f"'{first}' and '{second}' were computed differently"


def _comparison_input(
    runs: Sequence[RunResults],
    *,
    results: Sequence[MetricResult],
    shared: SharedSamples,
    definition: MetricMeta,
    pair: tuple[int, int],
    primary: bool,
    margin: float | None,
) -> ComparisonInput:
    results = [results[run] for run in pair]
    read = partial(_read_pair, [runs[run] for run in pair], results, shared, definition, pair)
    is_whole = shared.sample_set is None and not any(shared.only[run] for run in pair)
    defined = all(result.defined for result in results) and is_whole
    notes = [definition.note]
    withheld: DowngradeReason | None = None
    if registered_name(results[1]) in QUESTION_OVERLAP:
        by_name = chain.from_iterable(run.results.values() for run in runs)
        reason = missing_basis_reason(chain.from_iterable(by_name))
        notes += [OVERLAP_NOTE, reason]
        withheld = None if reason is None else "question_overlap"
    if not definition.has_direction and not definition.binary:
        notes.append(NO_VERDICT)
        withheld = "no_direction"
    records = [runs[run].record for run in pair]
    sequential: SequentialComparison | None = None
    two_stage: TwoStageComparison | str | None = None
    if shared.sample_set is None:  # a test of all samples decides nothing about a set of them
        sequential = _sequential_comparison(records, results)
        two_stage = _two_stage_comparison([runs[run] for run in pair], results, shared, pair)
    if isinstance(two_stage, str):
        notes.append(two_stage)
        withheld, two_stage = "partly_judged", None
    elif (
        sequential is None
        and two_stage is None
        and (unjudged := _partly_judged_note(results, pair) or _partly_graded_note(results))
    ):
        notes.append(unjudged)
        withheld = "partly_judged"
    if selected := [shared.selecting[record.run_id] for record in records if record.run_id in shared.selecting]:
        notes.append(f"exploratory: the samples were selected by the outcomes of {' and '.join(selected)}")
        withheld, sequential, two_stage = "selected_samples", None, None
    spreads = [result.details.repeats.sd_within_samples for result in results]
    return ComparisonInput(
        results[1].name,
        read().definition,
        read,
        target=results[1].target.name,
        primary=primary,
        margin=margin,
        notes=tuple(filter(None, notes)),
        stored=(results[0].value, results[1].value) if defined else None,
        own_spread=None if spreads == [None, None] else (spreads[0], spreads[1]),
        repeats=(records[0].repeats, records[1].repeats),
        runs=pair,
        withheld=withheld,
        sequential=sequential,
        two_stage=two_stage,
    )


def _two_stage_comparison(
    runs: Sequence[RunResults], results: Sequence[MetricResult], shared: SharedSamples, pair: tuple[int, int]
) -> TwoStageComparison | str | None:
    """The scores of a draw in both runs; why they cannot be compared; ``None`` without two-stage judging.

    The draw must be the same in both runs. A run whose samples are all judged can be compared with any draw.
    """
    stored = [result.details.two_stage for result in results]
    drawn = [stage for stage in stored if stage]
    if not drawn:
        return None
    if any("predictions" not in stage for stage in drawn):
        return "two-stage judging of one of the runs has not ended; resume it"
    first, last = drawn[0]["draw"], drawn[-1]["draw"]
    if (first["drawn"], first["strata"]) != (last["drawn"], last["strata"]):
        return "the runs have different draws of two-stage judging, so there is no verdict; use one seed and budget"
    rows = [shared.rows[number] for number in pair]
    strata = np.array(first["strata"], dtype=np.intp)[rows[stored.index(drawn[0])]]
    columns, predictions, outside = [], [], np.zeros(len(strata), dtype=np.bool_)
    for run, result, stage, number in zip(runs, results, stored, pair, strict=True):
        scores = run.with_scores(result).scores
        if not isinstance(scores, Scores):
            return "the scores of one of the runs are not stored"
        scores = shared.take(scores, number)
        if not stage and scores.with_reason(NOT_JUDGED).any():
            return "one of the runs is judged in part, without a draw of two-stage judging"
        columns.append(scores.values)
        found = np.array(stage["predictions"], dtype=np.float64)[shared.rows[number]] if stage else scores.values
        predictions.append(found)
        outside |= np.isnan(found)
    known = ~np.isnan(columns[0]) & ~np.isnan(columns[1])
    is_drawn = np.isin(shared.ids, first["drawn"])
    strata = np.where(known & ~is_drawn, strata.max() + 1, strata)  # failed in both runs: known without a judge
    strata[outside] = -1
    return TwoStageComparison(
        drawn[0]["target"],
        first=columns[0],
        second=columns[1],
        first_predictions=predictions[0],
        second_predictions=predictions[1],
        strata=strata,
        failed=int((is_drawn & ~known & ~outside).sum()),
    )


def _sequential_comparison(
    records: Sequence[RunRecord], results: Sequence[MetricResult]
) -> SequentialComparison | None:
    """The sequential test of one of the two runs against the other; ``None`` if there is none."""
    for result, other, is_reversed in ((results[1], records[0], False), (results[0], records[1], True)):
        test = sequential_details(result)
        if test is not None and test.get("against") == other.run_id:
            return SequentialComparison(test, is_reversed)
    return None


def _partly_judged_note(results: Sequence[MetricResult], pair: tuple[int, int]) -> str | None:
    """Why a metric that is not judged on all samples has no verdict; ``None`` if it is."""
    labels = run_labels(max(pair) + 1)
    details = [(labels[run], result.details) for run, result in zip(pair, results, strict=True)]
    partly = [
        f"{found.num_scored} samples in {label}" for label, found in details if NOT_JUDGED in found.reasons("skipped")
    ]
    if not partly:
        return None
    return (
        f"judged on {' and '.join(partly)} so far, and no sequential test of these two runs is about it: its p-value "
        "and its interval are not sequentially valid, and there is no verdict"
    )


def _partly_graded_note(results: Sequence[MetricResult]) -> str | None:
    """Why a metric by grades of drawn pairs has no verdict; ``None`` if all drawn pairs are graded."""
    for result in results:
        found = result.details.partial_grades
        if found and found["draw"] is not None and (graded := found["graded"] - found["known_before"]) < found["drawn"]:
            return (
                f"people graded {graded} of {found['drawn']} drawn pairs so far: the number was fixed before the first "
                "grade, so that its p-value is not sequentially valid, and there is no verdict"
            )
    return None


def _read_pair(
    runs: Sequence[RunResults],
    results: Sequence[MetricResult],
    shared: SharedSamples,
    definition: MetricMeta,
    pair: tuple[int, int],
) -> MetricPair:
    """The scores of a metric in two runs, ready to be compared."""
    first, second = (
        shared.take(run.scores_of(result), number) for run, result, number in zip(runs, results, pair, strict=True)
    )
    unjudged = first.with_reason(NOT_JUDGED) | second.with_reason(NOT_JUDGED)
    first, second = exclude_rows(first, unjudged), exclude_rows(second, unjudged)
    reducer = definition.reducer
    if reducer is not None and first.repeats is not None and second.repeats is not None:
        _, first = mean_over_repeats(reducer, first)
        reducer, second = mean_over_repeats(reducer, second)
        definition = replace(definition, reducer=reducer)
    missing = [run.missing.take(shared.rows[number]) for run, number in zip(runs, pair, strict=True)]
    second = _without_rounding(first, second, definition.rounding)
    first, filled_first = fill_with_worst(first, missing[0], definition)
    second, filled_second = fill_with_worst(second, missing[1], definition)
    return MetricPair(
        results[1].name,
        definition,
        first,
        second,
        missing=(missing[0].total, missing[1].total),
        at_worst=(filled_first, filled_second),
    )


class _RunMatcher:
    """Matches gold in one way in all runs of a comparison; outputs are read only for metrics that depend on it."""

    def __init__(
        self, runs: Sequence[RunResults], answers: RunOutputsCache, golden: Sequence[EvaluationSample] | None
    ) -> None:
        self._runs, self._answers, self._golden = runs, answers, golden
        self._coverages: dict[int | None, list[Coverage]] = {}
        self._depths: dict[str, int | None] = {}
        """By name of a metric that matches gold its k."""
        self._recomputed: dict[str, Match] = {}
        """By name of a metric how gold is matched, where it is computed again."""
        self.refused: dict[str, str] = {}
        """Metrics that no way can compare in all runs, and why."""

    @cached_property
    def way(self) -> ComparisonMatch:
        """How gold is matched; the first change of chunks between any two of the runs decides."""
        records = [run.record for run in self._runs]
        change = None
        for first, second in combinations(records, 2):
            if self._golden is None:
                found = self._answers.chunks(first, second, records[-1])
            else:
                found = compare_chunks(self._answers.of(first), self._answers.of(second), self._golden)
            change = change or found.change
        return comparison_match([self._answers.of(record) for record in records], change)

    def match_alike(self, names: Sequence[str], metric_objects: Mapping[str, Metric]) -> None:
        """Compute metrics again in the runs that match gold in another way; one that is coarser in all runs stays."""
        wanted: dict[tuple[int, Match], list[BatchMetric]] = {}
        for name in names:
            if any(name not in run.results for run in self._runs):
                continue
            results = _comparable_results(self._runs, name)
            if isinstance(results, str):
                results = [_newest_uncorrected(run.results[name]) for run in self._runs]
            pairs = zip(self._runs, results, strict=True)
            found = [find_metric(result, run.record, metric_objects) for run, result in pairs]
            metrics = [metric for metric in found if metric is not None and metric.metadata.matches_gold]
            if len(metrics) < len(found):
                continue
            self._depths[name] = getattr(metrics[0], "k", None)
            match = coarsest([self.way.match, *[metric.active_conventions.match for metric in metrics]])
            others = [other_way([metric], match) for metric in metrics]
            if any(others) and self.way.problem is not None:
                self.refused[name] = self.way.problem
            elif any(others):
                self._recomputed[name] = match
                for number, added in enumerate(others):
                    wanted.setdefault((number, match), []).extend(added)
        for (number, match), added in wanted.items():
            run = self._runs[number]
            for result in recompute(self.way.read(self._answers.of(run.record)), added, match):
                run.results[result.name].append(result)

    def with_coverage(self, given: ComparisonInput, shared: SharedSamples) -> ComparisonInput:
        """The input of a comparison with how gold is matched and, where chunks differ, how much of it is covered."""
        if given.name not in self._depths:
            return given
        way = self.way
        given = replace(given, match=self._recomputed.get(given.name))
        if way.change is None or way.match not in TEXT_MATCHES or not given.target.startswith("RETRIEVAL"):
            return given
        k = self._depths[given.name]
        if k not in self._coverages:
            outputs = [way.read(self._answers.of(run.record)) for run in self._runs]
            self._coverages[k] = [measure_coverage(run, way.match, k) for run in outputs]
        pair = [self._coverages[k][run] for run in given.runs]
        return replace(given, covered=covered_difference(pair, [shared.rows[run] for run in given.runs]))

    def notes(self, inputs: Iterable[ComparisonInput]) -> list[str]:
        """How gold is matched, and how much text is within the largest k."""
        if self._depths.keys().isdisjoint(given.name for given in inputs):
            return []
        largest = max([k for k in self._coverages if k is not None], default=None)
        budget = budget_note(self._coverages.get(largest, ()))
        return [note for note in (*self.way.notes, budget) if note is not None]


def _newest_uncorrected(results: Sequence[MetricResult]) -> MetricResult:
    """The newest result with the gold of the run itself."""
    own = [result for result in results if not result.details.corrections]
    return own[-1] if own else results[-1]


def _chunk_problem(definition: MetricMeta, matcher: _RunMatcher) -> str | None:
    """Why a metric that compares ids cannot compare these runs; ``None`` where it can, and for other metrics."""
    if not (definition.by_chunk_id or definition.by_parent_id) or (change := matcher.way.change) is None:
        return None
    if definition.by_chunk_id:
        advice = matcher.way.problem or NO_OTHER_WAY
        return f"{change.description}, so their ids do not meet; {advice}"
    if change.parents_known:
        return None
    return (
        f"{change.description}, and the gold does not name the documents it is a part of; give parent_id, or "
        "expected_doc_ids"
    )


def _without_rounding(first: Scores, second: Scores, rounding: float) -> Scores:
    """The second run's scores, replaced by those of the first where the two differ by rounding only."""
    same = np.abs(second.values - first.values) <= rounding  # never true for NaN, a sample without a score
    return replace(second, values=np.where(same, first.values, second.values)) if rounding and same.any() else second


# --- the headline metric, by which the queries of two runs are compared ----------------------------------------------

_ANSWERS = (
    TargetCategory.GENERATION_CORRECTNESS.name,
    TargetCategory.GENERATION_RELEVANCE.name,
    TargetCategory.GENERATION_FAITHFULNESS.name,
)
_RETRIEVAL = (TargetCategory.RETRIEVAL_ACCURACY.name, TargetCategory.RETRIEVAL_RELEVANCE.name)
_PREFERRED = ("token_f1", "exact_match")


@dataclass(frozen=True, slots=True)
class SharedMetricScores:
    """A metric's outcomes, sample by sample, in two runs."""

    name: str
    target: TargetCategory
    first: Scores
    second: Scores
    higher_is_better: bool
    label: str
    """The name for display."""


def main_metric(
    record_a: RunRecord,
    results_a: Results,
    record_b: RunRecord,
    results_b: Results,
    name: str | None = None,
    *,
    primary: Sequence[str] | None = None,
) -> SharedMetricScores:
    """The metric called ``name`` in both runs; without a name the main one of those that both have per sample.

    ``primary`` are the primary metrics, if they are not those of the plans.
    """
    if name is None:
        scored_a = [result for result in results_a if isinstance(result.scores, Scores)]
        scored_b = [result for result in results_b if isinstance(result.scores, Scores)]
        ranked = rank_shared_metrics([record_a, record_b], [scored_a, scored_b], primary)
        name = next(iter(ranked), "")
    if not name:
        raise BadValueError(
            f"{record_a.run_id} ({record_a.name}) and {record_b.run_id} ({record_b.name}) have no metric in common "
            "that has a score per sample and the same signature in both; `auepora rescore` computes one for both"
        )
    first, second = _find_metric(record_a, results_a, name), _find_metric(record_b, results_b, name)
    signatures = [comparable_signature(found.signature) or f"{name}|v0" for found in (first, second)]
    Signature.parse(signatures[0]).require_same(Signature.parse(signatures[1]))
    assert isinstance(first.scores, Scores)
    assert isinstance(second.scores, Scores)
    return SharedMetricScores(
        second.name,
        second.target,
        first.scores,
        second.scores,
        lookup_metric(second, record_b, {}).higher_score_is_better,
        label=display_name(second),
    )


def _find_metric(record: RunRecord, results: Results, name: str) -> MetricResult:
    found = next((result for result in results if result.name == name), None)
    if found is None:
        known = ", ".join(result.name for result in results) or "none"
        raise BadValueError(
            f"{record.run_id} ({record.name}) has no metric '{name}' but {known}; "
            f"`auepora rescore {record.run_id} -m {name}` computes it"
        )
    if not isinstance(found.scores, Scores):
        raise BadValueError(
            f"{record.run_id} ({record.name}) has no score per sample of '{display_name(found)}'; name another metric"
        )
    return found


def rank_shared_metrics(
    records: Sequence[RunRecord], results: Sequence[Sequence[MetricResult]], primary: Sequence[str] | None = None
) -> list[str]:
    """The metrics that all of several runs have, oldest first; the main one first, those that are equal in all last.

    The ``primary`` ones come first in their order, by default those of the plan of the last run, or an earlier one.
    """
    shared = list(results[-1])
    for each in results[:-1]:
        keys = {_shared_key(result) for result in each}
        shared = [result for result in shared if _shared_key(result) in keys]
    ranked = rank_metrics(records[-1], shared, planned_primary(reversed(records)) if primary is None else primary)
    by_run = {record.run_id: each for record, each in zip(records, results, strict=True)}
    equal = {name for _, name in equal_metrics(records, by_run)}
    return sorted(ranked, key=equal.__contains__)


def _shared_key(result: MetricResult) -> tuple[str, str | None]:
    """What a metric of two runs has in common; gold is matched in one way by those who compare."""
    return result.name, comparable_signature(result.signature)


LATEST_RUNS = 50
"""A metric with the same value in so many of the latest runs on a dataset tells none of them apart."""


def rank_metrics(record: RunRecord, results: Sequence[MetricResult], primary: Sequence[str] | None = None) -> list[str]:
    """The metrics of a run that have a value, the most important first: the primary ones, by default those of its plan,
    in their order, then the others by ``headline_order``, where the first is one that has a better and a worse."""
    defined = [result for result in results if result.defined]
    ordered = sorted(defined, key=lambda result: headline_order(result.name, result.target.name))
    names = [result.name for result in ordered]
    chosen = record.plan.get("primary") if primary is None else primary
    listed = [name for name in chosen or () if name in names]
    directed = (result.name for result in ordered if lookup_metric(result, record, {}).has_direction)
    return list(dict.fromkeys([*(listed or islice(directed, 1)), *names]))


def equal_metrics(records: Sequence[RunRecord], results: Mapping[str, Sequence[MetricResult]]) -> set[tuple[str, str]]:
    """The datasets, by fingerprint, and metrics with the same value in all latest runs; runs are given newest first."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        for result in results.get(record.run_id, ()):
            if result.defined:
                found.setdefault((record.fingerprint, result.name), []).append(result.value)
    return {key for key, values in found.items() if len(values) > 1 and len(set(values[:LATEST_RUNS])) == 1}


def main_metric_name(record: RunRecord, ranked: Sequence[str], equal: Collection[tuple[str, str]]) -> str:
    """The metric that a run is shown by: the first that tells it from other runs on its dataset, else the first.

    ``ranked`` comes from ``rank_metrics``, ``equal`` from ``equal_metrics``. Empty where no metric has a value.
    """
    return next((name for name in ranked if (record.fingerprint, name) not in equal), next(iter(ranked), ""))


def size_notes(listed: Sequence[MetricResult | None]) -> Iterator[str]:
    """For each result of a list ``n = 12``, if the list has the same metric with another number of samples."""
    sizes = group_pairs((result.name, result.details.num_samples) for result in listed if result is not None)
    for result in listed:
        note = ""
        if result is not None and len(set(sizes[result.name])) > 1:
            note = f"n = {result.details.num_samples:,}"
        yield note


def headline_order(name: str, target: str) -> tuple[float, ...]:
    """The key that sorts metrics by importance, the headline metric first."""
    if target in _ANSWERS:
        return (1, _PREFERRED.index(name)) if name in _PREFERRED else (2, _ANSWERS.index(target))
    if target in _RETRIEVAL:
        return 4, _RETRIEVAL.index(target)
    return 5, target in (TargetCategory.LATENCY.name, TargetCategory.COST.name)
