"""Text columns of a batch: answers, references, queries and evidence, each text cut into words once per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, checked_outputs
from ..core.errors import BadTypeError
from ..text.coding import Coded, RawCoder, Refiner, code_characters
from ..text.cutting import CharacterRule, WordRule, word_rule
from ..text.lcs import lcs_lengths
from ..text.ngrams import Support, shared_grams
from ..text.stopwords import STOP_WORDS
from .rankings import retrieved_problem

__all__ = [
    "Evidence",
    "Pairs",
    "Role",
    "SharedGrams",
    "Source",
    "Wanted",
    "answers",
    "best_pairs",
    "chosen",
    "coded",
    "evidence",
    "longest_common",
    "no_response",
    "pairs",
    "shared",
    "shared_with_all",
    "stop_words",
    "support",
    "wanted",
]

Role = Literal["answers", "reference", "query"]
Source = Literal["retrieved", "relevant"]
Rule = WordRule | CharacterRule
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Texts that answers are compared to, and the row each belongs to; rows are in ascending order."""

    texts: list[str]
    owners: Integers

    def one_each(self, rows: int) -> bool:
        """Whether every row has exactly one."""
        return len(self.owners) == rows and bool((self.owners == np.arange(rows)).all())


@dataclass(frozen=True, slots=True)
class Evidence:
    """Documents that answers may draw on: each distinct text once, and which row uses which."""

    texts: list[str]
    owners: Integers
    """The row of each use."""
    uses: Integers
    """Which text is used."""
    none_there: Mask
    """Rows without any document."""
    no_text: Mask
    """Rows whose documents have no text."""
    unknown: Mask
    """Rows for which nobody said what the documents are."""


def answers(batch: Batch) -> list[str]:
    """The answer of each row; empty where there is none. What a failed system said is not looked at."""
    return batch.feature("answers", _answers)


def _answers(batch: Batch) -> list[str]:
    return [
        "" if output is None or output.error is not None or output.response is None else output.response.text
        for output in checked_outputs(batch)
    ]


def no_response(batch: Batch) -> Mask:
    """Rows whose output is there and holds no answer, because none was asked for."""
    return batch.feature(
        "no_response",
        lambda b: np.fromiter((o is not None and o.response is None for o in b.outputs), np.bool_, len(b)),
    )


def wanted(batch: Batch, role: Role) -> Wanted:
    """The texts answers are compared to: all reference answers, or the query."""
    return batch.feature(("wanted", role), _references if role == "reference" else _queries)


def _references(batch: Batch) -> Wanted:
    texts: list[str] = []
    counts = []
    for sample in batch.samples:
        if sample.reference_answers:
            these = sample.references
            texts += these
            counts.append(len(these))
        elif sample.reference_answer is None:
            counts.append(0)
        else:  # by far the most frequent case
            texts.append(sample.reference_answer.text)
            counts.append(1)
    owners = np.repeat(np.arange(len(batch)), counts)
    _require_text(texts, owners, batch, "a reference answer")
    return Wanted(texts, owners)


def _queries(batch: Batch) -> Wanted:
    texts = [sample.query for sample in batch.samples]
    owners = np.arange(len(batch))
    _require_text(texts, owners, batch, "the query")
    return Wanted(texts, owners)


def _require_text(texts: Sequence[Any], owners: Integers, batch: Batch, what: str) -> None:
    if set(map(type, texts)) <= {str}:
        return
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            row = int(owners[place])
            raise BadTypeError(f"sample '{batch.samples[row].sample_id}': {what} is {text!r}, not a text")


def _texts(batch: Batch, role: Role) -> list[str]:
    return answers(batch) if role == "answers" else wanted(batch, role).texts


def coded(batch: Batch, rule: Rule, role: Role) -> Coded:
    """The words of the texts in a role. Words of one rule have the same numbers whatever the role."""
    if isinstance(rule, CharacterRule):
        return batch.feature(("coded", rule.name, role), lambda b: code_characters(_texts(b, role), rule))
    return batch.feature(
        ("coded", rule.name, role), lambda b: _refiner(b, rule).refine(_raw(b, rule, role, lambda: _texts(b, role)))
    )


def _coder(batch: Batch, rule: WordRule) -> RawCoder:
    return batch.feature(("coder", rule.cut.name), lambda b: RawCoder(rule.cut))


def _refiner(batch: Batch, rule: WordRule) -> Refiner:
    return batch.feature(("refiner", rule.name), lambda b: Refiner(rule, _coder(b, rule)))


