"""Run a sweep: check all configurations before anything is spent, then run each as ``auepora run`` does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any

import numpy as np

from ..compare.pairing import metric_meta
from ..compare.sweeps import ELIMINATED_TAG, SWEEP, SWEEP_TAG, ScoreTable, sweep_entry, sweep_runs
from ..core.clusters import cluster_ids, cluster_key
from ..core.metrics_base import BatchMetric, Metric
from ..core.reduce import Clusters
from ..core.registry import metric
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import resolve_metrics
from ..errors import AueporaError, BadValueError, PlanError, StoreError, UnknownRunError
from ..features.usage import COMPLETION, PROMPT, token_count, usage_by_model
from ..io.golden import dataset_fingerprint
from ..io.sample_sets import SampleSet, find_sample_set
from ..judge.metric import judged_parts
from ..plan.model import Plan, plan_changes
from ..plan.prepare import PreparedPlan, build_system, prepare, read_plan
from ..plan.source import PlanSource
from ..plan.sweep import SweepBudget, SweepPlan, is_hook, setup_words, short_names
from ..runs.gold import read_gold
from ..runs.job import ScoringJob
from ..runs.run import (
    RunCallbacks,
    RunRequest,
    closing_system,
    open_plan,
    plan_request,
    start_or_resume,
    warn,
)
from ..runs.scoring import score_run
from ..runtime.imports import import_object, search_folders
from ..runtime.secrets import Secrets
from ..stats.intervals import Ints
from ..stats.selection import ConfigurationScores, eliminate, look_sizes
from ..store.connect import default_labels, default_store
from ..store.records import RunRecord, RunStatus, StoredOutput, plan_conventions
from ..store.runs import RunStore, iter_samples
from ..systems.calls import Stop

# --- the check: every error before anything is spent -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep is run."""

    name: str | None = None
    """By default that of the plan."""
    store: str | None = None
    limit: int | None = None
    samples: str | None = None
    """The name or the file of a set of samples."""
    tags: Sequence[str] = ()
    resume: bool = False
    retry_failed: bool = False
    parallel: int = 1
    """The number of configurations that run at a time."""
    eliminate: bool = False
    """Whether configurations leave as soon as they are known to be worse."""


@dataclass(frozen=True, slots=True)
class PreparedSweep:
    """A sweep whose configurations are checked, ready to run."""

    sweep: SweepPlan
    plans: tuple[Plan, ...]
    """The plan of each configuration."""
    stored: tuple[Mapping[str, Any], ...]
    """The same as it is stored, without what is about the sweep."""
    samples: Sequence[EvaluationSample]
    calls: int
    """Calls of the system, without retries."""
    deciding: Metric
    where: str
    """The store."""
    sample_set: SampleSet | None = None


def prepare_sweep(
    source: PlanSource, options: SweepOptions = SweepOptions(), changes: Mapping[str, Any] | None = None
) -> PreparedSweep:
    """Check a sweep: its keys, data, metrics and budget. Neither a setup nor a system is called."""
    whole = read_plan(source, changes=changes)
    if whole.sweep is None:
        raise PlanError(source.path, None, "sweep", "is missing; write sweep: {grid: {run.top_k: [3, 5, 10]}}")
    where = default_store(options.store, whole.store)
    chosen = None
    if options.samples is not None:
        chosen = find_sample_set(default_labels(where), options.samples)
    left_out = dict.fromkeys(("sweep", "gates", "report"))
    plans, stored = [], []
    warnings: dict[str, None] = {}
    prepared: PreparedPlan | None = None
    calls = 0
    for configuration in whole.sweep.configurations:
        plan = read_plan(source.with_settings(configuration.settings), changes={**(changes or {}), **left_out})
        prepared = prepare(plan, need_system=False, limit=options.limit, samples=chosen)
        calls += prepared.calls
        plans.append(plan)
        stored.append(plan_request(prepared, samples=chosen).plan)
        warnings.update(dict.fromkeys(map(Secrets(plan.secrets).message, prepared.warnings)))
    assert prepared is not None
    for warning in warnings:
        warn(warning)
    deciding = _require_deciding(whole, prepared, options)
    budget = whole.sweep.budget
    if budget.calls is not None and budget.calls < calls and not options.eliminate:
        problem = f"{budget.calls:,} calls are too few: {len(plans)} configurations take {calls:,}"
        raise PlanError(source.path, source.line("sweep.budget.calls"), "sweep.budget.calls", problem)
    if budget.cost is not None and not (whole.resolved["run"].get("prices") or whole.judge.policy.prices):
        problem = "needs prices of models, under run.prices or judge.prices"
        raise PlanError(source.path, source.line("sweep.budget.cost"), "sweep.budget.cost", problem)
    name = options.name or whole.name
    sweep = replace(whole.sweep, name=name, eliminates=options.eliminate)
    return PreparedSweep(sweep, tuple(plans), tuple(stored), prepared.samples, calls, deciding, where, chosen)


