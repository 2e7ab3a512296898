"""The derivation of a metric that tells none of its own: what it looks at, what judges said, what comes out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .batch import Batch
from .derivation import Derivation, Derived, Said, Surroundings, listed, number, quoted
from .scores import Scores
from .scoring import settled_scores
from .told_judgements import about_text, said_lines, said_text
from .types import EvaluationSample, SystemOutputs

if TYPE_CHECKING:
    from .metrics_base import BatchMetric

__all__ = ["general_derivation", "judged_derivation", "outcome_alone", "say_inputs", "say_judgements"]


def general_derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs, around: Surroundings
) -> Derivation:
    """What the metric looks at in this sample, and the number it gives for it."""
    from .judged import judged_parts  # it builds on what every metric is

    if any(True for _ in judged_parts(metric)):
        return judged_derivation(sample, output, around)
    steps = say_inputs(Derived(), sample, output, metric.reads, metric.required_fields())
    if metric.asks_models and not around.models:
        stored = "no number is stored" if around.scored is None else f"it gave {number(around.scored)}, as stored"
        return steps.ends(f"A model was asked: {stored}", around.scored, general=True)
    scores = outcome_alone(metric, sample, output, around)
    value = None if scores is None or math.isnan(scores.values[0]) else float(scores.values[0])
    who = f"{type(metric).__module__}.{type(metric).__qualname__}"
    if value is None:
        return steps.ends(f"{who} cannot be asked again here", None, general=True)
    return steps.ends(f"{who} gives {number(value)}", value, general=True)


def judged_derivation(sample: EvaluationSample, output: SystemOutputs, around: Surroundings) -> Derivation:
    """What judges said of this sample, and the score that was made of it, as stored: nobody is asked again."""
    steps = say_judgements(say_inputs(Derived(), sample, output, ("response", "retrieved"), ()), around.said)
    if around.scored is None:
        return steps.ends("No score is stored, and judges are not asked again", None, general=True)
    return steps.ends(
        f"Of these judgements the metric made {number(around.scored)}, as stored", around.scored, general=True
    )


def outcome_alone(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: Surroundings
) -> Scores | None:
    """The outcome of one sample; of a metric over several samples, with those around it. None where it is not there."""
    if not metric.joins:
        return settled_scores(metric, Batch([sample], [output]))
    pairs = around.pairs
    place = next((row for row, (one, _) in enumerate(pairs) if one.sample_id == sample.sample_id), None)
    if place is None:
        return None
    batch = Batch([one for one, _ in pairs], [one for _, one in pairs])
    return metric.joined(settled_scores(metric, batch)).take([place])


def say_inputs(
    steps: Derived, sample: EvaluationSample, output: SystemOutputs, reads: Iterable[str], fields: Iterable[str]
) -> Derived:
    """What a metric looks at: the question, and what it reads of the output and needs of the sample."""
    read, needed = set(reads), set(fields)
    unknown = not read and not needed
    steps.say(f"The question: {quoted(sample.query)}")
    if sample.references and (unknown or "reference_answer" in needed):
        steps.say("Reference answers: " + listed(map(quoted, sample.references)))
    if sample.relevant_docs is not None and (unknown or "relevant_docs" in needed):
        steps.say("Relevant documents: " + listed(document.doc_id for document in sample.relevant_docs))
    if output.response is not None and (unknown or "response" in read):
        steps.say(f"The answer: {quoted(output.response.text)}")
    if unknown or "retrieved" in read:
        steps.say("Returned, in this order: " + listed(item.doc.doc_id for item in output.retrieved))
    if output.timings and "timings" in read:
        steps.say("Timings: " + listed(f"{key} {value}" for key, value in output.timings.items()))
    return steps


def say_judgements(steps: Derived, said: Iterable[Said]) -> Derived:
    """What judges said, one judgement per row."""
    rows = [(one.judge_repeat + 1, one.critic, answer, _reasons(one)) for one in said for answer in _answers(one)]
    if not rows:
        return steps.say("No judgement is stored for this sample: nobody had to be asked, or they were not kept")
    return steps.table("What the judge said", ("time", "judge", "answer", "why"), rows)


def _answers(one: Said) -> list[str]:
    """One line, or one for each statement."""
    named = about_text(one.about)
    head = f"{named}: " if named else ""
    if one.error is not None:
        return [f"{head}none: {one.error}"]
    weighted = "" if one.weighted is None else f" (weighted by probability: {number(one.weighted)})"
    lines = said_lines(one.answer, one.about) or [said_text(one.answer) + weighted]
    return [f"{head}{line}" for line in lines]


def _reasons(one: Said) -> str:
    return str(one.answer.get("rationale", "")) if isinstance(one.answer, Mapping) else ""
