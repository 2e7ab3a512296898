"""What the stored runs of a sweep say: the best, against the baseline, and the cheapest that is not worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..compare.guardrails import guardrail_margins
from ..compare.runs import compare_metrics
from ..compare.stores import DecisionRegister, register_decision
from ..compare.sweeps import ELIMINATED_TAG, SWEEP, StoredSweep, SweepScores, read_sweep_scores
from ..compare.types import GuardrailOutcome
from ..core.registry import metric
from ..core.results import display_name
from ..plan.sweep import Configuration
from ..stats.selection import ALPHA, BaselineTest, Distance, MainEffect, main_effects
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore, result_summaries
from .run import output_tokens

END_TO_END = "end_to_end"
"""The timing of a whole call."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a configuration takes per question; ``None`` where its outputs do not say."""

    cost: float | None = None
    tokens: float | None = None
    latency: float | None = None
    """Seconds of a call."""
    setup_s: float | None = None
    """Seconds of the setup, which are not part of the others."""


@dataclass(frozen=True, slots=True)
class ConfigurationResult:
    """A configuration of a sweep, and what is known about it."""

    place: int
    configuration: Configuration
    record: RunRecord | None
    amounts: Amounts = Amounts()
    mean: float | None = None
    """The mean of the deciding metric; a failed answer has the worst score."""
    failed: int = 0
    """How many questions have no answer."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """The values of the other primary metrics, by name."""
    is_kept: bool = False
    """Whether it cannot be told from the best."""
    test: BaselineTest | None = None
    """Against the baseline."""
    distance: Distance | None = None
    """How far it may be behind the best."""
    guardrails: tuple[GuardrailOutcome, ...] = ()
    """Against the baseline."""
    is_efficient: bool = False
    """Whether no other configuration is at least as good, cheap and fast, by the values alone (Pareto)."""

    @property
    def label(self) -> str:
        """Its values in one line."""
        return self.configuration.label

    @property
    def status(self) -> str:
        """The status of its run."""
        return "not run" if self.record is None else self.record.status_text

    @property
    def is_finished(self) -> bool:
        """Whether its run is complete."""
        return self.record is not None and self.record.status is RunStatus.FINISHED

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


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    """Which configuration of a sweep to ship."""

    sweep: StoredSweep
    results: tuple[ConfigurationResult, ...]
    """The configurations, the best mean first."""
    metric: str
    """The deciding metric, for display."""
    higher_is_better: bool = True
    samples: int = 0
    left_out: int = 0
    """Questions without a score in some configuration."""
    interval: tuple[float, float] | None = None
    """Of the mean of the best, whichever that is."""
    effects: Mapping[str, Mapping[str, MainEffect]] = field(default_factory=dict)
    """Of a complete grid the effect of each value of each parameter."""
    other_metrics: Mapping[str, str] = field(default_factory=dict)
    """The other primary metrics, by name with their names for display."""
    register: DecisionRegister | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every configuration was run as far as it had to be."""
        ended = (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.ELIMINATED)
        return all(result.record is not None and result.record.status in ended for result in self.results)

    @property
    def kept(self) -> list[ConfigurationResult]:
        """The configurations that cannot be told from the best."""
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
        finished = [result for result in self.results if result.is_finished]
        for name in ("cost", "tokens"):
            if finished and all(getattr(result.amounts, name) is not None for result in finished):
                return name
        return ""

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


def answer_sweep(store: RunStore, sweep: StoredSweep) -> SweepAnswer:
    """The answer of a sweep, from its stored runs; recorded as a decision on their questions where it is complete."""
    records = sweep.runs(store)
    results = [
        _describe(store, place, configuration, record)
        for place, (configuration, record) in enumerate(zip(sweep.configurations, records, strict=True))
    ]
    answer = SweepAnswer(sweep, tuple(results), sweep.decide)
    scores = read_sweep_scores(store, sweep, records)
    if scores is None:
        return answer
    table = scores.table
    results = _with_means(results, scores)
    if answer.is_complete:
        results = _with_guardrails(store, _with_statistics(results, scores), sweep)
        best = int(scores.found.means.argmax())
        answer = replace(answer, interval=scores.interval(best), effects=_effects(scores))
    results.sort(key=lambda result: (not result.is_finished, -table.sign * (result.mean or 0.0), result.label))
    answer = replace(
        answer,
        results=tuple(results),
        metric=scores.label,
        higher_is_better=table.sign > 0,
        samples=len(table.rows),
        left_out=table.left_out,
        other_metrics=_other_metrics(store, results[0], sweep),
        notes=scores.notes,
    )
    answer = replace(answer, results=tuple(_with_pareto(answer)))
    if answer.is_complete:
        decided = {sweep.decide: [result.label for result in answer.kept]}
        compared = [result.record for result in results if result.record is not None]
        answer = replace(answer, register=register_decision(store, compared, "sweep", decided))
    return answer


# --- what is known of each configuration by itself -------------------------------------------------------------------


def _describe(
    store: RunStore, place: int, configuration: Configuration, record: RunRecord | None
) -> ConfigurationResult:
    if record is None:
        return ConfigurationResult(place, configuration, None)
    values: dict[str, float | None] = {}
    for result in result_summaries(store, record.run_id):
        values[result.name] = result.value if result.defined else None
    setup_s = record.plan[SWEEP]["setup_s"]
    amounts = replace(_amounts(store, record), setup_s=setup_s)
    return ConfigurationResult(place, configuration, record, amounts, others=values)


