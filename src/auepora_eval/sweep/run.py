"""Run a sweep: check all configurations before anything is spent, then run each as ``auepora run`` does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from ..compare.pairing import metric_meta
from ..compare.sweeps import ScoreTable
from ..core.clusters import cluster_ids, cluster_key
from ..core.conventions import Conventions
from ..core.metric_hooks import is_paired
from ..core.metrics_base import BatchMetric, with_match
from ..core.registry import metric
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import resolve_metrics
from ..errors import AueporaError, BadValueError, PlanError, SignatureMismatchError, StoreError, UnknownRunError
from ..features.usage import COMPLETION, PROMPT, token_count, usage_by_model
from ..io.golden import dataset_fingerprint
from ..io.sample_sets import SampleSet, find_sample_set
from ..io.yaml_values import split_key
from ..judge.metric import judged_parts
from ..judge.session import JudgeSession
from ..plan.model import Plan, plan_changes
from ..plan.prepare import PreparedPlan, prepare, read_plan
from ..plan.source import PlanSource
from ..plan.sweep import SweepOptions, is_hook, setup_words
from ..runs.job import evaluate_outputs, read_gold
from ..runs.run import (
    RunCallbacks,
    RunRequest,
    open_plan,
    plan_request,
    start_or_resume,
    warn,
)
from ..runtime.imports import import_object, search_folders
from ..runtime.secrets import Secrets
from ..stats.selection import eliminate, look_sizes
from ..store.connect import default_labels, default_store
from ..store.records import RunRecord, RunStatus, StoredOutput, plan_conventions, run_info
from ..store.runs import RunStore, aligned_outputs, iter_samples
from ..store.sweeps import ELIMINATED_TAG, SWEEP, SWEEP_TAG, Configuration, SweepPlan, sweep_entry, sweep_runs
from ..systems.calls import Stop

# --- the check: every error before anything is spent -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedSweep:
    """A sweep whose configurations are checked, ready to run."""

    sweep: SweepPlan
    plans: tuple[Plan, ...]
    """The plan of each configuration."""
    requests: tuple[RunRequest, ...]
    """The run of each, without its system and what its plan says about the sweep."""
    samples: Sequence[EvaluationSample]
    calls: int
    """Calls of the system, without retries."""
    deciding: BatchMetric
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
    sweep = replace(whole.sweep, name=options.name or whole.name, eliminates=options.eliminate)
    where = default_store(options.store, whole.store)
    chosen = None if options.samples is None else find_sample_set(default_labels(where), options.samples)
    tags = (*options.tags, SWEEP_TAG + sweep.name)
    left_out = dict.fromkeys(("sweep", "gates", "report"))
    settings = {key: value for key, value in source.settings.items() if split_key(key)[0] != SWEEP}
    runs: list[PreparedPlan] = []
    deciding: list[BatchMetric] = []
    warnings: list[str] = []
    for configuration in sweep.configurations:
        swept = replace(source, settings=settings).with_settings(configuration.settings)
        plan = read_plan(swept, changes={**(changes or {}), **left_out})
        run = prepare(plan, need_system=False, limit=options.limit, samples=chosen)
        runs.append(run)
        deciding.append(_require_deciding(sweep, configuration, run))
        try:
            deciding[0].signature.require_same(deciding[-1].signature)
        except SignatureMismatchError as error:
            first = sweep.configurations[0].label
            problem = f"'{sweep.decide}' is not the same metric in '{first}' and '{configuration.label}': {error}"
            raise source.error("sweep.decide", problem) from error
        warnings += map(Secrets(plan.secrets).message, run.warnings)
    for warning in dict.fromkeys(warnings):
        warn(warning)
    if len(runs[0].samples) < 2:
        raise source.error("sweep", "needs two questions or more")
    calls = sum(run.calls for run in runs)
    _check_budget(whole, sweep, calls)
    return PreparedSweep(
        sweep,
        tuple(run.plan for run in runs),
        tuple(plan_request(run, tags, samples=chosen) for run in runs),
        runs[0].samples,
        calls=calls,
        deciding=deciding[0],
        where=where,
        sample_set=chosen,
    )


def _require_deciding(sweep: SweepPlan, configuration: Configuration, prepared: PreparedPlan) -> BatchMetric:
    """The metric that decides; raises unless it is a mean of one score for each question."""
    plan, name = prepared.plan, sweep.decide
    known = prepared.metrics or resolve_metrics([name], prepared.conventions)
    found = next((chosen for chosen in known if chosen.name == name), None)
    problem = None
    if found is None:
        problem = f"the configuration '{configuration.label}' does not compute '{name}'"
    elif not isinstance(found, BatchMetric) or found.reducer.name != "mean" or is_paired(found):
        problem = f"'{name}' is no mean of scores of single questions"
    elif not found.metadata.has_direction:
        problem = f"neither a higher nor a lower '{name}' is better"
    elif not all(abs(end) < float("inf") for end in found.range):
        problem = f"'{name}' has no worst score, at which a failed answer could count"
    elif plan.judge.stop is not None or plan.judge.two_stage is not None:
        problem = (
            "judging that stops early, or in two stages, does not score every question, and the questions that are "
            "left out would differ between configurations; leave it out"
        )
    elif sweep.eliminates and any(judged_parts(found)) and not plan.judge.cache:
        problem = f"'{name}' is judged, and --eliminate needs the cache of judgements"
    if problem is not None:
        raise plan.source.error("sweep.decide", problem)
    assert isinstance(found, BatchMetric)
    return found


def _check_budget(plan: Plan, sweep: SweepPlan, calls: int) -> None:
    """Raise if the budget cannot suffice, by what is known before the first call."""
    count = len(sweep.configurations)
    least, what = calls, f"{count} configurations take {calls:,}"
    if sweep.eliminates:
        least, what = calls // count, f"one configuration alone takes {calls // count:,}"
    budget = sweep.budget
    if budget.calls is not None and budget.calls < least:
        raise plan.source.error("sweep.budget.calls", f"{budget.calls:,} calls are too few: {what}")
    if budget.cost is not None and not (plan.resolved["run"].get("prices") or plan.judge.policy.prices):
        raise plan.source.error("sweep.budget.cost", "needs prices of models, under run.prices or judge.prices")


# --- the budget of all runs together ---------------------------------------------------------------------------------


class BudgetMeter:
    """Counts what the runs of a sweep take. They stop where the budget is spent, or too small for the next one."""

    def __init__(self, prepared: PreparedSweep, stop: Stop) -> None:
        self.problem = ""
        """Why the sweep stopped, in words; empty while the budget suffices."""
        self._prepared, self._stop = prepared, stop
        self._costs = [cost_metric(request.plan) for request in prepared.requests]
        self._used = {"calls": 0.0, "tokens": 0.0, "cost": 0.0}
        self._began = self._called = time.monotonic()
        self._missing: dict[int, int] = {}
        """The outputs that each configuration that runs still needs."""
        self._asked = 0
        """The outputs since ``_called``."""
        self._lock = threading.Lock()

    def count(self, place: int, outputs: Iterable[StoredOutput]) -> None:
        """Count the outputs of a configuration; saved outputs take nothing."""
        if self._prepared.plans[place].system is None:
            return
        with self._lock:
            for row in outputs:
                self._used["calls"] += 1
                self._used["tokens"] += output_tokens(row.output) or 0
                if (cost := self._costs[place]) is not None:
                    self._used["cost"] += cost.cost_of(row.output).value or 0.0
                if place in self._missing:
                    self._missing[place] -= 1
                    self._asked += 1

    def count_judging(self, record: RunRecord) -> None:
        """Count the cost of the judges of a run that ended."""
        total = (record.usage or {}).get("total") or {}
        with self._lock:
            self._used["cost"] += total.get("cost") or 0.0

    def end(self, place: int) -> None:
        """Expect no further output of a configuration, for now."""
        with self._lock:
            self._missing.pop(place, None)

    def check(self) -> None:
        """Stop the runs if the budget is spent. To reach it is no reason: what is left may need nothing more."""
        for key, most, used in self._limits():
            if used > most:
                self._end(f"the budget of {most:g} {key} is spent")

    def start(self, place: int, outputs: int) -> bool:
        """Whether a configuration may start that needs so many more outputs, by what each took so far."""
        with self._lock:
            if not self._asked:  # the setups come before the first call
                self._called = time.monotonic()
            self._missing[place] = outputs
            for key, most, used in self._limits():
                each = used / max(self._used["calls"], 1)
                if key == "seconds":
                    each = (time.monotonic() - self._called) / max(self._asked, 1)
                needed = each * sum(self._missing.values())
                if used + needed > most * (1 + 1e-9):
                    self._end(
                        f"the budget of {most:g} {key} does not suffice for the next configuration: {used:.4g} are "
                        f"used, and by what was used so far it needs about {needed:.4g} more"
                    )
        return not self._stop.finishing

    def _limits(self) -> Iterator[tuple[str, float, float]]:
        """What is limited, to what, and how much of it is used."""
        used = {**self._used, "seconds": time.monotonic() - self._began}
        for key, most in asdict(self._prepared.sweep.budget).items():
            if most is not None:
                yield key, most, used[key]

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._stop.finish()


def cost_metric(plan: Mapping[str, Any]) -> Any:
    """The metric that computes what an output costs by the prices of a plan; ``None`` without prices."""
    prices = (plan.get("run") or {}).get("prices")
    return metric({"total_cost": {"prices": prices}}) if prices else None


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
        announce: Callable[[str], None] = ignore_line,
    ) -> None:
        self.prepared, self.options, self.announce = prepared, options, announce
        self.sweep = prepared.sweep
        self.stop = stop or Stop()
        self._watcher = watcher
        self.meter = BudgetMeter(prepared, self.stop)
        self._setup_s: dict[int, float] = {}
        secrets = frozenset[str]().union(*(plan.secrets for plan in prepared.plans))
        self.store = RunStore.open(prepared.where, secrets=secrets)
        self.records: dict[int, RunRecord] = {}
        """The run of each configuration by its place."""
        self._cannot_start: set[int] = set()
        """The places of configurations that were tried in vain."""

    def run(self) -> str:
        """Run all configurations, or what is missing of them; returns why it stopped, empty if it did not."""
        with self.store:
            self._find_earlier()
            missing = [place for place in range(len(self.prepared.plans)) if not self.is_done(place)]
            if missing and (self.options.eliminate or self._may_start(missing[0], None)):
                self._make_ready(missing)
                if self.options.eliminate:
                    run_in_looks(self)
                else:
                    self.run_each(missing)
        return self.meter.problem or ("interrupted" if self.stop.finishing else "")

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
            self.meter.count(place, self.store.outputs(record.run_id, texts=False))
            if self.is_done(place):
                self.meter.count_judging(record)

    def _require_unchanged(self, record: RunRecord, place: int) -> None:
        """Raise if the plan of a run, or its questions, are not those of now."""
        plan = {key: value for key, value in record.plan.items() if key != SWEEP}
        given = self.prepared.requests[place].plan
        now = self.store.as_stored({SWEEP: sweep_entry(self.sweep, place), "plan": dict(given)})
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
        if place in self._cannot_start:
            return True
        if record is None or record.status not in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.ELIMINATED):
            return False
        has_failures = record.status is RunStatus.FAILED or self.store.counts(record.run_id)[1] > 0
        return not (self.options.retry_failed and has_failures)

    def _make_ready(self, places: Sequence[int]) -> None:
        """Set up and build each configuration, before the first call; one for which that fails counts as the worst."""
        known: dict[tuple[str, ...], tuple[float, str]] = {}
        failed: dict[int, AueporaError] = {}
        for place in places:
            try:
                self._set_up(place, known)
                with self._open(place):  # what is wrong with the arguments of a system is known before the first call
                    pass
            except AueporaError as error:
                failed[place] = error
        if len(failed) == len(self.prepared.plans):
            raise failed[0]
        for place, problem in failed.items():
            self._store_failure(place, problem)

    def _set_up(self, place: int, known: dict[tuple[str, ...], tuple[float, str]]) -> None:
        """Prepare a configuration; a command that is the same for several runs once."""
        setup, configuration, plan = self.sweep.setup, self.sweep.configurations[place], self.prepared.plans[place]
        if setup is None:
            return
        words = setup_words(setup, configuration)
        if words not in known:
            self.announce(f"setup {len(known) + 1}: {configuration.label}")
            known[words] = _run_setup(setup, words, plan, configuration.settings)
        self._setup_s[place], problem = known[words]
        if problem:
            raise PlanError(plan.path, None, "sweep.setup", f"failed: {problem}")

    def _open(self, place: int) -> AbstractContextManager[tuple[RunRequest, RunStore, str]]:
        """Build the system of a configuration, which is closed at the end, and open the store."""
        return open_plan(
            self.prepared.plans[place],
            store=self.options.store,
            limit=self.options.limit,
            tags=self.prepared.requests[place].tags,
            samples=self.prepared.sample_set,
            is_checked=True,
        )

    def _store_failure(self, place: int, error: AueporaError) -> None:
        """Store a run that could not start as failed, so that it is never left out; one that has ended stays."""
        record = sweep_runs(self.store, self.sweep)[place]
        is_unfinished = record is None or record.status in (RunStatus.STOPPED, RunStatus.INTERRUPTED)
        if record is None:
            request = self._request(place, self.prepared.requests[place])
            record = self.store.create_run(
                request.name,
                request.samples,
                dataset_name=request.dataset_name,
                plan=request.plan,
                config=request.config,
                repeats=request.repeats,
                commit=request.commit,
                tags=request.tags,
            )
        if is_unfinished:
            self.store.finish(record.run_id, RunStatus.FAILED, message=str(error))
        self._cannot_start.add(place)
        self.meter.end(place)
        self.records[place] = self.store.get(record.run_id)
        self.announce(f"{self.sweep.configurations[place].label}: {error}")

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
        if self.stop.finishing or not self._may_start(place, part):
            return
        try:
            with self._open(place) as (request, store, _):
                outcome = start_or_resume(
                    replace(self._request(place, request), part=part),
                    store,
                    self.records.get(place),
                    retry_failed=self.options.retry_failed,
                    stop=self.stop,
                    watcher=replace(self._watcher, answered=partial(self._on_answers, place)),
                )
        except StoreError:
            raise
        except AueporaError as error:  # the others go on
            self._store_failure(place, error)
        else:
            self.meter.end(place)
            record = outcome.record
            self.records[place] = record
            if record.status is not RunStatus.STOPPED or self.stop.finishing:  # between two looks it is stopped, too
                why = f" ({record.message})" if record.message else ""
                self.announce(f"{self.sweep.configurations[place].label}: {record.status.value}{why}")
        if part is None:
            self.meter.count_judging(self.records[place])
            self.meter.check()

    def _may_start(self, place: int, part: Collection[int] | None) -> bool:
        """Whether the budget suffices for a part of the questions of a configuration, or for all."""
        request, record = self.prepared.requests[place], self.records.get(place)
        samples = request.samples if part is None else part
        missing = len(samples) * request.repeats
        if record is not None:
            missing -= self.store.counts(record.run_id)[0]
        return self.meter.start(place, missing)

    def _request(self, place: int, request: RunRequest) -> RunRequest:
        label = self.sweep.configurations[place].label
        entry = sweep_entry(self.sweep, place, self._setup_s.get(place))
        return replace(request, name=f"{self.sweep.name} [{label}]", plan={**request.plan, SWEEP: entry})

    def _on_answers(self, place: int, rows: Sequence[StoredOutput]) -> None:
        self._watcher.answered(rows)
        self.meter.count(place, rows)
        self.meter.check()


def _run_setup(setup: str, words: Sequence[str], plan: Plan, settings: Mapping[str, Any]) -> tuple[float, str]:
    """Prepare a configuration; returns how many seconds it took, and what went wrong."""
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
    return time.monotonic() - began, problem


# --- successive elimination: all get the same questions in one random order, and the worse ones leave ---------------


def run_in_looks(runner: SweepRunner) -> None:
    """Ask tenths of the questions, and after each let the configurations leave that are worse than another one.

    It ends when one is left, or when less than half a further one is expected to leave. The rest, and the baseline,
    are asked to the end.
    """
    samples = runner.prepared.samples
    clusters = cluster_ids([sample.sample_id for sample in samples], [cluster_key(sample) for sample in samples])
    order = np.random.default_rng(runner.prepared.plans[0].seed).permutation(np.unique(clusters))
    units = [np.flatnonzero(clusters == name) for name in order.tolist()]
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
        columns = [_look_scores(runner, place, asked) for place in living]
        inside = clusters[sorted(asked)]
        table = ScoreTable.of(columns, metric_meta(runner.prepared.deciding, None), len(asked), inside)
        if len(np.unique(inside[table.rows])) < 2:
            continue
        outcome = eliminate(table.analyse(), look=look, total=len(samples), configurations=len(every))
        leaving = [place for place, kept in zip(living, outcome.kept.tolist(), strict=True) if not kept]
        for place in leaving:
            _leave(runner, place, len(asked))
        living = [place for place in living if place not in leaving]
        if len(living) == 1 or outcome.is_futile:
            break
    runner.run_each([place for place in every if place in living or place == runner.sweep.baseline])


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


def _look_scores(runner: SweepRunner, place: int, asked: frozenset[int]) -> Scores | None:
    """The scores of a configuration on what was asked, which are not stored; ``None`` if its run failed."""
    record, plan = runner.records.get(place), runner.prepared.plans[place]
    if record is None or record.status is RunStatus.FAILED:
        return None
    store, rules = runner.store, plan_conventions(record)
    if plan.match == "auto":
        reading = read_gold(store, record, runner.prepared.samples, rules, "auto")
        rules = replace(rules, match=reading.resolved.match)
    is_asked = [position in asked for position in range(record.num_samples)]

    def read(repeat: int) -> Iterator[SystemOutputs | None]:
        return compress(aligned_outputs(store, record.run_id, repeat=repeat), is_asked)

    policy = plan.judge.policy_for(runner.prepared.where, plan.folder)
    results = evaluate_outputs(
        list(iter_samples(store, record.run_id, positions=asked)),
        [partial(read, repeat) for repeat in range(record.repeats)],
        [with_match(runner.prepared.deciding, rules.match)],
        conventions=Conventions.of(match=rules.match),
        run=run_info(record),
        judging=JudgeSession(policy, secrets=Secrets(plan.secrets)),
    )
    scores = results[0].scores
    assert isinstance(scores, Scores)
    return scores
