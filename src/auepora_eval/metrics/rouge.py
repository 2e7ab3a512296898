"""ROUGE: overlap of answer and reference (or query) in tokens, bigrams and longest common subsequence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.derivation import add_outcome, add_step, quote_text
from ..core.metrics_base import declare, set_metadata
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadValueError
from ..features.texts import (
    GoldSide,
    Integers,
    answers,
    best_pairs,
    longest_common_subsequence,
    reference_texts,
    select_pairs,
    shared_ngrams,
    token_pairs,
)
from ..options import NonEmpty
from ..text.ngrams import ngram_counts
from ..text.sentences import split_sentences
from ..text.tokenizers import Tokenizer, rouge_tokenizer, stemmed, visible_token, word_tokenizer
from .answer_base import STEMMED, TOKENIZERS, ComparedMetric, Floats, TokenizedMetric, overlap_scores, tokenizer_label
from .overlap import Measure, Overlap, best_overlap, rouge_1, rouge_2, rouge_l, rouge_lsum, rouge_package_f1

Variant = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
_BLANKS = visible_token(" \n\t\u3000")
"""Blanks as a tokenizer gives them that keeps them."""
VARIANTS: dict[str, Measure] = {"rouge1": rouge_1, "rouge2": rouge_2, "rougeL": rouge_l, "rougeLsum": rouge_lsum}
"""Each variant by its plain definition."""


@dataclass(frozen=True)
class _Rouge(TokenizedMetric, ComparedMetric):
    """One variant of ROUGE, or several."""

    use_stemmer: bool = field(default=True, kw_only=True)
    tokenizer: str = field(default="auto", kw_only=True)
    tokenizers: ClassVar[Sequence[str]] = (*TOKENIZERS, "rouge_score")

    metadata = declare(
        reference="Lin 2004; rouge-score 0.1.2",
        signature={
            "tok": SignatureOption("tokenizer", words={"auto": "rouge_score"}, write=tokenizer_label),
            "stem": SignatureOption("stems", words={True: "porter", False: "none"}),
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # Name and target depend on ``compare_to``, not on the class.
        plain = self.name.removesuffix("_answer").removesuffix("_query")
        if self.compare_to == "query":
            object.__setattr__(self, "name", f"{plain}_query")
        elif plain != self.name:
            object.__setattr__(self, "target", TargetCategory.GENERATION_CORRECTNESS)
            object.__setattr__(self, "name", f"{plain}_answer")

    @property
    def gold_side(self) -> GoldSide:  # type: ignore[override]
        """The texts that answers are compared with."""
        return self.role

    @property
    def stems(self) -> bool:
        """Whether words are stemmed: never those of a tokenizer that cuts words into parts, or of a function."""
        return self.use_stemmer and self.tokenizer in STEMMED

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        words = rouge_tokenizer(stem=self.stems)
        if self.tokenizer == "words":
            words = stemmed(word_tokenizer()) if self.stems else word_tokenizer()
        return self.tokens(words, stem=self.stems)

    def pair_counts(self, batch: Batch, variant: str) -> tuple[Integers, Integers, Integers]:
        """Per pair of answer and compared text: the numbers of common units, and of units in each."""
        sides = token_pairs(batch, self.words, self.role)
        n = 2 if variant == "rouge2" else 1
        given, texts = ngram_counts(sides.answers, n), ngram_counts(sides.references, n)
        if variant in ("rouge1", "rouge2"):
            return shared_ngrams(batch, self.words, self.role, n), given, texts
        common = longest_common_subsequence(batch, self.words, self.role)
        return common if variant == "rougeL" else self._lsum_counts(batch, common), given, texts

    def _lsum_counts(self, batch: Batch, common: Integers) -> Integers:
        """ROUGE-Lsum: equal to ROUGE-L if both texts are one sentence."""
        common = common.copy()
        given, texts = answers(batch), reference_texts(batch, self.role)
        for pair, (row, text) in enumerate(zip(texts.owners.tolist(), texts.texts, strict=True)):
            lines, answer = self.lines(text), self.lines(given[row])
            if "\n" in lines or "\n" in answer:
                common[pair] = rouge_lsum(lines, answer, self.words.tokenize).common
        return common

    def lines(self, text: str) -> str:
        """A text as ROUGE-Lsum splits it: at line ends."""
        return text

    @property
    @abstractmethod
    def headline(self) -> str:
        """The variant whose F1 is the value."""

    @property
    def worst_stats(self) -> tuple[float, ...]:
        """A failed answer scores 0 in each."""
        return (0.0,) * len(self.metadata.stat_names)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The best F1 by the plain definition."""
        return Score(self.plain_best(sample, answer, self.headline).f1)

    def plain_best(self, sample: EvaluationSample, answer: str, variant: str) -> Overlap:
        """The overlap with the text of the best F1, by the plain definition."""
        return best_overlap(
            answer,
            self.compared_texts(sample),
            VARIANTS[variant],
            self.words.tokenize,
            what=self.role,
            unit="pairs of words" if variant == "rouge2" else "words",
            tokens="Tokens",
        )


