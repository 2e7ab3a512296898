"""Text columns of a batch: answers, references, queries and evidence, each text cut into words once per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, checked_outputs
from ..core.errors import BadTypeError
from ..core.types import Response
from ..text.coding import Coded, RawCoder, Refiner, code_characters
from ..text.cutting import CharacterRule, WordRule, word_rule
from ..text.lcs import lcs_lengths
from ..text.ngrams import Support, shared_by_order, shared_grams
from ..text.stopwords import STOP_WORDS
from .rankings import require_documents, retrieved_problem

__all__ = [
    "Evidence",
    "Pairs",
    "Role",
    "SharedByOrder",
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
    "shared_orders",
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

_MANY_WORDS = 1 << 18
"""Different words after which the batches begin anew: beyond them looking up costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Texts that answers are compared to, and the row each belongs to; rows are in ascending order."""

    texts: list[str]
    owners: Integers


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
        lambda b: np.array([o is not None and o.response is None for o in b.outputs], np.bool_),
    )


def wanted(batch: Batch, role: Role) -> Wanted:
    """The texts answers are compared to: all reference answers, or the query."""
    return batch.feature(("wanted", role), _references if role == "reference" else _queries)


def _references(batch: Batch) -> Wanted:
    first = [sample.reference_answer for sample in batch.samples]
    if set(map(type, first)) - {Response, type(None)}:
        _require_responses(batch)
    if any(map(bool, [sample.reference_answers for sample in batch.samples])):
        references = [sample.references for sample in batch.samples]
        texts = [text for these in references for text in these]
        counts = list(map(len, references))
    else:  # by far the most frequent case
        texts = [one.text for one in first if one is not None]
        counts = [one is not None for one in first]
    owners = np.repeat(np.arange(len(batch)), np.array(counts, dtype=np.int64))
    _require_text(texts, owners, batch, "a reference answer")
    return Wanted(texts, owners)


def _require_responses(batch: Batch) -> None:
    for sample in batch.samples:
        if sample.reference_answer is not None and not isinstance(sample.reference_answer, Response):
            kind = type(sample.reference_answer).__name__
            raise BadTypeError(f"sample '{sample.sample_id}': 'reference_answer' is a {kind}, not a Response")


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
    return batch.feature(("coded", rule.name, role), lambda b: _refiner(b, rule).refine(_raw(b, rule, role)))


def _coder(batch: Batch, rule: WordRule) -> RawCoder:
    """The batch's coder for a cut: the one that served the batches before it, unless that has grown too large."""

    def build(batch: Batch) -> RawCoder:
        known = batch.memory.get(("coder", rule.cut.name))
        if known is None or known.count > _MANY_WORDS:
            known = batch.memory["coder", rule.cut.name] = RawCoder(rule.cut)
        return known

    return batch.feature(("coder", rule.cut.name), build)


def _refiner(batch: Batch, rule: WordRule) -> Refiner:
    def build(batch: Batch) -> Refiner:
        coder = _coder(batch, rule)
        known = batch.memory.get(("refiner", rule.name))
        if known is None or known.raw is not coder:
            known = batch.memory["refiner", rule.name] = Refiner(rule, coder)
        return known

    return batch.feature(("refiner", rule.name), build)


def _raw(batch: Batch, rule: WordRule, role: Role) -> Coded:
    """Raw words, shared by all rules with the same cut."""
    return batch.feature(("raw", rule.cut.name, role), lambda b: _coder(b, rule).code(_texts(b, role)))


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
    if not _one_each(texts.owners, len(batch)):
        given = given.take(texts.owners)
    return Pairs(given, coded(batch, rule, role), texts.owners)


def shared(batch: Batch, rule: Rule, role: Role, n: int) -> Integers:
    """Per pair the number of n-grams its two texts share; for one or two short orders."""

    def build(batch: Batch) -> Integers:
        sides = pairs(batch, rule, role)
        return shared_grams(sides.given, sides.wanted, n)

    return batch.feature(("shared", rule.name, role, n), build)


