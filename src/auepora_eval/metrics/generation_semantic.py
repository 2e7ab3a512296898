"""Semantic similarity of answer and reference, or query: embeddings and cross-encoders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..core.registry import register
from ..features.embeddings import embed_texts, text_cosines
from ..features.model_cache import InferenceFailure
from ..semantic.devices import Device, Precision
from ..semantic.embedders import embedder_name, parse_embedder, require_embedder, resolve_embedder
from ..semantic.pairs import ACTIVATIONS, PairModel, activation_name, pair_logits
from ..semantic.sentence_embedder import SentenceTransformerEmbedder
from .semantic_base import Pair, TextPairMetric, TextPairScores

__all__ = ["CrossEncoderSimilarity", "EmbeddingSimilarity", "SbertSimilarity"]


def score_cosines(batch: Batch, embed: Any, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
    """The cosines of text pairs by an embedder."""
    vectors = embed_texts(batch, embed, [[text for pair in pairs for text in pair] for pairs in rows])
    flat = [pair for pairs in rows for pair in pairs]
    found = text_cosines(vectors, flat)
    # The answer is in every pair of its row; its truncation is counted once.
    cut = [
        vectors.was_cut(compared) + (place == 0 and vectors.was_cut(answer))
        for pairs in rows
        for place, (compared, answer) in enumerate(pairs)
    ]
    return TextPairScores(found.values, found.problems, cut)


@register("embedding_similarity")
@dataclass(frozen=True)
class EmbeddingSimilarity(TextPairMetric):
    r"""Cosine of the answer's vector with that of the reference, or of the query.

    .. math:: \text{cos}(v(\text{answer}), v(\text{reference}))

    `embed_fn` computes the vectors: in Python a function from a list of strings to a list of vectors, or a
    sentence-transformers model; in a plan `{use: NAME}` of its resources, `{python: "module:name"}`,
    `{sentence_transformers: {model: PATH}}` or `{openai_embeddings: {model: NAME}}`. Every distinct text is embedded
    once for all metrics. The best of several references counts; `compare_to: query` takes the query instead.

    Two empty texts score 1, an empty and a non-empty text 0; an empty reference does not count while there is another.
    Zero vectors, NaN and vectors of different sizes are failed measurements. A failed answer counts as -1, the worst a
    cosine can be.
    """

    embed_fn: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "embed_fn", parse_embedder(self.embed_fn))
        super().__post_init__()

    def require_ready(self) -> None:
        """Raise unless the embedder is available."""
        require_embedder(self.embed_fn)

    def signature_options(self) -> dict[str, str]:
        """The embedder, and the text compared with."""
        return {"embed": embedder_name(self.embed_fn), **super().signature_options()}

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The cosines."""
        return score_cosines(batch, resolve_embedder(self.embed_fn), rows)


@dataclass(frozen=True)
class _ModelMetric(TextPairMetric):
    """A metric with its own model."""

    model: str
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.model, os.PathLike):
            object.__setattr__(self, "model", os.fspath(self.model))
        super().__post_init__()

    @property
    def _model_options(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "precision": self.precision,
            "batch_size": self.batch_size,
            "revision": self.revision,
            "allow_download": self.allow_download,
        }


@register("sbert_similarity")
@dataclass(frozen=True)
class SbertSimilarity(_ModelMetric):
    r"""Cosine of the answer's vector with that of the reference, by a sentence-transformers model.

    .. math:: \text{cos}(v(\text{answer}), v(\text{reference}))

    `model` is the path of the model's folder, or a hub name; nothing is downloaded unless `allow_download` is true. A
    text longer than the model reads is cut, and counted (`num_truncated`). `device` is `auto`, `cpu` or `cuda`, and
    there `precision` may be `float16` or `bfloat16`, which the signature shows. `cache` names a file that keeps the
    vectors. Otherwise as `embedding_similarity`, with which it shares the vectors of the same model.
    """

    cache: str | None = field(default=None, kw_only=True, compare=False)

    reference = "Reimers and Gurevych 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.embedder  # invalid options raise here, not when scoring

    @property
    def embedder(self) -> SentenceTransformerEmbedder:
        """The embedder."""
        return SentenceTransformerEmbedder(self.model, cache=self.cache, **self._model_options)

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available."""
        self.embedder.require_ready()

    def signature_options(self) -> dict[str, str]:
        """The model, its precision, and the text compared with."""
        return {**self.embedder.source.signature_options(), **super().signature_options()}

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The cosines."""
        return score_cosines(batch, self.embedder, rows)


@register("cross_encoder_similarity")
@dataclass(frozen=True)
class CrossEncoderSimilarity(_ModelMetric):
    r"""Similarity of answer and reference, by a cross-encoder that reads both together.

    .. math:: f(\text{reference}, \text{answer})

    `model` is the path of a cross-encoder's folder, or a hub name; nothing is downloaded unless `allow_download` is
    true. The model's own activation is applied: with a sigmoid, the usual one, the range is [0, 1] and a failed answer
    counts as 0; if the model returns logits (identity) there is no worst value, and failures leave the mean. The text
    compared with comes first, as a query does for relevance models; `compare_to: query` takes the query. The best of
    several references counts. Pairs too long for the model are truncated, from the longer text, and counted.

    Under a bounded range two empty texts score its upper end and an empty and a non-empty text 0; a model that returns
    logits reads empty texts like any other.
    """

    range = (-np.inf, np.inf)
    reference = "Nogueira and Cho 2019"
    failure_note = "counts at the worst value where the model's activation has one, else leaves the mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        activation = activation_name(self.pair_model.source)
        if activation is not None:
            object.__setattr__(self, "range", ACTIVATIONS[activation][1])

    @property
    def pair_model(self) -> PairModel:
        """The cross-encoder."""
        return PairModel(self.model, **self._model_options)

    @property
    def both_empty(self) -> float | None:
        """The upper end of the range, if it has one."""
        return self.range[1] if np.isfinite(self.range[1]) else None

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available, and the model returns one number per pair."""
        labels = self.pair_model.loaded().model.config.num_labels
        if labels != 1:
            raise BadValueError(
                f"cross_encoder_similarity needs a model that returns one number per pair, and '{self.model}' returns "
                f"{labels}; for an NLI model use nli_grounding"
            )

    def signature_options(self) -> dict[str, str]:
        """The model, its precision, and the text compared with."""
        return {**self.pair_model.source.signature_options(), **super().signature_options()}

    def score_pairs(self, batch: Batch, rows: Sequence[Sequence[Pair]]) -> TextPairScores:
        """The activated logit of each pair."""
        flat = [pair for pairs in rows for pair in pairs]
        if not flat:
            return TextPairScores(np.zeros(0), [], [])
        self.require_ready()
        known = pair_logits(batch, self.pair_model, rows)
        found = [known[pair] for pair in flat]
        activate = ACTIVATIONS[activation_name(self.pair_model.source) or "sigmoid"][0]
        numbers = np.array([0.0 if isinstance(one, InferenceFailure) else one[0][0] for one in found])
        problems = [one.reason if isinstance(one, InferenceFailure) else None for one in found]
        return TextPairScores(
            activate(numbers), problems, [not isinstance(one, InferenceFailure) and one[1] for one in found]
        )
