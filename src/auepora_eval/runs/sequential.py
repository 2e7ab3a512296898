"""Early stopping: judge the samples of a run in a random order until a comparison or a threshold is decided.

The order, the metrics and the looks are recorded in the store before the first judge call. At each look the design
(``stats/sequential.py``) tests the differences to the baseline, or the scores against the threshold. Samples that are
not judged are skipped with the reason ``not_judged``.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..compare.stores import read_register
from ..core.grouping import group_pairs
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    is_judged,
    sample_clusters,
)
from ..core.reduce import Mean
from ..core.results import Results
from ..core.scores import Status
from ..core.types import EvaluationSample
from ..engine.executors import Executor, SerialExecutor
from ..errors import AueporaWarning, BadValueError, UnknownRunError, did_you_mean
from ..judge.critic import JudgePolicy
from ..judge.limits import UsageLog
from ..judge.metric import has_fractions, judged_parts
from ..judge.session import JudgeSession
from ..plan.model import StopSettings
from ..stats.intervals import Bools, Floats, Ints
from ..stats.sequential import SequentialDesign, SequentialResult
from ..store.records import RunRecord, run_info
from ..store.runs import RunStore, aligned_outputs, decisions, record_decision
from .job import ScoringJob, ScoringStep, evaluate_outputs, put_results
from .judging import record_usage
from .partial_scores import KnownScores, PartialScores

_TRIAL_UNITS = 100
_MAX_FAILED, _ASSESSED = 0.1, 50
"""With a larger proportion of failed judgements, from 50 units on, no look is made: judging ends, and can be continued
later. So it does where the budget is spent."""

LookProgress = Callable[[int, int, int, int], None]
"""Called before each look is judged: its number, the number of looks, its units, and the units of the design."""


def ignore_looks(_number: int, _looks: int, _units: int, _total: int) -> None:
    """A callback that does nothing."""


# --- what is fixed before the first call -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StopPlan:
    """Everything that is fixed before the first judge call, as it is recorded in the store."""

    run_id: str
    against: str | None
    """The id of the baseline; ``None`` for a test against a threshold."""
    settings: Mapping[str, Any]
    """The settings of the plan, with the names of the primary metrics."""
    designs: Mapping[str, SequentialDesign]
    """By primary metric."""
    signatures: Mapping[str, str]
    order: tuple[int, ...]
    """The units in the order of the draw: the position of the first sample of each."""
    known_before: int = 0
    """Units of which judgements existed before; there is no look at fewer units than these."""
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By primary metric, what was found so far."""

    @property
    def runs(self) -> list[str]:
        """The ids of the runs that are tested."""
        return [self.run_id] if self.against is None else [self.run_id, self.against]

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of units at which a test is made; they are the same for all metrics."""
        return next(iter(self.designs.values())).looks

    def to_dict(self) -> dict[str, Any]:
        """The body of the recorded decision."""
        return {
            **{name: getattr(self, name) for name in ("run_id", "against", "settings", "signatures", "known_before")},
            "designs": {name: design.to_dict() for name, design in self.designs.items()},
            "order": list(self.order),
            "results": dict(self.results),
            "verdicts": {
                name: result["verdict"] for name, result in self.results.items() if result["reason"] is not None
            },
        }

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> StopPlan:
        """The plan of a recorded decision."""
        designs = {name: SequentialDesign.from_dict(design) for name, design in body["designs"].items()}
        rest = {key: value for key, value in body.items() if key not in ("designs", "order", "verdicts")}
        return cls(**rest, designs=designs, order=tuple(body["order"]))

    def test(self, metric: str, progress: Mapping[str, Any], register: Mapping[str, Any]) -> dict[str, Any]:
        """The test of a metric as far as it is recorded; ``progress`` is used before the first look."""
        none: dict[str, Any] = {"verdict": "inconclusive", "reason": None, "stopped_at": None, "path": []}
        return {
            "design": self.designs[metric].to_dict(),
            "metric": metric,
            "against": self.against,
            "seed": self.settings["seed"],
            "claim": self.settings["claim"],
            "register": register,
            **(self.results.get(metric) or {**none, **progress, "continued": False}),
        }

    def require_same(self, run_id: str, against: str | None, settings: StopSettings) -> None:
        """Raise if another design is requested for the same runs."""
        there = {**_settings(settings), "against": against, "run": run_id}
        here = {**self.settings, "against": self.against, "run": self.run_id}
        changes = [
            f"{name} is {here.get(name)}, not {value}" for name, value in there.items() if here.get(name) != value
        ]
        if changes:
            raise BadValueError(
                f"{' and '.join(self.runs)}: a sequential design is recorded, in which {'; '.join(changes)}. Another "
                "order or design for the same runs would add false verdicts: use the recorded one"
            )


def recorded_plan(store: RunStore, record: RunRecord) -> StopPlan | None:
    """The design that was recorded for judging this run, or ``None``."""
    found = decisions(store, fingerprint=record.fingerprint, kind="sequential", run_id=record.run_id)
    plans = [StopPlan.from_dict(decision.body) for decision in found]
    return next((plan for plan in plans if plan.run_id == record.run_id), None)


def stop_metrics(stop: StopSettings, metrics: Sequence[Metric], primary: Sequence[str] = ()) -> list[BatchMetric]:
    """The metrics that decide when judging stops; raises if they cannot."""
    judged = {metric.name: metric for metric in metrics if isinstance(metric, BatchMetric) and is_judged(metric)}
    names = list(stop.metric) or [name for name in primary if name in judged]
    if not names and len(judged) == 1:
        names = list(judged)
    if not names:
        there = f"; they are {', '.join(judged)}" if judged else "; the plan has none"
        raise BadValueError(f"judge.stop.metric: name the metric that decides, one that calls a judge{there}")
    for name in names:
        if name not in judged:
            there = f"; they are {', '.join(judged)}" if judged else "; there is none"
            hint = did_you_mean(name, judged, otherwise=there)
            raise BadValueError(f"judge.stop.metric: '{name}' is not among the metrics that call a judge{hint}")
        if not isinstance(judged[name].reducer, Mean) or not all(map(math.isfinite, judged[name].range)):
            raise BadValueError(
                f"judge.stop.metric: '{name}' is no mean of scores within a range, so it cannot be tested at looks; "
                "name another metric"
            )
    return [judged[name] for name in dict.fromkeys(names)]


def stop_baseline(store: RunStore, stop: StopSettings, fingerprint: str, run_id: str = "") -> RunRecord | None:
    """The run to compare with; raises if it is not finished or has other samples. ``None`` for a threshold."""
    if stop.against is None:
        return None
    baseline = store.find(stop.against).require_finished()
    if baseline.run_id == run_id:
        raise BadValueError(f"'{stop.against}' is {run_id} itself; name another run to compare with")
    if baseline.fingerprint != fingerprint:
        raise BadValueError(
            f"{baseline.run_id} was made on other samples; judging can stop early only for two runs on the same dataset"
        )
    return baseline


@dataclass(frozen=True, slots=True)
class CheckedStop:
    """The settings for an early stop of judging, checked before a system or a judge is called."""

    settings: StopSettings
    """With the names of the primary metrics."""
    metrics: Sequence[BatchMetric]
    """The primary metrics."""
    baseline: RunRecord | None
    """The run to compare with."""


def check_stop(
    store: RunStore,
    stop: StopSettings,
    metrics: Sequence[Metric] | None,
    fingerprint: str,
    *,
    primary: Sequence[str] = (),
    earlier: RunRecord | None = None,
    baseline_id: str | None = None,
) -> CheckedStop:
    """Check the settings before a system or a judge is called.

    ``earlier`` is a run that exists already, whose recorded design must be the same. ``baseline_id`` is the run to
    compare with, if it is known: a name may refer to another run by now.
    """
    chosen = stop_metrics(stop, metrics or (), primary)
    stop = replace(stop, metric=tuple(metric.name for metric in chosen))
    for metric in chosen:  # raises for values that do not fit its scores; the number of units is not known yet
        _make_design(stop, metric, _TRIAL_UNITS, 0)
    plan = None if earlier is None else recorded_plan(store, earlier)
    if plan is not None and plan.settings["against"] == stop.against:
        baseline_id = plan.against
    own_id = "" if earlier is None else earlier.run_id
    baseline = store.get(baseline_id) if baseline_id else stop_baseline(store, stop, fingerprint, own_id)
    if plan is not None:
        plan.require_same(plan.run_id, None if baseline is None else baseline.run_id, stop)
    return CheckedStop(stop, chosen, baseline)


def _settings(stop: StopSettings) -> dict[str, Any]:
    return {**asdict(stop), "metric": list(stop.metric), "stop_on": list(stop.stop_on)}


def _make_design(
    stop: StopSettings, metric: BatchMetric, n: int, known: int, *, has_means: bool = False
) -> SequentialDesign:
    """The design for one metric. ``has_means``: a value is a mean of several scores, so it need not be 0 or 1."""
    fractional = any(has_fractions(part) for part in judged_parts(metric))
    low, high = metric.range
    options: dict[str, Any] = {
        "threshold": stop.threshold,
        "binary": stop.threshold is not None and metric.metadata.binary and not has_means and not fractional,
        "delta": stop.delta,
        "tests": len(stop.metric) if stop.claim == "each" else 1,
        "futility": stop.futility,
        "higher_is_better": metric.higher_is_better,
        "lowest": low,
        "highest": high,
        **({"method": "betting"} if stop.safe else {}),
        **({"stop_on": tuple(stop.stop_on)} if stop.stop_on else {}),
    }
    try:
        design = SequentialDesign.plan(n, looks=stop.looks, **options)
    except BadValueError as error:
        raise BadValueError(f"judge.stop: metric '{metric.name}': {error}") from error
    return replace(design, looks=tuple(count for count in design.looks if count >= known or count == n))


def draw_units(samples: Sequence[EvaluationSample], seed: int) -> list[Ints]:
    """The units in a random order: the positions of the samples of each. A cluster of samples is one unit.

    The order depends on the seed and the ids of the first samples alone, so it is the same for all runs on a dataset.
    """
    clusters = sample_clusters(samples)
    codes = np.arange(len(samples)) if clusters is None else clusters
    positions = group_pairs((code, position) for position, code in enumerate(codes.tolist()))

    def random_key(unit: list[int]) -> bytes:
        return hashlib.blake2b(f"{seed}:{samples[unit[0]].sample_id}".encode("utf-8", "surrogatepass")).digest()

    return [np.array(unit, dtype=np.intp) for unit in sorted(positions.values(), key=random_key)]


# --- judging look by look --------------------------------------------------------------------------------------------


class SequentialJudging:
    """Judges a run look by look, until its recorded design decides."""

    def __init__(
        self,
        store: RunStore,
        plan: StopPlan,
        scores: PartialScores,
        baseline: PartialScores | None,
        *,
        proceed: bool,
        on_look: LookProgress,
    ) -> None:
        """With ``proceed``, judging goes on after the verdict, up to the last unit; the first verdict stands."""
        self._store, self._record, self._proceed, self._on_look = store, scores.record, proceed, on_look
        self.plan, self.scores, self.baseline = plan, scores, baseline
        by_first = {int(unit[0]): unit for unit in draw_units(scores.samples, 0)}
        self._units = [by_first[position] for position in plan.order]
        earlier = next(iter(plan.results.values()), {})
        self._earlier_calls = int(earlier.get("calls", 0))
        self._earlier_rate = earlier.get("calls_saved", 0) / max(len(scores.samples) - earlier.get("judged", 0), 1)
        self._sessions: list[JudgeSession] = []
        self._num_failed = 0

    @property
    def baseline_usage(self) -> UsageLog | None:
        """What judging the baseline used; ``None`` if it was not judged."""
        return self._sessions[1].usage_log if len(self._sessions) > 1 else None

    def judge_run(
        self,
        session: JudgeSession,
        executor: Executor,
        open_session: Callable[[PartialScores], AbstractContextManager[JudgeSession]],
    ) -> KnownScores:
        """Judge up to the stop; returns an executor that has the scores, and lets another one compute the rest.

        ``open_session`` opens a judge session for the baseline, if that must be judged.
        """
        self.scores.open(session)
        self._sessions = [session]
        base = self.baseline
        if base is None or base.known[np.concatenate(self._units)].all():
            self._judge()
        else:
            with open_session(base) as own:
                base.open(own)
                self._sessions.append(own)
                self._judge()
        return KnownScores(executor, self.scores)

    def _judge(self) -> None:
        """Judge up to the look at which all primary metrics are decided, or to the last one."""
        looks = self.plan.looks
        for number, count in enumerate(looks, start=1):
            self._on_look(number, len(looks), count, len(self._units))
            positions = np.concatenate(self._units[:count])
            self.scores.judge(positions)
            if self.baseline is not None:
                self.baseline.judge(positions)
            failed = max(int(self._sample_values(name)[1][positions].sum()) for name in self.plan.designs)
            is_spent = any(session.usage_log.total.failed["budget_exhausted"] for session in self._sessions)
            if failed and (is_spent or (count >= _ASSESSED and failed > _MAX_FAILED * len(positions))):
                self._num_failed = failed
                warnings.warn(
                    f"judging ended before look {number} of {len(looks)}: the judge gave no judgement on {failed} of "
                    f"{len(positions)} samples; `auepora rescore {self._record.run_id}` continues with the same order "
                    "and looks",
                    AueporaWarning,
                    stacklevel=2,
                )
                return
            results = {name: self._result(name, count) for name in self.plan.designs}
            ended = all(result["reason"] is not None and result["stopped_at"] <= count for result in results.values())
            continued = ended and count > max(result["stopped_at"] for result in results.values())
            results = {name: {**result, "continued": continued} for name, result in results.items()}
            self.plan = replace(self.plan, results=results)
            _record(self._store, self._record, self.plan, is_new=False)
            if ended and not self._proceed:
                return

    def _sample_values(self, name: str) -> tuple[Floats, Bools]:
        """The difference of each sample, or its score for a threshold; and which have none by a failure."""
        own = self.scores.means(name)
        values, failed = own.values, own.status == Status.MEASURE_FAILED
        if self.baseline is not None:
            other = self.baseline.means(name)
            values, failed = values - other.values, failed | (other.status == Status.MEASURE_FAILED)
        return values, failed & np.isnan(values)

    def _unit_means(self, values: Floats, count: int) -> Floats:
        units = self._units[:count]
        if all(len(unit) == 1 for unit in units):
            return values[np.concatenate(units)]
        return np.array([_mean(values[unit]) for unit in units])

    def _result(self, name: str, count: int) -> dict[str, Any]:
        """The looks and the verdict of one metric; a verdict that was recorded before stands."""
        design = self.plan.designs[name]
        values, failed = self._sample_values(name)
        num_failed = int(failed[np.concatenate(self._units[:count])].sum())
        sizes = [len(unit) for unit in self._units]
        test = partial(design.evaluate, sizes=sizes if max(sizes) > 1 else None)
        found = test(self._unit_means(values, count))
        if num_failed and found.reason == "boundary":
            filled = [np.where(failed, end, values) for end in design.value_range]
            found = _with_failures(found, [test(self._unit_means(completed, count)) for completed in filled])
        result: dict[str, Any] = {"verdict": found.verdict, "reason": found.reason, "stopped_at": found.stopped_at}
        before = self.plan.results.get(name, {})
        if before.get("reason") == "boundary":
            result = {key: before[key] for key in result}
        result |= {"path": found.to_dict()["looks"], "failed": num_failed}
        return {**result, **self._progress(count)}

    def _progress(self, count: int) -> dict[str, Any]:
        """How far the run was judged."""
        return {
            "units": count,
            "judged": int((self.scores.asked | self.scores.known).sum()),
            "samples": len(self.scores.samples),
            **self._usage(),
            "known_before": self.plan.known_before,
        }

    def _usage(self) -> dict[str, int]:
        """The calls that were made, and an estimate of those that judging all units would need in addition."""
        calls, saved = self._earlier_calls, 0.0
        in_draw = np.concatenate(self._units)
        for session, scores in zip(self._sessions, (self.scores, self.baseline), strict=False):
            assert scores is not None
            usage, answered = session.usage_log.total, int((scores.asked & ~scores.unanswered()).sum())
            calls += usage.calls
            useful = usage.judgements - usage.shared - usage.failed.total()
            per_sample = max(useful, 0) / answered if answered else self._earlier_rate
            saved += per_sample * int((~(scores.asked | scores.known | scores.unanswered()))[in_draw].sum())
        return {"calls": calls, "calls_saved": round(saved)}

    def add_details(self, results: Results) -> None:
        """Add the path and the verdict to the results of the primary metrics, and what earlier sessions used."""
        register = read_register(self._store, [self._record.fingerprint], self.plan.runs).to_dict()
        self.scores.add_earlier_details(results)
        for result in results:
            if result.name in self.plan.designs:
                progress = {"failed": self._num_failed, **self._progress(0)}
                result.details.sequential = self.plan.test(result.name, progress, register)


def _mean(values: Floats) -> float:
    present = values[~np.isnan(values)]
    return float(present.mean()) if len(present) else math.nan


def _with_failures(found: SequentialResult, others: Sequence[SequentialResult]) -> SequentialResult:
    """A verdict stands if it is the same with the worst and the best value in place of each failed judgement."""
    if all(other.verdict == found.verdict for other in others):
        return replace(found, stopped_at=max(result.stopped_at or 0 for result in (found, *others)))
    at_end = found.next_look is None
    last = found.looks[-1].units
    return replace(found, verdict="inconclusive", reason="end" if at_end else None, stopped_at=last if at_end else None)


# --- preparation: the recorded design, or a new one ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Whether and how judging stops early."""

    settings: StopSettings | None = None
    """``None`` uses the recorded design of the run, if there is one."""
    baseline: str | None = None
    """The id of the run to compare with, if it is known already."""
    is_explicit: bool = False
    """Whether the user asked for it in this call; otherwise it is ignored for metrics that it does not concern."""
    proceed: bool = False
    """Judge on after the verdict, up to the last unit."""


