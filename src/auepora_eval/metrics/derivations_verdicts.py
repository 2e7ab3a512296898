"""Derivations of metrics over verdicts on statements: what was looked at, the verdicts, what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.derivation import Derivation, Derived, Surroundings, number, quoted
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.entailment import Entailment, Nli
from .claim_verdicts import exact
from .derivations_claims import mean_step
from .replaying import replayed, stand_in
from .sources import Held

if TYPE_CHECKING:
    from ..judge.critic import Judging
    from .verdicts import Counted, VerdictMetric

__all__ = ["verdict_steps"]


def verdict_steps(
    metric: VerdictMetric, sample: EvaluationSample, output: SystemOutputs, around: Surroundings
) -> Derivation | None:
    """From the stored judgements to the score; ``None`` where they are not answers to what would be asked now."""
    steps = Derived().say(f"The question: {quoted(sample.query)}")
    if output.response is not None:
        steps.say(f"The answer: {quoted(output.response.text)}")
    metric.say_looked_at(steps, sample, output)
    known = metric.settled(sample, output)
    if known is not None:
        return (
            None if known.value is None else steps.ends(f"Nobody had to be asked: {number(known.value)}", known.value)
        )
    entails = isinstance(metric.named_critic, (Entailment, Nli))
    if entails and not around.models:
        return None
    who = metric.checker() if entails else stand_in(around.said, metric.prompt_used.id)

    async def once(judge: Judging, repeat: int) -> tuple[Counted, list[Held]]:
        return await metric.judged_once(sample, output, judge, who, repeat)

    came = replayed(around.said, once)
    if came is None:
        return None
    for repeat, (counted, held) in came:
        again = f", judged for the {repeat + 1}. time" if len(came) > 1 else ""
        _say_verdicts(steps, held, again)
        counts = zip(metric.counted_names, counted.counts, strict=True)
        if metric.counted_names:
            steps.table("What was counted", ("what", "number"), [(name, value) for name, value in counts])
        share, value = str(exact(counted.value)), number(counted.value)
        told = share if share == value else f"{share} = {value}"
        steps.say(f"{metric.in_words[0].upper()}{metric.in_words[1:]}: {told}", counted.value)
    return mean_step(steps, metric.name, [counted.value for _, (counted, _) in came])


def _say_verdicts(steps: Derived, held: Sequence[Held], again: str) -> None:
    rows = [
        (statement, one.against.name, verdict.level.word, verdict.why)
        for one in held
        for statement, verdict in zip(one.statements, one.verdicts, strict=True)
    ]
    steps.table(f"How far each is supported{again}", ("statement", "by", "verdict", "why"), rows)
