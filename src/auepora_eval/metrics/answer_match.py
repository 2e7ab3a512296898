"""Lexical match of answer and reference: exact match, token F1, containment, relevance to the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption, without_separator
from ..core.derivation import add_outcome, add_table
from ..core.metrics_base import SampleMetric, declare, set_metadata
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError
from ..features.texts import (
    GoldSide,
    TokenPairs,
    answers,
    best_pairs,
    reference_texts,
    select_pairs,
    shared_ngrams,
    text_cuts,
    token_ids,
    token_pairs,
)
from ..text.norm_names import TextNorm
from ..text.norms import NORMS, as_written, norm_tokenizer
from ..text.scripts import is_unspaced
from ..text.tokenizers import (
    Tokenizer,
    custom_tokenizer,
    squad_words,
    unspaced_word_tokenizer,
    visible_token,
    without_wide_punctuation,
    word_tokenizer,
)
from .answer_base import AnswerMetric, Floats, ReferencedMetric, TokenizedMetric, overlap_scores, tokenizer_label
from .overlap import Overlap, Tokenize, answer_relevance, contains_all, exact_match, rouge_1, token_f1, tokenize_answer


@dataclass(frozen=True)
class _NormalisedMetric(TokenizedMetric, ReferencedMetric):
    """A comparison after normalisation; options select what is ignored."""

    ignore_case: bool = True
    ignore_punctuation: bool = True
    ignore_articles: bool = True
    norm: TextNorm = field(default="squad", kw_only=True)

    metadata = declare(
        reference="Rajpurkar et al. 2016, 2018; the evaluation script of SQuAD 2.0",
        signature={"norm": "normalisation"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm != "squad" and not (self.ignore_case and self.ignore_punctuation and self.ignore_articles):
            raise BadValueError(f"'norm: {self.norm}' says what is ignored: leave out ignore_case and the like")

    @property
    def decides_tokens(self) -> bool:
        """Whether the script decides; a named normalisation is the same for every script."""
        return self.norm == "squad" and super().decides_tokens

    @property
    def spaced_words(self) -> Tokenizer:
        """The tokenizer for text with spaces between words."""
        if self.norm != "squad":
            return norm_tokenizer(self.norm)
        return word_tokenizer(case=self.ignore_case, punctuation=self.ignore_punctuation, articles=self.ignore_articles)

    @property
    def words(self) -> Tokenizer:
        """The tokenizer. In scripts without spaces it knows the punctuation of Chinese and Japanese."""
        words = self.spaced_words
        is_wide = self.tokenizer == "char" and self.ignore_punctuation
        return unspaced_word_tokenizer(words) if is_wide else words

    @property
    def normalisation(self) -> str:
        """The normalisation, as signatures name it."""
        if self.norm != "squad":
            return self.norm
        ignored = {
            "case": self.ignore_case,
            "punctuation": self.ignore_punctuation,
            "articles": self.ignore_articles,
        }
        if all(ignored.values()):
            return "squad"
        return ",".join(name for name, yes in ignored.items() if yes) or "none"

    def best(self, batch: Batch, values: Floats, sides: TokenPairs) -> Scores:
        """The best value of each row; empty references are dropped if there are others."""
        empty = sides.references.counts == 0
        if empty.any():
            others = np.zeros(len(batch), np.bool_)
            others[sides.owners[~empty]] = True
            # No value is below 0, so 0 drops them.
            values = np.where(empty & others[sides.owners], 0.0, values)
        best = select_pairs(values, best_pairs(values, sides.owners, len(batch)))
        return self.outcome(batch, best, skip=self.without_reference(batch))


@register("exact_match")
@dataclass(frozen=True)
class ExactMatch(_NormalisedMetric):
    r"""1 if the answer equals a reference after normalisation, else 0.

    .. math:: \max_r [\,\text{norm}(\text{answer}) = \text{norm}(r)\,]

    Normalisation is that of SQuAD: lower case, no ASCII punctuation, no articles (a, an, the), white space as one
    blank. Accents are equal however they are encoded, and where the references are in a script without spaces, `。` and
    `，` are punctuation too. References that normalise to nothing are left out while another remains; alone they match
    an answer that does too, which is how SQuAD 2.0 writes "no answer". The best over all reference answers counts.
    """

    slots: Literal["mean"] | None = field(default=None, kw_only=True)
    """``mean``: the proportion of things to be named that the answer is equal to."""

    metadata = declare(
        binary=True,
        examples=(
            "exact_match",
            {"exact_match": {"ignore_articles": False}},
            {"exact_match": {"norm": "none"}},
            {"exact_match": {"slots": "mean"}},
        ),
        aliases={"papers": ("EM",)},
        signature={"slots": SignatureOption("slots")},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        set_metadata(self, binary=self.slots is None)

    def _slot_value(self, sample: EvaluationSample, answer: str) -> float:
        """The proportion of things that the answer is equal to; the best alternative counts."""
        words = self.words.tokenize
        given = words(answer)
        alternatives = reference_slots(sample) or []
        return max((_proportion(slots, words, given.__eq__) for slots in alternatives), default=0.0)

    def score_tokens(self, batch: Batch) -> Scores:
        """Whether all words are equal, pair by pair."""
        if self.slots is not None:
            return self.score_alone(batch, self._slot_value)
        sides = token_pairs(batch, self.words, "reference")
        given, wanted = sides.answers, sides.references
        alike = given.counts == wanted.counts
        candidates = np.flatnonzero(alike)
        # Tokens are compared only where their numbers agree; two empty texts are equal.
        left, other = given.take(candidates), wanted.take(candidates)
        differing = np.bincount(left.rows[left.ids != other.ids], minlength=len(candidates))
        alike[candidates] = differing == 0
        return self.best(batch, alike.astype(np.float64), sides)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        if self.slots is not None:
            tokenize_answer(answer, self.words.tokenize)
            return Score(add_outcome("The proportion that it is equal to", self._slot_value(sample, answer)))
        return Score(exact_match(answer, sample.references, self.words.tokenize))


Part = Literal["f1", "precision", "recall"]
_PARTS: Mapping[Part, int] = {"f1": 0, "precision": 1, "recall": 2}


@dataclass(frozen=True)
class _TokenOverlap(_NormalisedMetric):
    """F1, precision or recall of the tokens that answer and reference share."""

    tokenizer: str = field(default="auto", kw_only=True)
    drop: str = field(default="", kw_only=True)
    """Tokens that this text contains do not count."""
    both_empty: Literal[0, 1] = field(default=1, kw_only=True)
    """The value where neither side has a token."""
    closed: tuple[str, ...] = field(default=(), kw_only=True, metadata={"convert": tuple})
    """Answers that match only themselves, normalised: yes and no."""

    part: ClassVar[Part] = "f1"
    metadata = declare(
        signature={
            "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label),
            "drop": SignatureOption("drop", unless="", write=without_separator),
            "both_empty": SignatureOption("both_empty", unless=1),
            "closed": SignatureOption("closed", unless=()),
        }
    )

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        words = self.tokens(self.spaced_words)
        if not self.drop:
            return words
        dropped = self.drop + visible_token(self.drop)

        def kept(text: str) -> list[str]:
            return [token for token in words.tokenize(text) if token not in dropped]

        return custom_tokenizer(f"{words.name} without {self.drop}", kept)

    def score_tokens(self, batch: Batch) -> Scores:
        """The value of each pair, and the best of each row."""
        sides = token_pairs(batch, self.words, "reference")
        given, wanted = sides.answers.counts, sides.references.counts
        common = shared_ngrams(batch, self.words, "reference", 1)
        values = overlap_scores(common, given, wanted)[_PARTS[self.part]]
        values[(given == 0) & (wanted == 0)] = self.both_empty
        if self.closed:
            pairs = zip(sides.owners.tolist(), reference_texts(batch, "reference").texts, strict=True)
            given_texts = answers(batch)
            values[[self._is_closed_pair(given_texts[row], text) for row, text in pairs]] = 0.0
        return self.best(batch, values, sides)

    def _is_closed_pair(self, answer: str, reference: str) -> bool:
        texts = {" ".join(self.words.tokenize(text)) for text in (answer, reference)}
        return len(texts) == 2 and not texts.isdisjoint(self.closed)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        words = self.words.tokenize
        references = [text for text in sample.references if words(text)] or sample.references
        tokenize_answer(answer, words)
        values = [self._plain_value(rouge_1(text, answer, words), text, answer) for text in references]
        add_table("Each reference", ("reference", self.part), zip(references, values, strict=True))
        return Score(add_outcome(f"The best {self.part}", max(values)))

    def _plain_value(self, overlap: Overlap, reference: str, answer: str) -> float:
        if self.closed and self._is_closed_pair(answer, reference):
            return 0.0
        if overlap.answer_size == overlap.reference_size == 0:
            return float(self.both_empty)
        return float(getattr(overlap, self.part))


@register("token_f1")
@dataclass(frozen=True)
class TokenF1(_TokenOverlap):
    r"""F1 of the words of answer and reference, as bags: how much of each is in the other.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{reference}|

    Words are what stands between white space after the normalisation of `exact_match`; where the references are in a
    script without spaces (Chinese, Japanese, Thai, ...), its letters are the words (`tokenizer: auto`). If one side has
    no words the value is 0, if neither has, 1 (`both_empty`). The best over all reference answers counts.

    With `closed`, a list such as yes and no, an answer or reference that is one of these words matches only itself.
    `norm` names the normalisation of a published script, and `drop` is a text: tokens that it contains do not count.
    """

    metadata = declare(
        examples=(
            "token_f1",
            {"token_f1": {"ignore_case": False}},
            {"token_f1": {"tokenizer": "char3"}},
            {"token_f1": {"norm": "trivia", "both_empty": 0}},
            {"token_f1": {"closed": ["yes", "no"], "drop": "the mat"}},
        ),
    )

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        if self.both_empty == 1.0 and not self.closed:
            return Score(token_f1(answer, sample.references, self.words.tokenize))
        return super().score_plain(sample, output, answer)


@register("token_precision")
@dataclass(frozen=True)
class TokenPrecision(_TokenOverlap):
    r"""Precision of the words of the answer: how many of them the reference has.

    .. math:: \text{common} / |\text{answer}|

    Words and options as in `token_f1`; the best over all reference answers counts, by itself and not with the recall.
    """

    part: ClassVar[Part] = "precision"
    metadata = declare(
        suggested=False,
        examples=("token_precision", {"token_precision": {"tokenizer": "char3", "both_empty": 0}}),
    )


@register("token_recall")
@dataclass(frozen=True)
class TokenRecall(_TokenOverlap):
    r"""Recall of the words of the reference: how many of them the answer has.

    .. math:: \text{common} / |\text{reference}|

    Words and options as in `token_f1`; the best over all reference answers counts, by itself and not with the
    precision. With `tokenizer: char3` the units are trigrams of characters, so that forms of a word agree in part.
    """

    part: ClassVar[Part] = "recall"
    metadata = declare(
        suggested=False,
        examples=("token_recall", {"token_recall": {"tokenizer": "char3", "closed": ["cats"]}}),
    )


@register("answer_relevance")
@dataclass(frozen=True)
class AnswerRelevance(TokenizedMetric, AnswerMetric):
    r"""Token F1 of answer and query: whether the answer stays with the words of the question.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{query}|

    A lexical stand-in, shown as "answer_relevance (word overlap)": a good answer that uses other words scores low, a
    repeated question scores 1. So it gives no verdict on runs without another metric that uses gold or a judge.
    Normalisation as in `token_f1`; the script of the query decides about tokens.
    """

    tokenizer: str = field(default="auto", kw_only=True)

    target = TargetCategory.GENERATION_RELEVANCE
    gold_side: ClassVar[GoldSide] = "query"
    norm: ClassVar[str] = "squad"
    metadata = declare(
        skip_reasons={
            "empty_query": "the query has no words",
            **AnswerMetric.metadata.skip_reasons,
        },
        examples=("answer_relevance",),
        signature={"norm": "norm", "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label)},
    )

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        return self.tokens(word_tokenizer(articles=True))

    def score_tokens(self, batch: Batch) -> Scores:
        """F1 of each answer with its query."""
        words = self.words
        given, query = token_ids(batch, words, "answers").counts, token_ids(batch, words, "query").counts
        f1, _, _ = overlap_scores(shared_ngrams(batch, words, "query", 1), given, query)
        return self.outcome(batch, f1, skip={"empty_query": query == 0})

    def applies(self, sample: EvaluationSample) -> str | None:
        """A query without words is skipped."""
        return None if self.words.tokenize(sample.query) else "empty_query"

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(answer_relevance(answer, sample.query, self.words.tokenize))


@register("containment")
@dataclass(frozen=True)
class Containment(ConfiguredMetric, SampleMetric):
    r"""1 if the answer contains a reference, else 0: the reading of "right" for long answers to short questions.

    .. math:: [\,\exists r: \text{norm}(r) \subseteq \text{norm}(\text{answer})\,]

    Both are normalised as in `exact_match` and compared as strings, not as tokens. References that normalise to nothing
    do not count. Where an answer must name several things, `reference_answer.structured["slots"]` lists the spellings
    of each, and all must be contained; with `slots="mean"` the value is the proportion that is contained.
    `structured["alternatives"]` is a list of such lists, of which the best counts. With `norm="lower"` nothing but case
    is ignored, as in RGB's script; with `norm="none"` the reference must occur verbatim in the answer, as in RGB's
    paper; `norm="popqa"` looks for it as written, in lower case and capitalised, and the answer keeps its case.
    """

    norm: TextNorm | Literal["popqa"] = "squad"
    slots: Literal["all", "mean"] = field(default="all", kw_only=True)
    """Whether all things must be named, or the value is the proportion that is."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        requires=("reference_answer",),
        binary=True,
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "empty_reference": "every reference normalises to nothing",
            "no_response": "no answer was asked for",
        },
        reference="Chen et al. 2024 (RGB); Wang et al. 2023 (EVOUNA)",
        examples=(
            "containment",
            {"containment": {"norm": "lower"}},
            {"containment": {"norm": "none"}},
            {"containment": {"norm": "popqa"}},
            {"containment": {"slots": "mean"}},
        ),
        signature={"norm": "norm", "slots": SignatureOption("slots", unless="all")},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        set_metadata(self, binary=self.slots == "all")

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples whose references all normalise to nothing."""
        alternatives, words = reference_slots(sample), self._words_of(sample)
        if alternatives is None:
            return None
        names = chain.from_iterable(chain.from_iterable(alternatives))
        return None if any(words(name) for name in names) else "empty_reference"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether each slot is filled, or how many are."""
        alternatives = reference_slots(sample)
        if alternatives is None:
            return Score.fail("bad_reference")
        words = self._words_of(sample)
        answer = response_text(output)
        if self.norm == "popqa":
            alternatives = [list(map(_popqa_spellings, slots)) for slots in alternatives]
        if self.slots == "all":
            return Score(max(contains_all(answer, slots, words) for slots in alternatives))
        text = " ".join(words(answer))
        values = [_proportion(slots, words, lambda name: " ".join(name) in text) for slots in alternatives]
        return Score(add_outcome("The proportion that is named", max(values)))

    @property
    def decides_tokens(self) -> bool:
        """Whether the script of the references decides what punctuation is."""
        return self.norm == "squad"

    def score(self, batch: Batch) -> Scores:
        """Whether each slot is filled, and the script of the references, which decides what punctuation is."""
        scores = super().score(batch)
        cuts = text_cuts(batch, "reference") if self.norm == "squad" else None
        return scores if cuts is None else replace(scores, cuts=cuts)

    def _words_of(self, sample: EvaluationSample) -> Tokenize:
        """The normalisation of the texts of a sample."""
        is_wide = self.norm == "squad" and is_unspaced("\n".join(sample.references))
        if is_wide:
            return _unspaced_squad_words
        return as_written if self.norm == "popqa" else NORMS[self.norm]


