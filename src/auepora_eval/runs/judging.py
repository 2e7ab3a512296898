"""Judges of stored runs: stored judgements and votes, preference between runs."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.conventions import ID_PRESETS, Conventions
from ..core.derivation import ExplainContext
from ..core.metrics_base import BatchMetric, Metric, RunInfo, run_signature
from ..core.registry import Spec, use_resources
from ..core.results import Results
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import resolve_metrics
from ..errors import BadValueError, JudgeError, StoreError, did_you_mean
from ..judge.cache import stored_request_key
from ..judge.controls import control_drift
from ..judge.critic import Critic, Judgement, JudgePolicy, JudgeRequest, critic_name, decides
from ..judge.limits import UsageLog
from ..judge.metric import JudgedMetric, judged_parts
from ..judge.panel import Poll, answer_digest, judged_item
from ..judge.ratings import returns_number_only, supports_logprobs
from ..judge.session import JudgeSession
from ..plan.resources import PlannedJudges, judges_in_plan, used_resources, with_cheap_metrics
from ..runtime.imports import search_folders, store_folders
from ..runtime.secrets import Secrets
from ..store.records import RunRecord, plan_conventions, this_process
from ..store.rows import StoredJudgement
from ..store.runs import RunStore, result_summaries

if TYPE_CHECKING:
    from ..judge.preference import PreferenceReport

JUDGEMENTS_PER_WRITE = 200
"""Number of judgements per write to the store."""
SECONDS_PER_WRITE = 2.0
"""Judgements wait no longer than this for the next one before they are stored."""
JudgeProgress = Callable[[int, int, int], None]
"""Called after every judgement with the number of judgements done, requested so far, and failed."""


def ignore_progress() -> JudgeProgress:
    """A callback that does nothing."""
    return lambda _done, _requested, _failed: None


def judged_signatures(metrics: Sequence[Metric], run: RunInfo) -> dict[str, str]:
    """The signatures of judge metrics by name, including those wrapped by other metrics."""
    found: dict[str, str] = {}
    for outer in metrics:
        if isinstance(outer, BatchMetric):
            for part in judged_parts(outer):
                found.setdefault(part.name, str(run_signature(part.for_run(run), run)))
    return found


def judges_of_run(
    store: RunStore, record: RunRecord, specs: Any, *, changes: Mapping[str, Any] | None = None
) -> PlannedJudges:
    """The judges of the plan of a run, for these metrics.

    A stored plan has no folder: its relative paths start in the folder of the store if that is a file, else in the
    current folder.
    """
    folder = store_folders(store.file)[0]
    label = f"the plan of {record.run_id}"
    names = {*used_resources(specs), *used_resources(record.plan.get("judge"))}
    return judges_in_plan(record.plan, folder, label=label, names=names, changes=changes)


def conventions_of_run(record: RunRecord, conventions: str | Conventions | None) -> Conventions:
    """The conventions given, else those of the plan of the run. A preset matches gold as the run does, if it can."""
    stored = plan_conventions(record)
    rules = stored if conventions is None else Conventions.of(conventions)
    if isinstance(conventions, str) and rules.name not in ID_PRESETS:
        rules = replace(rules, match=stored.match)
    return rules


def rescoring_metrics(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Spec | Metric],
    *,
    conventions: str | Conventions | None = None,
    judges: PlannedJudges | None = None,
    need_key: bool = True,
    planned: bool | None = None,
) -> tuple[list[Metric] | None, PlannedJudges]:
    """The metrics for rescoring a run and their judges; ``planned``: those of its plan, the default without metrics.

    Metrics of ``None`` stand for all that the data supports.
    """
    is_planned = not metrics if planned is None else planned
    specs = (record.plan.get("metrics") if is_planned else list(metrics)) or None
    judges = judges or judges_of_run(store, record, specs)
    folders = [Path.cwd()] if metrics else [judges.folder, Path.cwd()]
    two_stage = judges.settings.two_stage
    with search_folders(*folders):
        if two_stage is not None and specs is not None:
            with use_resources(dict.fromkeys(judges.names)):
                specs, two_stage = with_cheap_metrics(specs, two_stage)
            judges = replace(judges, settings=replace(judges.settings, two_stage=two_stage))
        with use_resources(judges.build(list(used_resources(specs)), need_key=need_key)):
            return None if specs is None else resolve_metrics(specs, conventions_of_run(record, conventions)), judges


def record_usage(results: Results, accounts: UsageLog) -> None:
    """Add the judge usage to each result, as ``details.judging``."""
    for result in results:
        usage = accounts.metrics.get(result.name)
        if usage is not None:
            result.details.judging = usage.to_dict()


_EARLIER_RUNS = 50
"""Number of runs in which verdicts on the same control items are searched."""


def add_control_drift(store: RunStore, record: RunRecord, results: Results) -> None:
    """Compare the verdicts on control items with those of the latest earlier judge or prompt, in the details.

    Earlier results are those of this run and of other runs on the same dataset that are in the store.
    """
    waiting = {result.name: result for result in results if result.details.controls.get("items")}
    if not waiting:
        return
    others = [
        run for run in store.runs(dataset=record.dataset_name, limit=_EARLIER_RUNS) if run.run_id != record.run_id
    ]
    for run in [record, *others]:
        for earlier in reversed(result_summaries(store, run.run_id, every_signature=True)):
            result = waiting.get(earlier.name)
            if result is not None and (drift := control_drift(earlier, result)) is not None:
                result.details.controls.drift = [{"run_id": run.run_id, **drift}]
                del waiting[earlier.name]
        if not waiting:
            return


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run that is judged: judgements are stored with it."""

    store: RunStore
    record: RunRecord
    signatures: Mapping[str, str]
    """Of the metrics that call a judge, by name."""
    samples: Sequence[EvaluationSample]
    repeat: Callable[[], int]
    """The repeat that is being judged."""


