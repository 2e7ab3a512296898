"""Measures over verdicts on claims: exact, plain functions of one answer.

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
    """The proportion of true verdicts: precision, recall or faithfulness, depending on the evidence."""
    return Fraction(sum(verdicts), len(verdicts))


def exact_fraction(value: float) -> Fraction:
    """The fraction that a float represents, for fewer than a million claims."""
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
    """The proportion of the reference's claims in the documents that the answer has; ``None`` if there are none."""
    used = [answered for in_documents, answered in zip(in_context, in_answer, strict=True) if in_documents]
    return proportion(used) if used else None


def unsupported_proportion(correct: Verdicts, in_context: Verdicts, *, is_correct: bool) -> Fraction:
    """The proportion of the answer's claims without support by documents that are correct, or are not."""
    return proportion(
        [
            supported == is_correct and not in_documents
            for supported, in_documents in zip(correct, in_context, strict=True)
        ]
    )


def noise_sensitivity(correct: Verdicts, table: Sequence[Verdicts], relevant: Verdicts) -> tuple[Fraction, Fraction]:
    """The proportions of wrong claims from a relevant document, and from irrelevant ones alone."""
    claims = len(correct)
    from_relevant = supported_by_any([row for row, useful in zip(table, relevant, strict=True) if useful], claims)
    from_any = supported_by_any(table, claims)
    wrong = [not one for one in correct]
    relevant_noise = [bad and useful for bad, useful in zip(wrong, from_relevant, strict=True)]
    irrelevant_noise = [
        bad and in_documents and not useful
        for bad, in_documents, useful in zip(wrong, from_any, from_relevant, strict=True)
    ]
    return proportion(relevant_noise), proportion(irrelevant_noise)


def average_precision(useful: Verdicts) -> Fraction:
    """The mean precision at the useful documents; 0 if none is useful."""
    total, found = Fraction(0), 0
    for rank, one in enumerate(useful, start=1):
        if one:
            found += 1
            total += Fraction(found, rank)
    return total / found if found else Fraction(0)