def prepare_judging(
    job: ScoringJob, request: StopRequest, on_look: LookProgress = ignore_looks
) -> SequentialJudging | None:
    """The sequential judging of a run by its recorded design, or by a new one, which is recorded; ``None`` if none.

    No judge is called. Stored scores of the run are used and kept. A run that was stopped early is judged further on
    request only.
    """
    store, record = job.store, job.record
    plan, stop = recorded_plan(store, record), request.settings
    if plan is None and stop is None:
        if request.proceed:
            raise BadValueError(
                f"{record.run_id} has no sequential design that could be continued; leave out --continue-judging to "
                "judge all its samples"
            )
        return None
    judged = [metric for metric in job.chosen if isinstance(metric, BatchMetric) and is_judged(metric)]
    batch_size = job.options.batch_size
    scores = PartialScores(store, record, judged, list(job.rows), info=job.info, batch_size=batch_size)
    known = scores.signatures.items()
    concerned = stop is None or not stop.metric or bool(set(stop.metric) & set(scores.signatures))
    if plan is not None:
        concerned = all(signature in known for signature in plan.signatures.items())
    if not (concerned and judged) and not (request.is_explicit or request.proceed):
        return None
    if plan is not None and not concerned:
        raise BadValueError(
            f"{record.run_id} has a sequential design on {', '.join(plan.designs)}, and these metrics lack one of them "
            "with the same definition and judge"
        )
    primary = record.plan.get("primary") or ()
    check = partial(
        check_stop, store, metrics=job.chosen, fingerprint=record.fingerprint, primary=primary, earlier=record
    )
    is_new = plan is None
    if plan is None:
        assert stop is not None
        plan = _new_plan(store, check(stop, baseline_id=request.baseline), scores, job.policy)
    if record.repeats == 1:
        scores.use_stored()
    try:
        if stop is not None and not is_new:
            check(stop)
        baseline = None if plan.against is None else _baseline_scores(store, plan.against, plan.designs, scores)
    except UnknownRunError as error:
        raise BadValueError(
            f"{record.run_id} is judged until a comparison with {plan.against} is decided, and that run was deleted; "
            "what is stored stays valid, and nothing more can be judged: make a new run"
        ) from error
    proceed = request.proceed or any(result["continued"] for result in plan.results.values())
    return SequentialJudging(store, plan, scores, baseline, proceed=proceed, on_look=on_look)


