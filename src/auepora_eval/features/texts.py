"""Text columns of a batch: answers, references, queries and evidence, tokenised once per tokenizer; refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, batch_feature, checked_outputs
from ..core.conventions import function_name
from ..core.scores import CHARACTERS, WORDS
from ..core.types import EvaluationSample, Response, SystemOutputs
from ..errors import BadTypeError
from ..text.ngrams import NgramSupport, count_shared_ngrams, iter_shared_ngrams, lcs_lengths
from ..text.refusal import built_in_patterns, contains_phrase, is_refusal
from ..text.scripts import contain_unspaced, is_unspaced
from ..text.tokenizers import STOP_WORDS, CharacterTokenizer, Tokenizer
from ..text.vocabulary import TokenCache, TokenFilter, TokenIds, Vocabulary, character_ids
from .rankings import require_documents, retrieved_problem

Role = Literal["answers", "reference", "query"]
Source = Literal["retrieved", "relevant"]
AnyTokenizer = Tokenizer | CharacterTokenizer
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Cached = TypeVar("Cached", TokenCache, TokenFilter)

_MAX_VOCABULARY = 1 << 18
"""Size of a vocabulary after which a new one is started: beyond it lookups cost more than they save."""


@dataclass(frozen=True, slots=True)
class ReferenceTexts:
    """Texts that answers are compared with, and the row of each, in ascending order."""

    texts: list[str]
    owners: Integers


@dataclass(frozen=True, slots=True)
class EvidenceTexts:
    """Documents that answers may draw on: each distinct text once, and which row uses which."""

    texts: list[str]
    owners: Integers
    """The row of each use."""
    uses: Integers
    """Which text is used."""
    no_documents: Mask
    """Rows without any document."""
    no_text: Mask
    """Rows whose documents have no text."""
    unknown: Mask
    """Rows without annotated documents."""

    def by_row(self) -> list[list[str]]:
        """The texts of each row, without blank ones."""
        rows: list[list[str]] = [[] for _ in range(len(self.unknown))]
        for owner, use in zip(self.owners.tolist(), self.uses.tolist(), strict=True):
            if self.texts[use].strip():
                rows[owner].append(self.texts[use])
        return rows


@batch_feature
def answers(batch: Batch) -> list[str]:
    """The answer of each row; empty where there is none, and for failed outputs."""
    return [
        "" if output is None or output.error is not None or output.response is None else output.response.text
        for output in checked_outputs(batch)
    ]


@batch_feature
def no_response(batch: Batch) -> Mask:
    """Rows with an output without an answer, because none was requested."""
    return np.array([output is not None and output.response is None for output in batch.outputs], np.bool_)


@batch_feature
def reference_texts(batch: Batch, role: Role) -> ReferenceTexts:
    """The texts that answers are compared with: all reference answers, or the query."""
    return _references(batch) if role == "reference" else _queries(batch)


def _references(batch: Batch) -> ReferenceTexts:
    first = [sample.reference_answer for sample in batch.samples]
    if set(map(type, first)) - {Response, type(None)}:
        _require_responses(batch)
    if any(map(bool, [sample.reference_answers for sample in batch.samples])):
        references = [sample.references for sample in batch.samples]
        texts = list(chain.from_iterable(references))
        counts = list(map(len, references))
    else:  # by far the most frequent case
        texts = [response.text for response in first if response is not None]
        counts = [response is not None for response in first]
    owners = np.repeat(np.arange(len(batch)), np.array(counts, dtype=np.int64))
    _require_text(texts, owners, batch, "a reference answer")
    return ReferenceTexts(texts, owners)


def _require_responses(batch: Batch) -> None:
    for sample in batch.samples:
        if sample.reference_answer is not None and not isinstance(sample.reference_answer, Response):
            kind = type(sample.reference_answer).__name__
            raise BadTypeError(f"sample '{sample.sample_id}': 'reference_answer' is a {kind}, not a Response")


def _queries(batch: Batch) -> ReferenceTexts:
    texts = [sample.query for sample in batch.samples]
    owners = np.arange(len(batch))
    _require_text(texts, owners, batch, "the query")
    return ReferenceTexts(texts, owners)


def _require_text(texts: Sequence[Any], owners: Integers, batch: Batch, what: str) -> None:
    if set(map(type, texts)) <= {str}:
        return
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            row = int(owners[place])
            raise BadTypeError(f"sample '{batch.samples[row].sample_id}': {what} is {text!r}, not a string")


def _texts(batch: Batch, role: Role) -> list[str]:
    return answers(batch) if role == "answers" else reference_texts(batch, role).texts


@batch_feature
def token_ids(batch: Batch, tokenizer: AnyTokenizer, role: Role) -> TokenIds:
    """The token ids of the texts in a role. Ids of one tokenizer are the same for all roles."""
    if isinstance(tokenizer, CharacterTokenizer):
        return character_ids(_texts(batch, role), tokenizer)
    token_filter = _with_vocabulary(batch, tokenizer, "token_filter", partial(TokenFilter, tokenizer))
    # Raw ids are shared by all tokenizers with the same byte tokenizer.
    raw = batch.feature(
        ("raw_token_ids", tokenizer.byte_tokenizer.name, role),
        lambda b: _vocabulary(b, tokenizer).encode(_texts(b, role)),
    )
    return token_filter.transform(raw)


def _vocabulary(batch: Batch, tokenizer: Tokenizer) -> Vocabulary:
    """The vocabulary of a byte tokenizer: that of earlier batches, unless it has become too large."""

    def build(batch: Batch) -> Vocabulary:
        cached = batch.memory.get(("vocabulary", tokenizer.byte_tokenizer.name))
        if cached is None or cached.count > _MAX_VOCABULARY:
            cached = batch.memory["vocabulary", tokenizer.byte_tokenizer.name] = Vocabulary(tokenizer.byte_tokenizer)
        return cached

    return batch.feature(("vocabulary", tokenizer.byte_tokenizer.name), build)


def _with_vocabulary(batch: Batch, tokenizer: Tokenizer, key: str, make: Callable[[Vocabulary], Cached]) -> Cached:
    """What was made of the vocabulary in an earlier batch, unless that has been replaced."""

    def build(batch: Batch) -> Cached:
        vocabulary = _vocabulary(batch, tokenizer)
        cached = batch.memory.get((key, tokenizer.name))
        if cached is None or cached.vocabulary is not vocabulary:
            cached = batch.memory[key, tokenizer.name] = make(vocabulary)
        return cast(Cached, cached)

    return batch.feature((key, tokenizer.name), build)


@dataclass(frozen=True, slots=True)
class TokenPairs:
    """Token ids of pairs of an answer and a text it is compared with."""

    answers: TokenIds
    references: TokenIds
    owners: Integers
    """The row of each pair, in ascending order."""


@batch_feature
def token_pairs(batch: Batch, tokenizer: AnyTokenizer, role: Role) -> TokenPairs:
    """Pairs of answers and the texts they are compared with."""
    answer_ids, texts = token_ids(batch, tokenizer, "answers"), reference_texts(batch, role)
    if not _one_each(texts.owners, len(batch)):
        answer_ids = answer_ids.take(texts.owners)
    return TokenPairs(answer_ids, token_ids(batch, tokenizer, role), texts.owners)


@batch_feature
def shared_ngrams(batch: Batch, tokenizer: AnyTokenizer, role: Role, n: int) -> Integers:
    """Per pair the number of n-grams its two texts share; for one or two short orders."""
    pairs = token_pairs(batch, tokenizer, role)
    return count_shared_ngrams(pairs.answers, pairs.references, n)


class SharedNgrams:
    """Counts of shared n-grams; each order is computed from the one before on access."""

    def __init__(self, answers: TokenIds, references: TokenIds, owners: Integers | None = None) -> None:
        self._orders = iter_shared_ngrams(answers, references, owners)
        self._known: list[Integers] = []

    def __getitem__(self, n: int) -> Integers:
        while len(self._known) < n:
            self._known.append(next(self._orders))
        return self._known[n - 1]


@batch_feature
def shared_ngram_orders(batch: Batch, tokenizer: AnyTokenizer, role: Role) -> SharedNgrams:
    """Per pair the n-grams its two texts share, for many orders: ``shared_ngram_orders(...)[4]``."""
    pairs = token_pairs(batch, tokenizer, role)
    return SharedNgrams(pairs.answers, pairs.references)


@batch_feature
def shared_with_references(batch: Batch, tokenizer: AnyTokenizer, role: Role) -> SharedNgrams:
    """Per row the n-grams an answer shares with its references, clipped to the highest count in one of them."""
    given, texts = token_ids(batch, tokenizer, "answers"), token_ids(batch, tokenizer, role)
    return SharedNgrams(given, texts, reference_texts(batch, role).owners)


@batch_feature
def longest_common_subsequence(batch: Batch, tokenizer: AnyTokenizer, role: Role) -> Integers:
    """Per pair the length of the longest common subsequence of tokens."""
    pairs = token_pairs(batch, tokenizer, role)
    return lcs_lengths(pairs.answers, pairs.references)


@batch_feature
def stop_word_mask(batch: Batch, tokenizer: Tokenizer) -> Mask:
    """A mask over the token ids of a tokenizer that are stop words."""
    token_ids(batch, tokenizer, "answers")
    vocabulary = _vocabulary(batch, tokenizer)
    cached = vocabulary.encode([" ".join(sorted(STOP_WORDS))]).ids
    mask = np.zeros(vocabulary.count, np.bool_)
    mask[cached] = True
    return mask


def _one_each(owners: Integers, rows: int) -> bool:
    """Whether every row has exactly one text."""
    return len(owners) == rows and bool((owners == np.arange(rows)).all())


def best_pairs(values: npt.NDArray[np.float64], owners: Integers, rows: int) -> Integers:
    """Per row which of its pairs has the highest value, the first of equals; -1 for a row without any."""
    if _one_each(owners, rows):
        return owners
    best = np.full(rows, -1)
    # Written in reverse, so that the first of the highest values is the last one written.
    order = np.lexsort((np.arange(len(owners)), -values, owners))[::-1]
    best[owners[order]] = order
    return best


def select_pairs(values: npt.NDArray[np.float64], pairs: Integers) -> npt.NDArray[np.float64]:
    """The values of some pairs, row by row; 0 where a row has none."""
    return np.where(pairs >= 0, values[pairs], 0.0) if len(values) else np.zeros(len(pairs))


@batch_feature
def evidence_texts(batch: Batch, source: Source, k: int | None) -> EvidenceTexts:
    """The first ``k`` documents the system returned, or the relevant ones."""
    every, per_row = _retrieved_texts(batch, k) if source == "retrieved" else _relevant_texts(batch)
    counts = np.array(per_row, dtype=np.int64)
    rows = np.repeat(np.arange(len(batch)), np.maximum(counts, 0))
    if set(map(type, every)) - {str}:
        present = [text is not None for text in every]
        _require_text([text for text in every if text is not None], rows[present], batch, "the text of a document")
    if not all(every):
        rows, every = rows[list(map(bool, every))], list(filter(None, every))
    numbers = {text: number for number, text in enumerate(dict.fromkeys(every))}
    return EvidenceTexts(
        list(numbers),
        owners=rows,
        uses=np.array([numbers[text] for text in every], dtype=np.int64),
        no_documents=counts <= 0,
        no_text=(counts > 0) & (np.bincount(rows, minlength=len(batch)) == 0),
        unknown=counts < 0,
    )


def _retrieved_texts(batch: Batch, k: int | None) -> tuple[list[str], list[int]]:
    """The texts of retrieved documents, and the number of each row; none for failed outputs."""
    outputs = checked_outputs(batch)
    returned = [output.retrieved[:k] if output is not None and output.error is None else [] for output in outputs]
    try:
        return [item.doc.text for item in chain.from_iterable(returned)], list(map(len, returned))
    except AttributeError:
        for sample, output in zip(batch.samples, outputs, strict=True):
            problem = None if output is None or output.error is not None else retrieved_problem(output)
            if problem is not None:
                raise BadTypeError(f"the output for sample '{sample.sample_id}' {problem}") from None
        raise


def _relevant_texts(batch: Batch) -> tuple[list[str], list[int]]:
    """The texts of the relevant documents, and the number of each row; -1 where they are not annotated."""
    for sample in batch.samples:
        require_documents(sample.relevant_docs or [], sample.sample_id)
    relevant = [sample.relevant_docs for sample in batch.samples]
    texts = [document.text for document in chain.from_iterable(filter(None, relevant))]
    return texts, [-1 if documents is None else len(documents) for documents in relevant]


@batch_feature
def ngram_support(batch: Batch, tokenizer: Tokenizer, source: Source, k: int | None) -> NgramSupport:
    """Which n-grams of each answer occur in its evidence, within one document.

    The tokenizer must have no transformation.
    """
    assert tokenizer.transform is None
    evidence = evidence_texts(batch, source, k)
    answer_ids = token_ids(batch, tokenizer, "answers")
    # Samples, metrics and batches share the token ids of documents.
    cache = _with_vocabulary(batch, tokenizer, "token_cache", TokenCache)
    documents, numbers = cache.encode(evidence.texts)
    size = _vocabulary(batch, tokenizer).count
    return NgramSupport(answer_ids, documents, numbers.take(evidence.uses), evidence.owners, size)


# --- the script of the gold side, which decides how the texts of a sample are cut into tokens -------------------------

GoldSide = Role | Source
"""The texts that decide: references, the query, documents, or the answer itself."""


@batch_feature
def text_cuts(batch: Batch, side: GoldSide) -> npt.NDArray[np.int8] | None:
    """Per row how its texts are cut into tokens, as in ``Scores.cuts``; ``None`` where all are cut into words."""
    texts, owners = _texts_and_owners(batch, side)
    cuts = np.zeros(len(batch), np.int8)
    cuts[owners] = WORDS
    if contain_unspaced(texts):
        by_row: dict[int, list[str]] = {}
        for text, owner in zip(texts, owners.tolist(), strict=True):
            by_row.setdefault(owner, []).append(text)
        unspaced = [row for row, own in by_row.items() if is_unspaced("\n".join(own))]
        cuts[unspaced] = CHARACTERS
    return None if (cuts == WORDS).all() else cuts


def _texts_and_owners(batch: Batch, side: GoldSide) -> tuple[list[str], Integers]:
    """The texts of the gold side, and the row of each."""
    if side == "answers":
        owners = np.flatnonzero([bool(text) for text in answers(batch)])
        return [text for text in answers(batch) if text], owners
    if side in ("reference", "query"):
        references = reference_texts(batch, cast(Role, side))
        return references.texts, references.owners
    evidence = evidence_texts(batch, cast(Source, side), None)
    return [evidence.texts[use] for use in evidence.uses.tolist()], evidence.owners


@batch_feature
def script_parts(batch: Batch, side: GoldSide) -> list[tuple[npt.NDArray[np.intp], Batch]]:
    """The rows that are cut into words and those that are cut into characters, each with a batch of its own."""
    cuts = text_cuts(batch, side)
    in_characters = np.zeros(len(batch), np.bool_) if cuts is None else cuts == CHARACTERS
    return [(rows, batch.take(rows)) for rows in (np.flatnonzero(~in_characters), np.flatnonzero(in_characters))]


# --- refusals and unanswerable questions: detected once per batch, for all metrics -----------------------------------

RefusalJudge = Callable[[EvaluationSample, SystemOutputs], bool]
"""Whether a non-empty answer is a refusal."""

BAD_JUDGEMENT = "bad_refusal_judgement"


@dataclass(frozen=True, slots=True)
class RefusalDetector:
    """Detects refusals by the field ``refused`` of the output, else by the answer.

    ``refused`` decides where the output has it; else an empty answer is a refusal; else the phrases decide, or the
    judge in their place. An ``error`` is never a refusal.
    """

    patterns: tuple[str, ...] = field(default_factory=built_in_patterns)
    """Normalised phrases, as ``text.refusal.normalize_patterns`` gives them."""
    judge: RefusalJudge | None = field(default=None, hash=False)  # it need not be hashable
    whole_words: bool = True
    """Whether phrases must not begin or end inside a word."""

    def refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Whether an answered sample was refused; ``None`` where unknown, a reason where it cannot be decided."""
        return self._decide(sample, output, lambda text: is_refusal(text, self.patterns, whole_words=self.whole_words))

    def reference_refused(self, sample: EvaluationSample, output: SystemOutputs) -> bool | str | None:
        """Like ``refused``, phrase by phrase: the plain definition."""
        return self._decide(sample, output, lambda text: bool(self.found_phrases(text)))

    def found_phrases(self, text: str) -> list[str]:
        """The phrases that a text contains, by the plain definition."""
        return [phrase for phrase in self.patterns if contains_phrase(text, phrase, whole_words=self.whole_words)]

    def _decide(
        self, sample: EvaluationSample, output: SystemOutputs, by_phrases: Callable[[str], bool]
    ) -> bool | str | None:
        if output.refused is not None:
            return bool(output.refused) if isinstance(output.refused, (bool, np.bool_)) else "bad_refused"
        if output.response is None:
            return None
        text = output.response.text
        if not text.strip():
            return True
        if self.judge is None:
            return by_phrases(text)
        verdict = self.judge(sample, output)
        return bool(verdict) if isinstance(verdict, (bool, np.bool_)) else BAD_JUDGEMENT

    @property
    def judge_name(self) -> str:
        """The name of the judge function."""
        return function_name(self.judge, module=False)


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Refusals of a batch, row by row."""

    verdicts: list[bool | str | None]
    """Whether the system refused; a reason where that cannot be decided, ``None`` where nothing was answered."""
    failed: Mask
    """The system failed, or its output is missing. That is not a refusal."""

    @property
    def refused(self) -> Mask:
        """Whether the system refused; false where undecided."""
        return np.array([verdict is True for verdict in self.verdicts], dtype=np.bool_)

    @property
    def decided(self) -> Mask:
        """Whether it is known that the system answered or refused."""
        return np.array([isinstance(verdict, bool) for verdict in self.verdicts], dtype=np.bool_)


@batch_feature
def refusals(batch: Batch, detector: RefusalDetector) -> Refusals:
    """The refusals of a batch by this detector, computed once for all metrics that share it."""
    verdicts: list[bool | str | None] = []
    failed = []
    for sample, output in zip(batch.samples, checked_outputs(batch), strict=True):
        failed.append(output is None or output.error is not None)
        # The content of a failed output is ignored.
        verdicts.append(None if output is None or failed[-1] else _verdict(batch, detector, sample, output))
    return Refusals(verdicts, np.array(failed, dtype=np.bool_))


def _verdict(
    batch: Batch, detector: RefusalDetector, sample: EvaluationSample, output: SystemOutputs
) -> bool | str | None:
    try:
        verdict = detector.refused(sample, output)
    except Exception as error:  # an exception of a user's judge must not affect other samples
        if detector.judge is None:
            raise
        name = type(error).__name__
        batch.note(f"the refusal judge '{detector.judge_name}' raised {name}: {error}", sample.sample_id)
        return f"raised {name}"
    if verdict == BAD_JUDGEMENT:
        batch.note(f"the refusal judge '{detector.judge_name}' gave neither True nor False", sample.sample_id)
    return verdict


def is_unanswerable(sample: EvaluationSample) -> bool | None:
    """Whether a question is labelled as unanswerable; ``None`` where the label is neither true nor false.

    ``labels["answerable"]`` decides where it is given, so that a paraphrase of an unanswerable question, whose scenario
    is another, can be labelled too; else the scenario "unanswerable" does.
    """
    mark = sample.labels.get("answerable")
    if mark is None:
        return "unanswerable" in sample.scenarios
    return not mark if isinstance(mark, (bool, np.bool_)) else None


def has_empty_reference(sample: EvaluationSample) -> bool:
    """Whether the references are there and have no text, although the question is not marked unanswerable."""
    texts = sample.references
    return bool(texts) and not any(map(str.strip, texts)) and not is_unanswerable(sample)


@batch_feature
def unanswerable(batch: Batch) -> tuple[Mask, Mask]:
    """Masks of the questions without an answer, and of those with an invalid label."""
    marks = [is_unanswerable(sample) for sample in batch.samples]
    return (
        np.array([mark is True for mark in marks], dtype=np.bool_),
        np.array([mark is None for mark in marks], dtype=np.bool_),
    )
