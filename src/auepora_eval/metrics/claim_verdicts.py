"""What follows from verdicts on claims: plain functions of one answer, exact, written to be read.

A verdict is true where the evidence supports all of a claim. A table has a row per document and a column per claim.
"""

from collections.abc import Sequence
from fractions import Fraction

__all__ = [
    "average_precision",
    "claim_f_beta",
    "context_utilisation",
    "exact_fraction",
    "noise_sensitivity",
    "proportion",
    "relevant_documents",
    "supported_by_any",
    "unsupported_proportion",
]

Verdicts = Sequence[bool]


def proportion(verdicts: Verdicts) -> Fraction:
    """How many of all are true: precision, recall, faithfulness, by what the claims are held against."""
    return Fraction(sum(verdicts), len(verdicts))


def exact_fraction(value: float) -> Fraction:
    """The fraction of claims that a float stands for: nobody counts a million of them."""
    return Fraction(value).limit_denominator(1_000_000)


def supported_by_any(table: Sequence[Verdicts], claims: int) -> list[bool]:
    """Which claims at least one document supports."""
    return [any(row[claim] for row in table) for claim in range(claims)]


def relevant_documents(table: Sequence[Verdicts]) -> list[bool]:
    """Which documents support at least one claim of the reference."""
    return [any(row) for row in table]


def claim_f_beta(precision: Fraction, recall: Fraction, beta: Fraction = Fraction(1)) -> Fraction:
    """The weighted harmonic mean; above 1 ``beta`` favours recall. Two zeros give 0."""
    weight = beta * beta
    below = weight * precision + recall
    return (1 + weight) * precision * recall / below if below else Fraction(0)


def context_utilisation(in_context: Verdicts, in_answer: Verdicts) -> Fraction | None:
    """Of the reference's claims that the documents hold, how many the answer has; ``None`` where they hold none."""
    used = [told for held, told in zip(in_context, in_answer, strict=True) if held]
    return proportion(used) if used else None


def unsupported_proportion(correct: Verdicts, in_context: Verdicts, *, is_correct: bool) -> Fraction:
    """Of the answer's claims, how many no document supports that are correct (self-knowledge), or are not."""
    return proportion([told == is_correct and not held for told, held in zip(correct, in_context, strict=True)])


def noise_sensitivity(correct: Verdicts, table: Sequence[Verdicts], relevant: Verdicts) -> tuple[Fraction, Fraction]:
    """Of the answer's claims, how many are wrong and from a relevant document; and from irrelevant ones alone."""
    claims = len(correct)
    from_relevant = supported_by_any([row for row, useful in zip(table, relevant, strict=True) if useful], claims)
    from_any = supported_by_any(table, claims)
    wrong = [not one for one in correct]
    first = [bad and useful for bad, useful in zip(wrong, from_relevant, strict=True)]
    other = [bad and held and not useful for bad, held, useful in zip(wrong, from_any, from_relevant, strict=True)]
    return proportion(first), proportion(other)


def average_precision(useful: Verdicts) -> Fraction:
    """The mean, over the useful documents, of the share of useful ones down to each; 0 where none is."""
    total, found = Fraction(0), 0
    for rank, one in enumerate(useful, start=1):
        if one:
            found += 1
            total += Fraction(found, rank)
    return total / found if found else Fraction(0)