def _baseline_scores(store: RunStore, run_id: str, names: Iterable[str], scores: PartialScores) -> PartialScores:
    """The scores of the baseline under the primary metrics, as far as they are stored."""
    record = store.get(run_id)
    metrics = [original for original in scores.originals if original.name in names]
    found = PartialScores(store, record, metrics, scores.samples, info=run_info(record), batch_size=scores.batch_size)
    found.use_stored()
    return found


def _new_plan(store: RunStore, checked: CheckedStop, scores: PartialScores, policy: JudgePolicy) -> StopPlan:
    """Draw the order, fix the design and record both."""
    stop, record = checked.settings, scores.record
    against = None if checked.baseline is None else checked.baseline.run_id
    own = PartialScores(
        store,
        record,
        [original for original in scores.originals if original.name in stop.metric],
        scores.samples,
        info=scores.info,
        batch_size=scores.batch_size,
    )
    applies, _, known = own.dry_outcomes(policy)
    if against is not None:
        other = _baseline_scores(store, against, stop.metric, scores)
        other_applies, other_free, other_known = other.dry_outcomes(policy)
        applies, known = applies & other_applies, known & (other_free | other_known)
        if not other.known.any():
            warnings.warn(
                f"{against} has no scores of {', '.join(stop.metric)} by this judge and definition; its answers are "
                "judged, too, in the same order",
                AueporaWarning,
                stacklevel=2,
            )
    units = [unit for unit in draw_units(scores.samples, stop.seed) if applies[unit].any()]
    if len(units) < 2:
        raise BadValueError(
            f"{', '.join(stop.metric)}: {'one unit' if units else 'no unit'} can be scored; a sequential test needs at "
            "least two"
        )
    known_units = sum(bool(known[unit].any()) for unit in units)
    several = any(len(unit) > 1 for unit in units) or max(record.repeats, policy.repeats) > 1
    designs = {}
    for metric in checked.metrics:
        has_means = several or getattr(metric, "panel", None) is not None
        designs[metric.name] = _make_design(stop, metric, len(units), known_units, has_means=has_means)
    plan = StopPlan(
        record.run_id,
        against,
        settings=_settings(stop),
        designs=designs,
        signatures={name: scores.signatures[name] for name in stop.metric},
        order=tuple(int(unit[0]) for unit in units),
        known_before=known_units,
    )
    stored = _record(store, record, plan, is_new=True)
    stored.require_same(record.run_id, against, stop)  # another process may have recorded one
    return stored


