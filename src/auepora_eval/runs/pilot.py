"""The size of a comparison: the questions, repeats, labels and judge calls that it needs, from a pilot run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..compare.analysis import finite_or_none
from ..compare.metrics import RunResults, build_comparisons, headline_order, primary_metrics
from ..compare.pairing import lookup_metric, pair_scores, shared_samples
from ..compare.stores import Store, open_store
from ..core.results import Results, two_stage_details
from ..core.scores import NOT_JUDGED, Scores
from ..core.types import MetricResult
from ..errors import BadValueError, UnknownMetricError
from ..render.block_report import BlockReport
from ..render.blocks import Block, Bullets, Prose, Row, TableColumn, simple_table, without_empty_columns
from ..stats.difference import mde, required_n, unit_sd, unit_totals
from ..stats.planning import (
    REPEATS,
    VarianceParts,
    cheapest_repeats,
    fewest_questions,
    proportion_variance,
    repeats_needed,
    single_run_variance,
    size_options,
    verdict_factor,
)
from ..stats.sampling import expected_errors, labels_needed
from ..store.records import RunRecord, sum_nested
from ..store.runs import RunStore, result_summaries

ASSUMED_CHANGES = (0.1, 0.25, 0.5)
"""Without a pilot: proportions of samples whose 0/1 score differs between the two systems."""
OTHER_CORRELATIONS = (0.0, 0.8)
"""Correlations that are shown beside the assumed one."""


@dataclass(frozen=True, slots=True)
class SizeRequest:
    """What a comparison is to detect, and what limits it."""

    delta: float
    power: float
    alpha: float
    questions: int | None
    """Questions at hand."""
    question_cost: float
    correlation: float
    """Of the scores of two systems, where the pilot is one run."""


@dataclass(frozen=True, slots=True)
class PilotMetric:
    """What a pilot shows about a metric."""

    name: str
    variance: float
    """Of the difference between two systems on a unit."""
    units: int
    samples: int
    within: float | None = None
    """Variance that one repeat adds, both systems together; ``None`` if nothing was repeated."""
    repeated: Literal["answers", "judgements"] | None = None
    repeats: int = 1
    calls_per_answer: float = 0.0
    cost_per_call: float | None = None
    labels: tuple[Any, Any] | None = None
    """Expected errors and predicted differences of labels, for scores from 0 to 1."""
    notes: tuple[str, ...] = ()
    binary: bool = False
    """Whether scores are 0 or 1, and each sample is a unit."""
    differences: tuple[Any, float] | None = None
    """The differences of units in a pilot of two runs, and the largest there can be."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A number of repeats with the questions, and with answers and judge calls of both systems."""

    repeats: int
    questions: int
    answers: int
    judge_calls: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class MetricSize:
    """The size of a comparison by one metric."""

    name: str
    sd: float | None
    """Standard deviation of a difference, with the repeats of the first row."""
    pilot_questions: int
    pilot_detects: float | None = None
    """The smallest difference that the pilot's questions detect."""
    repeated: str | None = None
    share_within: float | None = None
    rows: list[SizeRow] = field(default_factory=list)
    fewest_questions: int | None = None
    """Questions that are needed with any number of repeats."""
    repeats_needed: int | None = None
    """Repeats with which the questions at hand suffice."""
    cheapest_repeats: int | None = None
    labels_alone: int | None = None
    """Human labels, of both answers to a question, without any scores."""
    labels_with_scores: int | None = None
    """The same if twice as many questions have scores."""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ComparisonSize(BlockReport):
    """The size of a comparison: what it needs by each metric of a pilot."""

    request: SizeRequest
    runs: tuple[str, ...]
    """The names of the runs of the pilot; without any, 0/1 scores are assumed."""
    num_questions: int
    """Of the pilot."""
    metrics: list[MetricSize]
    is_detailed: bool
    """Whether the numbers of repeats are shown for every metric."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self.request), "runs": list(self.runs), "metrics": [asdict(size) for size in self.metrics]}

    def blocks(self) -> list[Block]:
        """A table of all metrics, and of numbers of repeats."""
        named = f"from the pilot {' and '.join(self.runs)}, {self.num_questions:,} questions"
        pilot = named if self.runs else "without a pilot"
        return size_blocks(self.metrics, self.request, pilot, details=self.is_detailed)


def plan_size(
    delta: float,
    runs: str | Sequence[str] = (),
    *,
    metrics: Sequence[str] = (),
    store: Store = None,
    power: float = 0.8,
    alpha: float = 0.05,
    questions: int | None = None,
    question_cost: float = 0.0,
    correlation: float = 0.5,
) -> ComparisonSize:
    """Compute the questions, repeats, labels and judge calls that detect a difference of ``delta``.

    Args:
        delta: The smallest difference that matters.
        runs: A pilot: a run, or two runs on the same questions. Without one, 0/1 scores are assumed.
        metrics: Metrics of the pilot; by default the primary ones of its plan.
        store: An open store, or the path or URL of one.
        power: Probability to detect the difference.
        alpha: Significance level, two-sided.
        questions: Questions at hand; the result says how many repeats they would need.
        question_cost: Cost of one more question, in the currency of the judge's prices.
        correlation: Of the scores of two systems, where the pilot is one run.

    Returns:
        A report with ``metrics``, the size by each metric.

    Example:
        >>> size = plan_size(0.05)
        >>> [(metric.name, metric.rows[0].questions) for metric in size.metrics]
        [('0/1 scores, 10% differ', 347), ('0/1 scores, 25% differ', 819), ('0/1 scores, 50% differ', 1604)]
    """
    request = SizeRequest(
        delta, power, alpha, questions=questions, question_cost=question_cost, correlation=correlation
    )
    named = [runs] if isinstance(runs, str) else list(runs)
    if len(named) > 2:
        raise BadValueError("a pilot is one run or two runs")
    records: list[RunRecord] = []
    if named:
        with open_store(store) as opened:
            records = [opened.find(run) for run in named]
            pilot = list(read_pilot(opened, records, request, metrics))
    elif metrics:
        raise BadValueError("a metric is one of a pilot: name a run")
    else:
        pilot = list(assumed_pilot(request))
    sizes = [metric_size(metric, request, labels=bool(metrics) or place == 0) for place, metric in enumerate(pilot)]
    return ComparisonSize(
        request=request,
        runs=tuple(record.name for record in records),
        num_questions=records[-1].num_samples if records else 0,
        metrics=sizes,
        is_detailed=bool(metrics) or not records,
    )


# --- the pilot -------------------------------------------------------------------------------------------------------


def assumed_pilot(request: SizeRequest) -> Iterator[PilotMetric]:
    """0/1 scores of which a proportion differs between the systems, for several proportions."""
    if request.delta > max(ASSUMED_CHANGES):
        raise BadValueError(
            f"--delta {request.delta:g}: without a pilot 0/1 scores are assumed, of which at most "
            f"{max(ASSUMED_CHANGES):.0%} differ, so that no difference is larger; name a run"
        )
    for changed in ASSUMED_CHANGES:
        if changed >= request.delta:
            name = f"0/1 scores, {changed:.0%} differ"
            yield PilotMetric(name, proportion_variance(changed, request.delta), 0, 0, binary=True)


def read_pilot(
    store: RunStore, records: Sequence[RunRecord], request: SizeRequest, metrics: Sequence[str]
) -> Iterator[PilotMetric]:
    """The metrics of one or two runs that are means of scores: those named, else the primary ones of the plan."""
    # Numbers of questions are those that the metric applies to.
    found, refused = (
        _pair_metrics(store, records, request.delta)
        if len(records) == 2
        else _single_metrics(store, records[0], request)
    )
    for name in metrics:
        if name in refused:
            raise BadValueError(f"'{name}' cannot be planned: {refused[name]}")
        if name not in found:
            raise UnknownMetricError(name, list(found))
    selected = set(metrics) or primary_metrics(reversed(records), None, found)
    planned = [metric for name, (_, metric) in found.items() if name in selected]
    if not planned:
        if why := next((refused[name] for name in selected or refused if name in refused), None):
            raise BadValueError(f"no metric of the pilot can be planned: {why}")
        raise BadValueError(
            "the pilot has no metric whose value is a mean of scores between 0 and 1 or of another bounded range; "
            "name one with -m, or compute one with `auepora rescore`"
        )
    yield from sorted(planned, key=lambda metric: headline_order(metric.name, found[metric.name][0]))


Found = tuple[dict[str, tuple[str, PilotMetric]], dict[str, str]]
"""Metrics by name with their targets, and why others cannot be planned."""
_NO_MEAN = "its value is not a mean of scores"
_NOTED = 1.05
MOST_LABELLED = 100_000
"""Questions up to which labels beside scores are computed; it takes seconds for more."""


def _range_problem(limits: tuple[float, float], delta: float) -> str | None:
    """Why delta cannot be a difference of scores in this range; ``None`` if it can."""
    low, high = min(limits), max(limits)
    if not math.isfinite(high - low):
        return "its range has no end, so delta has no scale"
    return None if delta < high - low else f"its scores lie between {low:g} and {high:g}; --delta must be smaller"


def _pair_metrics(store: RunStore, records: Sequence[RunRecord], delta: float) -> Found:
    inputs = build_comparisons(store, records, metrics=None, delta=None, primary=None, other_dataset=False)
    found: dict[str, tuple[str, PilotMetric]] = {}
    refused = dict(inputs.refused)
    summaries = [Results(result_summaries(store, record.run_id)).by_name for record in records]
    for metric in inputs.inputs:
        reading = pair_scores(metric.pair)
        problem = _NO_MEAN if reading.values is None else _range_problem(metric.definition.range, delta)
        if reading.values is None or problem is not None:
            refused[metric.name] = problem or _NO_MEAN
            continue
        if metric.cut:
            refused[metric.name] = metric.cut
            continue
        used = reading.used
        clusters = None if inputs.shared.clusters is None else inputs.shared.clusters[used]
        differences = reading.differences[used]
        sd = unit_sd(differences, clusters)
        results = [by_name[metric.name] for by_name in summaries]
        labels = None
        if metric.definition.range == (0.0, 1.0):
            first, second = (values[used] for values in reading.values)
            labels = (
                expected_errors(first, calibrated=False) + expected_errors(second, calibrated=False),
                second - first,
            )
        found[metric.name] = (
            metric.target,
            replace(
                _pilot_metric(
                    metric.name, sd**2, differences, clusters, results=results, records=records, labels=labels
                ),
                differences=unit_totals(
                    differences, abs(metric.definition.range[1] - metric.definition.range[0]), clusters
                ),
            ),
        )
    return found, refused


def _single_metrics(store: RunStore, record: RunRecord, request: SizeRequest) -> Found:
    shared, run = shared_samples(store, [record]), RunResults(store, record)
    found: dict[str, tuple[str, PilotMetric]] = {}
    refused: dict[str, str] = {}
    for name, results in run.results.items():
        result = run.with_scores(results[-1])
        definition = lookup_metric(result, record, {})
        if not isinstance(result.scores, Scores) or not definition.is_mean:
            refused[name] = _NO_MEAN
            continue
        if problem := _range_problem(definition.range, request.delta):
            refused[name] = problem
            continue
        used = result.scores.counted
        clusters = None if shared.clusters is None else shared.clusters[used]
        values = result.scores.values[used]
        labels = None
        if definition.range == (0.0, 1.0):  # of two systems with scores like these
            spread = math.sqrt(2 * (1 - request.correlation))
            labels = 2 * expected_errors(values, calibrated=False), spread * (values - values.mean())
        variance = unit_sd(values, clusters) ** 2
        metric = _pilot_metric(name, variance, values, clusters, results=[result], records=[record], labels=labels)
        own = (metric.within or 0.0) / metric.repeats
        once = 0.0 if metric.within is None else 2 * (metric.within - own)  # what is added if nothing is repeated
        others = {
            correlation: single_run_variance(metric.variance, correlation, own=own) + once
            for correlation in OTHER_CORRELATIONS
        }
        found[name] = (
            result.target.name,
            replace(
                metric,
                variance=single_run_variance(metric.variance, request.correlation, own=own),
                within=None if metric.within is None else 2 * metric.within,
                notes=(*metric.notes, _correlation_note(others, request, metric.samples / metric.units)),
            ),
        )
    return found, refused


def _correlation_note(variances: dict[float, float], request: SizeRequest, per_unit: float) -> str:
    """How the number of questions depends on the correlation, which one run does not show."""
    needed = {
        correlation: required_n(request.delta, math.sqrt(variance), alpha=request.alpha, power=request.power)
        for correlation, variance in variances.items()
        if variance > 0
    }
    others = ", ".join(
        f"{math.ceil(count * per_unit):,} questions at {correlation:g}"
        for correlation, count in needed.items()
        if count is not None
    )
    return (
        f"one run as pilot: the scores of two systems are assumed to correlate by {request.correlation:g}"
        f"{f' ({others})' if others else ''}; two runs show it"
    )


def _pilot_metric(
    name: str,
    variance: float,
    values: Any,
    clusters: Any,
    *,
    results: Sequence[MetricResult],
    records: Sequence[RunRecord],
    labels: tuple[Any, Any] | None = None,
) -> PilotMetric:
    total = max(record.num_samples for record in records)
    unjudged = [result.details.reasons("skipped").get(NOT_JUDGED, 0) for result in results]
    notes = []
    if any(unjudged):
        notes.append(f"judged on {len(values):,} of {total:,} questions; the judge calls are those for all questions")
    elif len(values) < total:
        notes.append(f"applies to {len(values):,} of {total:,} questions: the numbers are of such questions")
    if any(two_stage_details(result) is not None for result in results):
        notes.append("two-stage judging prefers uncertain answers, so that the number of questions is rather too large")
    answers = sum(
        (record.num_samples - without) * record.repeats for record, without in zip(records, unjudged, strict=True)
    )
    usage: dict[str, Any] = {}
    for result in results:
        usage = sum_nested(usage, result.details.judging)
    needed = usage.get("judgements", 0) - usage.get("shared", 0)
    calls, cost = usage.get("calls") or 0, usage.get("cost") or 0
    repeated, repeats, within = _repeats(results, records)
    return PilotMetric(
        name,
        variance,
        units=len(values) if clusters is None else len(np.unique(clusters)),
        samples=len(values),
        within=within,
        repeated=repeated,
        repeats=repeats,
        calls_per_answer=needed / answers if answers else 0.0,
        cost_per_call=cost / calls if calls and cost else None,
        labels=labels,
        notes=tuple(notes),
        binary=labels is not None and clusters is None and bool(np.isin(values, (-1.0, 0.0, 1.0)).all()),
    )


def _repeats(
    results: Sequence[MetricResult], records: Sequence[RunRecord]
) -> tuple[Literal["answers", "judgements"] | None, int, float | None]:
    """What was repeated, how often, and the variance that one repeat adds in all of the runs together."""
    repeats = min(record.repeats for record in records)
    within = _sum_of_variances([result.details.repeats for result in results])
    if within is not None:
        return "answers", repeats, within
    judges = [result.details.judge for result in results]
    within = _sum_of_variances(judges)
    if within is not None:
        return "judgements", min(int(judge["repeats"]) for judge in judges), within
    return None, repeats, None


def _sum_of_variances(spreads: Sequence[Mapping[str, Any]]) -> float | None:
    found = [spread.get("sd_within_samples") for spread in spreads]
    return None if None in found else float(sum(sd**2 for sd in found if sd is not None))


# --- the size --------------------------------------------------------------------------------------------------------


def metric_size(pilot: PilotMetric, request: SizeRequest, *, labels: bool = True) -> MetricSize:
    """The size of a comparison by one metric; ``labels``: also of labels, which takes a second."""
    delta, alpha, power = request.delta, request.alpha, request.power
    notes = list(pilot.notes)
    if math.isnan(pilot.variance) or not pilot.variance:
        notes.append("all differences in the pilot are equal: it does not show how many questions are needed")
        return MetricSize(pilot.name, None, pilot.samples, notes=notes)
    sd = math.sqrt(pilot.variance)
    per_unit = pilot.samples / pilot.units if pilot.units else 1.0
    parts = VarianceParts.split(pilot.variance, pilot.within or 0.0, pilot.repeats)
    counts = (pilot.repeats,) if pilot.within is None else REPEATS
    options = size_options(parts, delta, alpha=alpha, power=power, repeats=counts, binary=pilot.binary)
    alone = required_n(delta, sd, alpha=alpha, power=power)
    if pilot.differences is not None and alone is not None and not pilot.binary:
        values, most = pilot.differences
        per_unit *= (factor := verdict_factor(values, delta, alone, most=most, alpha=alpha, power=power))
        if factor > _NOTED:
            notes.append(f"{factor:.2g} times as many as for Student's t: the differences are in steps, or skewed")
    rows = [_row(pilot, option.repeats, math.ceil(option.questions * per_unit)) for option in options]
    enough = cheapest = fewest = None
    if pilot.within is not None:
        least = fewest_questions(parts, delta, alpha=alpha, power=power)
        fewest = None if least is None else math.ceil(least * per_unit)
        price = (pilot.cost_per_call or 0.0) * pilot.calls_per_answer * 2
        if price or not request.question_cost:
            cheapest = cheapest_repeats(parts, question_cost=request.question_cost, repeat_cost=price)
        if request.questions is not None:
            units = max(1, math.floor(request.questions / per_unit))
            enough = repeats_needed(parts, units, delta, alpha=alpha, power=power)
    detects = finite_or_none(mde(sd, pilot.units, alpha=alpha, power=power)) if pilot.units > 1 else None
    alone, with_scores = _labels(pilot, request) if labels else (None, None)
    return MetricSize(
        pilot.name,
        parts.sd(counts[0]),
        pilot.samples,
        pilot_detects=detects,
        repeated=pilot.repeated,
        share_within=None if pilot.within is None else parts.share_within,
        rows=rows,
        fewest_questions=fewest,
        repeats_needed=enough,
        cheapest_repeats=cheapest,
        labels_alone=alone,
        labels_with_scores=with_scores,
        notes=notes + _answers(pilot, parts, request, rows, fewest=fewest, enough=enough, cheapest=cheapest),
    )


def _row(pilot: PilotMetric, repeats: int, questions: int) -> SizeRow:
    """Both systems answer all questions; a pilot that repeated judgements made that many calls per answer."""
    answers = 2 * questions * (1 if pilot.repeated == "judgements" else repeats)
    factor = repeats / pilot.repeats if pilot.repeated == "judgements" else 1.0
    calls = math.ceil(answers * pilot.calls_per_answer * factor)
    cost = None if pilot.cost_per_call is None else calls * pilot.cost_per_call
    return SizeRow(repeats, questions, answers, calls, cost)


def _labels(pilot: PilotMetric, request: SizeRequest) -> tuple[int | None, int | None]:
    """Labels without scores, and with the scores of twice as many questions; both answers to a question count."""
    if pilot.labels is None:
        return None, None
    errors, predicted = pilot.labels
    spread = float(errors.mean() + predicted.var())
    alone = required_n(request.delta, math.sqrt(spread), alpha=request.alpha, power=request.power)
    if alone is None or alone > MOST_LABELLED:
        return None if alone is None else 2 * alone, None
    needed = labels_needed(
        np.resize(errors, 2 * alone),
        np.resize(predicted, 2 * alone),
        request.delta,
        level=1 - request.alpha,
        power=request.power,
    )
    return 2 * alone, 2 * (alone if needed is None else min(alone, needed))


def _answers(
    pilot: PilotMetric,
    parts: VarianceParts,
    request: SizeRequest,
    rows: Sequence[SizeRow],
    *,
    fewest: int | None,
    enough: int | None,
    cheapest: int | None,
) -> list[str]:
    """Sentences that answer: more questions or more repeats?"""
    if pilot.within is None:
        notes = []
        if request.questions is not None and rows:
            suffice = "suffice" if request.questions >= rows[0].questions else "do not suffice"
            notes.append(f"{request.questions:,} questions {suffice}")
        if not pilot.units:
            return notes
        return [
            *notes,
            "more repeats? unknown: nothing was repeated in the pilot; `run: {repeats: 3}` in its plan shows it",
        ]
    notes = [
        f"{parts.share_within:.0%} of the variance is chance in single {pilot.repeated}, "
        f"{1 - parts.share_within:.0%} lies between questions"
    ]
    if fewest is not None and rows:
        notes.append(
            f"more questions or more repeats? questions: with any number of repeats at least {fewest:,} are needed, "
            f"{rows[0].questions:,} with one; one repeat of more questions takes the fewest {pilot.repeated}"
        )
    elif rows:
        notes.append("more questions or more repeats? either: all variance is chance in repeats")
    if request.question_cost:
        notes.append(
            f"at {request.question_cost:g} for a question, {cheapest} repeats cost least"
            if cheapest is not None
            else "--question-cost: the cost of a repeat is unknown; the plan of the pilot has no `judge.prices`"
        )
    if request.questions is not None:
        notes.append(
            f"{request.questions:,} questions do not suffice with any number of repeats"
            if enough is None
            else f"{request.questions:,} questions suffice with {enough} repeats"
        )
    return notes


# --- what is printed -------------------------------------------------------------------------------------------------


def size_blocks(sizes: Sequence[MetricSize], request: SizeRequest, pilot: str, *, details: bool) -> list[Block]:
    """A table of all metrics, and of the numbers of repeats for the first one or, with ``details``, for each."""
    goal = f"To detect a difference of {request.delta:g} with a power of {request.power:.0%} at alpha {request.alpha:g}"
    blocks: list[Block] = [Prose(f"{goal}, {pilot}:")]
    columns = ["sd of a difference", "pilot detects", "questions", "answers", "judge calls", "cost", "labels"]
    heads = [TableColumn("metric"), *(TableColumn(column, number=True) for column in columns)]
    blocks.append(without_empty_columns(simple_table(heads, [_metric_row(size) for size in sizes])))
    if any(size.labels_alone is not None for size in sizes):
        blocks.append(
            Prose(
                "Labels: of people, of both answers to a question, without a judge; in brackets if twice as many "
                "questions have scores of the metric, as a judge that was not compared with labels."
            )
        )
    for size in sizes if details else sizes[:1]:
        if len(size.rows) > 1:
            repeats = [TableColumn(title, number=True) for title in ("repeats", *columns[2:6])]
            rows: list[Row] = [[str(row.repeats), *_costs(row)] for row in size.rows]
            blocks.append(without_empty_columns(simple_table(repeats, rows, caption=f"{size.name}: repeats")))
        if size.notes:
            blocks.append(Bullets([f"{size.name}: {note}" for note in size.notes]))
    return blocks


def _metric_row(size: MetricSize) -> Row:
    row = size.rows[0] if size.rows else None
    labels = "" if size.labels_alone is None else f"{size.labels_alone:,}"
    labels += "" if size.labels_with_scores is None else f" ({size.labels_with_scores:,})"
    return [
        size.name,
        "n/a" if size.sd is None else f"{size.sd:.3f}",
        "" if size.pilot_detects is None else f"{size.pilot_detects:.3f}",
        *(["n/a", "", "", ""] if row is None else _costs(row)),
        labels,
    ]


def _costs(row: SizeRow) -> list[str]:
    calls = f"{row.judge_calls:,}" if row.judge_calls else ""
    return [f"{row.questions:,}", f"{row.answers:,}", calls, "" if row.cost is None else f"{row.cost:.4g}"]
