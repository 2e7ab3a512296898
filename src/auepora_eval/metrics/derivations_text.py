"""Derivations of metrics that compare words: which words either text has, which they share, and what that makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..core.derivation import Cell, Derivation, DerivationBuilder, format_number, join_items, quote_text
from ..text.lcs import lcs_positions
from .overlap import Overlap, Tokenize, bag_f1, drop_empty_references, f_measure, ngrams

__all__ = [
    "add_words_step",
    "bag_steps",
    "containment_steps",
    "distinct_steps",
    "equality_steps",
    "format_words",
    "rouge_steps",
]


def format_words(words: Sequence[str]) -> str:
    """Words apart from each other, so that it is seen where one ends."""
    return " · ".join(words) if words else "no words"


def add_words_step(steps: DerivationBuilder, what: str, words: Sequence[str]) -> DerivationBuilder:
    """The words of a text after it was cut."""
    return steps.add_step(f"{what}, as words: {format_words(words)}; {len(words)} of them", len(words))


def format_counts(counts: Counter[str] | Counter[tuple[str, ...]]) -> str:
    """What is shared, and how often where more than once."""
    texts = [" ".join(one) if isinstance(one, tuple) else one for one in counts]
    return join_items(f"{text} ×{n}" if n > 1 else text for text, n in zip(texts, counts.values(), strict=True))


def equality_steps(answer: str, references: Sequence[str], words: Tokenize) -> Derivation:
    """Whether the words are the same, in the same order."""
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
    """F1 of the words as bags, against each text; the best counts."""
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


def _bag_f1_formula(given: Sequence[str], wanted: Sequence[str]) -> str:
    common = (Counter(given) & Counter(wanted)).total()
    return f1_formula(Overlap(common, len(given), len(wanted)))


def f1_formula(overlap: Overlap) -> str:
    """The harmonic mean with its numbers filled in."""
    if not overlap.common:
        return ", with nothing in common,"
    p, r = overlap.precision, overlap.recall
    return (
        f" with P = {overlap.common} / {overlap.given} = {format_number(p)} "
        f"and R = {overlap.common} / {overlap.wanted} = "
        f"{format_number(r)}: 2 · {format_number(p)} · {format_number(r)} / ({format_number(p)} + {format_number(r)})"
    )


def containment_steps(answer: str, slots: Sequence[Sequence[str]], words: Tokenize, found: bool) -> Derivation:
    """Whether each thing that must be named is named by one of its spellings."""
    text = " ".join(words(answer))
    steps = (
        DerivationBuilder().add_step(f"The answer: {quote_text(answer)}").add_step(f"Normalised: {quote_text(text)}")
    )
    rows: list[tuple[Cell, ...]] = []
    for number_, names in enumerate(slots, start=1):
        for name in names:
            wanted = " ".join(words(name))
            rows.append((number_, name, wanted, "does not count" if not wanted else "yes" if wanted in text else "no"))
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
    """F1 of what is shared: words, pairs of words, or the longest sequence in common."""
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
        f"Each {what}: P = common / {unit} of the answer ({overlaps[0].given}), R = common / {unit} of the {what}",
        (what, "common", "P", "R", "F1", shared),
        rows,
    )
    best = max(overlaps, key=lambda one: one.f1)
    return steps.finish_with_value(f"{'The best ' if len(rows) > 1 else ''}F1{f1_formula(best)}", f_measure(*best))


def _shared(wanted: Sequence[str], given: Sequence[str], variant: str) -> str:
    if variant in ("rouge1", "rouge2"):
        n = int(variant[-1])
        return format_counts(Counter(ngrams(given, n)) & Counter(ngrams(wanted, n)))
    return format_words([wanted[place] for place in lcs_positions(wanted, given)])


def _shared_lines(text: str, answer: str, words: Tokenize) -> str:
    """Per sentence of the text the words that lie on a common subsequence with any sentence of the answer."""
    wanted, given = ([words(line) for line in one.split("\n") if line] for one in (text, answer))
    lines = []
    for sentence in wanted:
        places = set[int]().union(*(lcs_positions(sentence, other) for other in given))
        lines.append(format_words([sentence[place] for place in sorted(places)]))
    return " / ".join(lines)


def distinct_steps(words: Sequence[str], answer: str, n: int) -> Derivation:
    """Different n-grams over n-grams, within one answer."""
    found = ngrams(words, n)
    steps = add_words_step(DerivationBuilder().add_step(f"The answer: {quote_text(answer)}"), "Normalised", words)
    repeated = Counter({one: count for one, count in Counter(found).items() if count > 1})
    steps.add_step(
        f"{len(found)} n-grams of {n} words, {len(set(found))} of them different; repeated: {format_counts(repeated)}"
    )
    return steps.finish_with_value(
        f"Different over all: {len(set(found))} / {len(found)}", len(set(found)) / len(found)
    )
