"""Honest improvements of +.10 on 400 questions, and pairs of equal systems, with seeds that nobody picked."""

from __future__ import annotations

from redteam.fault_chance import metric_scores
from redteam.planted import Pair, check, new_bench, questions

PAIRS = 50
QUESTIONS = 400
SKILLS = {"recall@5": 0.253, "token_f1": 0.358}
"""How much more skill raises the mean by .10: of right or wrong scores from .417, of graded scores from .5."""
LEAST_GREEN = 45
MOST_GREEN = 3


def green_pairs(*, improved: bool) -> int:
    """How many pairs pass ``better``: every second one has right or wrong scores, the others graded ones.

    The seeds are 0 to 49 for improvements, and 1000 to 1049 for equal systems. Both systems share what is hard.
    """
    green = 0
    for number in range(PAIRS):
        metric = list(SKILLS)[number % 2]
        skill = SKILLS[metric] if improved else 0.0
        with new_bench(number if improved else 1000 + number) as bench:
            hardness = bench.hardness(QUESTIONS)
            samples = questions(QUESTIONS)
            first, second = bench.strengths(hardness), bench.strengths(hardness, skill)
            baseline = bench.scores("a", samples, metric, metric_scores(first, metric))
            run = bench.scores("b", samples, metric, metric_scores(second, metric))
            pair = Pair(baseline, run, checks_outputs=False)
            green += check(bench, pair, [f"better({metric})"]).is_green
    return green


def honest_line(green: int) -> str:
    """The line of the page about honest improvements."""
    return f"* {green} of {PAIRS} honest improvements of .10 on {QUESTIONS} questions are green; at least {LEAST_GREEN} must be."


def equal_line(green: int) -> str:
    """The line of the page about equal systems."""
    return (
        f"* {green} of {PAIRS} pairs of equal systems on {QUESTIONS} questions are green; at most {MOST_GREEN} may be."
    )
