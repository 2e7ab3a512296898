"""Lexical grounding: words and n-grams of the answer in the evidence, and phrases it must or must not contain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff, SignatureOption
from ..core.derivation import (
    add_division,
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
from ..core.metrics_base import SampleMetric, declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..features.texts import GoldSide, Integers, Source, evidence_texts, ngram_support, stop_word_mask, token_ids
from ..options import PositiveInt
from ..text.ngrams import ngram_counts
from ..text.tokenizers import STOP_WORDS, casefold_text
from .answer_base import AnswerMetric, EvidenceMetric, SkipMasks, TokenizedMetric, metadata_texts, tokenizer_label
from .overlap import ngrams, tokenize_answer


@dataclass(frozen=True)
class _SupportMetric(TokenizedMetric, EvidenceMetric, AnswerMetric):
    """A metric of the proportion of the answer that its evidence supports."""

    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""
    tokenizer: str = field(default="auto", kw_only=True)
    """How answer and documents are cut into tokens; by default the script of the documents decides."""

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        output_skips=frozenset({"empty_answer", "too_short", "no_text", "no_content"}),
        skip_reasons={
            **AnswerMetric.metadata.skip_reasons,
            "empty_answer": "the answer has no words",
            "no_text": "the documents have no text",
        },
        signature={
            "evidence": SignatureOption("evidence_source", last=True),
            "k": SignatureOption("k", last=True),
            "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label, last=True),
        },
    )
    empty_reason: ClassVar[str] = "empty_answer"
    """The skip reason of an answer with words, but without any unit that counts."""

    @property
    def gold_side(self) -> GoldSide:  # type: ignore[override]
        """The documents: all that were returned, whatever ``k`` is."""
        return self.evidence_source

    def support_scores(
        self, batch: Batch, supported: Integers, total: Integers, *, skip: SkipMasks | None = None
    ) -> Scores:
        """Supported units over all units, 0 without documents; answers without units are skipped."""
        documents = evidence_texts(batch, self.evidence_source, self.k)
        values = supported / np.maximum(total, 1)
        return self.outcome(
            batch,
            values,
            skip=skip,
            skip_answer={
                "empty_answer": token_ids(batch, self.words, "answers").counts == 0,
                self.empty_reason: total == 0,
                "no_text": documents.no_text,
            },
        )

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The proportion by the plain definition."""
        tokenize = self.words.tokenize
        words = tokenize_answer(answer, tokenize)
        if not words:
            return Score.skip("empty_answer")
        units, evidence = self.units(words), self.evidence_documents(sample, output)
        if not units:
            return Score.skip(self.empty_reason)
        if evidence and not any(document.text for document in evidence):
            return Score.skip("no_text")
        grams = [
            (document.doc_id, set(ngrams(tokenize(document.text), len(units[0]))))
            for document in evidence
            if document.text
        ]
        found_in = [[doc_id for doc_id, known in grams if unit in known] for unit in units]
        first = "" if self.k is None else f" (the first {self.k})"
        add_step(f"The evidence, {self.evidence_source}{first}: {join_items(doc_id for doc_id, _ in grams)}")
        add_table(
            f"Each of the {len(units)} {self.unit_name} of the answer",
            (self.unit_name, "found", "in"),
            (
                (" ".join(unit), yes_no(bool(ids)), join_items(list(dict.fromkeys(ids))[:3], nothing=""))
                for unit, ids in zip(units, found_in, strict=True)
            ),
        )
        return Score(add_division("Found / counted", sum(map(bool, found_in)), len(units)))

    def units(self, words: list[str]) -> list[tuple[str, ...]]:
        """The n-grams of the answer that are counted."""
        return ngrams(words, 1)

    unit_name: ClassVar[str] = "words"


@register("evidence_overlap")
@dataclass(frozen=True)
class EvidenceOverlapFaithfulness(_SupportMetric):
    r"""Proportion of the answer's n-grams that occur in the evidence.

    .. math:: |\{g \in \text{answer} : g \in \text{evidence}\}| / |\text{answer}|

    N-grams of the answer count as often as they occur, those of the evidence once; an n-gram lies within one document.
    Words are in lower case without punctuation, articles kept; where the documents are in a script without spaces, its
    letters are the words. Evidence is what was retrieved (the first `k`), or the
    relevant documents (`evidence_source: relevant`). Nothing retrieved scores 0. A crude proxy for faithfulness: it
    compares words, not claims.
    """

    n: PositiveInt = 1
    evidence_source: Source = "retrieved"

    metadata = declare(
        skip_reasons={
            **_SupportMetric.metadata.skip_reasons,
            "too_short": "the answer has fewer than n words",
            "no_gold": "the evidence is the relevant documents, and they are not annotated",
            "empty_gold": "the evidence is the relevant documents, and there is none",
        },
        examples=(
            "evidence_overlap",
            {"evidence_overlap": {"n": 2, "k": 3}},
            {"evidence_overlap": {"evidence_source": "relevant"}},
        ),
        signature={"n": "n"},
    )
    empty_reason: ClassVar[str] = "too_short"

    def score_tokens(self, batch: Batch) -> Scores:
        """The proportion of each answer."""
        rule = self.words
        every = ngram_counts(token_ids(batch, rule, "answers"), self.n)
        documents = evidence_texts(batch, self.evidence_source, self.k)
        relevant = self.evidence_source == "relevant"
        skip = {"no_gold": documents.unknown, "empty_gold": documents.no_documents} if relevant else None
        return self.support_scores(
            batch, ngram_support(batch, rule, self.evidence_source, self.k).counts(self.n), every, skip=skip
        )

    def units(self, words: list[str]) -> list[tuple[str, ...]]:
        """All n-grams."""
        return ngrams(words, self.n)

    unit_name: ClassVar[str] = "n-grams"


