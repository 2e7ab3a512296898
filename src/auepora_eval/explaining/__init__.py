"""Explaining: what a number is, and how it came about for one query, from what is stored.

card     what a number is: formula, choices in words, the samples it stands on
explain  a stored metric of a run, and its derivation for one query, computed again and compared
text     both for a terminal and as Markdown
"""

from .cards import Card, card
from .explain import explain
from .types import Explanation

__all__ = ["Card", "Explanation", "card", "explain"]