def _require_deciding(plan: Plan, prepared: PreparedPlan, options: SweepOptions) -> Metric:
    """The metric that decides; raises unless it is a mean of one score for each question."""
    assert plan.sweep is not None
    name = plan.sweep.decide
    known = prepared.metrics or resolve_metrics([name], prepared.conventions)
    found = next((chosen for chosen in known if chosen.name == name), None)
    problem = None
    if not isinstance(found, BatchMetric) or found.reducer.name != "mean" or found.is_paired:
        problem = f"'{name}' is no mean of scores of single questions"
    elif not found.metadata.has_direction:
        problem = f"neither a higher nor a lower '{name}' is better"
    elif not all(abs(end) < float("inf") for end in found.range):
        problem = f"'{name}' has no worst score, at which a failed answer could count"
    elif plan.judge.stop is not None or plan.judge.two_stage is not None:
        problem = "judging that stops early, or in two stages, does not score every question; leave it out"
    elif options.eliminate and any(judged_parts(found)) and not plan.judge.cache:
        problem = f"'{name}' is judged, and --eliminate needs the cache of judgements"
    if problem is not None:
        raise PlanError(plan.path, plan.source.line("sweep.decide"), "sweep.decide", problem)
    assert found is not None
    return found


# --- the budget of all runs together ---------------------------------------------------------------------------------


class BudgetMeter:
    """Counts what the runs of a sweep take, and stops them when that is more than the budget."""

    def __init__(self, budget: SweepBudget, prices: Mapping[str, Any], stop: Stop) -> None:
        self.budget, self.stop = budget, stop
        self.exceeded = ""
        """What is spent, in words; empty while there is some left."""
        self._used = {"calls": 0.0, "tokens": 0.0, "cost": 0.0}
        self._cost: Any = metric({"total_cost": {"prices": dict(prices)}}) if prices else None
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def add(self, outputs: Sequence[StoredOutput]) -> None:
        """Count stored outputs."""
        with self._lock:
            for row in outputs:
                self._used["calls"] += 1
                self._used["tokens"] += output_tokens(row.output) or 0
                if self._cost is not None:
                    self._used["cost"] += self._cost.cost_of(row.output).value or 0.0
            self._check()

    def add_judging(self, record: RunRecord) -> None:
        """Count the cost of the judges of a run."""
        with self._lock:
            total = (record.usage or {}).get("total") or {}
            self._used["cost"] += total.get("cost") or 0.0
            self._check()

    def _check(self) -> None:
        used = {**self._used, "seconds": time.monotonic() - self._began}
        for key, most in asdict(self.budget).items():
            # All calls that the plan takes fit into the budget, so that reaching it is no reason to stop.
            if most is not None and used[key] > most and not self.exceeded:
                self.exceeded = f"the budget of {most:g} {key} is spent"
                self.stop.finish()


def output_tokens(output: SystemOutputs) -> int | None:
    """The tokens of an output; ``None`` where its usage does not say."""
    counts = []
    for usage in usage_by_model(output.usage).values():
        try:
            counts += [token_count(usage, kind) for kind in (PROMPT, COMPLETION)]
        except BadValueError:
            return None
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


# --- the runs --------------------------------------------------------------------------------------------------------


Announce = Callable[[str], None]
"""Called with a line about a configuration."""


