"""Context relevance and redundancy by embeddings: cosines of queries and retrieved documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Cell, Derivation, DerivationBuilder, ExplainContext
from ..core.metrics_base import RunInfo
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.embeddings import MODEL_ROUNDING, PairCosines, TextVectors, embed_texts, text_cosines
from ..features.texts import EvidenceTexts, evidence_texts, reference_texts
from ..semantic.embedders import embedder_name, parse_embedder, require_embedder, resolve_embedder
from .base import ConfiguredMetric
from .ranking import check_k
from .semantic_base import note_truncation, problem_masks

__all__ = ["EmbeddingContextRedundancy", "EmbeddingContextRelevance"]


@dataclass(frozen=True)
class _ContextMetric(ConfiguredMetric):
    """A metric over the embeddings of the first k returned documents."""

    embed_fn: Any
    k: int | None = field(default=None, kw_only=True)

    range = (-1.0, 1.0)
    target = TargetCategory.RETRIEVAL_RELEVANCE
    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    suggested: ClassVar[bool] = False  # it needs a model, which the user names
    stat_names: ClassVar[tuple[str, ...]] = ("num_truncated",)

    def __post_init__(self) -> None:
        check_k(self.k)
        object.__setattr__(self, "embed_fn", parse_embedder(self.embed_fn))
        super().__post_init__()

    @property
    def depth(self) -> int | None:
        """The number of documents read; ``None`` for all."""
        cut = self.active_conventions.depth
        return self.k if cut is None else min(self.k or cut, cut)

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """No truncation in a failed answer."""
        return (0.0,)

    @property
    def rounding(self) -> float:
        """The rounding tolerance of a model."""
        return MODEL_ROUNDING

    def require_ready(self) -> None:
        """Raise unless the embedder is available."""
        require_embedder(self.embed_fn)

    def signature_options(self) -> dict[str, str]:
        """The embedder, and the depth set by the conventions."""
        cut = {} if self.depth == self.k else {"depth": str(self.depth)}
        return {"embed": embedder_name(self.embed_fn), **cut}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more documents."""
        deep = self.depth is None or (run.top_k is not None and run.top_k < self.depth)
        return {"top_k": str(run.top_k)} if run.top_k is not None and deep else {}

    def vectors(self, batch: Batch, rows: Sequence[Sequence[str]]) -> tuple[TextVectors, np.ndarray[Any, Any]]:
        """The embeddings of the texts of each row, and the number of truncated texts."""
        vectors = embed_texts(batch, resolve_embedder(self.embed_fn), rows)
        cut = np.array([[sum(map(vectors.was_cut, set(texts)))] for texts in rows], np.float64).reshape(-1, 1)
        note_truncation(batch, self.name, cut[:, 0])
        return vectors, cut


def _texts_by_row(found: EvidenceTexts, rows: int) -> list[list[str]]:
    """The non-empty document texts of each row, in their order."""
    texts: list[list[str]] = [[] for _ in range(rows)]
    for owner, use in zip(found.owners.tolist(), found.uses.tolist(), strict=True):
        if found.texts[use].strip():
            texts[owner].append(found.texts[use])
    return texts


def _row_slices(counts: Sequence[int]) -> list[slice]:
    ends = np.cumsum(counts).tolist()
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _first_problems(found: PairCosines, rows: Sequence[slice]) -> list[str | None]:
    return [next(filter(None, found.problems[row]), None) for row in rows]


