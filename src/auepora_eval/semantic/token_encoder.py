"""Normalised token vectors of texts, taken from one layer of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .encoding import run_halving, token_budget, tokenise
from .models import LoadedModel

if TYPE_CHECKING:
    import torch

__all__ = ["TokenColumn", "TokenEncoder", "blocks_by_size"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenColumn:
    """Token ids of several texts, concatenated."""

    ids: Integers
    ends: Integers
    """Where each text ends."""
    cut: npt.NDArray[np.bool_]
    """Which texts were truncated to the model's input length."""

    @property
    def counts(self) -> Integers:
        """Number of tokens of each text."""
        return np.diff(self.ends, prepend=0)

    @property
    def starts(self) -> Integers:
        """Where each text begins."""
        return self.ends - self.counts


class TokenEncoder:
    """A model truncated after a layer, with its tokenizer."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.model, self.tokenizer, self.max_tokens = loaded.model, loaded.tokenizer, loaded.max_length
        tokenizer = loaded.tokenizer
        self.special_token_ids = [
            number for number in (tokenizer.cls_token_id, tokenizer.sep_token_id) if number is not None
        ]
        """Ids of the special tokens: other tokens may match them, but they have no weight themselves."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        found: torch.device = next(self.model.parameters()).device
        return found

    @property
    def width(self) -> int:
        """Dimension of a vector."""
        return int(self.model.config.hidden_size)

    def tokens(self, texts: Sequence[str]) -> TokenColumn:
        """The tokens of each text with special tokens; surrounding white space is stripped."""
        tokenised = tokenise(self._loaded, [text.strip() for text in texts])
        counts = np.fromiter(map(len, tokenised.ids), np.int64, len(tokenised.ids))
        ids = np.fromiter(chain.from_iterable(tokenised.ids), np.int64, int(counts.sum()))
        return TokenColumn(ids, np.cumsum(counts), np.array(tokenised.cut, np.bool_))

    def vectors(self, tokens: TokenColumn) -> tuple[torch.Tensor, npt.NDArray[np.bool_]]:
        """The vectors of all tokens, one row each, in the order of the tokens, on the model's device.

        Also returns which texts have none (NaN), because they do not fit into memory even alone.
        """
        import torch

        vectors = torch.empty((len(tokens.ids), self.width), dtype=self.model.dtype, device=self.device)
        starts, ends = tokens.starts, tokens.ends
        failed = np.zeros(len(ends), np.bool_)

        def mark_failed(rows: Integers) -> None:
            failed[rows] = True
            vectors[int(starts[rows[0]]) : int(ends[rows[0]])] = torch.nan

        for rows in blocks_by_size(tokens.counts, token_budget(self.device.type)):
            run_halving(rows, lambda some: self._encode(vectors, tokens, some), mark_failed)
        return vectors, failed

    def _encode(self, vectors: torch.Tensor, tokens: TokenColumn, rows: Integers) -> None:
        import torch

        counts = tokens.counts[rows]
        positions = tokens.starts[rows][:, None] + np.arange(counts.max())
        mask = np.arange(counts.max()) < counts[:, None]
        padding = self.tokenizer.pad_token_id or 0
        ids = np.where(mask, tokens.ids[np.minimum(positions, len(tokens.ids) - 1)], padding)
        mask_tensor = torch.from_numpy(mask).to(self.device, non_blocking=True)
        with torch.inference_mode():
            states = self.model(
                torch.from_numpy(ids).to(self.device, non_blocking=True), attention_mask=mask_tensor.long()
            )[0]
            unit = torch.nn.functional.normalize(states.float(), dim=-1, eps=1e-12).to(vectors.dtype)
            targets = torch.from_numpy(positions[mask]).to(self.device, non_blocking=True)
            # The mask is known on the host, so that the row indices need no device synchronisation.
            kept_rows = torch.from_numpy(np.flatnonzero(mask)).to(self.device, non_blocking=True)
            vectors[targets] = unit.reshape(-1, unit.shape[-1])[kept_rows]


def blocks_by_size(sizes: Integers, max_size: int) -> list[Integers]:
    """Blocks of indices sorted by size, with count times largest size at most ``max_size``.

    Items of size 0 are left out.
    """
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    ordered = sizes[order].tolist()
    blocks, start = [], 0
    for index, size in enumerate(ordered):
        if index > start and (index - start + 1) * size > max_size:
            blocks.append(order[start:index])
            start = index
    return [*blocks, order[start:]] if len(order) else []
