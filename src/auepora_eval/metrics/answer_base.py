"""Base classes of metrics over answers: skips, the texts an answer is compared with, and tokenizers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import metadata
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.metrics_base import (
    BatchMetric,
    PerSampleMetric,
    SampleMetric,
    declare,
    precheck,
    set_metadata,
    with_option,
)
from ..core.registry import ConfiguredMetric
from ..core.scores import CHARACTERS, Score, Scores
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..errors import BadTypeError, BadValueError, MissingDependencyError, did_you_mean
from ..features.texts import (
    GoldSide,
    Integers,
    Mask,
    Role,
    Source,
    answers,
    has_empty_reference,
    no_response,
    reference_texts,
    script_parts,
    text_cuts,
)
from ..runtime.imports import IMPORT_PATH, CodeNotLoadedError, import_object
from ..text.scripts import is_unspaced
from ..text.tokenizers import (
    ByteTokenizer,
    Tokenizer,
    bleu_tokenizer,
    character_trigrams,
    custom_tokenizer,
    rouge_tokenizer,
    script_tokenizer,
    visible_token,
    word_tokenizer,
)

Floats = npt.NDArray[np.float64]
SkipMasks = Mapping[str, Mask]
"""Per reason which rows are skipped."""


def overlap_scores(common: Integers, given: Integers, wanted: Integers) -> tuple[Floats, Floats, Floats]:
    """F1, precision and recall of each pair, bit for bit equal to those of ``Overlap``."""
    some = np.maximum(common, 1)
    precision, recall = some / np.maximum(given, 1), some / np.maximum(wanted, 1)
    f1 = 2 * precision * recall / (precision + recall)
    found = common > 0
    return np.where(found, f1, 0.0), np.where(found, precision, 0.0), np.where(found, recall, 0.0)


@dataclass(frozen=True)
class AnswerMetric(ConfiguredMetric, PerSampleMetric):
    """A metric of the answer."""

    needs_response = True

    metadata = declare(
        reads=frozenset({"response"}),
        skip_reasons={"no_response": "no answer was asked for"},
    )

    def outcome(
        self,
        batch: Batch,
        values: Floats,
        *,
        skip: SkipMasks | None = None,
        skip_answer: SkipMasks | None = None,
        fail: SkipMasks | None = None,
        stats: Floats | None = None,
    ) -> Scores:
        """The scores of a batch: ``skip`` has reasons in the sample, ``skip_answer`` reasons in the answer.

        ``fail`` has the rows that could not be measured.
        """
        # In this order: a failed output on a sample the metric does not apply to is a skip.
        return Scores.of(
            values,
            skip={**(skip or {}), "no_response": no_response(batch), **(skip_answer or {})},
            fail=fail,
            stats=stats,
        )

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of one answered sample by the plain definition."""
        skipped = precheck(self, sample, output, answered=True)
        if skipped is not None:
            return skipped
        return self.score_plain(sample, output, response_text(output))

    @abstractmethod
    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The outcome of an answer by its plain definition."""


def metadata_texts(sample: EvaluationSample, key: str) -> list[str] | None:
    """The texts under a key of the metadata: a string or a list of strings; ``None`` for anything else."""
    if not isinstance(sample.metadata, Mapping):
        return None
    value = sample.metadata.get(key)
    if value is None:
        return []
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        return None
    return list(texts)


@dataclass(frozen=True)
class AnnotatedMetric(ConfiguredMetric, SampleMetric):
    """A metric of samples with a certain annotation, which ``applies`` looks for."""

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample has the annotation."""
        return self.applies(sample) is None