def ignore_line(line: str) -> None:
    """Show nothing."""


class SweepRunner:
    """Runs the configurations of a sweep. One that fails does not stop the others."""

    def __init__(
        self,
        prepared: PreparedSweep,
        options: SweepOptions,
        *,
        stop: Stop | None = None,
        watcher: RunCallbacks = RunCallbacks(),
        announce: Announce = ignore_line,
    ) -> None:
        self.prepared, self.options, self.announce = prepared, options, announce
        self.sweep = prepared.sweep
        self.stop = stop or Stop()
        self._watcher = watcher
        prices = prepared.plans[0].resolved["run"].get("prices") or {}
        self.meter = BudgetMeter(prepared.sweep.budget, prices, self.stop)
        self._setup_s: dict[int, float] = {}
        self.store = RunStore.open(prepared.where, secrets=prepared.plans[0].secrets)
        self.records: dict[int, RunRecord] = {}
        """The run of each configuration by its place."""

    def run(self) -> str:
        """Run all configurations, or what is missing of them; returns why it stopped, empty if it did not."""
        with self.store:
            self._find_earlier()
            self._set_up()
            self._check_systems()
            if self.options.eliminate:
                run_in_looks(self)
            else:
                self.run_each(range(len(self.prepared.plans)))
        return self.meter.exceeded or ("interrupted" if self.stop.finishing else "")

    def _find_earlier(self) -> None:
        """Find the runs of a sweep that is resumed; without ``resume`` there must be none of this name."""
        earlier = self.store.runs(tag=SWEEP_TAG + self.sweep.name)
        if earlier and not self.options.resume:
            raise BadValueError(
                f"there is a sweep '{self.sweep.name}' in the store; resume it with --resume, look at it with "
                f"`auepora sweep show {self.sweep.name}`, or give another --name"
            )
        if self.options.resume and not earlier:
            raise UnknownRunError(f"there is no sweep '{self.sweep.name}' to resume; leave out --resume to start one")
        for record in reversed(earlier):
            place = record.plan[SWEEP]["place"]
            self._require_unchanged(record, place)
            self.records[place] = record
            self.meter.add(list(self.store.outputs(record.run_id, texts=False)))
            if self.is_done(place):
                self.meter.add_judging(record)

    def _require_unchanged(self, record: RunRecord, place: int) -> None:
        """Raise if the plan of a run, or its questions, are not those of now."""
        plan = {key: value for key, value in record.plan.items() if key != SWEEP}
        now = self.store.as_stored({SWEEP: sweep_entry(self.sweep, place), "plan": dict(self.prepared.stored[place])})
        changes = plan_changes(plan, now["plan"])
        if {**record.plan[SWEEP], "setup_s": None} != now[SWEEP]:
            changes.append("sweep")
        if dataset_fingerprint(self.prepared.samples) != record.fingerprint:
            changes.append("the questions")
        if changes:
            what = "; ".join(changes[:5])
            raise BadValueError(f"cannot resume the sweep '{self.sweep.name}': changed since it was started: {what}")

    def is_done(self, place: int) -> bool:
        """Whether a configuration needs no further run: it is finished, eliminated, or has failed."""
        record = self.records.get(place)
        if record is None or record.status not in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.ELIMINATED):
            return False
        has_failures = record.status is RunStatus.FAILED or self.store.counts(record.run_id)[1] > 0
        return not (self.options.retry_failed and has_failures)

    def _set_up(self) -> None:
        """Prepare all configurations before the first call; a command that is the same for several runs once."""
        setup = self.sweep.setup
        ready: dict[tuple[str, ...], float] = {}
        names = short_names(key for configuration in self.sweep.configurations for key in configuration.settings)
        for place, plan in enumerate(self.prepared.plans):
            if setup is None or self.is_done(place):
                continue
            configuration = self.sweep.configurations[place]
            texts = {names[key]: str(value) for key, value in configuration.settings.items()}
            words = tuple(setup_words(setup, {**configuration.values, **texts}))
            if is_hook(setup):
                words = (setup, configuration.label)
            if words not in ready:
                self.announce(f"setup {len(ready) + 1}: {configuration.label}")
                ready[words] = _run_setup(setup, words, plan, configuration.settings, configuration.label)
            self._setup_s[place] = ready[words]

    def _check_systems(self) -> None:
        """Build every system once: what is wrong with its arguments is known before the first call."""
        for place, plan in enumerate(self.prepared.plans):
            if plan.system is None or self.is_done(place):
                continue
            secrets = Secrets(plan.secrets)
            with secrets.redact_errors(), search_folders(plan.folder):
                try:
                    system = build_system(plan)
                except AueporaError as error:
                    label = self.sweep.configurations[place].label
                    problem = f"the system cannot be built for the configuration '{label}': {error}"
                    raise PlanError(plan.path, None, f"system.{plan.system.kind}", problem) from error
                with closing_system(system, secrets):
                    pass

    def run_each(self, places: Collection[int], part: Collection[int] | None = None) -> None:
        """Run some configurations, for a ``part`` of the questions or for all."""
        with ThreadPoolExecutor(self.options.parallel) as threads:
            jobs = [threads.submit(self._run, place, part) for place in places if not self.is_done(place)]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self.stop.finish()
                for job in jobs:
                    job.cancel()
                raise

    def _run(self, place: int, part: Collection[int] | None) -> None:
        """Start or resume the run of one configuration; what is wrong with it alone is stored."""
        if self.stop.finishing:
            return
        options, label = self.options, self.sweep.configurations[place].label
        try:
            with open_plan(
                self.prepared.plans[place],
                store=options.store,
                limit=options.limit,
                tags=(*options.tags, SWEEP_TAG + self.sweep.name),
                samples=self.prepared.sample_set,
                is_checked=True,
            ) as (request, store, _):
                start_or_resume(
                    replace(self._request(place, request), part=part),
                    store,
                    self.records.get(place),
                    retry_failed=options.retry_failed,
                    stop=self.stop,
                    watcher=replace(self._watcher, answered=self._on_answers),
                )
        except StoreError:
            raise
        except AueporaError as error:  # the others go on; a run that was started is stored as failed
            self.announce(f"{label}: {error}")
        record = sweep_runs(self.store, self.sweep)[place]
        if record is None:
            return
        self.records[place] = record
        if part is None:
            self.meter.add_judging(record)
            why = f" ({record.message})" if record.message else ""
            self.announce(f"{label}: {record.status.value}{why}")

    def _request(self, place: int, request: RunRequest) -> RunRequest:
        label = self.sweep.configurations[place].label
        entry = sweep_entry(self.sweep, place, self._setup_s.get(place))
        return replace(request, name=f"{self.sweep.name} [{label}]", plan={**request.plan, SWEEP: entry})

    def _on_answers(self, rows: Sequence[StoredOutput]) -> None:
        self._watcher.answered(rows)
        self.meter.add(rows)


