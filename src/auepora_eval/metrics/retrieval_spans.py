"""Retrieval relevance by characters: coverage of gold passages, independent of the chunking."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import RankCutOff
from ..core.derivation import NO_CONTEXT, Cell, Derivation, DerivationBuilder, ExplainContext
from ..core.metrics_base import RunInfo, declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import Document, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadTypeError, BadValueError
from ..features.hits import ParentSpan, covered_characters, reject_duplicates
from ..features.rankings import rankings
from .ranking import relevant_ids

Floats = npt.NDArray[np.float64]
Character = tuple[str, int]
"""A parent's id and a position in it."""


@dataclass(frozen=True, slots=True)
class SpanOverlap:
    """Per sample the numbers of gold, returned and common characters, and the outcomes."""

    gold: Floats
    returned: Floats
    common: Floats
    outcomes: Scores


@dataclass(frozen=True)
class SpanMetric(ConfiguredMetric):
    """A metric of the characters that gold passages and the first ``k`` chunks have in common."""

    k: RankCutOff

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset({"retrieved"}),
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
    )

    def required_fields(self) -> list[str]:
        """Gold documents."""
        return ["relevant_docs"]

    def overlap(self, batch: Batch) -> SpanOverlap:
        """The counts of all three metrics, cached by cut-off and relevance threshold."""
        rules = self.active_conventions
        if rules.duplicates == "error":
            reject_duplicates(batch)
        cut = self.k if rules.depth is None else min(self.k, rules.depth)
        key = ("span_overlap", rules.min_relevance, cut)
        return batch.feature(key, lambda b: _count_overlap(b, rules.min_relevance, cut))

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, character by character."""
        if sample.relevant_docs is None:
            return Score.skip("no_gold")
        level: dict[str, int] = {}
        for document in sample.relevant_docs:
            own = document.metadata.get("relevance", 1)
            level[document.doc_id] = max(own, level.get(document.doc_id, own))
        relevant = [d for d in sample.relevant_docs if level[d.doc_id] >= self.active_conventions.min_relevance]
        if not relevant:
            return Score.skip("empty_gold")
        gold = _characters(relevant)
        returned = _characters([item.doc for item in output.retrieved[: self.active_conventions.depth][: self.k]])
        if not gold:
            return Score.skip("no_spans")
        return Score.skip("no_returned_spans") if returned is None else Score(self.plain(gold, returned))

    @abstractmethod
    def plain(self, gold: set[Character], returned: set[Character]) -> float:
        """The value of one query from the gold and the returned characters."""

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The gold spans, the returned spans and their overlap."""
        level: dict[str, int] = {}
        for document in sample.relevant_docs or ():
            own = document.metadata.get("relevance", 1)
            level[document.doc_id] = max(own, level.get(document.doc_id, own))
        relevant = [d for d in sample.relevant_docs or () if level[d.doc_id] >= self.active_conventions.min_relevance]
        chunks = [item.doc for item in output.retrieved[: self.active_conventions.depth][: self.k]]
        gold, returned = _pieces(relevant, sample.sample_id) or [], _pieces(chunks, sample.sample_id) or []
        steps = DerivationBuilder().table("The gold passages", ("document", "from", "to"), _span_rows(gold))
        steps.table(f"The first {self.k} chunks", ("document", "from", "to"), _span_rows(returned))
        size, length = covered_characters(gold), covered_characters(returned)
        common = size + length - covered_characters(gold + returned)
        steps.add_step(f"Characters, each counted once: {size} gold, {length} returned, {common} in both")
        over, whole = self.divisor(size, length, common)
        if not whole:
            return steps.finish("Nothing was returned: 0", 0.0)
        return steps.finish_with_value(f"In both / {over} = {common} / {whole}", common / whole)

    @abstractmethod
    def divisor(self, gold: int, returned: int, common: int) -> tuple[str, int]:
        """The denominator, as a label and a number."""

    def signature_options(self) -> dict[str, str]:
        """The relevance threshold and the depth, if they are not the defaults."""
        rules = self.active_conventions
        choices = {} if rules.min_relevance == 1 else {"rel": str(rules.min_relevance)}
        return choices if rules.depth is None or rules.depth >= self.k else {**choices, "depth": str(rules.depth)}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more positions."""
        deepest = self.k if self.active_conventions.depth is None else min(self.k, self.active_conventions.depth)
        return {"top_k": str(run.top_k)} if run.top_k is not None and run.top_k < deepest else {}


@register("span_recall", at="k")
@dataclass(frozen=True)
class SpanRecallAtK(SpanMetric):
    r"""Share of the gold passages' characters that the first k chunks cover.

    .. math:: |C(G) \cap C(R_k)| / |C(G)|

    C are characters of the parent documents, each counted once however many spans overlap on it. The chunking does not
    matter, so systems with different chunkers can be compared; the k chunks of one may be longer than those of the
    other, which precision and IoU show. A document that is its own parent and has a text but no span covers all of its
    text. Returning nothing scores 0.
    """

    metadata = declare(
        reference="Smith & Troynikov 2024 (Chroma, Evaluating Chunking Strategies for Retrieval)",
        examples=("span_recall@3",),
    )

    def score(self, batch: Batch) -> Scores:
        """Common over gold."""
        counts = self.overlap(batch)
        return counts.outcomes.with_values(counts.common / np.maximum(counts.gold, 1.0))

    def plain(self, gold: set[Character], returned: set[Character]) -> float:
        """The plain definition."""
        return len(gold & returned) / len(gold)

    def divisor(self, gold: int, returned: int, common: int) -> tuple[str, int]:
        """Gold."""
        return "gold", gold


@register("span_precision", at="k")
@dataclass(frozen=True)
class SpanPrecisionAtK(SpanMetric):
    r"""Share of the characters of the first k chunks that lie in a gold passage.

    .. math:: |C(G) \cap C(R_k)| / |C(R_k)|

    C are characters of the parent documents, each counted once: a passage returned by two overlapping chunks counts
    once. Long chunks around a short passage score low. A document that is its own parent and has a text but no span
    covers all of its text. Returning nothing, or empty chunks only, scores 0.
    """

    metadata = declare(
        reference="Smith & Troynikov 2024, there with repeated characters counted in the denominator",
        examples=("span_precision@3",),
    )

    def score(self, batch: Batch) -> Scores:
        """Common over returned."""
        counts = self.overlap(batch)
        return counts.outcomes.with_values(counts.common / np.maximum(counts.returned, 1.0))

    def plain(self, gold: set[Character], returned: set[Character]) -> float:
        """The plain definition."""
        return len(gold & returned) / len(returned) if returned else 0.0

    def divisor(self, gold: int, returned: int, common: int) -> tuple[str, int]:
        """What was returned."""
        return "returned", returned


@register("span_iou", at="k")
@dataclass(frozen=True)
class SpanIoUAtK(SpanMetric):
    r"""Characters that gold passages and the first k chunks have in common, over those of either.

    .. math:: |C(G) \cap C(R_k)| / |C(G) \cup C(R_k)|

    Intersection over union (Jaccard's index) of the characters of the parent documents: 1 only where exactly the gold
    passages are returned. It penalises both missing and superfluous text. A document that is its own parent and has a
    text but no span covers all of its text. Returning nothing scores 0.
    """

    metadata = declare(
        reference="Jaccard 1901; Smith & Troynikov 2024, there with repeated characters counted",
        examples=("span_iou@3",),
    )

    def score(self, batch: Batch) -> Scores:
        """Common over either."""
        counts = self.overlap(batch)
        either = counts.gold + counts.returned - counts.common
        return counts.outcomes.with_values(counts.common / np.maximum(either, 1.0))

    def plain(self, gold: set[Character], returned: set[Character]) -> float:
        """The plain definition."""
        return len(gold & returned) / len(gold | returned)

    def divisor(self, gold: int, returned: int, common: int) -> tuple[str, int]:
        """Either."""
        return "in either", gold + returned - common


def _span_rows(pieces: Iterable[ParentSpan]) -> list[tuple[Cell, ...]]:
    return [(parent, start, end) for parent, start, end in pieces]


def _count_overlap(batch: Batch, min_relevance: int, cut: int) -> SpanOverlap:
    counts = np.zeros((3, len(batch)))
    outcomes = []
    # ``rankings`` has validated levels; a document given twice has its highest level.
    for row, ids in enumerate(rankings(batch).gold):
        sample, output = batch.samples[row], batch.outputs[row]
        if ids is None:
            outcomes.append(Score.skip("no_gold"))
            continue
        relevant = relevant_ids(ids, min_relevance)
        if not relevant:
            outcomes.append(Score.skip("empty_gold"))
            continue
        gold = _pieces((d for d in sample.relevant_docs or () if d.doc_id in relevant), sample.sample_id)
        answered = output is not None and output.error is None  # documents of a failed output are ignored
        chunks = output.retrieved[:cut] if output is not None and answered else []
        returned = _pieces((item.doc for item in chunks), sample.sample_id)
        size = 0 if gold is None else covered_characters(gold)
        if gold is None or not size:
            outcomes.append(Score.skip("no_spans"))
        elif returned is None:
            outcomes.append(Score.skip("no_returned_spans"))
        else:
            length = covered_characters(returned)
            counts[:, row] = size, length, size + length - covered_characters(gold + returned)
            outcomes.append(Score(0.0))
    return SpanOverlap(counts[0], counts[1], counts[2], Scores.from_list(outcomes))


def _characters(documents: Sequence[Document]) -> set[Character] | None:
    """All characters that the documents cover; ``None`` if one has no span."""
    characters: set[Character] = set()
    for document in documents:
        whole = document.text if document.parent == document.doc_id else ""
        span = document.span or ((0, len(whole)) if whole else None)
        if span is None:
            return None
        characters |= {(document.parent, position) for position in range(*span)}
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