def _amounts(store: RunStore, record: RunRecord) -> Amounts:
    """What the answers of a run take on average."""
    prices = (record.plan.get("run") or {}).get("prices")
    priced: Any = metric({"total_cost": {"prices": prices}}) if prices else None
    costs, tokens, seconds = [], [], []
    for row in store.outputs(record.run_id, texts=False):
        if row.output.error is not None:
            continue
        if priced is not None:
            costs.append(priced.cost_of(row.output).value)
        tokens.append(output_tokens(row.output))
        seconds.append(row.output.timings.get(END_TO_END))
    return Amounts(_mean(costs), _mean(tokens), _mean(seconds))


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of the values; ``None`` where one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _other_metrics(store: RunStore, result: ConfigurationResult, sweep: StoredSweep) -> dict[str, str]:
    """The primary metrics that do not decide, with their names for display."""
    assert result.record is not None
    names = {found.name: display_name(found) for found in result_summaries(store, result.record.run_id)}
    primary = result.record.plan.get("primary") or ()
    return {name: names.get(name, name) for name in primary if name != sweep.decide}


def _with_guardrails(
    store: RunStore, results: Sequence[ConfigurationResult], sweep: StoredSweep
) -> list[ConfigurationResult]:
    """The results with the outcome of each guardrail against the baseline."""
    finished = [result.record for result in results if result.record is not None and result.is_finished]
    margins = guardrail_margins(finished, None)
    baseline = next((result.record for result in results if result.place == sweep.baseline), None)
    if not margins or baseline is None or baseline.status is not RunStatus.FINISHED:
        return list(results)
    found = []
    for result in results:
        outcomes: tuple[GuardrailOutcome, ...] = ()
        if result.record is not None and result.is_finished and result.record.run_id != baseline.run_id:
            compared = compare_metrics(
                store, baseline, result.record, metrics=list(margins), primary=[], guardrails=margins
            )
            outcomes = compared.guardrails
        found.append(replace(result, guardrails=outcomes))
    return found


def _with_pareto(answer: SweepAnswer) -> list[ConfigurationResult]:
    """The results with a mark where no other configuration is at least as good in all respects and better in one."""
    sign = 1.0 if answer.higher_is_better else -1.0
    points: dict[int, list[float]] = {}
    names = [answer.cost_name, "latency"]
    finished = [result for result in answer.results if result.is_finished and result.mean is not None]
    known = [name for name in names if name and all(getattr(r.amounts, name) is not None for r in finished)]
    for result in finished:
        assert result.mean is not None
        points[result.place] = [-sign * result.mean, *(getattr(result.amounts, name) for name in known)]
    marked = []
    for result in answer.results:
        own = points.get(result.place)
        beaten = own is None or any(_dominates(other, own) for other in points.values())
        marked.append(replace(result, is_efficient=bool(known) and not beaten))
    return marked


def _dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


# --- the statistics of all configurations together -------------------------------------------------------------------


def _with_means(results: Sequence[ConfigurationResult], scores: SweepScores) -> list[ConfigurationResult]:
    """The results with their means."""
    means = dict(zip(scores.places, (scores.table.sign * scores.found.means).tolist(), strict=True))
    failed = dict(zip(scores.places, scores.table.failed.sum(axis=0).tolist(), strict=True))
    found = []
    for result in results:
        place = result.place
        found.append(replace(result, mean=means.get(place), failed=failed.get(place, 0)))
    return found


def _with_statistics(results: Sequence[ConfigurationResult], scores: SweepScores) -> list[ConfigurationResult]:
    """The results with the set of the best, the tests against the baseline, and the distances from the best."""
    sweep, places = scores.sweep, scores.places
    kept = dict(zip(places, scores.found.not_distinguishable().tolist(), strict=True))
    distances = dict(zip(places, scores.found.behind_best(sweep.delta), strict=True))
    tests: dict[int, BaselineTest] = {}
    if sweep.baseline in places:
        against = scores.found.against(places.index(sweep.baseline))
        for place, test in zip(places, against, strict=True):
            if place != sweep.baseline:
                tests[place] = replace(test, p_adjusted=min(1.0, test.p_adjusted * scores.rivals))
    found = []
    for result in results:
        place = result.place
        is_kept = kept.get(place, False)
        if sweep.eliminates and result.record is not None:  # the looks decide, each with a part of the error rate
            is_kept = place in places and ELIMINATED_TAG not in result.record.tags
        found.append(replace(result, is_kept=is_kept, distance=distances.get(place), test=tests.get(place)))
    return found


def _effects(scores: SweepScores) -> dict[str, dict[str, MainEffect]]:
    """The main effects of a complete grid; empty if a configuration left."""
    sweep = scores.sweep
    if not sweep.is_grid or len(scores.places) < len(sweep.configurations):
        return {}
    chosen = [sweep.configurations[place].values for place in scores.places]
    names = [name for name in chosen[0] if len({values[name] for values in chosen}) > 1]
    parameters = [[values[name] for values in chosen] for name in names]
    by_place = main_effects(scores.table.values, parameters, clusters=scores.inside)
    found: dict[str, dict[str, MainEffect]] = {}
    for name, column, effects in zip(names, parameters, by_place, strict=True):
        found[name] = {column[place]: effect for place, effect in effects.items()}
    return found