def _record(store: RunStore, record: RunRecord, plan: StopPlan, *, is_new: bool) -> StopPlan:
    """Record the design with its results; an existing design is kept if this is a new one."""
    found = record_decision(
        store,
        record.fingerprint,
        "sequential",
        runs=plan.runs,
        metrics=list(plan.designs),
        body=plan.to_dict(),
        replace=not is_new,
    )
    return StopPlan.from_dict(found.body)


class EarlyStopping(ScoringStep):
    """Judging look by look, until the recorded design of the run decides."""

    def __init__(self, request: StopRequest | None = None, on_look: LookProgress = ignore_looks) -> None:
        """``on_look`` is called before each look."""
        self._request, self._on_look = request or StopRequest(), on_look
        self._judging: SequentialJudging | None = None

    def prepare(self, job: ScoringJob) -> None:
        """Read the design of the run, or record a new one."""
        is_requested = self._request.is_explicit or self._request.proceed
        if is_requested and job.gold is not None:
            raise BadValueError("judging stops early on the gold of the run only; leave out the qrels")
        if not job.judge_signatures():
            if is_requested:
                raise BadValueError(
                    "none of the metrics calls a judge, so there is no judging to stop or to continue; name one that "
                    "does"
                )
            return
        self._judging = prepare_judging(job, self._request, self._on_look)
        if self._judging is not None:
            job.partial_scores = self._judging.scores

    def wrap(self, job: ScoringJob, executor: Executor) -> Executor:
        """Judge up to the stop; the executor then has the scores of the judged metrics."""
        if self._judging is None or job.session is None:
            return executor
        return self._judging.judge_run(job.session, executor, job.open_session_of)

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """Add the looks to the results, and store those of a baseline that was judged, too."""
        if self._judging is not None:
            self._judging.add_details(results)
            self._store_baseline(job, self._judging)
        return results

    def _store_baseline(self, job: ScoringJob, judging: SequentialJudging) -> None:
        scores = judging.baseline
        if scores is None or not scores.asked.any():
            return
        record = scores.record
        read = partial(aligned_outputs, job.store, record.run_id, texts=False)
        results = evaluate_outputs(
            scores.samples,
            [partial(read, repeat=repeat) for repeat in range(record.repeats)],
            scores.originals,
            **job.evaluation_options(),
            run=run_info(record),
            executor=KnownScores(SerialExecutor(), scores),
        )
        if judging.baseline_usage is not None:
            record_usage(results, judging.baseline_usage)
        scores.add_earlier_details(results)
        put_results(job.store, record, results, scores.originals)


