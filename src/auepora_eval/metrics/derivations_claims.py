"""Derivations of metrics over claims: the claims, the verdicts on them, what was counted, and the mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.derivation import Cell, Derivation, DerivationBuilder, ExplainContext, format_number, join_items, quote_text
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.entailment import EntailmentFunction, NliModel
from .claim_evaluation import ClaimEvaluation
from .judgement_replay import make_replay_critic, replay_repeats
from .sources import CheckedStatements, Source

if TYPE_CHECKING:
    from ..judge.critic import JudgeClient
    from .claim_base import ClaimMetric

__all__ = ["add_mean_step", "add_source_steps", "claim_steps"]

Evaluations = Sequence[tuple[int, ClaimEvaluation, tuple[float, ...]]]


def claim_steps(
    metric: ClaimMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation | None:
    """From the stored judgements to the score; ``None`` where they are not answers to what would be asked now."""
    entails = isinstance(metric.known_verifier, (EntailmentFunction, NliModel))
    if entails and not around.may_call_models:
        return None
    checker = None if entails else make_replay_critic(around.judgements, metric.prompt_used("support").id)
    lister = make_replay_critic(around.judgements, metric.prompt_used("claims").id)

    async def once(judge: JudgeClient, repeat: int) -> tuple[ClaimEvaluation, Score | tuple[float, ...]]:
        sheet = ClaimEvaluation(metric, judge, sample, output, repeat, lister=lister, checker=checker)
        return sheet, await metric.value(sheet)

    came = replay_repeats(around.judgements, once)
    told = [(repeat, sheet, found) for repeat, (sheet, found) in came or () if not isinstance(found, Score)]
    return _steps(metric, sample, told) if told else None


def _steps(metric: ClaimMetric, sample: EvaluationSample, came: Evaluations) -> Derivation:
    steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
    shown: dict[str, Source] = {}
    for _, sheet, _ in came:
        shown |= {one.name: one for one in (*(of for of, _ in sheet.taken), *(held.against for held in sheet.held))}
    add_source_steps(steps, shown.values())
    for repeat, sheet, values in came:
        if len(came) > 1:
            steps.add_step(f"Judged for the {repeat + 1}. time:")
        _add_claim_steps(steps, sheet)
        if metric.dimension_names:
            parts = ", ".join(
                f"{name} = {format_number(one)}" for name, one in zip(metric.dimension_names, values, strict=True)
            )
            steps.add_step(f"{metric.combination_formula()}: {parts}")
    return add_mean_step(steps, metric.name, [metric.combine(values) for _, _, values in came])


def _add_claim_steps(steps: DerivationBuilder, sheet: ClaimEvaluation) -> None:
    for of, claims in sheet.taken:
        held = [one for one in sheet.held if one.statements is claims and one.verdicts]
        if not held:
            steps.table(f"The claims of {of.name}: {len(claims)}", ("claim",), [(claim,) for claim in claims])
            continue
        headers = ("claim", *(one.against.name for one in held), *(("why",) if len(held) == 1 else ()))
        rows = [_row(claim, place, held) for place, claim in enumerate(claims)]
        steps.table(f"The claims of {of.name}, and how far they are supported", headers, rows)
    for one in sheet.shares:
        value = one.count / one.of
        steps.add_step(f"{_capitalise(one.words)}: {one.count} / {one.of} = {format_number(value)}", value)


def _row(claim: str, place: int, held: Sequence[CheckedStatements]) -> tuple[Cell, ...]:
    verdicts = [one.verdicts[place] for one in held]
    why = (verdicts[0].rationale,) if len(held) == 1 else ()
    return (claim, *(one.level.label for one in verdicts), *why)


def add_source_steps(steps: DerivationBuilder, sources: Iterable[Source]) -> None:
    """The texts themselves, by their names."""
    for one in sources:
        known = one.name.startswith("the ")
        steps.add_step(
            f"{_capitalise(one.name) if known else f'Document {one.name}'}: {join_items(map(quote_text, one.texts))}"
        )


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def add_mean_step(steps: DerivationBuilder, name: str, values: Sequence[float]) -> Derivation:
    """The last step: the one value there is, or the mean of several judgements'."""
    if len(values) == 1:
        return steps.finish_with_value(name, values[0])
    shown = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({shown}) / {len(values)}", math.fsum(values) / len(values)
    )