def _run_setup(setup: str, words: Sequence[str], plan: Plan, settings: Mapping[str, Any], label: str) -> float:
    """Prepare a configuration; returns how many seconds it took."""
    began = time.monotonic()
    problem = ""
    try:
        if is_hook(setup):
            with search_folders(plan.folder):
                import_object(setup, plan.folder)(dict(settings))
        else:
            done = subprocess.run(list(words), cwd=plan.folder, stdout=sys.stderr, check=False)  # noqa: S603 -- the user's
            problem = f"exit code {done.returncode}" if done.returncode else ""
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise PlanError(plan.path, None, "sweep.setup", f"failed for the configuration '{label}': {problem}")
    return time.monotonic() - began


# --- successive elimination: all get the same questions in one random order, and the worse ones leave ---------------


@dataclass(slots=True, eq=False)
class LookJob(ScoringJob):
    """The scoring of the questions that a run was asked so far; nothing of it is stored."""

    asked: Collection[int] = ()

    def open(self) -> None:
        """Read the samples that were asked."""
        self.samples = list(iter_samples(self.store, self.record.run_id, positions=frozenset(self.asked)))
        ScoringJob.open(self)

    def _read_outputs(self, repeat: int) -> Iterator[SystemOutputs | None]:
        chosen = [position in self.asked for position in range(self.record.num_samples)]
        return compress(ScoringJob._read_outputs(self, repeat), chosen)

    def store_judgements(self) -> AbstractContextManager[None]:
        """The judgements are in the cache; the last scoring stores them."""
        return nullcontext()

    def store_results(self, results: Results) -> None:
        """Store nothing."""