class SharedByOrder:
    """How many n-grams the two sides have in common, each order worked out from the one before when it is asked for."""

    def __init__(self, given: Coded, wanted: Coded, owners: Integers | None = None) -> None:
        self._orders = shared_by_order(given, wanted, owners)
        self._known: list[Integers] = []

    def __getitem__(self, n: int) -> Integers:
        while len(self._known) < n:
            self._known.append(next(self._orders))
        return self._known[n - 1]


def shared_orders(batch: Batch, rule: Rule, role: Role) -> SharedByOrder:
    """Per pair the n-grams its two texts share, for many orders: ``shared_orders(batch, rule, role)[4]``."""

    def build(batch: Batch) -> SharedByOrder:
        sides = pairs(batch, rule, role)
        return SharedByOrder(sides.given, sides.wanted)

    return batch.feature(("shared_orders", rule.name, role), build)


def shared_with_all(batch: Batch, rule: Rule, role: Role) -> SharedByOrder:
    """Per row the n-grams an answer shares with any of its references, an n-gram at most as often as in one of them."""

    def build(batch: Batch) -> SharedByOrder:
        return SharedByOrder(coded(batch, rule, "answers"), coded(batch, rule, role), wanted(batch, role).owners)

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


def _one_each(owners: Integers, rows: int) -> bool:
    """Whether every row has exactly one text."""
    return len(owners) == rows and bool((owners == np.arange(rows)).all())


def best_pairs(values: npt.NDArray[np.float64], owners: Integers, rows: int) -> Integers:
    """Per row which of its pairs has the highest value, the first of equals; -1 for a row without any."""
    if _one_each(owners, rows):
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
    per_row = _returned(batch, k) if source == "retrieved" else _relevant(batch)
    every = [text for texts in per_row for text in texts or ()]
    counts = np.array([len(texts or ()) for texts in per_row], dtype=np.int64)
    rows = np.repeat(np.arange(len(batch)), counts)
    known = [text is not None for text in every]
    _require_text([text for text in every if text is not None], rows[known], batch, "the text of a document")
    has_text = np.array(list(map(bool, every)), dtype=np.bool_)
    numbers: dict[str, int] = {}
    uses = [numbers.setdefault(text, len(numbers)) for text in every if text]
    there = counts > 0
    return Evidence(
        list(numbers),
        rows[has_text],
        np.array(uses, dtype=np.int64),
        ~there,
        there & (np.bincount(rows[has_text], minlength=len(batch)) == 0),
        np.array([texts is None for texts in per_row], dtype=np.bool_),
    )


def _returned(batch: Batch, k: int | None) -> list[list[str]]:
    """The texts of what was returned, row by row; what a failed system returned is not looked at."""
    outputs = checked_outputs(batch)
    returned = [output.retrieved[:k] if output is not None and output.error is None else [] for output in outputs]
    try:
        return [[item.doc.text for item in items] for items in returned]
    except AttributeError:
        for sample, output in zip(batch.samples, outputs, strict=True):
            problem = None if output is None or output.error is not None else retrieved_problem(output)
            if problem is not None:
                raise BadTypeError(f"the output for sample '{sample.sample_id}' {problem}") from None
        raise


def _relevant(batch: Batch) -> list[list[str] | None]:
    """The texts of the relevant documents, row by row; ``None`` where they are not annotated."""
    for sample in batch.samples:
        require_documents(sample.relevant_docs or [], sample.sample_id)
    return [
        None if sample.relevant_docs is None else [document.text for document in sample.relevant_docs]
        for sample in batch.samples
    ]


def support(batch: Batch, rule: WordRule, source: Source, k: int | None) -> Support:
    """Which n-grams of each answer occur in its evidence, within one document; for a rule without refinement."""
    assert rule.refine is None
    return batch.feature(("support", rule.name, source, k), lambda b: _support(b, rule, source, k))


def _support(batch: Batch, rule: WordRule, source: Source, k: int | None) -> Support:
    found = evidence(batch, source, k)
    given = coded(batch, rule, "answers")
    # Only words of answers matter; what is numbered by now holds them all.
    documents = batch.feature(("known words", rule.cut.name, source, k), lambda b: _coder(b, rule).look_up(found.texts))
    if not (len(found.uses) == len(found.texts) and (np.diff(found.uses) == 1).all()):
        documents = documents.take(found.uses)  # some text serves several answers: its words are shared, not cut again
    return Support(given, documents, found.owners)
