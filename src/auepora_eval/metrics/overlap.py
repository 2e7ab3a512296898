"""The plain definitions of text overlap, one answer at a time; tests compare the fast paths with them.

References and documents are one or several strings. The public functions return ``None`` if the measure does not apply
(no reference, an answer without words) or the answer is missing (``None``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, product
from operator import attrgetter
from typing import NamedTuple

from ..core.derivation import (
    add_outcome,
    add_result,
    add_step,
    add_table,
    format_number,
    is_recording,
    join_items,
    quote_text,
    yes_no,
)
from ..text.ngrams import lcs_positions
from ..text.tokenizers import STOP_WORDS, plain_words, rouge_tokens, squad_words

Tokenize = Callable[[str], list[str]]
Texts = str | Iterable[str]
"""One string, or several."""
Measure = Callable[[str, str, Tokenize], "Overlap"]
"""The overlap of a reference and an answer."""


class Overlap(NamedTuple):
    """The number of common units of an answer and a reference, and the size of each."""

    common: int
    answer_size: int
    reference_size: int
    shared: str = ""
    """The common units, for a derivation."""

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        if not self.common:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)

    @property
    def precision(self) -> float:
        """The proportion of the answer that is common."""
        return self.common / self.answer_size if self.common else 0.0

    @property
    def recall(self) -> float:
        """The proportion of the reference that is common."""
        return self.common / self.reference_size if self.common else 0.0


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n-grams of a sequence of tokens."""
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def _as_list(texts: Texts | None) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or ())


def format_words(words: Iterable[str]) -> str:
    """Tokens with visible separators."""
    return " · ".join(words) or "no words"


def format_counts(counts: Counter[tuple[str, ...]]) -> str:
    """N-grams, with their counts if above 1."""
    return join_items(f"{' '.join(gram)} ×{n}" if n > 1 else " ".join(gram) for gram, n in counts.items())


def add_words_step(what: str, tokens: Sequence[str]) -> None:
    """Record the tokens of a text."""
    add_step(f"{what}, as words: {format_words(tokens)}; {len(tokens)} of them", len(tokens))


def tokenize_answer(answer: str, words: Tokenize, what: str = "Normalised") -> list[str]:
    """The tokens of an answer: the first steps of every overlap measure."""
    tokens = words(answer)
    if is_recording():
        add_step(f"The answer: {quote_text(answer)}")
        add_words_step(what, tokens)
    return tokens


