"""Derivations of metrics over verdicts on statements: input, verdicts and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.derivation import Derivation, DerivationBuilder, ExplainContext, format_number, quote_text
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.entailment import EntailmentFunction, NliModel
from .claim_verdicts import exact_fraction
from .judgement_replay import make_replay_critic, replay_repeats
from .sources import CheckedStatements

if TYPE_CHECKING:
    from ..judge.critic import JudgeClient
    from .verdict_base import VerdictMetric, VerdictResult

__all__ = ["verdict_steps"]


def verdict_steps(
    metric: VerdictMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
    if output.response is not None:
        steps.add_step(f"The answer: {quote_text(output.response.text)}")
    metric.add_input_steps(steps, sample, output)
    known = metric.known_outcome(sample, output)
    if known is not None:
        return (
            None
            if known.value is None
            else steps.finish(f"Nobody had to be asked: {format_number(known.value)}", known.value)
        )
    uses_nli = isinstance(metric.known_critic, (EntailmentFunction, NliModel))
    if uses_nli and not around.may_call_models:
        return None
    verifier = metric.checker() if uses_nli else make_replay_critic(around.judgements, metric.prompt_used.id)

    async def once(judge: JudgeClient, repeat: int) -> tuple[VerdictResult, list[CheckedStatements]]:
        return await metric.judge_once(sample, output, judge, verifier, repeat)

    repeats = replay_repeats(around.judgements, once)
    if repeats is None:
        return None
    for repeat, (result, checked) in repeats:
        suffix = f", judged for the {repeat + 1}. time" if len(repeats) > 1 else ""
        _add_verdict_table(steps, checked, suffix)
        counts = zip(metric.own_count_names, result.counts, strict=True)
        if metric.own_count_names:
            steps.table("What was counted", ("what", "number"), [(name, value) for name, value in counts])
        fraction, value = str(exact_fraction(result.value)), format_number(result.value)
        shown = fraction if fraction == value else f"{fraction} = {value}"
        steps.add_step(f"{metric.formula_text[0].upper()}{metric.formula_text[1:]}: {shown}", result.value)
    return add_mean_step(steps, metric.name, [result.value for _, (result, _) in repeats])


def _add_verdict_table(steps: DerivationBuilder, checked: Sequence[CheckedStatements], suffix: str) -> None:
    rows = [
        (statement, one.against.name, verdict.level.label, verdict.rationale)
        for one in checked
        for statement, verdict in zip(one.statements, one.verdicts, strict=True)
    ]
    steps.table(f"How far each is supported{suffix}", ("statement", "by", "verdict", "why"), rows)


def add_mean_step(steps: DerivationBuilder, name: str, values: Sequence[float]) -> Derivation:
    """Add the last step: the only value, or the mean over the repeats."""
    if len(values) == 1:
        return steps.finish_with_value(name, values[0])
    shown = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({shown}) / {len(values)}", math.fsum(values) / len(values)
    )
