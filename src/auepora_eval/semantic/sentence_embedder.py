"""Vectors of texts by a sentence-transformers model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..features.embeddings import EmbeddingBatch
from ..features.model_cache import InferenceFailure
from .devices import Device, Precision
from .encoding import encodable, pad_batch, require_batch_size, run_in_batches, token_budget, tokenise
from .models import LoadedModel, ModelSource, fingerprint, load_sentence_transformer
from .vector_cache import encode_with_cache

__all__ = ["SentenceTransformerEmbedder", "encode_texts"]


@dataclass(frozen=True)
class SentenceTransformerEmbedder:
    """Embeds texts with a sentence-transformers model, loaded with the first text.

    ``model`` is the path of its folder or a hub name. Nothing is downloaded without ``allow_download``. The batch size
    depends on the length of the texts unless it is set. With ``cache`` vectors are stored in that file. Two embedders
    with the same model are equal: metrics that use either share their vectors.
    """

    model: str
    device: Device = field(default="auto", kw_only=True)
    precision: Precision = field(default="float32", kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True, compare=False)
    revision: str | None = field(default=None, kw_only=True)
    allow_download: bool = field(default=False, kw_only=True, compare=False)
    cache: str | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        require_batch_size(self.batch_size)
        object.__setattr__(self, "model", self.source.model)

    @property
    def source(self) -> ModelSource:
        """The model with its device."""
        return ModelSource(
            self.model,
            device=self.device,
            precision=self.precision,
            revision=self.revision,
            allow_download=self.allow_download,
        )

    @property
    def identity(self) -> str:
        """Identifies its vectors in signatures and caches."""
        return " ".join(self.source.signature_options().values())

    def spec(self) -> dict[str, Any]:
        """The description in a plan."""
        fields = type(self).__dataclass_fields__
        given = {name: getattr(self, name) for name, one in fields.items() if getattr(self, name) != one.default}
        return {"sentence_transformers": given}

    def require_ready(self) -> None:
        """Raise unless the packages and the model are available; loads the model."""
        self._loaded()

    def _loaded(self) -> LoadedModel:
        return load_sentence_transformer(self.source, purpose="embedding texts with a model")

    def embed_batch(self, texts: list[str]) -> EmbeddingBatch:
        """The vectors of some texts, and which of them were truncated."""
        if self.cache is None:
            return encode_texts(self._loaded(), texts, self.batch_size)
        # By fingerprint: a model of the same name may change.
        cache_key = f"{fingerprint(self.source.folder())} {self.precision}"
        return encode_with_cache(
            self.cache, cache_key, texts, lambda fresh: encode_texts(self._loaded(), fresh, self.batch_size)
        )

    def __call__(self, texts: list[str]) -> Any:
        """The vectors of some texts as an array; NaN rows for texts that did not fit into memory."""
        rows = self.embed_batch(texts).rows
        width = next((len(row) for row in rows if not isinstance(row, InferenceFailure)), 1)
        return np.array(
            [np.full(width, np.nan) if isinstance(row, InferenceFailure) else row for row in rows], np.float32
        )


def encode_texts(loaded: LoadedModel, texts: list[str], batch_size: int | None) -> EmbeddingBatch:
    """The vectors of some texts, computed in batches of similar length."""
    if not texts:
        return EmbeddingBatch([], [])
    if not _is_plain(loaded.model):
        return _encode_with_model(loaded, texts, batch_size)
    import torch

    # Tokenised once for batching, truncation and the model.
    tokens = tokenise(loaded, texts)

    def run(places: list[int]) -> Sequence[Any]:
        with torch.inference_mode():
            found = loaded.model(pad_batch(tokens, places, loaded))["sentence_embedding"]
        return list(found.float().cpu().numpy())

    rows = run_in_batches(tokens.lengths, run, tokens=token_budget(loaded.device), max_texts=batch_size)
    return EmbeddingBatch(_table(rows), tokens.cut)


def _table(rows: list[Any]) -> Sequence[Any]:
    """The rows as one array if none failed."""
    table: Any = rows if any(isinstance(row, InferenceFailure) for row in rows) else np.stack(rows)
    found: Sequence[Any] = table
    return found


def _is_plain(model: Any) -> bool:
    """Whether the model is a plain transformer without prompts or preprocessing of its own."""
    first = model[0] if len(model) else None
    return (
        type(first).__name__ == "Transformer"
        and getattr(model, "tokenizer", None) is not None
        and hasattr(model.tokenizer, "pad_token_id")
        and not getattr(model, "default_prompt_name", None)
        and not getattr(first, "do_lower_case", False)
        and getattr(model, "truncate_dim", None) is None
    )


def _encode_with_model(loaded: LoadedModel, texts: list[str], batch_size: int | None) -> EmbeddingBatch:
    """Encode with the model's own ``encode``, for models that are not plain; truncation is unknown."""

    def run(places: list[int]) -> Sequence[Any]:
        some = [encodable(texts[place]) for place in places]
        return list(loaded.model.encode(some, batch_size=len(some), show_progress_bar=False, convert_to_numpy=True))

    rows = run_in_batches(
        list(map(len, texts)), run, tokens=4 * token_budget(loaded.device), max_texts=batch_size or 32
    )
    return EmbeddingBatch(_table(rows), [False] * len(texts))
