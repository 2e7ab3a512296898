"""Derivations of BLEU, chrF and support by documents: counted n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.derivation import Cell, Derivation, DerivationBuilder, format_number, join_items, quote_text
from .derivations_text import add_words_step
from .overlap import ngrams

__all__ = ["bleu_steps", "chrf_steps", "support_steps"]


def bleu_steps(
    answer: str, tokens: Sequence[str], counts: Sequence[int], precisions: Sequence[float], penalty: float, value: float
) -> Derivation:
    """Sentence BLEU from its counts: matches and n-grams by order, and the penalty for being short."""
    orders = (len(counts) - 2) // 2
    length, closest = counts[0], counts[1]
    matches, totals = counts[2 : 2 + orders], counts[2 + orders :]
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Tokens", tokens)
    steps.add_step(f"The reference closest in length has {closest} tokens", closest)
    rows: list[tuple[Cell, ...]] = [
        (n + 1, matches[n], totals[n], precisions[n] if n < len(precisions) else None) for n in range(orders)
    ]
    steps.table(
        "N-grams of the answer that stand in a reference, by order; p is in percent, smoothed where nothing matches",
        ("order", "matching", "n-grams", "p"),
        rows,
    )
    if not any(matches):
        return steps.finish("Nothing matches: 0", value)
    if length < closest:
        steps.add_step(f"Too short: the penalty is exp(1 − {closest} / {length}) = {format_number(penalty)}", penalty)
    else:
        steps.add_step("Long enough: no penalty", 1.0)
    roots = " · ".join(format_number(one) for one in precisions)
    return steps.finish_with_value(
        f"Sentence BLEU: penalty · geometric mean of the {len(precisions)} orders there are = "
        f"{format_number(penalty)} · ({roots})^(1/{len(precisions)})",
        value,
    )


def chrf_steps(
    answer: str, reference: str, counts: Sequence[int], units: Sequence[str], beta: float, value: float, several: int
) -> Derivation:
    """Sentence chrF from its counts against the best reference."""
    steps = DerivationBuilder().add_step(f"The answer: {quote_text(answer)}")
    steps.add_step(f"The {'best ' if several > 1 else ''}reference: {quote_text(reference)}")
    rows: list[tuple[Cell, ...]] = []
    precision = recall = 0.0
    used = 0
    for place, unit in enumerate(units):
        have, want, common = counts[3 * place : 3 * place + 3]
        both = have > 0 and want > 0
        rows.append((unit, have, want, common, common / have if both else None, common / want if both else None))
        if both:
            precision, recall, used = precision + common / have, recall + common / want, used + 1
    steps.table(
        "N-grams by order; an order for which a text is too short does not count",
        ("n-grams of", "in the answer", "in the reference", "in common", "P", "R"),
        rows,
    )
    if not used or not precision + recall:
        return steps.finish("Nothing is in common: 0", value)
    p, r = precision / used, recall / used
    steps.add_step(f"Mean over {used} orders: P = {format_number(p)}, R = {format_number(r)}")
    weight = format_number(beta**2)
    return steps.finish_with_value(
        f"chrF: 100 · (1 + β²) · P · R / (β² · P + R) with β² = {weight}: "
        f"100 · (1 + {weight}) · {format_number(p)} · {format_number(r)}"
        f" / ({weight} · {format_number(p)} + {format_number(r)})",
        value,
    )


def support_steps(
    answer: str,
    counted: Sequence[tuple[int, bool]],
    words: Sequence[str],
    documents: Sequence[tuple[str, Sequence[str]]],
    n: int,
    *,
    what: str,
    where: str,
) -> Derivation:
    """Which n-grams of the answer occur in which documents."""
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", words)
    ids = join_items(doc_id for doc_id, _ in documents)
    steps.add_step(f"The evidence, {where}: {ids}")
    ngrams_by_document = [(doc_id, set(ngrams(text, n))) for doc_id, text in documents]
    rows = [
        (
            " ".join(words[place : place + n]),
            "yes" if num_supported else "no",
            join_items(_documents_with_ngram(ngrams_by_document, tuple(words[place : place + n])), nothing=""),
        )
        for place, num_supported in counted
    ]
    steps.table(f"Each of the {len(rows)} {what} of the answer", (what, "found", "in"), rows)
    num_supported = sum(flag for _, flag in counted)
    return steps.finish_with_value(f"Found / counted = {num_supported} / {len(counted)}", num_supported / len(counted))


def _documents_with_ngram(
    ngrams_by_document: Iterable[tuple[str, set[tuple[str, ...]]]], gram: tuple[str, ...]
) -> list[str]:
    return list(dict.fromkeys(doc_id for doc_id, document_ngrams in ngrams_by_document if gram in document_ngrams))[:3]
