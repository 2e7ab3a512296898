"""What the stored runs of a sweep say: the best, against the baseline, and the cheapest that is not worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..compare.guardrails import guardrail_margins
from ..compare.runs import compare_metrics
from ..compare.stores import DecisionRegister, register_decision
from ..compare.sweeps import SweepScores, read_sweep_scores
from ..compare.types import GuardrailOutcome
from ..core.results import display_name
from ..stats.selection import ALPHA, BaselineTest, Distance, MainEffect, main_effects
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore, result_summaries
from ..store.sweeps import ELIMINATED_TAG, SWEEP, Configuration, SweepPlan, sweep_runs
from .run import cost_metric, output_tokens


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a configuration takes per question; ``None`` where its outputs do not say."""

    cost: float | None = None
    tokens: float | None = None
    latency: float | None = None
    """Seconds of a call."""
    setup_s: float | None = None
    """Seconds of the setup, which are not part of the others."""


@dataclass(slots=True)
class ConfigurationResult:
    """A configuration of a sweep, and what is known about it."""

    place: int
    configuration: Configuration
    record: RunRecord | None
    status: str = "not run"
    """The status of its run, or ``not compared``."""
    amounts: Amounts = Amounts()
    mean: float | None = None
    """The mean of the deciding metric; a failed answer has the worst score."""
    failed: int = 0
    """How many questions have no answer."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """The values of the other primary metrics, by name."""
    is_kept: bool = False
    """Whether it cannot be distinguished from the best."""
    test: BaselineTest | None = None
    """Against the baseline."""
    distance: Distance | None = None
    """How far it may be behind the best."""
    guardrails: tuple[GuardrailOutcome, ...] = ()
    """Against the baseline."""
    problem: str = ""
    """Why its run failed, or cannot be compared with the others."""
    is_efficient: bool = False
    """Whether no other configuration is at least as good, cheap and fast, by the values alone (Pareto)."""

    @property
    def label(self) -> str:
        """Its values in one line."""
        return self.configuration.label

    @property
    def is_finished(self) -> bool:
        """Whether its run is complete, and can be compared with the others."""
        return self.status == RunStatus.FINISHED

    @property
    def verdict(self) -> str:
        """Against the baseline: better, worse or inconclusive; empty without a test."""
        if self.test is None:
            return ""
        if self.test.p_adjusted >= ALPHA:
            return "inconclusive"
        return "better" if self.test.difference > 0 else "worse"

    @property
    def is_guarded(self) -> bool:
        """Whether it keeps the margins of all guardrails."""
        return all(outcome.state == "within_margin" for outcome in self.guardrails)


@dataclass(slots=True)
class SweepAnswer:
    """Which configuration of a sweep to ship."""

    sweep: SweepPlan
    results: list[ConfigurationResult]
    """The configurations, the best mean first."""
    metric: str
    """The deciding metric, for display."""
    higher_is_better: bool = True
    samples: int = 0
    left_out: int = 0
    """Questions without a score in some configuration."""
    interval: tuple[float, float] | None = None
    """Of the mean of the best, whichever that is."""
    effects: Mapping[tuple[str, object], MainEffect] = field(default_factory=dict)
    """Of a complete grid the effect of each value of each parameter, by both."""
    other_metrics: Mapping[str, str] = field(default_factory=dict)
    """The other primary metrics, by name with their names for display."""
    register: DecisionRegister | None = None
    notes: tuple[str, ...] = ()

    @property
    def unfinished(self) -> list[ConfigurationResult]:
        """The configurations that were not run as far as they have to be."""
        ended = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.ELIMINATED)
        return [result for result in self.results if result.record is None or result.record.status not in ended]

    @property
    def is_complete(self) -> bool:
        """Whether every configuration was run as far as it has to be."""
        return not self.unfinished

    @property
    def kept(self) -> list[ConfigurationResult]:
        """The configurations that cannot be distinguished from the best."""
        return [result for result in self.results if result.is_kept]

    @property
    def leaders(self) -> list[ConfigurationResult]:
        """The configurations with the best mean; several if they tie."""
        return [result for result in self.results if result.is_finished and result.mean == self.results[0].mean]

    @property
    def baseline(self) -> ConfigurationResult | None:
        """The configuration that is shipped."""
        return next((result for result in self.results if result.place == self.sweep.baseline), None)

    @property
    def cost_name(self) -> str:
        """What the configurations are compared by besides their quality: ``cost``, else ``tokens``; else nothing."""
        return next((name for name in ("cost", "tokens") if self.knows(name)), "")

    def knows(self, name: str) -> bool:
        """Whether an amount is known of all configurations that finished."""
        return all(getattr(result.amounts, name) is not None for result in self.results if result.is_finished)

    def price(self, result: ConfigurationResult) -> float:
        """The cost of a configuration, or its tokens."""
        return float(getattr(result.amounts, self.cost_name))

    def cheapest(self, among: Sequence[ConfigurationResult]) -> list[ConfigurationResult]:
        """The cheapest of some configurations that keep the guardrails; several if they cost the same."""
        usable = [result for result in among if result.is_finished and result.is_guarded]
        if not usable or not self.cost_name:
            return []
        least = min(self.price(result) for result in usable)
        return [result for result in usable if self.price(result) == least]

    @property
    def not_worse(self) -> list[ConfigurationResult]:
        """The configurations that are behind the best by the margin at most."""
        most = self.sweep.delta
        return [result for result in self.results if most and result.distance and result.distance.most <= most]


def answer_sweep(store: RunStore, sweep: SweepPlan) -> SweepAnswer:
    """The answer of a sweep, from its stored runs; recorded as a decision on their questions where it is complete."""
    records = sweep_runs(store, sweep)
    results = [_describe(store, place, sweep.configurations[place], record) for place, record in enumerate(records)]
    answer = SweepAnswer(sweep, results, sweep.decide)
    scores = read_sweep_scores(store, sweep, records)
    if scores is None:
        return answer
    _add_means(answer, scores)
    if answer.is_complete:
        _add_statistics(answer, scores)
        _add_guardrails(store, answer)
    sign = scores.table.sign
    results.sort(key=lambda result: (not result.is_finished, -sign * (result.mean or 0.0), result.label))
    assert results[0].record is not None
    names = {found.name: display_name(found) for found in result_summaries(store, results[0].record.run_id)}
    primary = results[0].record.plan.get("primary") or ()
    answer.other_metrics = {name: names.get(name, name) for name in primary if name != sweep.decide}
    _mark_efficient(answer, sign)
    if answer.is_complete:
        decided = {sweep.decide: [result.label for result in answer.kept]}
        compared = [result.record for result in results if result.record is not None]
        answer.register = register_decision(store, compared, "sweep", decided)
    return answer


# --- what is known of each configuration by itself -------------------------------------------------------------------


def _describe(
    store: RunStore, place: int, configuration: Configuration, record: RunRecord | None
) -> ConfigurationResult:
    if record is None:
        return ConfigurationResult(place, configuration, None)
    values = {result.name: result.known_value for result in result_summaries(store, record.run_id)}
    amounts = _amounts(store, record)
    problem = record.message or "" if record.status is RunStatus.FAILED else ""
    return ConfigurationResult(
        place, configuration, record, record.status_text, amounts, others=values, problem=problem
    )


def _amounts(store: RunStore, record: RunRecord) -> Amounts:
    """What the answers of a run take on average."""
    priced = cost_metric(record.plan)
    costs, tokens, seconds = [], [], []
    for row in store.outputs(record.run_id, texts=False):
        if row.output.error is not None:
            continue
        if priced is not None:
            costs.append(priced.cost_of(row.output).value)
        tokens.append(output_tokens(row.output))
        seconds.append(row.output.timings.get("end_to_end"))
    return Amounts(_mean(costs), _mean(tokens), _mean(seconds), record.plan[SWEEP]["setup_s"])


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values; ``None`` where one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _add_guardrails(store: RunStore, answer: SweepAnswer) -> None:
    """Add the outcome of each guardrail against the baseline."""
    baseline = answer.baseline
    finished = [result for result in answer.results if result.is_finished]
    margins = guardrail_margins([result.record for result in finished if result.record is not None], None)
    if not margins or baseline not in finished:
        return
    for result in finished:
        if result is not baseline and result.record is not None and baseline.record is not None:
            pair = (baseline.record, result.record)
            compared = compare_metrics(store, *pair, metrics=list(margins), primary=[], guardrails=margins)
            result.guardrails = compared.guardrails


def _mark_efficient(answer: SweepAnswer, sign: float) -> None:
    """Mark the results where no other is at least as good in all respects and better in one."""
    finished = [result for result in answer.results if result.is_finished]
    known = [name for name in (answer.cost_name, "latency") if name and answer.knows(name)]
    columns = [[-sign * (result.mean or 0.0) for result in finished]]
    for name in known:
        amounts = [getattr(result.amounts, name) for result in finished]
        columns.append(amounts)
    points = np.array(columns).T
    for result, own in zip(finished, points, strict=True):
        dominating = (points <= own).all(axis=1) & (points < own).any(axis=1)
        result.is_efficient = bool(known) and not dominating.any()


# --- the statistics of all configurations together -------------------------------------------------------------------


def _add_means(answer: SweepAnswer, scores: SweepScores) -> None:
    """Add the mean of each configuration, and what is known of all of them."""
    table = scores.table
    answer.metric, answer.notes, answer.higher_is_better = scores.label, scores.notes, table.sign > 0
    answer.samples, answer.left_out = len(table.rows), table.left_out
    for place, reason in scores.refused.items():
        answer.results[place].status, answer.results[place].problem = "not compared", reason
    failed = table.failed.sum(axis=0).tolist()
    for place, mean, count in zip(scores.places, scores.found.means.tolist(), failed, strict=True):
        answer.results[place].mean, answer.results[place].failed = table.sign * mean, count


def _add_statistics(answer: SweepAnswer, scores: SweepScores) -> None:
    """Add the set of the best, the tests against the baseline, the distances from the best, and effects."""
    sweep, found, places = answer.sweep, scores.found, scores.places
    kept = found.not_distinguishable().tolist()
    for place, is_kept, distance in zip(places, kept, found.behind_best(sweep.delta), strict=True):
        result = answer.results[place]
        result.is_kept, result.distance = is_kept, distance
        if sweep.eliminates and result.record is not None:  # the looks decide, each with a part of the error rate
            result.is_kept = ELIMINATED_TAG not in result.record.tags
    if sweep.baseline in places:
        for place, test in zip(places, found.against(places.index(sweep.baseline)), strict=True):
            answer.results[place].test = replace(test, p_adjusted=min(1.0, test.p_adjusted * scores.rivals))
        answer.results[sweep.baseline].test = None
    answer.interval = scores.interval(int(found.means.argmax()))
    if sweep.is_grid and len(places) == len(sweep.configurations):
        chosen = [sweep.configurations[place].values for place in places]
        columns = zip(*(values.values() for values in chosen), strict=True)
        parameters = dict(zip(chosen[0], columns, strict=True))
        answer.effects = main_effects(scores.table.values, parameters, clusters=scores.table.clusters)