@register("embedding_context_relevance", at="k")
@dataclass(frozen=True)
class EmbeddingContextRelevance(_ContextMetric):
    r"""Mean cosine of the query's vector with those of the first k returned documents.

    .. math:: \frac{1}{m} \cdot \sum_i \text{cos}(v(\text{query}), v(d_i))

    m is the number of documents with text there are, k at most. It needs no annotation, and measures the topic only: a
    document on the topic scores high whether or not it contains the answer. `embed_fn` makes the vectors, as for
    `embedding_similarity`, with which it shares them. Nothing returned scores 0, as precision does; a failed output
    counts as -1.
    """

    output_skips: ClassVar[frozenset[str]] = frozenset({"no_text"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "empty_query": "the query has no text",
        "no_text": "the documents have no text",
    }

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether any document has text."""
        return any(item.doc.text for item in output.retrieved[: self.depth])

    def score(self, batch: Batch) -> Scores:
        """The mean over each row's documents."""
        queries = reference_texts(batch, "query").texts
        empty = np.array([not query.strip() for query in queries], np.bool_)
        found = evidence_texts(batch, "retrieved", self.depth)
        texts = _texts_by_row(found, len(batch))
        rows = [[] if blank else own for blank, own in zip(empty.tolist(), texts, strict=True)]
        vectors, cut = self.vectors(batch, [[q, *own] if own else [] for q, own in zip(queries, rows, strict=True)])
        cosines = text_cosines(vectors, [(q, text) for q, own in zip(queries, rows, strict=True) for text in own])
        places = _row_slices(list(map(len, rows)))
        values = np.array([cosines.values[row].mean() if row.stop > row.start else 0.0 for row in places])
        no_text = np.array([not own for own in texts], np.bool_) & ~found.no_documents
        return Scores.of(
            values,
            skip={"empty_query": empty, "no_text": no_text},
            fail=problem_masks(_first_problems(cosines, places)),
            stats=cut,
        )

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, document by document."""
        if not sample.query.strip():
            return Score.skip("empty_query")
        texts = [item.doc.text for item in output.retrieved[: self.depth]]
        own = [text for text in texts if text and text.strip()]
        if not own:
            return Score.skip("no_text") if texts else Score(0.0)
        vectors, _ = self.vectors(Batch([sample], [output]), [[sample.query, *own]])
        return _plain_mean(text_cosines(vectors, [(sample.query, text) for text in own]))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The cosine of the query with every document."""
        own = [item.doc for item in output.retrieved[: self.depth] if item.doc.text.strip()]
        if not around.may_call_models or not own:
            return super().derivation(sample, output, around)
        vectors, _ = self.vectors(Batch([sample], [output]), [[sample.query, *(one.text for one in own)]])
        found = text_cosines(vectors, [(sample.query, one.text) for one in own])
        rows: list[tuple[Cell, ...]] = [
            (one.doc_id, cosine) for one, cosine in zip(own, found.values.tolist(), strict=True)
        ]
        steps = DerivationBuilder().table("The cosine of the query with each document", ("document", "cosine"), rows)
        return steps.finish_with_value(f"Their mean over {len(rows)}", float(found.values.mean()))


@register("embedding_context_redundancy", at="k")
@dataclass(frozen=True)
class EmbeddingContextRedundancy(_ContextMetric):
    r"""How much each document after the first repeats one before it: its highest cosine with any of them, on average.

    .. math:: \frac{1}{m - 1} \cdot \sum_{i > 1} \max_{j < i} \text{cos}(v(d_i), v(d_j))

    1 if every document repeats an earlier one. Documents without text are ignored. Lower is better as long as relevance
    does not fall: read it together with `embedding_context_relevance`. `intra_list_diversity` uses all pairs instead.
    Failed outputs are left out.
    """

    target = TargetCategory.DIVERSITY
    higher_is_better = False
    counts_system_failures: ClassVar[bool] = False
    output_skips: ClassVar[frozenset[str]] = frozenset({"too_few_documents"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "too_few_documents": "fewer than two documents with text were returned, or are looked at",
    }

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether two documents have text."""
        return sum(bool(item.doc.text) for item in output.retrieved[: self.depth]) > 1

    def score(self, batch: Batch) -> Scores:
        """The mean over each row's documents after the first."""
        texts = _texts_by_row(evidence_texts(batch, "retrieved", self.depth), len(batch))
        vectors, cut = self.vectors(batch, [own if len(own) > 1 else [] for own in texts])
        pairs = [[(own[j], own[i]) for i in range(1, len(own)) for j in range(i)] for own in texts]
        cosines = text_cosines(vectors, [pair for own in pairs for pair in own])
        places = _row_slices(list(map(len, pairs)))
        values = [_mean_highest_cosine(cosines.values[row], len(own)) for row, own in zip(places, texts, strict=True)]
        return Scores.of(
            values,
            skip={"too_few_documents": np.array([len(own) < 2 for own in texts], np.bool_)},
            fail=problem_masks(_first_problems(cosines, places)),
            stats=cut,
        )

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition, document by document."""
        texts = [item.doc.text for item in output.retrieved[: self.depth]]
        own = [text for text in texts if text and text.strip()]
        if len(own) < 2:
            return Score.skip("too_few_documents")
        vectors, _ = self.vectors(Batch([sample], [output]), [own])
        highest = []
        for place in range(1, len(own)):
            found = text_cosines(vectors, [(own[place], earlier) for earlier in own[:place]])
            if any(found.problems):
                return _plain_mean(found)
            highest.append(float(found.values.max()))
        return Score(sum(highest) / len(highest))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The highest cosine of every document with one before it."""
        own = [item.doc for item in output.retrieved[: self.depth] if item.doc.text.strip()]
        if not around.may_call_models:
            return super().derivation(sample, output, around)
        vectors, _ = self.vectors(Batch([sample], [output]), [[one.text for one in own]])
        pairs = [(own[j].text, own[i].text) for i in range(1, len(own)) for j in range(i)]
        cosines = text_cosines(vectors, pairs).values
        rows: list[tuple[Cell, ...]] = []
        for at, one in enumerate(own[1:], start=1):
            earlier = cosines[at * (at - 1) // 2 : at * (at + 1) // 2]
            rows.append((one.doc_id, own[int(earlier.argmax())].doc_id, float(earlier.max())))
        steps = DerivationBuilder().table(
            "Each document after the first, and the one before it that it is most like",
            ("document", "most like", "cosine"),
            rows,
        )
        return steps.finish_with_value(f"Their mean over {len(rows)}", _mean_highest_cosine(cosines, len(own)))


def _mean_highest_cosine(cosines: np.ndarray[Any, np.dtype[np.float64]], documents: int) -> float:
    """From the cosines of every document with each earlier one, in their order."""
    if documents < 2:
        return 0.0
    starts = np.cumsum(np.arange(documents - 1))
    return float(np.maximum.reduceat(cosines, starts).mean())


def _plain_mean(found: PairCosines) -> Score:
    problem = next(filter(None, found.problems), None)
    return Score(float(found.values.mean())) if problem is None else Score.fail(problem)
