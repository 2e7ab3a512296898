"""Derivations of overlap metrics: tokens and n-grams of both texts, the common ones, and the score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ..core.derivation import Cell, Derivation, DerivationBuilder, format_number, join_items, quote_text
from ..text.ngrams import lcs_positions
from .overlap import Overlap, Tokenize, bag_f1, drop_empty_references, f_measure, ngrams


def format_words(words: Sequence[str]) -> str:
    """Tokens with visible separators."""
    return " · ".join(words) if words else "no words"


def add_words_step(steps: DerivationBuilder, what: str, words: Sequence[str]) -> DerivationBuilder:
    """Add a step with the tokens of a text."""
    return steps.add_step(f"{what}, as words: {format_words(words)}; {len(words)} of them", len(words))


def format_counts(counts: Counter[str] | Counter[tuple[str, ...]]) -> str:
    """Tokens or n-grams, with their counts if above 1."""
    texts = [" ".join(one) if isinstance(one, tuple) else one for one in counts]
    return join_items(f"{text} ×{n}" if n > 1 else text for text, n in zip(texts, counts.values(), strict=True))


def equality_steps(answer: str, references: Sequence[str], words: Tokenize) -> Derivation:
    """Whether the token sequences are equal."""
    given = words(answer)
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", given)
    compared = drop_empty_references(map(words, references))
    rows = [(format_words(one), "the same" if one == given else "different") for one in compared]
    steps.table(_references_heading(references, compared), ("reference, normalised", "is"), rows)
    value = float(given in compared)
    return steps.finish("A reference is the same, word for word: 1" if value else "No reference is the same: 0", value)


def _references_heading(references: Sequence[str], compared: Sequence[Sequence[str]]) -> str:
    left = len(references) - len(compared)
    return "Each reference" + (f" ({left} without any word left out, since others have some)" if left else "")


def bag_steps(answer: str, texts: Sequence[str], words: Tokenize, what: str) -> Derivation:
    """F1 of the bags of tokens, against each text; the best counts."""
    given = words(answer)
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", given)
    compared = drop_empty_references(map(words, texts))
    rows: list[tuple[Cell, ...]] = []
    for place, one in enumerate(compared, start=1):
        add_words_step(steps, _text_label(what, place, len(compared)), one)
        common = Counter(given) & Counter(one)
        overlap = Overlap(common.total(), len(given), len(one))
        rows.append(
            (
                place,
                len(one),
                overlap.common,
                overlap.precision,
                overlap.recall,
                bag_f1(given, one),
                format_counts(common),
            )
        )
    heading = _references_heading(texts, compared) if what == "reference" else "The query"
    steps.table(
        f"{heading}: P = common / words of the answer, R = common / words of the {what}, F1 = 2PR / (P + R)",
        (what, "words", "common", "P", "R", "F1", "in common"),
        rows,
    )
    best = max(bag_f1(given, one) for one in compared)
    winner = next(one for one in compared if bag_f1(given, one) == best)
    if not given or not winner:
        both = not given and not winner
        return steps.finish("Neither has a word: 1" if both else "One of the two has no word: 0", best)
    return steps.finish_with_value(f"{'The best ' if len(rows) > 1 else ''}F1{_bag_f1_formula(given, winner)}", best)


def _text_label(what: str, place: int, of: int) -> str:
    return f"{what.capitalize()} {place}" if of > 1 else f"The {what}"


def _bag_f1_formula(answer: Sequence[str], reference: Sequence[str]) -> str:
    common = (Counter(answer) & Counter(reference)).total()
    return f1_formula(Overlap(common, len(answer), len(reference)))


def f1_formula(overlap: Overlap) -> str:
    """The harmonic mean with its numbers filled in."""
    if not overlap.common:
        return ", with nothing in common,"
    p, r = overlap.precision, overlap.recall
    return (
        f" with P = {overlap.common} / {overlap.answer_size} = {format_number(p)} "
        f"and R = {overlap.common} / {overlap.reference_size} = "
        f"{format_number(r)}: 2 · {format_number(p)} · {format_number(r)} / ({format_number(p)} + {format_number(r)})"
    )


def containment_steps(answer: str, slots: Sequence[Sequence[str]], words: Tokenize, found: bool) -> Derivation:
    """Whether one spelling of each slot occurs in the answer."""
    text = " ".join(words(answer))
    steps = (
        DerivationBuilder().add_step(f"The answer: {quote_text(answer)}").add_step(f"Normalised: {quote_text(text)}")
    )
    rows: list[tuple[Cell, ...]] = []
    for number_, names in enumerate(slots, start=1):
        for name in names:
            normalised = " ".join(words(name))
            rows.append(
                (
                    number_,
                    name,
                    normalised,
                    "does not count" if not normalised else "yes" if normalised in text else "no",
                )
            )
    steps.table(
        "Of each thing to be named, one spelling must stand in it"
        if len(slots) > 1
        else "One reference must stand in it",
        ("thing", "spelling", "normalised", "contained"),
        rows,
    )
    return steps.finish("Nothing is missing: 1" if found else "Something is missing: 0", float(found))


def rouge_steps(
    answer: str,
    texts: Sequence[str],
    words: Tokenize,
    variant: str,
    overlap_of: Callable[[str, str, Tokenize], Overlap],
    what: str,
) -> Derivation:
    """F1 of common tokens, bigrams, or the longest common subsequence."""
    given = words(answer)
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Tokens", given)
    overlaps = [overlap_of(text, answer, words) for text in texts]
    for place, text in enumerate(texts, start=1):
        add_words_step(steps, _text_label(what, place, len(texts)), words(text))
    rows = [
        (
            place,
            one.common,
            one.precision,
            one.recall,
            one.f1,
            _shared_lines(text, answer, words) if variant == "rougeLsum" else _shared(words(text), given, variant),
        )
        for place, (text, one) in enumerate(zip(texts, overlaps, strict=True), start=1)
    ]
    unit = {"rouge1": "words", "rouge2": "pairs of words", "rougeL": "words", "rougeLsum": "words"}[variant]
    shared = {
        "rouge1": "words in common",
        "rouge2": "pairs in common",
        "rougeL": "longest common subsequence",
        "rougeLsum": "words on a common subsequence, sentence by sentence",
    }[variant]
    steps.table(
        f"Each {what}: P = common / {unit} of the answer ({overlaps[0].answer_size}), "
        f"R = common / {unit} of the {what}",
        (what, "common", "P", "R", "F1", shared),
        rows,
    )
    best = max(overlaps, key=lambda one: one.f1)
    return steps.finish_with_value(f"{'The best ' if len(rows) > 1 else ''}F1{f1_formula(best)}", f_measure(*best))


def _shared(reference: Sequence[str], answer: Sequence[str], variant: str) -> str:
    if variant in ("rouge1", "rouge2"):
        n = int(variant[-1])
        return format_counts(Counter(ngrams(answer, n)) & Counter(ngrams(reference, n)))
    return format_words([reference[place] for place in lcs_positions(reference, answer)])


def _shared_lines(text: str, answer: str, words: Tokenize) -> str:
    """Per sentence of the text the tokens on a common subsequence with any sentence of the answer."""
    text_sentences, answer_sentences = ([words(line) for line in one.split("\n") if line] for one in (text, answer))
    lines = []
    for sentence in text_sentences:
        places = set[int]().union(*(lcs_positions(sentence, other) for other in answer_sentences))
        lines.append(format_words([sentence[place] for place in sorted(places)]))
    return " / ".join(lines)


def distinct_steps(words: Sequence[str], answer: str, n: int) -> Derivation:
    """Distinct n-grams over all n-grams of one answer."""
    found = ngrams(words, n)
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", words)
    repeated = Counter({one: count for one, count in Counter(found).items() if count > 1})
    steps.add_step(
        f"{len(found)} n-grams of {n} words, {len(set(found))} of them different; repeated: {format_counts(repeated)}"
    )
    return steps.finish_with_value(
        f"Different over all: {len(set(found))} / {len(found)}", len(set(found)) / len(found)
    )


# --- derivations of BLEU, chrF and support by documents: counted n-grams ---------------------------------------------


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
