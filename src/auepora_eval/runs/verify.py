"""Check of a stored run: its results recomputed from its stored outputs and judgements, without a system or a judge."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ..core.conventions import Conventions
from ..core.metric_hooks import asks_models
from ..core.metrics_base import BatchMetric, Metric, make_result, sample_clusters
from ..core.results import two_stage_details
from ..core.scores import NOT_JUDGED, Scores, Status
from ..core.slices import parse_slices
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..errors import AueporaError, AueporaWarning, BadValueError, JudgeError
from ..io.golden import dataset_fingerprint
from ..judge.cache import stored_request_key
from ..judge.critic import Critic, Judgement, JudgePolicy, JudgeRequest
from ..judge.metric import judged_parts
from ..judge.session import JudgeSession
from ..report.explain import resolve_result_metric
from ..store.records import RunRecord, plan_conventions, run_info
from ..store.rows import StoredJudgement
from ..store.runs import RunStore, aligned_outputs
from .job import evaluate_outputs
from .judging import judged_signatures, rescoring_metrics

_TOLERANCE = 1e-9
_MAX_LISTED = 3
"""How many samples of a metric are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored number that is not what the stored outputs and judgements give."""

    metric: str | None
    """``None`` for the samples of the dataset and the outputs of the run."""
    what: str
    """``score of q17``, ``value``, ``interval``, ``samples``, ``outputs``."""
    stored: str
    recomputed: str

    def __str__(self) -> str:
        subject = self.what if self.metric is None else f"{self.metric}, {self.what}"
        return f"{subject}: {self.stored} is stored, {self.recomputed} recomputed"


@dataclass(slots=True)
class Verification:
    """The outcome of a check."""

    run_id: str
    verified: list[str] = field(default_factory=list)
    """The results that were recomputed, by name."""
    not_recomputed: dict[str, str] = field(default_factory=dict)
    """The results that were not, with the reason."""
    differences: list[Difference] = field(default_factory=list)
    outputs_checked: bool = False
    """Whether the digest of the outputs is stored: it finds changes of what no recomputed metric reads."""

    @property
    def exit_code(self) -> int:
        """1 if something differs, 3 if nothing could be recomputed, else 0."""
        if self.differences:
            return 1
        return 0 if self.verified else 3

    def sentence(self) -> str:
        """The conclusion."""
        total = len(self.verified) + len(self.not_recomputed)
        if self.differences:
            names = ", ".join(dict.fromkeys(found.metric or found.what for found in self.differences))
            return f"{self.run_id} was changed, or scored by another version: {names} are not what is recomputed."
        if not self.verified:
            return f"{self.run_id} could not be checked: none of its {total} results can be recomputed."
        rest = f"; {len(self.not_recomputed)} could not be recomputed" if self.not_recomputed else ""
        found = f"{len(self.verified)} of {total} results of {self.run_id}"
        return f"{found} are what its stored outputs and judgements give{rest}."

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"schema": 1, "sentence": self.sentence(), **asdict(self)}


class StoredJudge(JudgeSession):
    """Answers with the stored judgements of a run; no judge is called."""

    def __init__(self, policy: JudgePolicy, rows: Iterable[StoredJudgement], ids: Sequence[str]) -> None:
        super().__init__(replace(policy, cache=None, cache_only=False, controls=0))
        self.repeat = 0
        """The repeat of the run that is being scored."""
        self._rows = {(row.metric, ids[row.position], row.repeat, row.judge_repeat, row.request): row for row in rows}

    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The stored judgement of the same request; ``JudgeError`` if there is none, or if it failed."""
        asked = stored_request_key(critic, request)
        row = self._rows.get((request.metric, request.sample_id, self.repeat, request.repeat, asked))
        if row is None:
            raise JudgeError("not_stored", "no judgement of this request is stored")
        body = row.body
        if row.reason is not None:
            raise JudgeError(row.reason, str(body.get("message") or ""))
        return Judgement(
            body.get("answer") or {}, raw=body.get("raw") or "", weighted=body.get("weighted"), mass=body.get("mass")
        )


def verify_run(store: RunStore, record: RunRecord) -> Verification:
    """Recompute the stored results of a run, and list what differs. Nothing is stored or called.

    Changes that fit each other, such as of an output and of all its scores, are not found.
    """
    found = Verification(record.run_id)
    samples = store.samples(record.run_id)
    fingerprint = dataset_fingerprint(samples)
    if fingerprint != record.fingerprint:
        found.differences.append(Difference(None, "samples", record.fingerprint[:12], fingerprint[:12]))
    outputs, stored = store.outputs_digests(record.run_id)
    found.outputs_checked = stored is not None and record.finished_at is not None
    if found.outputs_checked and stored != outputs:
        found.differences.append(Difference(None, "outputs", str(stored)[:12], outputs[:12]))
    metrics, policy = _planned(store, record)
    known: list[tuple[MetricResult, BatchMetric]] = []
    for result in store.results(record.run_id, every_signature=True):
        resolved = resolve_result_metric(result, record, metrics)
        reason = _not_recomputable(result, resolved.metric, resolved.differs, metrics)
        if reason is None and isinstance(resolved.metric, BatchMetric):
            known.append((result, resolved.metric))
        else:
            found.not_recomputed[result.name] = reason or "it is no metric of batches"
    for result, metric in known:
        try:
            again = _recompute(store, record, metric, result, samples=samples, policy=policy)
        except AueporaError as error:
            found.not_recomputed[result.name] = str(error)
            continue
        found.verified.append(result.name)
        found.differences += _differences(result, again, [sample.sample_id for sample in samples])
    return found


