"""Retrieval relevance by characters: coverage of gold passages, independent of the chunking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff, SignatureOption
from ..core.derivation import add_division, add_outcome, add_step, add_table
from ..core.metrics_base import declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadTypeError, BadValueError
from ..features.hits import Floats, reject_duplicates
from ..features.matching import ParentSpan, covered_characters
from ..features.rankings import highest_levels, rankings
from .ranking import Gold, relevant_ids

Character = tuple[str, int]
"""A parent's id and a position in it."""
Denominator = Literal["gold", "returned", "either"]


@dataclass(frozen=True, slots=True)
class SpanOverlap:
    """Per sample the numbers of gold, returned and common characters."""

    gold: Floats
    returned: Floats
    common: Scores
    """The scores of the metrics, before the division."""


@dataclass(frozen=True)
class SpanMetric(ConfiguredMetric):
    """A metric of the characters that gold passages and the first ``k`` chunks have in common."""

    k: RankCutOff
    divide_by: ClassVar[Denominator]

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset({"retrieved"}),
        requires=("relevant_docs",),
        output_skips=frozenset({"no_returned_spans"}),
        suggested=False,
        suggested_with_spans=frozenset({"gold", "returned"}),
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant",
            "no_spans": "a relevant document has neither a span nor, as a whole document, a text; "
            "or all of them are empty",
            "no_returned_spans": "a chunk within k has neither a span nor, as a whole document, a text",
        },
        signature={
            "rel": SignatureOption("active_conventions.min_relevance", unless=1),
            "depth": SignatureOption("_cut", differs_from="k"),
        },
        reads_depth="_cut",
    )

    def overlap(self, batch: Batch) -> SpanOverlap:
        """The counts of all three metrics, cached by cut-off and relevance threshold."""
        rules = self.active_conventions
        if rules.duplicates == "error":
            reject_duplicates(batch)
        key = ("span_overlap", rules.min_relevance, self._cut)
        return batch.feature(key, lambda b: _count_overlap(b, rules.min_relevance, self._cut))

    @property
    def _cut(self) -> int:
        return self.k if self.active_conventions.depth is None else min(self.k, self.active_conventions.depth)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, character by character."""
        levels = None if sample.relevant_docs is None else highest_levels(sample)
        chunks = [item.doc for item in output.retrieved[: self._cut]]
        spans = _compared_spans(sample, levels, chunks, self.active_conventions.min_relevance)
        if isinstance(spans, str):
            return Score.skip(spans)
        add_table("The gold passages", ("document", "from", "to"), spans[0])
        add_table(f"The first {self.k} chunks", ("document", "from", "to"), spans[1])
        gold, returned = _characters(spans[0]), _characters(spans[1])
        common, either = len(gold & returned), gold | returned
        add_step(f"Characters, each counted once: {len(gold)} gold, {len(returned)} returned, {common} in both")
        divisor = len({"gold": gold, "returned": returned, "either": either}[self.divide_by])
        if not divisor:
            return Score(add_outcome("Nothing was returned", 0.0))
        return Score(add_division(f"In both / {self.divide_by}", common, divisor))

    def score(self, batch: Batch) -> Scores:
        """Common characters over those of the denominator."""
        counts = self.overlap(batch)
        common = counts.common.values
        either = counts.gold + counts.returned - common
        divisor = {"gold": counts.gold, "returned": counts.returned, "either": either}[self.divide_by]
        return counts.common.with_values(common / np.maximum(divisor, 1.0))


@register("span_recall", at="k")
@dataclass(frozen=True)
class SpanRecallAtK(SpanMetric):
    r"""Proportion of the gold passages' characters that the first k chunks cover.

    .. math:: |C(G) \cap C(R_k)| / |C(G)|

    C are characters of the parent documents, each counted once however many spans overlap on it. The chunking does not
    matter, so systems with different chunkers can be compared; the k chunks of one may be longer than those of the
    other, which precision and IoU show. A document that is its own parent and has a text but no span covers all of its
    text. Returning nothing scores 0.
    """

    divide_by: ClassVar[Denominator] = "gold"
    metadata = declare(
        reference="Smith & Troynikov 2024 (Chroma, Evaluating Chunking Strategies for Retrieval)",
        examples=("span_recall@3",),
    )


@register("span_precision", at="k")
@dataclass(frozen=True)
class SpanPrecisionAtK(SpanMetric):
    r"""Proportion of the characters of the first k chunks that lie in a gold passage.

    .. math:: |C(G) \cap C(R_k)| / |C(R_k)|

    C are characters of the parent documents, each counted once: a passage returned by two overlapping chunks counts
    once. Long chunks around a short passage score low. A document that is its own parent and has a text but no span
    covers all of its text. Returning nothing, or empty chunks only, scores 0.
    """

    divide_by: ClassVar[Denominator] = "returned"
    metadata = declare(
        reference="Smith & Troynikov 2024, there with repeated characters counted in the denominator",
        examples=("span_precision@3",),
    )


@register("span_iou", at="k")
@dataclass(frozen=True)
class SpanIoUAtK(SpanMetric):
    r"""Characters that gold passages and the first k chunks have in common, over those of either.

    .. math:: |C(G) \cap C(R_k)| / |C(G) \cup C(R_k)|

    Intersection over union (Jaccard's index) of the characters of the parent documents: 1 only where exactly the gold
    passages are returned. It penalises both missing and superfluous text. A document that is its own parent and has a
    text but no span covers all of its text. Returning nothing scores 0.
    """

    divide_by: ClassVar[Denominator] = "either"
    metadata = declare(
        reference="Jaccard 1901; Smith & Troynikov 2024, there with repeated characters counted",
        examples=("span_iou@3",),
    )


def _count_overlap(batch: Batch, min_relevance: int, cut: int) -> SpanOverlap:
    gold_sizes, returned_sizes = np.zeros((2, len(batch)))
    common: list[Score] = []
    # ``rankings`` has validated levels; a document given twice has its highest level.
    for row, levels in enumerate(rankings(batch).gold):
        output = batch.outputs[row]
        answered = output is not None and output.error is None  # documents of a failed output are ignored
        chunks = [item.doc for item in output.retrieved[:cut]] if output is not None and answered else []
        spans = _compared_spans(batch.samples[row], levels, chunks, min_relevance)
        if isinstance(spans, str):
            common.append(Score.skip(spans))
            continue
        gold_sizes[row], returned_sizes[row] = covered_characters(spans[0]), covered_characters(spans[1])
        both = gold_sizes[row] + returned_sizes[row] - covered_characters(spans[0] + spans[1])
        common.append(Score(float(both)))
    return SpanOverlap(gold_sizes, returned_sizes, Scores.from_list(common))


def _compared_spans(
    sample: EvaluationSample, levels: Gold | None, chunks: Sequence[Document], min_relevance: int
) -> tuple[list[ParentSpan], list[ParentSpan]] | str:
    """The spans of the gold passages and of the chunks; the skip reason where they cannot be compared."""
    if levels is None:
        return "no_gold"
    ids = relevant_ids(levels, min_relevance)
    relevant = [document for document in sample.relevant_docs or () if document.doc_id in ids]
    if not relevant:
        return "empty_gold"
    passages, pieces = _pieces(relevant, sample.sample_id), _pieces(chunks, sample.sample_id)
    if not covered_characters(passages or ()):
        return "no_spans"
    return "no_returned_spans" if pieces is None else (passages or [], pieces)


def _characters(pieces: Iterable[ParentSpan]) -> set[Character]:
    """All characters that the spans cover."""
    characters: set[Character] = set()
    for parent, start, end in pieces:
        characters |= {(parent, position) for position in range(start, end)}
    return characters


def _pieces(documents: Iterable[Document], sample_id: str) -> list[ParentSpan] | None:
    """The spans that the documents cover; ``None`` if one has no span."""
    pieces: list[ParentSpan] = []
    unknown = False
    for document in documents:
        span = document.span
        if span is None and document.text and document.parent == document.doc_id:
            span = (0, len(document.text))
        if span is None:
            unknown = True  # the others are still checked
            continue
        pieces.append((document.parent, *_check_span(span, document, sample_id)))
    return None if unknown else pieces


def _check_span(span: tuple[int, int], document: Document, sample_id: str) -> tuple[int, int]:
    where = f"sample '{sample_id}': the span of document '{document.doc_id}' is {span!r}"
    try:
        start, end = span
    except (TypeError, ValueError):
        raise BadTypeError(f"{where}; it must be a pair (start, end)") from None
    for number in (start, end):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise BadTypeError(f"{where}; start and end must be integers")
    if start < 0 or end < start:
        raise BadValueError(f"{where}; it must satisfy 0 <= start <= end")
    return int(start), int(end)