@register("support_density")
@dataclass(frozen=True)
class SupportDensity(_SupportMetric):
    r"""Proportion of all words of the answer that occur in the retrieved documents.

    .. math:: |\{w \in \text{answer} : w \in \text{documents}\}| / |\text{answer}|

    Words count as often as they occur ("paris paris london" against "paris": 2/3). Nothing retrieved scores 0.
    """

    metadata = declare(
        examples=("support_density",),
    )

    def score_tokens(self, batch: Batch) -> Scores:
        """The proportion of each answer."""
        every = token_ids(batch, self.words, "answers").counts
        return self.support_scores(batch, ngram_support(batch, self.words, "retrieved", self.k).counts(1), every)


@register("hallucination_rate")
@dataclass(frozen=True)
class HallucinationRate(SupportDensity):
    r"""Proportion of all words of the answer that do not occur in the retrieved documents: 1 - `support_density`.

    .. math:: 1 - |\{w \in \text{answer} : w \in \text{documents}\}| / |\text{answer}|

    A word that is not in the documents is a hint, not a proof, of a hallucination. Nothing retrieved scores 1.
    """

    metadata = declare(
        higher_is_better=False,
        function_of="support_density",
        examples=("hallucination_rate",),
    )

    def score_tokens(self, batch: Batch) -> Scores:
        """One minus the density of each answer."""
        density = super().score_tokens(batch)
        return density.with_values(1.0 - density.values)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """One minus the density by the plain definition."""
        density = super().score_plain(sample, output, answer)
        if density.value is None:
            return density
        return Score(add_result(f"1 − {format_number(density.value)}", 1.0 - density.value))


@register("support_coverage")
@dataclass(frozen=True)
class SupportCoverage(_SupportMetric):
    r"""Proportion of the answer's content words that occur in the retrieved documents.

    .. math:: |\{w \in \text{content}(\text{answer}) : w \in \text{documents}\}| / |\text{content}(\text{answer})|

    Content words are those outside a fixed list of English function words (`auepora_eval.text.tokenizers`), counted as
    often as they occur. Nothing retrieved scores 0.
    """

    metadata = declare(
        skip_reasons={
            **_SupportMetric.metadata.skip_reasons,
            "no_content": "the answer has function words alone",
        },
        examples=(
            "support_coverage",
            {"support_coverage": {"k": 2}},
        ),
    )
    empty_reason: ClassVar[str] = "no_content"

    def score_tokens(self, batch: Batch) -> Scores:
        """The proportion of each answer."""
        words = token_ids(batch, self.words, "answers")
        content = ~stop_word_mask(batch, self.words).take(words.ids)
        places = ngram_support(batch, self.words, "retrieved", self.k).places(1)
        rows = words.rows
        every = np.bincount(rows[content], minlength=len(batch))
        supported = np.bincount(rows[places[content[places]]], minlength=len(batch))
        return self.support_scores(batch, supported, every)

    def units(self, words: list[str]) -> list[tuple[str, ...]]:
        """The content words."""
        return ngrams([word for word in words if word not in STOP_WORDS], 1)

    unit_name: ClassVar[str] = "content words"


# --- expectations in the dataset: phrases an answer must or must not contain -----------------------------------------


@register("groundedness")
@dataclass(frozen=True)
class Groundedness(ConfiguredMetric, SampleMetric):
    r"""1 if the answer contains every required phrase and no forbidden one.

    .. math:: [\,\forall m \in \text{must\_contain}: m \subseteq \text{answer}\,] \cdot
        [\,\forall f \in \text{forbidden}: f \nsubseteq \text{answer}\,]

    `metadata["must_contain"]` and `metadata["forbidden"]` are a string or a list of strings, searched anywhere in the
    answer, ignoring case and Unicode composition. Any run of white space is one blank, and so are both ends of the
    answer, so that `" no "` finds the word and not the beginning of `nothing`. White space alone is always contained,
    and ignored as a forbidden phrase. A sample without expectations scores 1. Every answer without an error is counted,
    a refusal too. Expectations of any other type are a failed measurement (`bad_expectation`).
    """

    target = TargetCategory.GENERATION_FAITHFULNESS
    metadata = declare(
        reads=frozenset({"response"}),
        binary=True,
        counts_system_failures=False,
        skip_reasons={"no_response": "no answer was asked for"},
        examples=("groundedness",),
        signature={},
    )

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether anything is expected; without expectations every answer would score 1."""
        return any(_expected_phrases(sample, key) != [] for key in ("must_contain", "forbidden"))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether the answer meets the expectations."""
        required, forbidden = _expected_phrases(sample, "must_contain"), _expected_phrases(sample, "forbidden")
        if required is None or forbidden is None:
            return Score.fail("bad_expectation")
        answer = f" {casefold_text(response_text(output)).strip()} "
        missing = [text for text in required if text not in answer]
        present = [text for text in forbidden if text.strip() and text in answer]
        if is_recording():
            add_step(f"The answer, with case and white space folded: {quote_text(answer)}")
            rows = [("must contain", text, yes_no(text not in missing)) for text in required]
            rows += [("forbidden", text, yes_no(text in present)) for text in forbidden]
            add_table("What the sample expects", ("", "text", "in the answer"), rows)
            add_outcome(f"{len(missing)} missing, {len(present)} forbidden", float(not missing and not present))
        return Score(not missing and not present)


def _expected_phrases(sample: EvaluationSample, key: str) -> list[str] | None:
    """The normalised phrases under a key of the metadata; ``None`` if they are not strings."""
    texts = metadata_texts(sample, key)
    return None if texts is None else [casefold_text(text) for text in texts]
