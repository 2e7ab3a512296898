"""How a metric without recorded steps explains a score: its inputs, the judgements and the resulting number."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .batch import Batch
from .derivation import (
    Derivation,
    DerivationBuilder,
    ExplainContext,
    add_judgements,
    format_number,
    join_items,
    quote_text,
)
from .metric_hooks import asks_models, is_paired, pair_samples
from .metrics_base import BatchMetric, apply_failure_policy, is_judged
from .scores import Scores
from .types import EvaluationSample, SystemOutputs


def general_derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation:
    """The inputs of the metric in this sample, and the resulting number."""
    if is_judged(metric):
        return judged_derivation(sample, output, around)
    steps = add_inputs(DerivationBuilder(), sample, output, metric.metadata.reads, metric.required_fields())
    if asks_models(metric) and not around.may_call_models:
        stored = (
            "no number is stored"
            if around.stored_score is None
            else f"it gave {format_number(around.stored_score)}, as stored"
        )
        return steps.finish(f"A model was asked: {stored}", around.stored_score, general=True)
    scores = sample_outcome(metric, sample, output, around)
    value = None if scores is None or math.isnan(scores.values[0]) else float(scores.values[0])
    who = f"{type(metric).__module__}.{type(metric).__qualname__}"
    if value is None:
        return steps.finish(f"{who} cannot be asked again here", None, general=True)
    return steps.finish(f"{who} gives {format_number(value)}", value, general=True)


def judged_derivation(sample: EvaluationSample, output: SystemOutputs, around: ExplainContext) -> Derivation:
    """The stored judgements and score of this sample; no judge is called."""
    steps = add_judgements(
        add_inputs(DerivationBuilder(), sample, output, ("response", "retrieved"), ()), around.judgements
    )
    if around.stored_score is None:
        return steps.finish("No score is stored, and judges are not asked again", None, general=True)
    return steps.finish(
        f"Of these judgements the metric made {format_number(around.stored_score)}, as stored",
        around.stored_score,
        general=True,
    )


def sample_outcome(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: ExplainContext
) -> Scores | None:
    """The outcome of one sample; a metric of pairs uses all samples of the run. None where the sample is not there."""
    depends_on_run = metric.metadata.needs_all and hasattr(metric, "pair_samples")
    if not is_paired(metric) and not depends_on_run:
        return apply_failure_policy(metric, Batch([sample], [output]))
    pairs = around.pairs
    place = next((row for row, (other, _) in enumerate(pairs) if other.sample_id == sample.sample_id), None)
    if place is None:
        return None
    batch = Batch([other for other, _ in pairs], [answer for _, answer in pairs])
    return pair_samples(metric, apply_failure_policy(metric, batch)).take([place])


def add_inputs(
    steps: DerivationBuilder,
    sample: EvaluationSample,
    output: SystemOutputs,
    reads: Iterable[str],
    fields: Iterable[str],
) -> DerivationBuilder:
    """Add the inputs of a metric: the question, and the parts of output and sample that it uses."""
    read, needed = set(reads), set(fields)
    unknown = not read and not needed
    steps.add_step(f"The question: {quote_text(sample.query)}")
    if sample.references and (unknown or "reference_answer" in needed):
        steps.add_step("Reference answers: " + join_items(map(quote_text, sample.references)))
    if sample.relevant_docs is not None and (unknown or "relevant_docs" in needed):
        steps.add_step("Relevant documents: " + join_items(document.doc_id for document in sample.relevant_docs))
    if output.response is not None and (unknown or "response" in read):
        steps.add_step(f"The answer: {quote_text(output.response.text)}")
    if unknown or "retrieved" in read:
        steps.add_step("Returned, in this order: " + join_items(item.doc.doc_id for item in output.retrieved))
    if output.timings and "timings" in read:
        steps.add_step("Timings: " + join_items(f"{key} {value}" for key, value in output.timings.items()))
    return steps