class RunJudgeSession(JudgeSession):
    """A session whose judgements are stored with a run, in batches."""

    def __init__(
        self,
        policy: JudgePolicy,
        run: JudgedRun,
        *,
        progress: JudgeProgress,
        secrets: Iterable[str] = (),
        budget_of: JudgeSession | None = None,
    ) -> None:
        """``budget_of`` is another session, with which this one shares its budget."""
        super().__init__(policy, on_progress=self._on_progress, secrets=Secrets(secrets))
        if budget_of is not None:
            self._budget = budget_of._budget
        self._store, self._run_id = run.store, run.record.run_id
        self._signatures = run.signatures
        self._positions = {sample.sample_id: position for position, sample in enumerate(run.samples)}
        self._repeat, self._callback, self._num_failed = run.repeat, progress, 0
        self._other_counts: tuple[int, ...] = (0, 0, 0)
        self._rows: list[StoredJudgement] = []
        self._store_error: StoreError | None = None
        self._last_write = time.monotonic()

    @contextmanager
    def store_judgements(self, *, keep: bool = False) -> Iterator[None]:
        """Store the judgements made inside; at the end, store the judge usage.

        Earlier judgements of the metrics are deleted; with ``keep``, only those of the same requests are replaced.
        """
        if not keep:
            self._store.clear_judgements(self._run_id, list(self._signatures.items()))
        try:
            yield
        finally:
            self._flush()
            if self._store_error is not None:
                raise self._store_error
            self._store.add_usage(self._run_id, self.usage_log.to_dict())

    def keep(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError, *, shared: bool) -> None:
        """Store a judgement, or the error."""
        reason = outcome.reason if isinstance(outcome, JudgeError) else None
        self._num_failed += reason is not None
        position = self._positions.get(request.sample_id)
        if position is None:
            return  # not about a single sample of the run
        body = {
            "about": {name: value for name, value in request.about.items() if value} or None,
            **_outcome_dict(outcome),
            "one_number": returns_number_only(critic),
            "logprobs": supports_logprobs(critic),
            "decides": decides(critic),
            "panel": dict(request.panel) or None,
        }
        row = StoredJudgement(
            request.metric,
            self._signatures.get(request.metric, ""),
            position,
            stored_request_key(critic, request),
            repeat=self._repeat(),
            judge_repeat=request.repeat,
            critic=critic_name(critic),
            prompt_id=request.prompt_id,
            reason=reason,
            body={name: value for name, value in body.items() if value not in (None, "", False)},
        )
        self._rows.append(row)
        is_due = time.monotonic() - self._last_write >= SECONDS_PER_WRITE
        if len(self._rows) >= JUDGEMENTS_PER_WRITE or is_due:
            self._flush(is_last=False)

    def add_progress(self) -> JudgeProgress:
        """A callback for the progress of another session, which is shown together with that of this one."""

        def update(*counts: int) -> None:
            self._other_counts = counts
            self._on_progress(self.usage_log.total.judgements, self._num_requested)

        return update

    def _on_progress(self, done: int, requested: int) -> None:
        more = self._other_counts
        self._callback(done + more[0], requested + more[1], self._num_failed + more[2])

    def _flush(self, *, is_last: bool = True) -> None:
        """Store the judgements that are not stored yet, and unless it is the last time how far judging is."""
        rows, self._rows = self._rows, []
        try:
            if rows and self._store_error is None:
                self._store.put_judgements(self._run_id, rows)
                if not is_last:
                    budget = {"spent": self._budget.spent, "caps": self._budget.caps}
                    usage = {**self.usage_log.to_dict(), "requested": self._num_requested, **budget}
                    self._store.put_judging(self._run_id, {**usage, "process": this_process()})
                self._last_write = time.monotonic()
        except StoreError as error:  # raised at the end, so that paid judgements are still counted and cached
            self._store_error = error