def exact_match(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """1 if the answer has the same tokens, in the same order, as a reference."""
    every = [words(text) for text in _as_list(references)]
    compared = [tokens for tokens in every if tokens] or every
    if answer is None or not compared:
        return None
    tokens = tokenize_answer(answer, words)
    add_table(
        "Each reference; one without words is left out if others have some",
        ("reference, normalised", "is"),
        ((format_words(reference), yes_no(reference == tokens, "the same", "different")) for reference in compared),
    )
    same = tokens in compared
    return add_outcome("A reference is the same, word for word" if same else "No reference is the same", float(same))


def token_f1(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """The best F1 of the answer's tokens with those of a reference; 1 if neither has any."""
    listed = _as_list(references)
    compared = [text for text in listed if words(text)]
    if answer is None or not listed:
        return None
    if compared and words(answer):
        return best_overlap(answer, compared, rouge_1, words, left_out=len(listed) - len(compared)).f1
    tokens = tokenize_answer(answer, words)
    if compared or tokens:
        return add_outcome("One of the two has no word", 0.0)
    return add_outcome("Neither has a word", 1.0)


def answer_relevance(answer: str | None, query: str, words: Tokenize = squad_words) -> float | None:
    """F1 of the answer's tokens with those of the query."""
    if answer is None or not words(query):
        return None
    return best_overlap(answer, [query], rouge_1, words, what="query").f1


def best_overlap(
    answer: str,
    texts: Sequence[str],
    measure: Measure,
    words: Tokenize,
    *,
    what: str = "reference",
    unit: str = "words",
    tokens: str = "Normalised",
    left_out: int = 0,
) -> Overlap:
    """The overlap of an answer with the text of the best F1."""
    overlaps = [measure(text, answer, words) for text in texts]
    best = max(overlaps, key=attrgetter("f1"))
    if not is_recording():
        return best
    several = len(texts) > 1
    tokenize_answer(answer, words, tokens)
    for place, text in enumerate(texts, start=1):
        add_words_step(f"{what.capitalize()} {place}" if several else f"The {what}", words(text))
    empty = f" ({left_out} without any word left out, since others have some)" if left_out else ""
    add_table(
        f"{'Each reference' if what == 'reference' else f'The {what}'}{empty}: P = common / {unit} of the answer, "
        f"R = common / {unit} of the {what}, F1 = 2PR / (P + R)",
        (what, unit, "common", "P", "R", "F1", "in common"),
        (
            (
                place,
                overlap.reference_size,
                overlap.common,
                overlap.precision,
                overlap.recall,
                overlap.f1,
                overlap.shared,
            )
            for place, overlap in enumerate(overlaps, start=1)
        ),
    )
    formula = ", with nothing in common,"
    if best.common:
        p, r = format_number(best.precision), format_number(best.recall)
        formula = (
            f" with P = {best.common} / {best.answer_size} = {p} and R = {best.common} / {best.reference_size} = {r}: "
            f"2 · {p} · {r} / ({p} + {r})"
        )
    add_result(f"{'The best ' if several else ''}F1{formula}", best.f1)
    return best


def contains_all(answer: str, slots: Sequence[Sequence[str]], words: Tokenize) -> bool:
    """Whether the normalised answer contains a spelling of each slot; empty spellings do not count."""
    text = " ".join(words(answer))
    spellings = [[" ".join(words(name)) for name in names] for names in slots]
    if is_recording():
        add_step(f"The answer: {quote_text(answer)}")
        add_step(f"Normalised: {quote_text(text)}")
        add_table(
            "Of each thing to be named, one spelling must stand in it",
            ("thing", "spelling", "contained"),
            (
                (place, phrase, yes_no(phrase in text))
                for place, phrases in enumerate(spellings, start=1)
                for phrase in filter(None, phrases)
            ),
        )
    found = all(any(phrase in text for phrase in phrases if phrase) for phrases in spellings if any(phrases))
    add_outcome("Nothing is missing" if found else "Something is missing", float(found))
    return found


def rouge_n(reference: str, answer: str, n: int, words: Tokenize) -> Overlap:
    """ROUGE-N: common n-grams, each with the smaller of its two counts."""
    reference_ngrams, answer_ngrams = (ngrams(words(text), n) for text in (reference, answer))
    common = Counter(answer_ngrams) & Counter(reference_ngrams)
    return Overlap(common.total(), len(answer_ngrams), len(reference_ngrams), format_counts(common))


def rouge_1(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-1: common tokens."""
    return rouge_n(reference, answer, 1, words)


def rouge_2(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-2: common pairs of neighbouring tokens."""
    return rouge_n(reference, answer, 2, words)


def rouge_l(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L: the longest common subsequence of tokens."""
    reference_tokens, answer_tokens = words(reference), words(answer)
    common = [reference_tokens[place] for place in lcs_positions(reference_tokens, answer_tokens)]
    return Overlap(len(common), len(answer_tokens), len(reference_tokens), format_words(common))


def rouge_l_f1(answer: str | None, references: Texts | None, words: Tokenize = rouge_tokens) -> float | None:
    """The best F1 of ROUGE-L with a reference."""
    listed = _as_list(references)
    return None if answer is None or not listed else best_overlap(answer, listed, rouge_l, words).f1


def rouge_lsum(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L of texts with a sentence per line: for each reference sentence the union over the answer's sentences.

    A token counts at most as often as it occurs in either text, as in ROUGE 1.5.5 and the rouge-score package.
    """
    reference_sentences, answer_sentences = (
        [words(line) for line in text.split("\n") if line] for text in (reference, answer)
    )
    left_in_reference, left_in_answer = (
        Counter(chain.from_iterable(text)) for text in (reference_sentences, answer_sentences)
    )
    totals = left_in_answer.total(), left_in_reference.total()
    hits = []
    for sentence in reference_sentences:
        union: set[int] = set().union(*(lcs_positions(sentence, other) for other in answer_sentences))
        for position in sorted(union):
            word = sentence[position]
            if left_in_reference[word] and left_in_answer[word]:
                hits.append(word)
                left_in_reference[word] -= 1
                left_in_answer[word] -= 1
    return Overlap(len(hits), *totals, format_words(hits))


# --- ROUGE of the packages rouge and rouge-chinese: sets of n-grams, case and punctuation as written -----------------

_ENDS = ("。", "！", "？")
_TINY = 1e-8
"""What these packages add to the denominator of F."""


def rouge_sentences(words: Sequence[str], *, is_cut: bool = False) -> list[list[str]]:
    """The sentences of a text given as words: a full stop ends one, also inside a word, and is no word.

    Of text that was cut into words before (``is_cut``), a sentence ends behind 。, ！ or ？.

    >>> rouge_sentences(["It", "froze.", "Ships", "came."])
    [['It', 'froze'], ['', 'Ships', 'came']]
    """
    sentences: list[list[str]] = [[]]
    for word in words:
        first, *others = [word] if is_cut else word.split(".")
        sentences[-1].append(first)
        sentences.extend([piece] for piece in others)
        if is_cut and word in _ENDS:
            sentences.append([])
    return [sentence for sentence in sentences if any(sentence)]


def _ngram_set(sentences: Sequence[Sequence[str]], n: int) -> set[tuple[str, ...]]:
    words = [word for word in chain.from_iterable(sentences) if word]
    return set(ngrams(words, n))


def _words_in_sequence(answer: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> set[str]:
    """The distinct words on a longest common subsequence of any two sentences."""
    common: set[str] = set()
    for wanted, given in product(reference, answer):
        common |= {wanted[place] for place in lcs_positions(wanted, given)}
    return common - {""}


def rouge_package_f1(answer: Sequence[str], reference: Sequence[str], variant: str, *, is_cut: bool = False) -> float:
    """F1 of two texts given as words; ``variant`` is rouge1, rouge2 or rougeL."""
    given, wanted = rouge_sentences(answer, is_cut=is_cut), rouge_sentences(reference, is_cut=is_cut)
    n = 2 if variant == "rouge2" else 1
    in_answer, in_reference = _ngram_set(given, n), _ngram_set(wanted, n)
    shared = in_answer & in_reference
    common = len(_words_in_sequence(given, wanted) if variant == "rougeL" else shared)
    precision = common / len(in_answer) if in_answer else 0.0
    recall = common / len(in_reference) if in_reference else 0.0
    return 2 * precision * recall / (precision + recall + _TINY)


# --- support of an answer by documents -------------------------------------------------------------------------------


def supported_ngrams(answer: Sequence[str], documents: Iterable[Sequence[str]], n: int) -> list[bool]:
    """For each n-gram of the answer whether any document contains it."""
    document_ngrams = set(chain.from_iterable(ngrams(words, n) for words in documents))
    return [gram in document_ngrams for gram in ngrams(answer, n)]


def support_density(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's words that occur in a document; 0 without documents."""
    return _supported_proportion(words(answer or ""), documents, words)


def support_coverage(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's content words (no stop words) that occur in a document."""
    return _supported_proportion([word for word in words(answer or "") if word not in STOP_WORDS], documents, words)


def hallucination_rate(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's words that occur in no document."""
    density = support_density(answer, documents, words)
    return None if density is None else 1.0 - density


def _supported_proportion(counted: Sequence[str], documents: Texts, words: Tokenize) -> float | None:
    """``None`` if no word counts, or if no document has a text."""
    listed = _as_list(documents)
    if not counted or (listed and not any(listed)):
        return None
    return sum(supported_ngrams(counted, map(words, listed), 1)) / len(counted)