# --- the expected number of calls, for previews ----------------------------------------------------------------------

_ASSUMED_SD = 0.5
"""The standard deviation of differences if the baseline has no scores, relative to the range of scores."""
_ASSUMED_EFFECT = 0.05


def expected_calls_note(store: RunStore, checked: CheckedStop, samples: Sequence[EvaluationSample], calls: int) -> str:
    """The largest and the expected number of calls of a run whose judging stops early; ``calls`` is that for all.

    The spread of differences is that of the scores of the baseline, as for two runs whose scores have a correlation of
    one half.
    """
    stop, chosen, baseline = checked.settings, checked.metrics, checked.baseline
    units = draw_units(samples, stop.seed)
    metric = chosen[0]
    design = _make_design(stop, metric, len(units), 0, has_means=any(len(unit) > 1 for unit in units))
    width = metric.range[1] - metric.range[0]
    sd, factor = _ASSUMED_SD * width, 1
    if baseline is not None:
        stored = PartialScores(store, baseline, chosen, samples, info=run_info(baseline), batch_size=1)
        known, scores = stored.stored_scores()
        if known.any():
            sd = float(np.nanstd(scores[metric.name].values))
        else:
            factor = 2  # its answers are judged, too
    step = (stop.delta or _ASSUMED_EFFECT * width) * (1 if metric.higher_is_better else -1)
    what = "the runs do not differ" if baseline is not None else "the mean lies at the threshold"
    cases = {what: 0.0, f"{abs(step):g} better": step, f"{abs(2 * step):g} better": 2 * step}
    expected = [
        f"{round(design.expected_units(effect, sd) / design.n * calls * factor):,} ({case})"
        for case, effect in cases.items()
    ]
    return (
        f"Early stopping: at most {calls * factor:,} calls, in {len(design.looks)} looks. "
        f"Expected: {', '.join(expected)}."
    )