def _unspaced_squad_words(text: str) -> list[str]:
    return squad_words(without_wide_punctuation(text))


def _popqa_spellings(names: Sequence[str]) -> list[str]:
    """Each spelling as written, in lower case, and with the first letter alone in upper case."""
    spelled: list[str] = []
    for name in names:
        spelled += [name, name.lower(), name.capitalize()]
    return spelled


def _proportion(slots: Sequence[Sequence[str]], words: Tokenize, is_there: Callable[[list[str]], bool]) -> float:
    """The proportion of slots of which a spelling is there; one without a spelling does not count."""
    filled: list[bool] = []
    for names in slots:
        spelled = [tokens for tokens in map(words, names) if tokens]
        if spelled:
            filled.append(any(is_there(tokens) for tokens in spelled))
    return sum(filled) / max(len(filled), 1)


def reference_slots(sample: EvaluationSample) -> list[list[Sequence[str]]] | None:
    """By alternative the spellings of each thing to be named; ``None`` if they are not strings."""
    structured: Any = sample.reference_answer.structured if sample.reference_answer is not None else None
    given = structured if isinstance(structured, dict) else {}
    alternatives = given.get("alternatives")
    if alternatives is None:
        alternatives = [given.get("slots", [sample.references])]
    if not isinstance(alternatives, (list, tuple)) or not alternatives:
        return None
    found = [_spellings(slots) for slots in alternatives]
    return [slots for slots in found if slots is not None] if None not in found else None


def _spellings(slots: Any) -> list[Sequence[str]] | None:
    if not isinstance(slots, (list, tuple)):
        return None
    spellings: list[Sequence[str]] = []
    for slot in slots:
        names = [slot] if isinstance(slot, str) else slot
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            return None
        spellings.append(names)
    return spellings
