"""Derivations of judge ratings: the ratings, rescaled to [0, 1], and their mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..core.derivation import Cell, Derivation, DerivationBuilder, SampleJudgement, format_number, quote_text
from ..core.general_derivation import add_judgements
from ..core.scores import Score
from ..judge.critic import Judgement
from ..judge.ratings import Rating, RatingPrompt, parse_rating
from ..judge.recorded import request_key
from .judgement_replay import ReplayCritic

__all__ = ["judgement_steps"]


def judgement_steps(
    question: RatingPrompt | Score,
    judgements: Iterable[SampleJudgement],
    combine: Callable[[Sequence[float]], float],
    *,
    aggregation: str,
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    if isinstance(question, Score):
        assert question.value is not None
        return DerivationBuilder().finish(f"Nobody had to be asked: {format_number(question.value)}", question.value)
    ratings: list[tuple[int, Rating]] = []
    known = list(judgements)
    for repeat in sorted({one.judge_repeat for one in known}):
        rating = _rating(question, [one for one in known if one.judge_repeat == repeat], repeat)
        if isinstance(rating, str):
            return None
        if rating is not None:
            ratings.append((repeat, rating))
    if not ratings:
        return None
    low, high = question.scale.low, question.scale.high
    steps = DerivationBuilder()
    for name, text in question.texts.items():
        if isinstance(text, str):
            steps.add_step(f"The judge was shown as {name}: {quote_text(text)}")
        elif not isinstance(text, Mapping):
            steps.add_step(f"The judge was shown as {name}: {len(text)} texts")
    add_judgements(steps, known)
    rows: list[tuple[Cell, ...]] = [(repeat + 1, *one.values, combine(one.values)) for repeat, one in ratings]
    steps.table(
        f"Each number x on the scale from {low:g} to {high:g} is (x − {low:g}) / ({high:g} − {low:g})"
        + (f", put together by {aggregation}" if aggregation else ""),
        ("time", *question.names, "together"),
        rows,
    )
    values = [combine(one.values) for _, one in ratings]
    summands = " + ".join(map(format_number, values))
    return steps.finish_with_value(
        f"The mean of {len(values)}: ({summands}) / {len(values)}", math.fsum(values) / len(values)
    )


def _rating(question: RatingPrompt, judgements: Sequence[SampleJudgement], repeat: int) -> Rating | str | None:
    """The rating of one repeat; ``None`` if the judge failed, a string if the requests do not match."""
    critic = ReplayCritic(judgements[0].one_number, judgements[0].logprobs)
    requests = question.requests(critic, repeat)
    by_key = {one.request: one for one in judgements}
    answers = [by_key.get(request_key(request)) for _, request in requests]
    if any(one is None for one in answers):
        return "other questions"
    found = [one for one in answers if one is not None]
    if any(one.error is not None for one in found):
        return None
    judged = [Judgement(one.answer, weighted=one.weighted) for one in found]
    return parse_rating(requests, judged, question.scale)