@dataclass(frozen=True)
class _RougeVariant(_Rouge):
    """A metric of one variant. Mean precision and recall, of the reference with the best F1, are in the details."""

    headline: ClassVar[str]
    flavour: Literal["rouge_score", "rouge_package"] = field(default="rouge_score", kw_only=True)
    """``rouge_package``: as the packages rouge and rouge-chinese compute it."""
    metadata = declare(
        stat_names=("precision", "recall"),
        signature={"flavour": SignatureOption("flavour", unless="rouge_score")},
        option_help={"flavour:rouge_package": "as the packages rouge and rouge-chinese compute it"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flavour == "rouge_package":
            if self.headline == "rougeLsum":
                raise BadValueError("the package rouge has no ROUGE-Lsum; its rougeL is over sentences")
            set_metadata(self, stat_names=())

    @property
    def decides_tokens(self) -> bool:
        """Whether the script decides; the packages cut at white space, or take words that were cut before."""
        return self.flavour == "rouge_score" and super().decides_tokens

    def package_value(self, sample: EvaluationSample, answer: str) -> float:
        """The best F1 as the package rouge computes it."""
        is_cut = self.tokenizer != "auto"
        cut = self.words.tokenize if is_cut else str.split
        texts = [[word for word in cut(text) if word.strip(_BLANKS)] for text in (answer, *self.compared_texts(sample))]
        values = [rouge_package_f1(texts[0], text, self.headline, is_cut=is_cut) for text in texts[1:]]
        return max(values, default=0.0)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The best F1 by the plain definition."""
        if self.flavour == "rouge_score":
            return super().score_plain(sample, output, answer)
        add_step(f"The answer: {quote_text(answer)}")
        return Score(add_outcome("The best F1, over sets of words", self.package_value(sample, answer)))

    def score_tokens(self, batch: Batch) -> Scores:
        """The best F1 of each answer."""
        if self.flavour == "rouge_package":
            return self.score_alone(batch, self.package_value)
        f1, precision, recall = overlap_scores(*self.pair_counts(batch, self.headline))
        best = best_pairs(f1, reference_texts(batch, self.role).owners, len(batch))
        return self.outcome(
            batch,
            select_pairs(f1, best),
            skip=self.without_reference(batch),
            stats=np.column_stack([select_pairs(precision, best), select_pairs(recall, best)]),
        )

    def plain_stats(self, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
        """Precision and recall of the best F1, by the plain definition."""
        if self.flavour == "rouge_package":
            return ()
        best = self.plain_best(sample, response_text(output), self.headline)
        return best.precision, best.recall


@register("rouge1_answer")
@dataclass(frozen=True)
class Rouge1(_RougeVariant):
    r"""ROUGE-1 F1: words that answer and reference share, each as often as in the text that has it less often.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{reference}|

    Tokens, stemming and value are those of the rouge-score package: lower case, runs of a-z and 0-9, Porter stemming of
    words longer than three letters. Text in other scripts has no tokens there: a sample whose references are in a
    script without spaces is cut into letters instead (`tokenizer: auto`), and with `tokenizer: unicode` every script
    has words. The best over all reference answers counts. `flavour: rouge_package` is what the package rouge computes:
    sets of words at white space, case and punctuation included, sentences at full stops.
    """

    headline: ClassVar[str] = "rouge1"

    metadata = declare(
        examples=(
            "rouge1_answer",
            {"rouge1_answer": {"use_stemmer": False}},
            {"rouge1_answer": {"flavour": "rouge_package"}},
        ),
        aliases={"papers": ("ROUGE-1",)},
    )


@register("rouge2_answer")
@dataclass(frozen=True)
class Rouge2(_RougeVariant):
    r"""ROUGE-2 F1: pairs of neighbouring words that answer and reference share.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{pairs of answer}|, \quad
       R = \text{common} / |\text{pairs of reference}|

    Tokens and stemming as in `rouge1_answer`. A text of one word has no pair and scores 0. The best over all reference
    answers counts.
    """

    headline: ClassVar[str] = "rouge2"

    metadata = declare(
        examples=("rouge2_answer",),
        aliases={"papers": ("ROUGE-2",)},
    )


@register("rougeL_answer")
@dataclass(frozen=True)
class RougeL(_RougeVariant):
    r"""ROUGE-L F1: overlap of answer and reference in order, by their longest common subsequence of tokens.

    .. math:: 2 P R / (P + R), \quad P = \text{LCS} / |\text{answer}|, \quad R = \text{LCS} / |\text{reference}|

    Tokens, stemming and value are those of the rouge-score package: lower case, runs of a-z and 0-9, Porter stemming of
    words longer than three letters. Text in other scripts has no tokens there: a sample whose references are in a
    script without spaces is cut into letters instead (`tokenizer: auto`), and with `tokenizer: unicode` every script
    has words. The best over all reference answers counts.
    """

    headline: ClassVar[str] = "rougeL"

    metadata = declare(
        examples=(
            "rougeL_answer",
            {"rougeL_answer": {"tokenizer": "unicode"}},
            {"rougeL_answer": {"flavour": "rouge_package"}},
        ),
        aliases={"papers": ("ROUGE-L",)},
    )


RougeLAnswer = RougeL
"""The first name of this metric."""


@register("rougeLsum_answer")
@dataclass(frozen=True)
class RougeLsum(_RougeVariant):
    r"""ROUGE-L F1 of texts of several sentences, one per line: the union of the subsequences of each reference
    sentence.

    .. math:: 2 P R / (P + R), \quad P = \text{hits} / |\text{answer}|, \quad R = \text{hits} / |\text{reference}|

    Hits are the words of each reference sentence that lie on a longest common subsequence with any sentence of the
    answer, a word at most as often as in either text. With one sentence each it is `rougeL_answer`. Sentences are split
    at line ends alone, as the rouge-score package does by default; `split_sentences` splits at the ends of sentences.
    """

    headline: ClassVar[str] = "rougeLsum"
    split_sentences: bool = field(default=False, kw_only=True)
    metadata = declare(
        suggested=False,
        examples=("rougeLsum_answer", {"rougeLsum_answer": {"split_sentences": True}}),
        aliases={"papers": ("ROUGE-Lsum",)},
        signature={"sentences": SignatureOption("split_sentences", unless=False, words={True: "split"})},
        option_help={"sentences:split": "texts are split at the ends of sentences, not at line ends alone"},
    )

    def lines(self, text: str) -> str:
        """A text with a sentence on each line, where it is split."""
        return "\n".join(split_sentences(text)) if self.split_sentences else text

    def compared_texts(self, sample: EvaluationSample) -> list[str]:
        """The texts that the answer is compared with, in lines."""
        return [self.lines(text) for text in super().compared_texts(sample)]

    def plain_best(self, sample: EvaluationSample, answer: str, variant: str) -> Overlap:
        """The overlap by the plain definition."""
        return super().plain_best(sample, self.lines(answer), variant)


@dataclass(frozen=True)
class _QueryComparison:
    """The same measure with the query instead of a reference."""

    compare_to: Literal["reference", "query"] = field(default="query", kw_only=True)

    target: ClassVar[TargetCategory] = TargetCategory.GENERATION_RELEVANCE


@register("rouge1_query")
@dataclass(frozen=True)
class Rouge1Query(_QueryComparison, Rouge1):
    r"""ROUGE-1 F1 of answer and query: whether the answer repeats the words of the question.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{query}|

    Tokens as in `rouge1_answer`.
    """

    metadata = declare(
        suggested=False,
        suggested_for_target=True,
        examples=("rouge1_query",),
    )


@register("rouge2_query")
@dataclass(frozen=True)
class Rouge2Query(_QueryComparison, Rouge2):
    r"""ROUGE-2 F1 of answer and query, by pairs of neighbouring words.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{pairs of answer}|, \quad
       R = \text{common} / |\text{pairs of query}|

    Tokens as in `rouge1_answer`.
    """

    metadata = declare(
        suggested=False,
        suggested_for_target=True,
        examples=("rouge2_query",),
    )


@register("rougeL_query")
@dataclass(frozen=True)
class RougeLQuery(_QueryComparison, RougeL):
    r"""ROUGE-L F1 of answer and query, by their longest common subsequence.

    .. math:: 2 P R / (P + R), \quad P = \text{LCS} / |\text{answer}|, \quad R = \text{LCS} / |\text{query}|

    Tokens as in `rouge1_answer`.
    """

    metadata = declare(
        suggested=False,
        suggested_for_target=True,
        examples=("rougeL_query",),
    )


@register("rougeLsum_query")
@dataclass(frozen=True)
class RougeLsumQuery(_QueryComparison, RougeLsum):
    r"""ROUGE-Lsum F1 of answer and query; see `rougeLsum_answer`.

    .. math:: 2 P R / (P + R), \quad P = \text{hits} / |\text{answer}|, \quad R = \text{hits} / |\text{query}|
    """

    metadata = declare(
        examples=("rougeLsum_query",),
    )


@register("rouge_scores")
@dataclass(frozen=True)
class RougeScores(_Rouge):
    r"""Several variants of ROUGE in one result: the value is that of ROUGE-L, each variant's mean is in the details.

    .. math:: F_1(\text{rougeL})

    Each variant takes the best of the reference answers by its own F1. Where `rougeL` is not among the `variants`, the
    value is that of the first.
    """

    variants: Annotated[tuple[Variant, ...], NonEmpty()] = ("rouge1", "rouge2", "rougeL")

    metadata = declare(
        suggested=False,
        function_of="rougeL_answer",
        examples=(
            "rouge_scores",
            {"rouge_scores": {"variants": ["rouge2", "rougeLsum"]}},
        ),
        signature={"value": "headline"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "variants", tuple(dict.fromkeys(self.variants)))
        set_metadata(self, stat_names=self.variants)

    @property
    def headline(self) -> str:
        """The variant whose F1 is the value."""
        return "rougeL" if "rougeL" in self.variants else self.variants[0]

    def score_tokens(self, batch: Batch) -> Scores:
        """The best F1 of each answer, by variant."""
        owners = reference_texts(batch, self.role).owners
        columns: dict[str, Floats] = {}
        for variant in self.variants:
            f1, _, _ = overlap_scores(*self.pair_counts(batch, variant))
            columns[variant] = select_pairs(f1, best_pairs(f1, owners, len(batch)))
        return self.outcome(
            batch,
            columns[self.headline],
            skip=self.without_reference(batch),
            stats=np.column_stack([columns[variant] for variant in self.variants]),
        )

    def plain_stats(self, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
        """The best F1 of each variant, by the plain definition."""
        return [self.plain_best(sample, response_text(output), variant).f1 for variant in self.variants]
