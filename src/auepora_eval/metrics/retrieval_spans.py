"""Retrieval relevance by characters: coverage of gold passages, independent of the chunking."""

from __future__ import annotations

from collections.abc import Iterable
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
from .ranking import relevant_ids

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
        if sample.relevant_docs is None:
            return Score.skip("no_gold")
        ids = relevant_ids(highest_levels(sample), self.active_conventions.min_relevance)
        relevant = [document for document in sample.relevant_docs if document.doc_id in ids]
        if not relevant:
            return Score.skip("empty_gold")
        chunks = [item.doc for item in output.retrieved[: self._cut]]
        passages, pieces = _pieces(relevant, sample.sample_id), _pieces(chunks, sample.sample_id)
        gold = _characters(passages or ())
        if not gold:
            return Score.skip("no_spans")
        if pieces is None:
            return Score.skip("no_returned_spans")
        returned = _characters(pieces)
        for text, spans in (("The gold passages", passages or ()), (f"The first {self.k} chunks", pieces)):
            add_table(text, ("document", "from", "to"), spans)
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
    gold_sizes, returned_sizes = np.zeros(len(batch)), np.zeros(len(batch))
    common = []
    # ``rankings`` has validated levels; a document given twice has its highest level.
    for row, ids in enumerate(rankings(batch).gold):
        sample, output = batch.samples[row], batch.outputs[row]
        if ids is None:
            common.append(Score.skip("no_gold"))
            continue
        relevant = relevant_ids(ids, min_relevance)
        if not relevant:
            common.append(Score.skip("empty_gold"))
            continue
        gold = _pieces((d for d in sample.relevant_docs or () if d.doc_id in relevant), sample.sample_id) or []
        answered = output is not None and output.error is None  # documents of a failed output are ignored
        chunks = output.retrieved[:cut] if output is not None and answered else []
        returned = _pieces((item.doc for item in chunks), sample.sample_id)
        gold_sizes[row] = covered_characters(gold)
        if not gold_sizes[row]:
            common.append(Score.skip("no_spans"))
        elif returned is None:
            common.append(Score.skip("no_returned_spans"))
        else:
            returned_sizes[row] = covered_characters(returned)
            both = gold_sizes[row] + returned_sizes[row] - covered_characters(gold + returned)
            common.append(Score(float(both)))
    return SpanOverlap(gold_sizes, returned_sizes, Scores.from_list(common))


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