def _planned(store: RunStore, record: RunRecord) -> tuple[dict[str, Metric], JudgePolicy]:
    """The metrics of the plan with their judges, by name; none if they cannot be built here."""
    try:
        metrics, judges = rescoring_metrics(store, record, (), need_key=False)
    except AueporaError:
        return {}, JudgePolicy()
    policy = judges.settings.policy_for(store.file, judges.folder)
    return {metric.name: metric for metric in metrics or ()}, policy


def _not_recomputable(
    result: MetricResult, metric: Metric | None, differs: Sequence[str], planned: Mapping[str, Metric]
) -> str | None:
    """Why a result cannot be recomputed; ``None`` where it can."""
    if not isinstance(metric, BatchMetric):
        return "its metric is not known here"
    if differs:
        return f"it was computed with another {', '.join(differs)}"
    if two_stage_details(result) is not None:
        return "a judge scored a draw of the samples"
    if any(judged_parts(metric)) and planned.get(result.name) is not metric:
        return "its judge is not in the plan of the run"
    if not isinstance(result.scores, Scores):
        return "its scores are not stored"
    return "it needs a model" if asks_models(metric) and not any(judged_parts(metric)) else None


def _recompute(
    store: RunStore,
    record: RunRecord,
    metric: BatchMetric,
    result: MetricResult,
    *,
    samples: Sequence[EvaluationSample],
    policy: JudgePolicy,
) -> MetricResult:
    """The result from the stored outputs and judgements; samples that were not judged stay so."""
    info, ids = run_info(record), [sample.sample_id for sample in samples]
    signatures = judged_signatures([metric], info)
    rows = (row for row in store.judgements(record.run_id) if signatures.get(row.metric) == row.signature)
    judge = StoredJudge(policy, rows, ids) if signatures else None

    def outputs(repeat: int) -> Iterator[SystemOutputs | None]:
        if judge is not None:
            judge.repeat = repeat
        return aligned_outputs(store, record.run_id, repeat=repeat)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)  # the run itself has given them
        (again,) = evaluate_outputs(
            samples,
            [partial(outputs, repeat) for repeat in range(record.repeats)],
            [metric],
            conventions=Conventions.of(match=plan_conventions(record).match),
            slices=parse_slices(record.plan.get("slices") or ()),
            run=info,
            judging=judge,
        )
    stored, scores = result.scores, again.scores
    assert isinstance(stored, Scores)
    if not isinstance(scores, Scores):
        raise BadValueError("it has no scores of single samples")
    waiting = stored.with_reason(NOT_JUDGED)
    if not waiting.any():
        return again
    scores = scores.replaced(waiting, Status.SKIPPED, NOT_JUDGED, math.nan)
    return make_result(metric.for_run(info), scores, clusters=sample_clusters(samples))


def _differences(stored: MetricResult, again: MetricResult, ids: Sequence[str]) -> list[Difference]:
    """What differs between a stored result and the recomputed one."""
    pairs = zip(ids, _outcomes(stored), _outcomes(again), strict=True)
    changed = [(name, before, after) for name, before, after in pairs if not _is_close(before, after)]
    found = [
        Difference(stored.name, f"score of {name}", _shown(before), _shown(after))
        for name, before, after in changed[:_MAX_LISTED]
    ]
    if len(changed) > _MAX_LISTED:
        more = len(changed) - _MAX_LISTED
        found.append(Difference(stored.name, f"scores of {more} more samples", "others", "others"))
    parts = [("", stored, again)]
    for name, groups in stored.slices.items():
        for group, part in groups.items():
            other = again.slices.get(name, {}).get(group)
            if isinstance(part, MetricResult) and isinstance(other, MetricResult):
                parts.append((f" where {name} = {group}", part, other))
    for where, before_part, after_part in parts:
        recomputed = _numbers(after_part)
        for what, before in _numbers(before_part).items():
            after = recomputed[what]
            if not _is_close(before, after):
                found.append(Difference(stored.name, f"{what}{where}", _shown(before), _shown(after)))
    return found


def _numbers(result: MetricResult) -> dict[str, Any]:
    """What gates read of a result besides its scores."""
    counts = {name: result.details.get(name) for name in ("num_scored", "num_failed", "repeats")}
    return {"value": result.value, "interval": result.interval, **counts}


def _outcomes(result: MetricResult) -> list[object]:
    """The score of each sample, with the outcome of one that was not scored; the outcome alone without a score."""
    assert isinstance(result.scores, Scores)
    outcomes: list[object] = list(result.scores.outcomes)
    for position, score in enumerate(result.scores):
        if score is not None:
            outcome = outcomes[position]
            outcomes[position] = score if outcome == "scored" else f"{outcome}, counted as {score:.12g}"
    return outcomes


def _is_close(before: Any, after: Any) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) or (
            before != before and after != after
        )
    if isinstance(before, tuple) and isinstance(after, tuple):
        return all(_is_close(*ends) for ends in zip(before, after, strict=True))
    return bool(before == after)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, tuple):
        return " to ".join(_shown(end) for end in value)
    return str(value)