def run_in_looks(runner: SweepRunner) -> None:
    """Ask tenths of the questions, and after each let the configurations leave that are worse than another one.

    It ends when one is left, or when less than half a further one is expected to leave. The rest, and the baseline,
    are asked to the end.
    """
    samples = runner.prepared.samples
    families = [cluster_key(sample) for sample in samples]
    clusters = cluster_ids([sample.sample_id for sample in samples], families)
    units = _random_order(clusters, runner.prepared.plans[0].seed)
    every = list(range(len(runner.prepared.plans)))
    living = list(every)
    for look, size in enumerate(look_sizes(len(units)), start=1):
        if not size:
            continue
        asked = frozenset(np.concatenate(units[:size]).tolist())
        runner.announce(f"look {look}: {len(asked)} of {len(samples)} questions, {len(living)} configurations")
        runner.run_each(living, part=asked)
        if runner.stop.finishing:
            return
        found = _analyse(runner, living, asked, clusters)
        if found is None:
            continue
        outcome = eliminate(found, look=look, total=len(samples), configurations=len(every))
        leaving = [place for place, kept in zip(living, outcome.kept.tolist(), strict=True) if not kept]
        for place in leaving:
            _leave(runner, place, len(asked))
        living = [place for place in living if place not in leaving]
        if len(living) == 1 or outcome.is_futile:
            break
    runner.run_each([place for place in every if place in living or place == runner.sweep.baseline])


def _random_order(clusters: Clusters, seed: int) -> list[Ints]:
    """The positions of the samples of each unit, in a random order of units."""
    names = np.unique(clusters)
    order = np.random.default_rng(seed).permutation(names)
    return [np.flatnonzero(clusters == name) for name in order.tolist()]


def _leave(runner: SweepRunner, place: int, asked: int) -> None:
    """Mark that a configuration left; the baseline is asked to the end all the same."""
    record = runner.records.get(place)
    if record is None:
        return
    runner.store.tag(record.run_id, ELIMINATED_TAG)
    label = runner.sweep.configurations[place].label
    runner.announce(f"{label}: eliminated after {asked} questions")
    if place != runner.sweep.baseline and record.status is not RunStatus.FAILED:
        runner.store.finish(record.run_id, RunStatus.ELIMINATED, message=f"eliminated after {asked}")
    runner.records[place] = runner.store.get(record.run_id)


def _analyse(
    runner: SweepRunner, living: list[int], asked: frozenset[int], clusters: Clusters
) -> ConfigurationScores | None:
    """The scores of the living configurations on what was asked; ``None`` where there are too few."""
    metric = runner.prepared.deciding
    assert isinstance(metric, BatchMetric)
    columns = [_look_scores(runner, place, asked) for place in living]
    table = ScoreTable.of(columns, metric_meta(metric, None), len(asked))
    inside = clusters[np.array(sorted(asked))]
    return table.analyse(inside) if len(np.unique(inside[table.rows])) > 1 else None


def _look_scores(runner: SweepRunner, place: int, asked: frozenset[int]) -> Scores | None:
    """The scores of a configuration on what was asked; ``None`` if its run failed."""
    record, plan = runner.records.get(place), runner.prepared.plans[place]
    if record is None or record.status is RunStatus.FAILED:
        return None
    rules = plan_conventions(record)
    reading = None
    if plan.match == "auto":
        reading = read_gold(runner.store, record, runner.prepared.samples, rules, "auto")
        rules = replace(rules, match=reading.resolved.match)
    job = LookJob(
        runner.store,
        record,
        [runner.prepared.deciding],
        conventions=rules,
        reading=reading,
        options=plan.scoring,
        policy=plan.judge.policy_for(runner.prepared.where, plan.folder),
        secrets=plan.secrets,
        asked=asked,
    )
    scores = score_run(job)[0].scores
    assert isinstance(scores, Scores)
    return scores
