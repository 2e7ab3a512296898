"""A trial of judge metrics: a few samples judged before a run, with prompts, replies, scores and cost."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric, Metric, RunInfo, apply_failure_policy, is_judged, precheck
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.targets import COMPLETE_OUTPUT
from ..errors import BadValueError, JudgeError, did_you_mean
from ..judge.cache import stored_request_key
from ..judge.critic import Critic, Judgement, JudgePolicy, JudgeRequest, critic_name
from ..judge.metric import judge_batch, judged_parts
from ..judge.session import JudgeSession, run_judging
from ..plan.model import Plan
from ..plan.prepare import PreparedPlan, prepare, read_plan
from ..render.blocks import Block, Code, Prose, Report, ReportSection, ReportVerdict, Row, simple_table
from ..render.tables import format_value
from ..runtime.secrets import Secrets
from ..store.connect import default_store
from ..store.runs import RunStore, aligned_outputs
from ..systems.calls import Task, call_system
from .judging import JudgeProgress, ignore_progress

DEFAULT_COUNT = 10
"""Number of samples of a trial."""
_DRAWN_PER_SAMPLE = 5
"""Samples whose saved outputs are read for one sample of a trial, since a metric may not apply to some outputs."""


@dataclass(slots=True)
class TrialRequest:
    """A request to a judge as it was sent, and its outcome."""

    metrics: list[str]
    """The metrics that use the reply."""
    sample_id: str
    critic: str
    prompt_id: str
    system: str
    prompt: str
    repeat: int = 0
    reply: str = ""
    """The reply as it arrived; for a critic that keeps none, the parsed answer."""
    answer: Mapping[str, Any] | None = None
    weighted: float | None = None
    """The score weighted by probability, where the judge reports probabilities."""
    error: str | None = None
    message: str = ""
    """Why there is no judgement."""
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TrialScore:
    """The outcome of one metric for one sample."""

    sample_id: str
    metric: str
    score: float | None
    outcome: str

    @property
    def text(self) -> str:
        """The score for display; empty where there is none."""
        return "" if self.score is None else format_value(self.score)


@dataclass(frozen=True, slots=True)
class Trial:
    """Some samples of a plan, judged by some of its metrics. Nothing is stored but the cache of judgements."""

    plan: str
    metrics: Sequence[str]
    samples: Mapping[str, str]
    """The questions by sample id, in the order of the dataset."""
    num_samples: int
    """Size of the dataset."""
    requests: Sequence[TrialRequest]
    scores: Sequence[TrialScore]
    usage: Mapping[str, Any]
    """Calls, tokens and cost of the judges."""
    notes: Sequence[str] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """The trial as a JSON object."""
        return asdict(self) | {
            "samples": [{"sample_id": sample_id, "query": text} for sample_id, text in self.samples.items()]
        }

    def report(self, usage: str) -> Report:
        """The trial as a page; ``usage`` is a line about calls and cost."""
        title = f"Trial of {', '.join(self.metrics)}: {len(self.samples)} of {self.num_samples} samples of {self.plan}"
        sections = []
        for number, system in enumerate(
            dict.fromkeys(request.system for request in self.requests if request.system), 1
        ):
            asking = [request.metrics for request in self.requests if request.system == system]
            section_title = f"System message of {', '.join(dict.fromkeys(chain.from_iterable(asking)))}"
            sections.append(ReportSection(f"system-{number}", section_title, [Code(system)]))
        sections += [
            ReportSection(f"sample-{number}", f"{sample_id}  {query}", self._sample_blocks(sample_id))
            for number, (sample_id, query) in enumerate(self.samples.items(), 1)
        ]
        rows: list[Row] = [[score.sample_id, score.metric, score.text, score.outcome] for score in self.scores]
        blocks: list[Block] = [simple_table(["sample", "metric", "score", "outcome"], rows), Prose(usage)]
        sections.append(ReportSection("scores", "Scores", [*blocks, *map(Prose, self.notes)]))
        return Report(title, "", ReportVerdict(""), sections)

    def _sample_blocks(self, sample_id: str) -> list[Block]:
        blocks: list[Block] = []
        critics: dict[str, str] = {}
        for request in self.requests:
            if request.sample_id == sample_id:
                time = f", {request.repeat + 1}. time" if request.repeat else ""
                known = f" the prompt above, as to {critics[request.prompt]}" if request.prompt in critics else ""
                critics.setdefault(request.prompt, request.critic)
                blocks.append(
                    Prose(f"{', '.join(request.metrics)} to {request.critic} ({request.prompt_id}{time}):{known}")
                )
                blocks += [] if known else [Code(request.prompt)]
                weighted = (
                    "" if request.weighted is None else f"; weighted by probability: {format_value(request.weighted)}"
                )
                origin = " from the cache" if request.cached else ""
                failed = "" if request.error is None else f", not usable ({request.error}: {request.message})"
                blocks += [Prose(f"Reply{origin}{weighted}{failed}:"), Code(request.reply or "(empty)")]
        if not blocks:
            blocks.append(Prose("No judge was asked."))
        scores = [score for score in self.scores if score.sample_id == sample_id]
        shown = [f"{score.metric} {score.text or score.outcome}" for score in scores]
        return [*blocks, Prose(f"Score: {', '.join(shown)}")]


def try_metrics(
    path: str | Path | Plan,
    names: Sequence[str] = (),
    *,
    count: int = DEFAULT_COUNT,
    seed: int = 0,
    run: str | None = None,
    store: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    progress: JudgeProgress | None = None,
    separate: bool = False,
) -> Trial:
    """Judge some samples of a plan by its judge metrics of these names, by default by all of them.

    The samples are drawn at random by ``seed``. Their outputs are the saved ones of the plan, those of the stored
    ``run``, or else the system is called for these samples. Judgements go to the cache of the plan, so that the run
    does not request them again; nothing else is stored. With ``separate``, questions to decision models are asked one
    by one, too, to show whether asking them together changes the answers.
    """
    plan = read_plan(path, changes=changes)
    where = default_store(store, plan.store)
    prepared = prepare(plan, need_system=run is None)
    metrics = select_judge_metrics(prepared.metrics or [], names, RunInfo(top_k=plan.policy.top_k))
    samples, outputs = _draw(prepared, metrics, count, seed, None if run is None else (where, run))
    batch = Batch(samples, outputs)
    secrets = Secrets(plan.secrets)
    session = _RecordingSession(plan.judge.policy_for(where, plan.folder), progress or ignore_progress(), secrets)
    parts = list(chain.from_iterable(judged_parts(metric) for metric in metrics))
    run_judging(session, partial(judge_batch, batch, parts))
    scores = [(metric, apply_failure_policy(metric, batch)) for metric in metrics]
    requests = list(session.requests)
    notes = [note for metric, found in scores if (note := _spread_note(metric, found))]
    if separate:
        if not session.asks_decisions:
            raise BadValueError("no judge of these metrics is a decision model; others are asked one by one anyway")
        session.separate, alone = True, Batch(samples, outputs)
        run_judging(session, partial(judge_batch, alone, parts))
        notes += [_separate_note(metric, found, apply_failure_policy(metric, alone)) for metric, found in scores]
    called = [] if prepared.outputs or run else ["The system was called for these samples."]
    order = {sample.sample_id: place for place, sample in enumerate(samples)}
    rows: list[TrialScore] = []
    for sample_id, place in order.items():
        rows += [TrialScore(sample_id, metric.name, found[place], found.outcomes[place]) for metric, found in scores]
    return Trial(
        plan=plan.name,
        metrics=[metric.name for metric in metrics],
        samples={sample.sample_id: sample.query for sample in samples},
        num_samples=len(prepared.samples),
        requests=sorted(requests, key=lambda asked: (order.get(asked.sample_id, 0), asked.metrics[0], asked.repeat)),
        scores=rows,
        usage=session.usage_log.total.to_dict(),
        notes=[*called, *batch.notes, *notes],
    )


def _spread_note(metric: BatchMetric, scores: Scores) -> str:
    """The spread of repeated judgements; empty if each was made once."""
    judge = metric.further_details(scores, None).get("judge", {})
    if judge.get("sd_within_samples") is None:
        return ""
    spread, repeats = format_value(round(judge["sd_within_samples"], 6)), judge["repeats"]
    return f"{metric.name}: {repeats} judgements of the same answer have a standard deviation of {spread}."


def _separate_note(metric: BatchMetric, together: Scores, alone: Scores) -> str:
    """How far the scores change where each question is asked alone."""
    both = together.counted & alone.counted
    changes = abs(together.values[both] - alone.values[both])
    if not len(changes):
        return f"{metric.name}: no sample has a score both together with other questions and alone."
    largest, mean = format_value(float(changes.max())), format_value(float(changes.mean()))
    return f"{metric.name}: asked alone, scores differ by {mean} on average and by {largest} at most."


def select_judge_metrics(metrics: Sequence[Metric], names: Sequence[str], run: RunInfo) -> list[BatchMetric]:
    """The judge metrics with these names; a name also stands for all parts of a metric, ``tone`` for ``tone[polite]``.

    Without names, all judge metrics.
    """
    judged = [metric for metric in metrics if isinstance(metric, BatchMetric) and is_judged(metric)]
    if not judged:
        raise BadValueError("the plan has no metric that calls a judge")
    for name in names:
        if not any(name in (metric.name, metric.name.partition("[")[0]) for metric in judged):
            known = [metric.name for metric in judged]
            if any(metric.name == name for metric in metrics):
                raise BadValueError(f"'{name}' calls no judge; the judge metrics of the plan are {', '.join(known)}")
            listing = f"; they are {', '.join(known)}"
            raise BadValueError(
                f"'{name}' is not among the judge metrics{did_you_mean(name, known, otherwise=listing)}"
            )
    if names:
        judged = [metric for metric in judged if {metric.name, metric.name.partition("[")[0]} & {*names}]
    return [metric.for_run(run) for metric in judged]


def _draw(
    prepared: PreparedPlan,
    metrics: Sequence[BatchMetric],
    count: int,
    seed: int,
    stored: tuple[str | Path, str] | None,
) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    """Samples with their outputs, in the order of the dataset; samples that a metric applies to come first."""
    samples = list(prepared.samples)
    places = random.Random(seed).sample(range(len(samples)), len(samples))  # noqa: S311 -- a reproducible draw
    applicable = [place for place in places if _any_applies(metrics, samples[place], COMPLETE_OUTPUT)]
    has_outputs = prepared.outputs is not None or stored is not None
    drawn = (applicable or places)[: count * (_DRAWN_PER_SAMPLE if has_outputs else 1)]
    chosen = [samples[place] for place in drawn]
    outputs = _stored_outputs(chosen, *stored) if stored else _outputs(prepared, chosen)
    if has_outputs:
        drawn.sort(key=lambda place: not _any_applies(metrics, samples[place], outputs.get(samples[place].sample_id)))
    kept = [samples[place] for place in sorted(drawn[:count])]
    return kept, [outputs.get(sample.sample_id) for sample in kept]


def _any_applies(metrics: Sequence[BatchMetric], sample: EvaluationSample, output: SystemOutputs | None) -> bool:
    """Whether any metric would score this sample, as far as that can be known without a judge."""
    if output is None or output.error is not None:
        return False
    parts = list(chain.from_iterable(judged_parts(metric) for metric in metrics))
    return any(precheck(part, sample, output, answered=True) is None for part in parts)


def _outputs(prepared: PreparedPlan, samples: Sequence[EvaluationSample]) -> dict[str, SystemOutputs]:
    """The saved outputs of these samples, else those of the system, which is called."""
    ids = {sample.sample_id for sample in samples}
    if prepared.outputs is not None:
        return {sample_id: output for sample_id, output in prepared.outputs if sample_id in ids}
    found: dict[str, SystemOutputs] = {}
    call_system(
        prepared.system,
        [Task(place, sample) for place, sample in enumerate(samples)],
        prepared.plan.policy,
        lambda answers: found.update((answer.task.sample.sample_id, answer.output) for answer in answers),
        total=len(samples),
    )
    return found


def _stored_outputs(samples: Sequence[EvaluationSample], where: str | Path, run: str) -> dict[str, SystemOutputs]:
    with RunStore.open(where, create=False) as store:
        record = store.find(run)
        pairs = zip(store.sample_ids(record.run_id), aligned_outputs(store, record.run_id), strict=True)
        ids = {sample.sample_id for sample in samples}
        found = {sample_id: output for sample_id, output in pairs if sample_id in ids and output is not None}
    if not found:
        raise BadValueError(f"{record.run_id} has no output of a sample of the plan")
    return found


class _RecordingSession(JudgeSession):
    """A judge session that records its requests with their outcomes."""

    def __init__(self, policy: JudgePolicy, progress: JudgeProgress, secrets: Secrets) -> None:
        super().__init__(policy, on_progress=self._on_progress, secrets=secrets)
        self.requests: list[TrialRequest] = []
        self.asks_decisions = False
        self._by_key: dict[tuple[str, str], TrialRequest] = {}
        self._progress, self._redact = progress, secrets

    def keep(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError, *, shared: bool) -> None:
        """Record a request with its judgement or error; one that metrics share is recorded once."""
        key = request.sample_id, stored_request_key(critic, request)
        self.asks_decisions = self.asks_decisions or bool(request.questions)
        if shared and key in self._by_key:
            self._by_key[key].metrics.append(request.metric)
            return
        asked = TrialRequest(
            [request.metric],
            request.sample_id,
            critic=critic_name(critic),
            prompt_id=request.prompt_id,
            system=request.system,
            prompt=request.prompt,
            repeat=request.repeat,
        )
        if isinstance(outcome, JudgeError):
            reply, asked.error, asked.message = outcome.raw or "", outcome.reason, self._redact.message(outcome.message)
        else:
            asked.answer, asked.weighted, asked.cached = dict(outcome.answer), outcome.weighted, outcome.cached
            asked.prompt_tokens, asked.completion_tokens = outcome.usage.prompt_tokens, outcome.usage.completion_tokens
            reply = outcome.raw or json.dumps(asked.answer, ensure_ascii=False)
        asked.reply = self._redact.message(reply)
        self.requests.append(asked)
        self._by_key[key] = asked

    def _on_progress(self, done: int, requested: int) -> None:
        self._progress(done, requested, self.usage_log.total.failed.total())
