"""Metrics of retrieved documents as tokens: how many there are, and recall within a budget of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.conventions import without_separator
from ..core.derivation import add_step, add_table
from ..core.metrics_base import SampleMetric, declare, with_conventions
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..options import PositiveInt
from ..runtime.imports import IMPORT_PATH, import_object
from .answer_base import named_tokenizer, require_tokenizer, tokenizer_label
from .ranking import RankingMetric
from .retrieval import RecallAtK

_TOKENIZERS = ("char", "unicode")


@lru_cache(maxsize=16)
def _token_function(name: str) -> Callable[[str], Sequence[Any]]:
    """The function that cuts a text into tokens; those of an import path may be numbers, as of a model's encoder."""
    if IMPORT_PATH.fullmatch(name):
        function: Callable[[str], Sequence[Any]] = import_object(name)
        return function
    return named_tokenizer(name).tokenize


@dataclass(frozen=True)
class _DocumentTokens(ConfiguredMetric):
    """A metric of the tokens of retrieved documents."""

    tokenizer: str = field(default="char", kw_only=True)
    """`char` (words, and letters in scripts without spaces), `unicode`, or an import path."""

    metadata = declare(reads=frozenset({"retrieved"}), suggested=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not IMPORT_PATH.fullmatch(self.tokenizer):
            require_tokenizer(self.tokenizer, _TOKENIZERS)

    @property
    def tokenizer_label(self) -> str:
        """The tokenizer as signatures show it."""
        return without_separator(tokenizer_label(self.tokenizer))

    def tokens(self, output: SystemOutputs) -> list[int | None]:
        """The number of tokens of each retrieved document; ``None`` for one whose text is unknown."""
        function = _token_function(self.tokenizer)
        texts = [item.doc.text for item in output.retrieved]
        return [len(function(text)) if text else None for text in texts]


@register("context_tokens")
@dataclass(frozen=True)
class ContextTokens(_DocumentTokens, SampleMetric):
    r"""The number of tokens of the retrieved documents.

    .. math:: \sum_d |\text{tokens}(d)|

    By a tokenizer of this library, or by that of your model: the import path of a function from a text to its tokens.
    Tokens have no better and worse by themselves, so comparisons show ratios without a verdict. Failed outputs are left
    out. A document without a text makes it a failed measurement (`no_document_text`).
    """

    target = TargetCategory.COST
    metadata = declare(
        counts_system_failures=False,
        range=(0.0, math.inf),
        higher_is_better=False,
        has_direction=False,
        examples=("context_tokens", {"context_tokens": {"tokenizer": "unicode"}}),
        signature={"tokenizer": "tokenizer_label"},
    )

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The number of tokens."""
        counts = self.tokens(output)
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return Score.fail("no_document_text")
        add_table("Tokens of the documents", ("rank", "tokens"), enumerate(known, start=1))
        return Score(sum(known))


@register("recall_in_tokens", at="budget")
@dataclass(frozen=True)
class RecallInTokens(_DocumentTokens):
    r"""Share of the relevant documents among those that fit into a budget of tokens.

    .. math:: |G \cap R_b| / |G|

    The ranking is read until the first document that does not fit into what is left of the budget, and ends there: a
    shorter document behind it is not taken. So systems with chunks of different length can be compared by what a prompt
    can hold. Otherwise it is `recall`, in every way to match gold. Where a text that is needed to count is unknown it
    is a failed measurement (`no_document_text`).
    """

    budget: PositiveInt

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        requires=("relevant_docs",),
        by_chunk_id=True,
        matches_gold=True,
        skip_reasons={key: why for key, why in RankingMetric.metadata.skip_reasons.items() if key != "match"},
        examples=("recall_in_tokens@2", "recall_in_tokens@2000", {"recall_in_tokens@5": {"tokenizer": "unicode"}}),
        signature={"tokenizer": "tokenizer_label"},
    )

    @property
    def _recall(self) -> RecallAtK:
        """Recall of a whole ranking."""
        return with_conventions(RecallAtK(k=None), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """The tokenizer, and the options of recall."""
        return {**super().signature_options(), **self._recall.ranking_signature_options()}

    def within_budget(self, output: SystemOutputs) -> tuple[SystemOutputs, bool]:
        """The output with the documents that fit, and whether a text is unknown that is needed to tell."""
        left, kept = self.budget, 0
        for count in self.tokens(output):
            if count is None:
                return replace(output, retrieved=output.retrieved[:kept]), True
            if count > left:
                break
            left, kept = left - count, kept + 1
        return replace(output, retrieved=output.retrieved[:kept]), False

    def score(self, batch: Batch) -> Scores:
        """Recall of what fits."""
        outputs: list[SystemOutputs | None] = []
        unknown = np.zeros(len(batch), dtype=np.bool_)
        for row, output in enumerate(batch.outputs):
            cut = output
            if output is not None and output.error is None:
                cut, unknown[row] = self.within_budget(output)
            outputs.append(cut)
        scores = self._recall.score(Batch(batch.samples, outputs, memory=batch.memory))
        unknown &= scores.status == Status.SCORED
        return scores.replaced(unknown, Status.MEASURE_FAILED, "no_document_text", math.nan)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Recall of what fits, by the plain definition."""
        cut, unknown = self.within_budget(output)
        outcome = self._recall.reference(sample, cut)
        if unknown and outcome.status is Status.SCORED:
            return Score.fail("no_document_text")
        add_step(f"{len(cut.retrieved)} of {len(output.retrieved)} documents fit into {self.budget} tokens")
        return outcome
