"""Texts as vectors of their tokens, taken from one layer of a model, each of length one."""

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
    """Texts as token numbers, one after the other."""

    ids: Integers
    ends: Integers
    """Where each text ends."""
    cut: npt.NDArray[np.bool_]
    """Which texts were longer than the model takes."""

    @property
    def counts(self) -> Integers:
        """How many tokens each text has."""
        return np.diff(self.ends, prepend=0)

    @property
    def starts(self) -> Integers:
        """Where each text begins."""
        return self.ends - self.counts


class TokenEncoder:
    """A model, cut off after some layer, and its tokenizer."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.model, self.tokenizer, self.max_tokens = loaded.model, loaded.tokenizer, loaded.max_length
        tokenizer = loaded.tokenizer
        self.special_token_ids = [
            number for number in (tokenizer.cls_token_id, tokenizer.sep_token_id) if number is not None
        ]
        """Tokens that frame a text: they are matched against, and do not count themselves."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        found: torch.device = next(self.model.parameters()).device
        return found

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.model.config.hidden_size)

    def tokens(self, texts: Sequence[str]) -> TokenColumn:
        """The tokens of each text, with those that frame it; white space around it does not count."""
        found = tokenise(self._loaded, [text.strip() for text in texts])
        counts = np.fromiter(map(len, found.ids), np.int64, len(found.ids))
        ids = np.fromiter(chain.from_iterable(found.ids), np.int64, int(counts.sum()))
        return TokenColumn(ids, np.cumsum(counts), np.array(found.cut, np.bool_))

    def vectors(self, tokens: TokenColumn) -> tuple[torch.Tensor, npt.NDArray[np.bool_]]:
        """The vectors of all tokens, one row each, in the order of the tokens, on the model's device.

        And which texts have none (NaN), because there is not memory enough for them even alone.
        """
        import torch

        found = torch.empty((len(tokens.ids), self.width), dtype=self.model.dtype, device=self.device)
        starts, ends = tokens.starts, tokens.ends
        without = np.zeros(len(ends), np.bool_)

        def lost(rows: Integers) -> None:
            without[rows] = True
            found[int(starts[rows[0]]) : int(ends[rows[0]])] = torch.nan

        for rows in blocks_by_size(tokens.counts, token_budget(self.device.type)):
            run_halving(rows, lambda some: self._encode(found, tokens, some), lost)
        return found, without

    def _encode(self, found: torch.Tensor, tokens: TokenColumn, rows: Integers) -> None:
        import torch

        counts = tokens.counts[rows]
        places = tokens.starts[rows][:, None] + np.arange(counts.max())
        there = np.arange(counts.max()) < counts[:, None]
        padding = self.tokenizer.pad_token_id or 0
        ids = np.where(there, tokens.ids[np.minimum(places, len(tokens.ids) - 1)], padding)
        mask = torch.from_numpy(there).to(self.device, non_blocking=True)
        with torch.inference_mode():
            states = self.model(torch.from_numpy(ids).to(self.device, non_blocking=True), attention_mask=mask.long())[0]
            unit = torch.nn.functional.normalize(states.float(), dim=-1, eps=1e-12).to(found.dtype)
            targets = torch.from_numpy(places[there]).to(self.device, non_blocking=True)
            # The mask is known on this side, so that which rows count need not be asked of the device.
            chosen = torch.from_numpy(np.flatnonzero(there)).to(self.device, non_blocking=True)
            found[targets] = unit.reshape(-1, unit.shape[-1])[chosen]


def blocks_by_size(sizes: Integers, most: int) -> list[Integers]:
    """What has a size, smallest first, as much at once as has at most so much room when each takes that of the largest.

    What has no size is left out.
    """
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    ordered = sizes[order].tolist()
    blocks, start = [], 0
    for place, size in enumerate(ordered):
        if place > start and (place - start + 1) * size > most:
            blocks.append(order[start:place])
            start = place
    return [*blocks, order[start:]] if len(order) else []