def _raw(batch: Batch, rule: WordRule, role: Any, texts: Any) -> Coded:
    """Raw words, shared by all rules with the same cut."""
    return batch.feature(("raw", rule.cut.name, role), lambda b: _coder(b, rule).code(texts()))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every answer beside every text it is compared to, as words."""

    given: Coded
    wanted: Coded
    owners: Integers
    """The row of each pair, in ascending order."""


def pairs(batch: Batch, rule: Rule, role: Role) -> Pairs:
    """Answers and what they are compared to, pair by pair."""
    return batch.feature(("pairs", rule.name, role), lambda b: _pairs(b, rule, role))


def _pairs(batch: Batch, rule: Rule, role: Role) -> Pairs:
    given, texts = coded(batch, rule, "answers"), wanted(batch, role)
    if not texts.one_each(len(batch)):
        given = given.take(texts.owners)
    return Pairs(given, coded(batch, rule, role), texts.owners)


class SharedGrams:
    """How many n-grams the two sides have in common, each order worked out when it is first asked for."""

    def __init__(self, given: Coded, wanted: Coded, owners: Integers | None = None) -> None:
        self._orders = shared_grams(given, wanted, owners)
        self._known: list[Integers] = []

    def __getitem__(self, n: int) -> Integers:
        while len(self._known) < n:
            self._known.append(next(self._orders))
        return self._known[n - 1]


def shared(batch: Batch, rule: Rule, role: Role) -> SharedGrams:
    """Per pair the n-grams its two texts share: ``shared(batch, rule, role)[2]`` for bigrams."""

    def build(batch: Batch) -> SharedGrams:
        sides = pairs(batch, rule, role)
        return SharedGrams(sides.given, sides.wanted)

    return batch.feature(("shared", rule.name, role), build)


def shared_with_all(batch: Batch, rule: Rule, role: Role) -> SharedGrams:
    """Per row the n-grams an answer shares with any of its references, an n-gram at most as often as in one of them."""

    def build(batch: Batch) -> SharedGrams:
        return SharedGrams(coded(batch, rule, "answers"), coded(batch, rule, role), wanted(batch, role).owners)

    return batch.feature(("shared_with_all", rule.name, role), build)


def longest_common(batch: Batch, rule: Rule, role: Role) -> Integers:
    """Per pair the length of the longest common subsequence of words."""

    def build(batch: Batch) -> Integers:
        sides = pairs(batch, rule, role)
        return lcs_lengths(sides.given, sides.wanted)

    return batch.feature(("lcs", rule.name, role), build)


def stop_words(batch: Batch) -> Mask:
    """Which word numbers of the plain rule are function words; made after the answers were numbered."""

    def build(batch: Batch) -> Mask:
        rule = word_rule()
        coded(batch, rule, "answers")
        coder = _coder(batch, rule)
        known = coder.code([" ".join(sorted(STOP_WORDS))]).ids
        mask = np.zeros(coder.count, np.bool_)
        mask[known] = True
        return mask

    return batch.feature("stop_words", build)


def best_pairs(values: npt.NDArray[np.float64], owners: Integers, rows: int) -> Integers:
    """Per row which of its pairs has the highest value, the first of equals; -1 for a row without any."""
    if Wanted([], owners).one_each(rows):
        return owners
    best = np.full(rows, -1)
    # Written in reverse: the last to stay is the first of the highest.
    order = np.lexsort((np.arange(len(owners)), -values, owners))[::-1]
    best[owners[order]] = order
    return best


def chosen(values: npt.NDArray[np.float64], pairs: Integers) -> npt.NDArray[np.float64]:
    """The values of some pairs, row by row; 0 where a row has none."""
    return np.where(pairs >= 0, values[pairs], 0.0) if len(values) else np.zeros(len(pairs))


def evidence(batch: Batch, source: Source, k: int | None) -> Evidence:
    """The first ``k`` documents the system returned, or the relevant ones."""
    return batch.feature(("evidence", source, k), lambda b: _evidence(b, source, k))


def _evidence(batch: Batch, source: Source, k: int | None) -> Evidence:
    numbers: dict[str, int] = {}
    uses: list[int] = []
    counts, documents, unknown = [], [], []
    for row in range(len(batch)):
        texts = _returned(batch, row, k) if source == "retrieved" else _relevant(batch, row)
        unknown.append(texts is None)
        kept = [text for text in texts or () if text]
        uses += [numbers.setdefault(text, len(numbers)) for text in kept]
        counts.append(len(kept))
        documents.append(len(texts or ()))
    there = np.array(documents, dtype=np.int64) > 0
    with_text = np.array(counts, dtype=np.int64) > 0
    return Evidence(
        list(numbers),
        np.repeat(np.arange(len(batch)), np.array(counts, dtype=np.int64)),
        np.array(uses, dtype=np.int64),
        ~there,
        there & ~with_text,
        np.array(unknown, dtype=np.bool_),
    )


def _returned(batch: Batch, row: int, k: int | None) -> list[str]:
    output = checked_outputs(batch)[row]
    if output is None or output.error is not None:
        return []
    try:
        return _as_texts([item.doc.text for item in output.retrieved[:k]], batch, row)
    except AttributeError:
        problem = retrieved_problem(output)
        raise BadTypeError(f"the output for sample '{batch.samples[row].sample_id}' {problem}") from None


def _relevant(batch: Batch, row: int) -> list[str] | None:
    documents = batch.samples[row].relevant_docs
    return None if documents is None else _as_texts([document.text for document in documents], batch, row)


def _as_texts(texts: list[Any], batch: Batch, row: int) -> list[str]:
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise BadTypeError(f"sample '{batch.samples[row].sample_id}': a document's text is {text!r}, not a text")
    return texts


def support(batch: Batch, rule: WordRule, source: Source, k: int | None) -> Support:
    """Which n-grams of each answer occur in its evidence, within one document."""
    return batch.feature(("support", rule.name, source, k), lambda b: _support(b, rule, source, k))


def _support(batch: Batch, rule: WordRule, source: Source, k: int | None) -> Support:
    found = evidence(batch, source, k)
    raw = _raw(batch, rule, ("evidence", source, k), lambda: found.texts)
    documents = _refiner(batch, rule).refine(raw)
    if not (len(found.uses) == len(found.texts) and (np.diff(found.uses) == 1).all()):
        documents = documents.take(found.uses)  # some text serves several answers: its words are shared, not cut again
    return Support(coded(batch, rule, "answers"), documents, found.owners)