def _outcome_dict(judgement: Judgement | JudgeError) -> dict[str, Any]:
    if isinstance(judgement, JudgeError):
        return {"message": judgement.message, "raw": judgement.raw}
    return {
        "answer": dict(judgement.answer),
        "raw": judgement.raw,
        "usage": [judgement.usage.prompt_tokens, judgement.usage.completion_tokens],
        "weighted": judgement.weighted,
        "mass": judgement.mass,
        "repaired": judgement.repaired,
        "cached": judgement.cached,
    }


# --- preference between two stored runs, and the judge of a plan -----------------------------------------------------


def common_samples(store: RunStore, record_a: RunRecord, record_b: RunRecord) -> list[EvaluationSample]:
    """The samples of run B that run A has, too; raises ``BadValueError`` if there is none."""
    samples = store.samples(record_b.run_id)
    if record_a.fingerprint != record_b.fingerprint:
        known = set(store.sample_ids(record_a.run_id))
        samples = [sample for sample in samples if sample.sample_id in known]
    if not samples:
        raise BadValueError(f"{record_a.run_id} and {record_b.run_id} have no sample in common")
    return samples


def prefer_runs(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    critic: Critic,
    *,
    judging: JudgeSession | JudgePolicy | None = None,
    prompt: object = None,
) -> PreferenceReport:
    """Let a judge compare the answers of two runs on their common samples. Of repeats, the first is judged."""
    from ..judge.preference import prefer

    samples = common_samples(store, record_a, record_b)

    def answers(record: RunRecord) -> list[SystemOutputs | None]:
        found = {row.sample_id: row.output for row in store.outputs(record.run_id, repeat=0)}
        return [found.get(sample.sample_id) for sample in samples]

    is_named = record_a.name != record_b.name
    names = (record_a.name, record_b.name) if is_named else (record_a.run_id, record_b.run_id)
    return prefer(samples, answers(record_a), answers(record_b), critic, judging=judging, prompt=prompt, names=names)


