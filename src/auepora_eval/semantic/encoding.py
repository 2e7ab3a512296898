"""Texts as tokens, sorted by length, in batches that fit the memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from ..features.model_cache import InferenceFailure
from .models import LoadedModel

__all__ = [
    "OUT_OF_MEMORY",
    "TokenisedTexts",
    "encodable",
    "is_out_of_memory",
    "pad_batch",
    "require_batch_size",
    "run_halving",
    "run_in_batches",
    "token_budget",
    "tokenise",
]

T = TypeVar("T")

OUT_OF_MEMORY = "out_of_memory"
_TOKENISING = threading.Lock()
"""A tokenizer that is told anew what to cut while another thread uses it fails."""
_TOKENS_AT_ONCE = {"cpu": 1 << 12, "cuda": 1 << 18}
"""Tokens of a batch, padding included: more is no faster, and needs more memory."""


def require_batch_size(batch_size: object) -> None:
    """Raise unless it is a number of texts, or ``None`` for as many as make sense."""
    whole = isinstance(batch_size, int) and not isinstance(batch_size, bool) and batch_size > 0
    if batch_size is not None and not whole:
        raise BadValueError(f"batch_size must be a whole number of at least 1, not {batch_size!r}")


def token_budget(device: str) -> int:
    """How many tokens a batch may have on a device."""
    return _TOKENS_AT_ONCE.get(device, _TOKENS_AT_ONCE["cpu"])


@dataclass(frozen=True, slots=True)
class TokenisedTexts:
    """Texts, or pairs of texts, as the numbers of their tokens."""

    ids: list[list[int]]
    types: list[list[int]] | None
    """Which of the two texts each token belongs to, where there are two and the model wants to be told."""
    cut: list[bool]
    """Which were longer than the model reads."""

    @property
    def lengths(self) -> list[int]:
        """How many tokens each has."""
        return list(map(len, self.ids))


def encodable(text: str) -> str:
    """The text as a model can be given it: half of a character, which has no bytes, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def tokenise(loaded: LoadedModel, texts: list[str], others: list[str] | None = None) -> TokenisedTexts:
    """Texts, or texts and ``others`` pair by pair, as tokens; what is too long is cut, of a pair the longer text."""
    with _TOKENISING:
        return _tokenise(loaded, texts, others)


def _tokenise(loaded: LoadedModel, texts: list[str], others: list[str] | None) -> TokenisedTexts:
    tokenizer, longest = loaded.tokenizer, loaded.max_length
    parts = [list(map(encodable, some)) for some in (texts, others) if some is not None]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return _tokenise_in_python(tokenizer, longest, parts)
    if others is not None:
        shorter = _shorten(tokenizer, {text for some in parts for text in some}, longest)
        parts = [[shorter.get(text, text) for text in some] for some in parts]
    # Straight from the library underneath: the layer above it costs as much again.
    backend.enable_truncation(longest, strategy="longest_first")
    backend.no_padding()
    encode = getattr(backend, "encode_batch_fast", backend.encode_batch)
    found = encode(parts[0] if others is None else list(zip(*parts, strict=True)))
    # Tokens of single texts are of one type nearly everywhere, and then there is nothing to be told.
    told = "token_type_ids" in tokenizer.model_input_names and any(any(one.type_ids) for one in found[:1])
    types = [one.type_ids for one in found] if told else None
    return TokenisedTexts([one.ids for one in found], types, [bool(one.overflowing) for one in found])


def _tokenise_in_python(tokenizer: Any, longest: int, parts: list[list[str]]) -> TokenisedTexts:
    """As tokens by a tokenizer written in Python, which does not say what it cut."""
    found = tokenizer(*parts, truncation="longest_first", max_length=longest, padding=False, verbose=False)
    whole = tokenizer(*parts, truncation=False, padding=False, verbose=False)["input_ids"]
    return TokenisedTexts(found["input_ids"], found.get("token_type_ids"), [len(ids) > longest for ids in whole])


_SPARE = 64
"""Tokens beyond the longest input that are kept where a text is shortened: a word cut in two may fall apart otherwise,
and the parts of it that are read must not."""


def _shorten(tokenizer: Any, texts: Iterable[str], longest: int) -> dict[str, str]:
    """The beginnings of texts that are far too long, and still too long afterwards.

    What a tokenizer cuts from a pair it puts together in every combination: for two long texts that takes for ever.
    """
    long = [text for text in texts if len(text) > 2 * (longest + _SPARE)]
    if not long:
        return {}
    found = tokenizer(long, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    keep = longest + _SPARE
    return {text: text[: ends[keep - 1][1]] for text, ends in zip(long, found, strict=True) if len(ends) > keep}


def pad_batch(tokens: TokenisedTexts, places: Sequence[int], loaded: LoadedModel) -> dict[str, Any]:
    """Some of the texts as tensors of one length on the model's device, and which tokens are real."""
    import torch

    tokenizer = loaded.tokenizer
    width = max(len(tokens.ids[place]) for place in places)
    ids = np.full((len(places), width), tokenizer.pad_token_id or 0, dtype=np.int64)
    mask, types = np.zeros_like(ids), np.full_like(ids, getattr(tokenizer, "pad_token_type_id", 0))
    left = tokenizer.padding_side == "left"
    for row, place in enumerate(places):
        own = tokens.ids[place]
        at = slice(width - len(own), width) if left else slice(0, len(own))
        ids[row, at], mask[row, at] = own, 1
        if tokens.types is not None:
            types[row, at] = tokens.types[place]
    columns = {"input_ids": ids, "attention_mask": mask}
    if tokens.types is not None:
        columns["token_type_ids"] = types
    return {name: torch.from_numpy(column).to(loaded.device) for name, column in columns.items()}


def run_halving(
    rows: npt.NDArray[np.int64],
    run: Callable[[npt.NDArray[np.int64]], None],
    lost: Callable[[npt.NDArray[np.int64]], None],
) -> None:
    """Do something for all rows at once; where memory does not suffice, in two halves. What does not fit is lost."""
    try:
        run(rows)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return
    if len(rows) == 1:
        lost(rows)
        return
    half = len(rows) // 2
    run_halving(rows[:half], run, lost)
    run_halving(rows[half:], run, lost)


def run_in_batches(
    lengths: Sequence[int],
    run: Callable[[list[int]], Sequence[T]],
    *,
    tokens: int,
    most: int | None = None,
) -> list[T | InferenceFailure]:
    """What ``run`` gives for every place, asked in batches of places with texts of about the same length.

    A batch holds ``tokens`` tokens at most, padding included, and ``most`` texts. The longest come first, so that a
    lack of memory shows at once: then batches are half as large from there on. A text that does not fit alone is lost.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    found: list[T | InferenceFailure] = [_OUT_OF_MEMORY_FAILURE] * len(order)
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        count = max(1, min(tokens // longest, most or len(order)))
        places = order[start : start + count]
        try:
            rows = run(places)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(places) > 1:
                # As many texts as there were, not as might have been: the end of the list is a smaller batch.
                most, tokens = max(1, len(places) // 2), max(longest, tokens // 2)
                continue
        else:
            for place, row in zip(places, rows, strict=True):
                found[place] = row
        start += len(places)
    return found


_OUT_OF_MEMORY_FAILURE = InferenceFailure(
    OUT_OF_MEMORY, "there is not enough memory for the model to read one of the texts, even alone"
)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on a GPU or on the CPU, where it is told by the message alone."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "not enough memory" in text
