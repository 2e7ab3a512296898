"""Metrics that cut texts into tokens: by a tokenizer that they name, or by the script of the gold side."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import metadata
from typing import ClassVar, Self

import numpy as np

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric
from ..core.scores import CHARACTERS, Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, MissingDependencyError, did_you_mean
from ..features.texts import GoldSide, script_parts, text_cuts
from ..runtime.imports import IMPORT_PATH, import_object
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
        if name not in _IMPORTED:
            raise
        raise MissingDependencyError("jieba", purpose=f"the tokenizer '{name}'", install="jieba") from error

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
        if self.tokenizer != "auto":
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
        clone = copy.copy(self)
        object.__setattr__(clone, "tokenizer", "char")
        return clone

    def for_sample(self, sample: EvaluationSample, output: SystemOutputs) -> Self:
        """The metric as it cuts the texts of one sample."""
        if self.tokenizer != "auto":
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
