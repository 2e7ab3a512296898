"""The size of ``JudgeMetric``: what a reader of one judged metric has to know."""

import auepora_eval
from auepora_eval.metrics.judge_metric import JudgeMetric

MAX_MEMBERS = 45
MAX_BASES = 5


def test_judge_metric_stays_small() -> None:
    """Public attributes, inherited ones included, and base classes of our own."""
    members = [name for name in dir(JudgeMetric) if not name.startswith("_")]
    bases = [base for base in JudgeMetric.__mro__[1:] if base.__module__.startswith(auepora_eval.__name__)]
    assert len(members) <= MAX_MEMBERS, members
    assert len(bases) <= MAX_BASES, bases