class EvidenceMetric(BatchMetric):
    """A metric of an answer and its evidence: the first ``k`` retrieved documents, or the relevant ones."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    evidence_source: Source = "retrieved"
    k: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evidence_source == "relevant":
            if self.k is not None:
                raise BadValueError("'k' counts retrieved documents; it means nothing with 'evidence_source: relevant'")
            set_metadata(self, reads=frozenset({"response"}))

    def required_fields(self) -> list[str]:
        """Relevant documents where they are the evidence."""
        return ["relevant_docs"] if self.evidence_source == "relevant" else []

    def evidence_documents(self, sample: EvaluationSample, output: SystemOutputs) -> list[Document]:
        """The documents that are the evidence for an answer."""
        if self.evidence_source == "relevant":
            return list(sample.relevant_docs or [])
        return [item.doc for item in output.retrieved[: self.k]]

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the documents have text."""
        return any(document.text for document in self.evidence_documents(sample, output))

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples without relevant documents, if these are the evidence."""
        return "empty_gold" if self.evidence_source == "relevant" and not sample.relevant_docs else None


@dataclass(frozen=True)
class ReferencedMetric(AnswerMetric):
    """A metric that compares the answer with reference answers."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "empty_reference": "the reference is empty, and the question is not marked unanswerable",
            **AnswerMetric.metadata.skip_reasons,
        },
    )

    @property
    def role(self) -> Role:
        """The texts that answers are compared with."""
        return "reference"

    def required_fields(self) -> list[str]:
        """A reference answer, unless answers are compared with the query."""
        return ["reference_answer"] if self.role == "reference" else []

    def without_reference(self, batch: Batch) -> dict[str, Mask]:
        """The rows without a reference, and those with an empty one that is no answer either."""
        compared = reference_texts(batch, self.role)
        masks = {"no_reference": np.bincount(compared.owners, minlength=len(batch)) == 0}
        if self.role == "reference" and not all(map(str.strip, compared.texts)):
            masks["empty_reference"] = np.array(list(map(has_empty_reference, batch.samples)), np.bool_)
        return masks

    def score_alone(self, batch: Batch, value: Callable[[EvaluationSample, str], float]) -> Scores:
        """The scores of a batch by a function of a sample and its answer."""
        values = [value(sample, answer) for sample, answer in zip(batch.samples, answers(batch), strict=True)]
        return self.outcome(batch, np.array(values), skip=self.without_reference(batch))

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples with an empty reference that is no answer either."""
        return "empty_reference" if self.role == "reference" and has_empty_reference(sample) else None

    def compared_texts(self, sample: EvaluationSample) -> list[str]:
        """The texts that the answer of this sample is compared with."""
        return sample.references if self.role == "reference" else [sample.query]


@dataclass(frozen=True)
class ComparedMetric(ReferencedMetric):
    """A metric that compares the answer with reference answers (the best counts), or with the query."""

    compare_to: Literal["reference", "query"] = field(default="reference", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compare_to == "query":
            object.__setattr__(self, "target", TargetCategory.GENERATION_RELEVANCE)

    @property
    def role(self) -> Role:
        """The texts that answers are compared with."""
        return self.compare_to


# --- metrics with a tokenizer: the scripts of the texts may decide it -------------------------------------------------

STEMMED = ("auto", "words", "rouge_score", "unicode", "char")
"""Tokenizers after which words can be stemmed."""
TOKENIZERS = ("auto", "words", "unicode", "char", "char3", "jieba_characters")
"""The names of tokenizers; an import path such as ``jieba:lcut`` is possible too."""
_IMPORTED = {"jieba_characters": "jieba:lcut"}
"""The functions of tokenizers that have a name of their own."""
_WORD_TOKENIZERS = ("words", "rouge_score")
"""Tokenizers for which a sentence without spaces is one word, or none."""


def require_tokenizer(name: str, known: Sequence[str]) -> None:
    """Raise unless a tokenizer is known or an import path."""
    if name in _IMPORTED or IMPORT_PATH.fullmatch(name):
        named_tokenizer(name)
    elif name not in known:
        raise BadValueError(
            f"there is no tokenizer {name!r}{did_you_mean(name, known)}; use {', '.join(known)}, or the import path of "
            "a function from a text to a list of tokens, such as 'jieba:lcut'"
        )


@lru_cache
def named_tokenizer(name: str, *, stem: bool = False) -> Tokenizer:
    """A tokenizer by its name, other than the words of a metric; ``stem`` stems words of a-z and 0-9."""
    match name:
        case "unicode":
            return rouge_tokenizer(stem=stem, script="unicode")
        case "char":
            return script_tokenizer(stem=stem)
        case "char3":
            return custom_tokenizer(name, character_trigrams)
    try:
        function = import_object(_IMPORTED.get(name, name))
    except BadValueError as error:
        if isinstance(error, CodeNotLoadedError) or not name.startswith("jieba"):
            raise
        raise MissingDependencyError(
            "jieba", purpose=f"the tokenizer '{name}'", install="'auepora-eval[zh]'"
        ) from error

    def cut(text: str) -> list[str]:
        try:
            tokens = list(function(text))
        except Exception as error:  # the user's code may raise anything
            raise BadValueError(f"the tokenizer '{name}' raised {type(error).__name__}: {error}") from error
        if not all(isinstance(token, str) for token in tokens):
            raise BadTypeError(f"the tokenizer '{name}' must give a list of strings, not {tokens!r:.80}")
        if name in _IMPORTED:  # the characters of the words, with a blank between two words
            tokens = list(" ".join(tokens))
        return [visible_token(token) for token in tokens if token]

    return custom_tokenizer(f"import {name}", cut)


def tokenizer_label(name: str) -> str:
    """A tokenizer in a signature: its name, with the version of the package of an import path."""
    package, colon, _ = _IMPORTED.get(name, name).partition(":")
    if not colon:
        return name
    try:
        return f"{name}@{metadata.version(package.partition('.')[0])}"
    except metadata.PackageNotFoundError:
        return name


class TokenizedMetric(BatchMetric):
    """A metric that compares texts as tokens.

    With ``tokenizer: auto`` the script of the gold side decides sample by sample: the letters of a script without
    spaces are tokens, any other text is cut into words. Implement ``score_tokens``, which uses ``tokenizer`` for all.
    """

    tokenizer: str = "auto"
    tokenizers: ClassVar[Sequence[str]] = TOKENIZERS
    """The names that ``tokenizer`` may have."""
    gold_side: ClassVar[GoldSide] = "reference"
    """The texts whose script decides."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_tokenizer(self.tokenizer, self.tokenizers)

    @property
    def decides_tokens(self) -> bool:
        """Whether the script decides."""
        return self.tokenizer == "auto"

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        return self.tokens(word_tokenizer())

    def score_tokens(self, batch: Batch) -> Scores:
        """The scores of a batch whose texts are all cut by ``tokenizer``; ``auto`` means words."""
        raise NotImplementedError

    def score(self, batch: Batch) -> Scores:
        """The scores of a batch, each sample cut by its script."""
        if not self.decides_tokens:
            if self.tokenizer in _WORD_TOKENIZERS:
                self._note_unspaced(batch)
            return self.score_tokens(batch)
        cuts = text_cuts(batch, self.gold_side)
        if cuts is None:
            return self.score_tokens(batch)
        if CHARACTERS not in cuts:
            return replace(self.score_tokens(batch), cuts=cuts)
        (rows, part), (unspaced_rows, unspaced_part) = script_parts(batch, self.gold_side)
        in_words = self.score_tokens(part)
        in_characters = self.with_characters().score_tokens(unspaced_part)
        return replace(Scores.woven((rows, in_words), (unspaced_rows, in_characters)), cuts=cuts)

    def _note_unspaced(self, batch: Batch) -> None:
        cuts = text_cuts(batch, self.gold_side)
        rows = [] if cuts is None else np.flatnonzero(cuts == CHARACTERS).tolist()
        for row in rows:
            batch.note(
                f"'{self.name}' takes what is between two spaces for a word, and these samples are in a script without "
                "spaces; use 'tokenizer: auto'",
                batch.samples[row].sample_id,
            )

    def with_characters(self) -> Self:
        """The metric for samples in a script without spaces."""
        return with_option(self, "tokenizer", "char")

    def for_sample(self, sample: EvaluationSample, output: SystemOutputs) -> Self:
        """The metric as it cuts the texts of one sample."""
        if not self.decides_tokens:
            return self
        cuts = text_cuts(Batch([sample], [output]), self.gold_side)
        return self if cuts is None or cuts[0] != CHARACTERS else self.with_characters()

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of one answered sample by the plain definition."""
        metric = self.for_sample(sample, output)
        return super().reference(sample, output) if metric is self else metric.reference(sample, output)

    def reference_stats(self, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
        """The statistics of one scored sample by the plain definition."""
        return self.for_sample(sample, output).plain_stats(sample, output)

    def tokens_of(self, text: str) -> list[str]:
        """The tokens of a text whose own script decides."""
        is_cut = self.tokenizer == "auto" and is_unspaced(text)
        metric = self.with_characters() if is_cut else self
        return metric.words.tokenize(text)

    def joined_tokens(self, texts: Sequence[str]) -> list[str]:
        """Texts as keys of scores: cut into words they stay as they are, else blanks separate their tokens."""
        if self.tokenizer in ("auto", "words"):
            return list(texts)
        return [" ".join(self.words.tokenize(text)) for text in texts]

    @property
    def key_tokenizer(self) -> ByteTokenizer:
        """The tokenizer of such keys."""
        words = word_tokenizer() if self.tokenizer in ("auto", "words") else bleu_tokenizer(tokenize="none")
        return words.byte_tokenizer

    def plain_stats(self, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
        """The statistics where all texts are cut by ``tokenizer``."""
        return ()

    def tokens(self, words: Tokenizer, *, stem: bool = False) -> Tokenizer:
        """The tokenizer that the metric uses, given the one for words."""
        is_words = self.tokenizer in ("auto", *_WORD_TOKENIZERS)
        return words if is_words else named_tokenizer(self.tokenizer, stem=stem)
