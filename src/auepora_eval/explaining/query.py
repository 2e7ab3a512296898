"""The explanation of one query: its outcome, the derivation of its score, and the comparison with the stored score."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.batch import failure_reason
from ..core.derivation import Derivation, ExplainContext, SampleJudgement
from ..core.errors import AueporaError, BadValueError, did_you_mean
from ..core.general_derivation import sample_outcome
from ..core.judged_metric import judged_parts
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult, Response, SystemOutputs
from ..store.judgement_rows import StoredJudgement
from ..store.records import RunRecord
from ..store.runs import RunStore
from .metric_lookup import ResolvedMetric
from .option_help import describe_reason, hint_for_reason
from .types import QueryExplanation, RecomputationCheck, RepeatExplanation

__all__ = ["explain_query"]

_TOLERANCE = 1e-12


def explain_query(
    store: RunStore, record: RunRecord, result: MetricResult, found: ResolvedMetric, sample_id: str, *, models: bool
) -> QueryExplanation:
    """The derivation of one sample's score, for every repeat."""
    ids = store.sample_ids(record.run_id)
    if sample_id not in ids:
        raise BadValueError(f"{record.run_id} has no sample '{sample_id}'{did_you_mean(sample_id, ids)}")
    position = ids.index(sample_id)
    samples = store.samples(record.run_id)
    sample = samples[position]
    outputs = {row.repeat: row.output for row in store.outputs(record.run_id, position=position)}
    stored = None if result.scores is None else result.scores[position]
    outcome = str(result.outcomes[position]) if result.outcomes is not None else "scored" if stored is not None else ""
    judgements = list(store.judgements(record.run_id, position=position))
    one = found.metric if isinstance(found.metric, BatchMetric) else None
    answers = []
    for repeat in range(record.repeats):
        context = ExplainContext(
            lambda repeat=repeat: _pairs(store, record, samples, repeat),  # type: ignore[misc]
            _judgements(judgements, result, one, repeat),
            stored if record.repeats == 1 else None,
            models,
        )
        stored_outcome = outcome if record.repeats == 1 else None
        answers.append(_explain_answer(one, sample, outputs.get(repeat), context, repeat, stored_outcome))
    return QueryExplanation(
        sample_id, sample.query, outcome or "not stored", tuple(answers), _check(stored, answers, one, found)
    )


def _pairs(
    store: RunStore, record: RunRecord, samples: Sequence[EvaluationSample], repeat: int
) -> list[tuple[EvaluationSample, SystemOutputs | None]]:
    """All samples with the outputs of one repeat."""
    outputs = {row.position: row.output for row in store.outputs(record.run_id, repeat=repeat)}
    return [(sample, outputs.get(position)) for position, sample in enumerate(samples)]


def _judgements(
    rows: Sequence[StoredJudgement], result: MetricResult, metric: BatchMetric | None, repeat: int
) -> tuple[SampleJudgement, ...]:
    """The stored judgements of this metric, or of its base metrics."""
    names = {result.name, *(() if metric is None else (part.name for part in judged_parts(metric)))}
    return tuple(
        SampleJudgement(
            answer=row.body.get("answer") or {},
            critic=row.critic,
            judge_repeat=row.judge_repeat,
            request=row.request,
            prompt_id=row.prompt_id,
            error=None if row.reason is None else f"{row.reason} {row.body.get('message') or ''}".strip(),
            weighted=row.body.get("weighted"),
            cached=bool(row.body.get("cached")),
            one_number=bool(row.body.get("one_number")),
            logprobs=bool(row.body.get("logprobs")),
            about=row.body.get("about") or {},
        )
        for row in rows
        if row.metric in names and row.repeat == repeat
    )


def _needs_calls(metric: BatchMetric, context: ExplainContext) -> bool:
    """Whether recomputing the outcome would call a judge or a model."""
    return any(True for _ in judged_parts(metric)) or (metric.asks_models and not context.may_call_models)


def _explain_answer(
    metric: BatchMetric | None,
    sample: EvaluationSample,
    output: SystemOutputs | None,
    context: ExplainContext,
    repeat: int,
    stored: str | None,
) -> RepeatExplanation:
    """The outcome of one answer, recomputed where no call is needed, and its derivation."""
    skip_reasons = {} if metric is None else metric.skip_reasons
    outcome, value = stored or _default_outcome(output), context.stored_score
    if metric is not None and not _needs_calls(metric, context):
        scores = _outcome(metric, sample, output, context)
        if scores is not None:
            outcome, value = scores.outcomes[0], scores[0]
    status, _, reason = outcome.partition(":")
    derivation = None
    if status == "scored" and metric is not None:
        answered = output or SystemOutputs(retrieved=[], response=Response(""))
        derivation = _derivation(metric, sample, answered, context)
        value = value if derivation is None or derivation.value is None else derivation.value
    words = describe_reason(reason, skip_reasons) if reason else ""
    if status == "system_failed" and output is not None and output.error:
        words = f"{words}: {output.error}"
    errors = [one.error for one in context.judgements if one.error]
    if status == "measure_failed":
        why = (
            errors[0] if errors else "" if metric is None or output is None else metric.failure_message(sample, output)
        )
        words = f"{words}: {why}" if why else words
    needed = hint_for_reason(reason) if status == "skipped" else None
    return RepeatExplanation(repeat, outcome, words, needed, value, derivation)


def _outcome(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, context: ExplainContext
) -> Scores | None:
    try:
        return sample_outcome(metric, sample, output, context)
    except AueporaError:  # a resource it needs is not available
        return None


def _derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs, context: ExplainContext
) -> Derivation | None:
    try:
        return metric.derivation(sample, output, context)
    except AueporaError:  # a resource it needs is not available
        return None
    except Exception:
        if type(metric).__module__.startswith(__name__.partition(".")[0] + "."):
            raise  # a bug of this library
        return None  # a failing derivation of a user's metric is left out


def _default_outcome(output: SystemOutputs | None) -> str:
    """The outcome that follows from the output alone."""
    if output is None:
        return "system_failed:missing_output"
    return "scored" if output.error is None else f"system_failed:{failure_reason(output.error)}"


def _check(
    stored: float | None, answers: Sequence[RepeatExplanation], metric: BatchMetric | None, found: ResolvedMetric
) -> RecomputationCheck:
    """The recomputed score compared with the stored one."""
    if metric is None:
        return RecomputationCheck(stored, None, "not computed", "the metric is not known in this process")
    general = [one for one in answers if one.derivation is not None and one.derivation.value is None]
    if general:
        return RecomputationCheck(stored, None, "not computed", "it would have to be asked for again")
    values = [one.counts_as for one in answers if one.counts_as is not None]
    computed = math.fsum(values) / len(values) if values else None
    if len(values) == 1:
        computed = values[0]
    if computed == stored:
        return RecomputationCheck(stored, computed, "equal")
    if computed is not None and stored is not None:
        allowed = max(metric.rounding, _TOLERANCE * max(1.0, abs(stored)))
        if abs(computed - stored) <= allowed:
            return RecomputationCheck(stored, computed, "rounding", "a model's last digits, or another order of a sum")
    if found.differs:
        why = f"the metric at hand differs from the one that computed it, in {', '.join(found.differs)}"
    else:
        why = "the outputs were replaced since it was scored, or the code computes it otherwise now; `auepora rescore`"
    return RecomputationCheck(stored, computed, "differs", why)
