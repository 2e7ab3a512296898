"""Texts as vectors of their tokens, taken from one layer of a model, each of length one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError

if TYPE_CHECKING:
    import torch

__all__ = ["PREFIXED", "TokenEncoder", "Tokens", "even_blocks", "keep_layers", "layer_count"]

Integers = npt.NDArray[np.int64]

PREFIXED = frozenset({"gpt2", "roberta"})
"""Kinds of models whose first word is read as if a space stood before it, as every other word's is."""
_TOKENS_AT_ONCE = {"cpu": 8192, "cuda": 262_144}
"""How many tokens, padding included, go through the model together: what keeps either kind of processor busy."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Texts as token numbers, one after the other."""

    ids: Integers
    ends: Integers
    """Where each text ends."""
    truncated: int
    """How many texts were longer than the model takes, and were cut."""

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

    def __init__(self, model: Any, tokenizer: Any, *, max_tokens: int) -> None:
        """``max_tokens`` is the most that the model takes of one text."""
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        self.without_meaning = [
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

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """The tokens of each text, with those that frame it; white space around it does not count."""
        stripped = [text.strip() for text in texts]
        numbered = self._numbered(stripped)
        counts = np.fromiter(map(len, numbered), np.int64, len(numbered))
        ids = np.fromiter((number for one in numbered for number in one), np.int64, int(counts.sum()))
        # A text that was cut has all the tokens there can be; whether one of just that length was cut costs a look.
        full = [text for text, count in zip(stripped, counts.tolist(), strict=True) if count == self.max_tokens]
        truncated = sum(len(self.tokenizer.encode(text, verbose=False)) > self.max_tokens for text in full)
        return Tokens(ids, np.cumsum(counts), truncated)

    def _numbered(self, texts: list[str]) -> Sequence[Sequence[int]]:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return [self.tokenizer.encode(text, truncation=True, max_length=self.max_tokens) for text in texts]
        # Straight from the library underneath: the layer above it costs as much again.
        backend.enable_truncation(self.max_tokens)
        backend.no_padding()
        encode = getattr(backend, "encode_batch_fast", backend.encode_batch)
        return [one.ids for one in encode(texts)]

    def vectors(self, tokens: Tokens) -> torch.Tensor:
        """The vectors of all tokens, one row each, in the order of the tokens, on the model's device."""
        import torch

        found = torch.empty((len(tokens.ids), self.width), dtype=self.model.dtype, device=self.device)
        most = _TOKENS_AT_ONCE.get(self.device.type, _TOKENS_AT_ONCE["cpu"])
        for rows in even_blocks(tokens.counts, most):
            self._fill(found, tokens, rows)
        return found

    def _fill(self, found: torch.Tensor, tokens: Tokens, rows: Integers) -> None:
        """Put the vectors of some texts where they belong; where memory does not suffice, in two halves."""
        import torch

        try:
            self._encode(found, tokens, rows)
        except torch.OutOfMemoryError:
            if len(rows) == 1:
                raise
            torch.cuda.empty_cache()
            half = len(rows) // 2
            self._fill(found, tokens, rows[:half])
            self._fill(found, tokens, rows[half:])

    def _encode(self, found: torch.Tensor, tokens: Tokens, rows: Integers) -> None:
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


def even_blocks(sizes: Integers, most: int) -> list[Integers]:
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


_LAYERS_AT = (
    ("layer",),
    ("encoder", "layer"),
    ("encoder", "block"),
    ("transformer", "layer"),
    ("layers",),
    ("encoder", "layers"),
    ("block",),
)
"""Where models keep their layers."""


def layer_count(model: Any) -> int:
    """How many layers a model has."""
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        return int(model.config.num_hidden_layers)
    holder, name = _layers_of(model)
    return len(getattr(holder, name))


def keep_layers(model: Any, count: int) -> Any:
    """The model with its first layers alone; what comes after the last, such as a norm, stays."""
    import torch

    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        model = model.encoder
    layers = layer_count(model)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= layers:
        raise BadValueError(f"num_layers must lie between 0 and the model's {layers}, not at {count!r}")
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):
        model.encoder.config.num_hidden_layers = count  # the same layer, fewer times
        return model
    holder, name = _layers_of(model)
    setattr(holder, name, torch.nn.ModuleList(list(getattr(holder, name))[:count]))
    return model


def _layers_of(model: Any) -> tuple[Any, str]:
    for *path, name in _LAYERS_AT:
        holder = model
        for step in path:
            holder = getattr(holder, step, None)
        if hasattr(holder, name):
            return holder, name
    raise BadValueError(f"it is not known where a {type(model).__name__} keeps its layers; take another model")