def select_judge(judges: PlannedJudges, name: str | None, *, need_key: bool = True) -> Any:
    """Build the judge: the named resource, else the one called ``judge``, else the only one."""
    names = judges.names
    if not names:
        raise BadValueError("there is no judge: give a plan with 'resources' (--plan), or a model (--judge-model)")
    if name is None:
        name = "judge" if "judge" in names else names[0]
        if len(names) > 1 and name != "judge":
            raise BadValueError(f"there are several resources ({', '.join(names)}); select the judge with --judge")
    if name not in names:
        hint = did_you_mean(name, names, otherwise=f"; there are {', '.join(names)}")
        raise BadValueError(f"there is no resource '{name}'{hint}")
    return judges.build([name], need_key=need_key)[name]


# --- the stored votes of a panel -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class PanelVotes:
    """The votes of the members of a panel on the answers of a run, for one metric."""

    members: tuple[str, ...]
    prompt_id: str
    votes: dict[str, list[float]]
    """By sample id, a value between 0 and 1 per member; NaN where a member failed."""
    digests: dict[str, str]
    """By sample id, the digest of the answer."""


def read_panel_votes(
    store: RunStore, record: RunRecord, metric: str, *, on_progress: Callable[[int], None] = lambda _: None
) -> PanelVotes:
    """The stored votes on the first answer to each sample; raises unless a panel gave one vote per answer."""
    result = next(result for result in store.results(record.run_id) if result.name == metric)
    from ..report.explain import resolve_result_metric  # reports are slow to import

    found = resolve_result_metric(result, record, {}).metric
    rows: dict[int, list[StoredJudgement]] = defaultdict(list)
    for row in store.judgements(record.run_id):
        if row.metric == metric and row.signature == result.signature and row.repeat == 0:
            rows[row.position].append(row)
    judged = list(chain.from_iterable(rows.values()))
    if not isinstance(found, JudgedMetric) or not any(row.body.get("panel") for row in judged):
        raise BadValueError(
            f"{metric} of {record.run_id} was not judged by a panel: weights are learned from the votes of several "
            "judges; name a panel under 'resources' of the plan and use it as the critic"
        )
    prompts = {row.prompt_id for row in judged}
    outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=0)}
    made = PanelVotes((), prompts.pop(), {}, {})
    members: tuple[str, ...] = ()
    for position, sample in enumerate(store.samples(record.run_id)):
        if position not in rows or position not in outputs:
            continue
        polls = _replayed_polls(found, sample, outputs[position], rows[position])
        repeats = len({row.judge_repeat for row in rows[position]})
        if prompts or len(polls) > repeats or any(len(poll.decided) != 1 for poll in polls):
            raise BadValueError(
                f"{metric} has several votes per answer, such as one for each claim or dimension; weights are learned "
                "for metrics with one: choose the vote mean, median or majority for this one"
            )
        if polls:
            members = polls[0].names
            made.votes[sample.sample_id] = _mean_votes(polls)
            made.digests[sample.sample_id] = answer_digest(_answer(outputs[position]))
        on_progress(1)
    if not members:
        raise BadValueError(
            f"the stored judgements of {metric} do not belong to its present requests, so that votes cannot be read "
            f"from them: score {record.run_id} again with `auepora rescore`"
        )
    return replace(made, members=members)


def _replayed_polls(
    metric: JudgedMetric, sample: EvaluationSample, output: SystemOutputs, rows: Sequence[StoredJudgement]
) -> list[Poll]:
    """The polls about one answer, from the stored judgements; none if they do not match the present requests."""
    from ..report.explain import to_sample_judgements

    with judged_item(sample.sample_id, _answer(output)) as item:
        metric.replay(sample, output, ExplainContext(judgements=to_sample_judgements(rows)))
    return item.polls


def _answer(output: SystemOutputs) -> str:
    return "" if output.response is None else output.response.text


def _mean_votes(polls: Sequence[Poll]) -> list[float]:
    """The vote of each member on the only item, as a mean over repeated judgements."""
    by_member: list[float] = []
    for member in range(len(polls[0].names)):
        numbers = []
        for poll in polls:
            votes = [poll.row(path)[member] for path in poll.decided]
            numbers += [vote.number for vote in votes if vote is not None and vote.number is not None]
        by_member.append(math.fsum(numbers) / len(numbers) if numbers else math.nan)
    return by_member
