"""Derivations of metrics over claims: the claims, the verdicts on them, what was counted, and the mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.derivation import Cell, Derivation, Derived, Surroundings, listed, number, quoted
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.entailment import Entailment, Nli
from .claim_sheet import ClaimSheet
from .replaying import replayed, stand_in
from .sources import Held, Source

if TYPE_CHECKING:
    from ..judge.critic import Judging
    from .claim_base import ClaimMetric

__all__ = ["claim_steps", "mean_step", "say_sources"]

Sheets = Sequence[tuple[int, ClaimSheet, tuple[float, ...]]]


def claim_steps(
    metric: ClaimMetric, sample: EvaluationSample, output: SystemOutputs, around: Surroundings
) -> Derivation | None:
    """From the stored judgements to the score; ``None`` where they are not answers to what would be asked now."""
    entails = isinstance(metric.named_verifier, (Entailment, Nli))
    if entails and not around.models:
        return None
    checker = None if entails else stand_in(around.said, metric.prompt_used("support").id)
    lister = stand_in(around.said, metric.prompt_used("claims").id)

    async def once(judge: Judging, repeat: int) -> tuple[ClaimSheet, Score | tuple[float, ...]]:
        sheet = ClaimSheet(metric, judge, sample, output, repeat, lister=lister, checker=checker)
        return sheet, await metric.value(sheet)

    came = replayed(around.said, once)
    told = [(repeat, sheet, found) for repeat, (sheet, found) in came or () if not isinstance(found, Score)]
    return _steps(metric, sample, told) if told else None


def _steps(metric: ClaimMetric, sample: EvaluationSample, came: Sheets) -> Derivation:
    steps = Derived().say(f"The question: {quoted(sample.query)}")
    shown: dict[str, Source] = {}
    for _, sheet, _ in came:
        shown |= {one.name: one for one in (*(of for of, _ in sheet.taken), *(held.against for held in sheet.held))}
    say_sources(steps, shown.values())
    for repeat, sheet, values in came:
        if len(came) > 1:
            steps.say(f"Judged for the {repeat + 1}. time:")
        _say_sheet(steps, sheet)
        if metric.dimension_names:
            parts = ", ".join(
                f"{name} = {number(one)}" for name, one in zip(metric.dimension_names, values, strict=True)
            )
            steps.say(f"{metric.combination()}: {parts}")
    return mean_step(steps, metric.name, [metric.combined(values) for _, _, values in came])


def _say_sheet(steps: Derived, sheet: ClaimSheet) -> None:
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
        steps.say(f"{_capital(one.words)}: {one.count} / {one.of} = {number(value)}", value)


def _row(claim: str, place: int, held: Sequence[Held]) -> tuple[Cell, ...]:
    verdicts = [one.verdicts[place] for one in held]
    why = (verdicts[0].why,) if len(held) == 1 else ()
    return (claim, *(one.level.word for one in verdicts), *why)


def say_sources(steps: Derived, sources: Iterable[Source]) -> None:
    """The texts themselves, by their names."""
    for one in sources:
        known = one.name.startswith("the ")
        steps.say(f"{_capital(one.name) if known else f'Document {one.name}'}: {listed(map(quoted, one.texts))}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def mean_step(steps: Derived, name: str, values: Sequence[float]) -> Derivation:
    """The last step: the one value there is, or the mean of several judgements'."""
    if len(values) == 1:
        return steps.gives(name, values[0])
    shown = " + ".join(map(number, values))
    return steps.gives(f"The mean of {len(values)}: ({shown}) / {len(values)}", math.fsum(values) / len(values))
