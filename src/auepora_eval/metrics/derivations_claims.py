"""Derivations of metrics over claims: claims, verdicts, proportions and the mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.derivation import Cell, Derivation, DerivationBuilder, ExplainContext, format_number, join_items, quote_text
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.entailment import EntailmentFunction, NliModel
from .claim_evaluation import ClaimEvaluation
from .derivations_verdicts import add_mean_step
from .judgement_replay import make_replay_critic, replay_repeats
from .sources import CheckedStatements, Source

if TYPE_CHECKING:
    from ..judge.critic import JudgeClient
    from .claim_base import ClaimMetric

Evaluations = Sequence[tuple[int, ClaimEvaluation, tuple[float, ...]]]


def claim_steps(
    metric: ClaimMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    uses_nli = isinstance(metric.known_verifier, (EntailmentFunction, NliModel))
    if uses_nli and not around.may_call_models:
        return None
    checker = None if uses_nli else make_replay_critic(around.judgements, metric.prompt_used("support").id)
    extractor = make_replay_critic(around.judgements, metric.prompt_used("claims").id)

    async def once(judge: JudgeClient, repeat: int) -> tuple[ClaimEvaluation, Score | tuple[float, ...]]:
        evaluation = ClaimEvaluation(metric, judge, sample, output, repeat, extractor=extractor, checker=checker)
        return evaluation, await metric.value(evaluation)

    repeats = replay_repeats(around.judgements, once)
    evaluations = [
        (repeat, evaluation, value) for repeat, (evaluation, value) in repeats or () if not isinstance(value, Score)
    ]
    return _steps(metric, sample, evaluations) if evaluations else None


def _steps(metric: ClaimMetric, sample: EvaluationSample, evaluations: Evaluations) -> Derivation:
    steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
    shown: dict[str, Source] = {}
    for _, evaluation, _ in evaluations:
        shown |= {
            one.name: one
            for one in (
                *(of for of, _ in evaluation.decomposed),
                *(statements.against for statements in evaluation.checked),
            )
        }
    add_source_steps(steps, shown.values())
    for repeat, evaluation, values in evaluations:
        if len(evaluations) > 1:
            steps.add_step(f"Judged for the {repeat + 1}. time:")
        _add_claim_steps(steps, evaluation)
        if metric.dimension_names:
            parts = ", ".join(
                f"{name} = {format_number(one)}" for name, one in zip(metric.dimension_names, values, strict=True)
            )
            steps.add_step(f"{metric.combination_formula()}: {parts}")
    return add_mean_step(steps, metric.name, [metric.combine(values) for _, _, values in evaluations])


def _add_claim_steps(steps: DerivationBuilder, evaluation: ClaimEvaluation) -> None:
    for of, claims in evaluation.decomposed:
        checked = [one for one in evaluation.checked if one.statements is claims and one.verdicts]
        if not checked:
            steps.table(f"The claims of {of.name}: {len(claims)}", ("claim",), [(claim,) for claim in claims])
            continue
        headers = ("claim", *(one.against.name for one in checked), *(("why",) if len(checked) == 1 else ()))
        rows = [_row(claim, place, checked) for place, claim in enumerate(claims)]
        steps.table(f"The claims of {of.name}, and how far they are supported", headers, rows)
    for one in evaluation.proportions:
        value = one.count / one.of
        steps.add_step(f"{_capitalise(one.label)}: {one.count} / {one.of} = {format_number(value)}", value)


def _row(claim: str, place: int, checked: Sequence[CheckedStatements]) -> tuple[Cell, ...]:
    verdicts = [one.verdicts[place] for one in checked]
    why = (verdicts[0].rationale,) if len(checked) == 1 else ()
    return (claim, *(one.level.label for one in verdicts), *why)


def add_source_steps(steps: DerivationBuilder, sources: Iterable[Source]) -> None:
    """Add the texts with their names."""
    for one in sources:
        known = one.name.startswith("the ")
        steps.add_step(
            f"{_capitalise(one.name) if known else f'Document {one.name}'}: {join_items(map(quote_text, one.texts))}"
        )


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
