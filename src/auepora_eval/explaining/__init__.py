"""Explanations of stored results: the metric card of a result, and the derivation of one query's score.

cards          formula, options and sample counts of a result
explain        a stored metric of a run, and its derivation for one query, recomputed and compared
rendering      both for a terminal and as Markdown
"""

from .cards import Card, card
from .explain import explain
from .types import Explanation

__all__ = ["Card", "Explanation", "card", "explain"]
