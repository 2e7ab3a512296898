"""Tokenising, running models in batches sorted by length, and normalised token vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import BadValueError
from ..features.embeddings import InferenceFailure, Integers, Mask
from .loading import LoadedModel

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

OUT_OF_MEMORY = "out_of_memory"
_TOKENISER_LOCK = threading.Lock()
"""Changing a tokenizer's truncation while another thread uses it fails."""
_TOKENS_PER_BATCH = {"cpu": 1 << 12, "cuda": 1 << 18}
"""Tokens per batch, padding included: more is not faster and needs more memory."""


def token_budget(device: str) -> int:
    """Maximum tokens of a batch on a device."""
    return _TOKENS_PER_BATCH.get(device, _TOKENS_PER_BATCH["cpu"])


@dataclass(frozen=True, slots=True)
class TokenisedTexts:
    """Token ids of texts or text pairs."""

    ids: list[list[int]]
    types: list[list[int]] | None
    """Segment of each token, for text pairs and models that use segments."""
    cut: list[bool]
    """Which were truncated to the model's input length."""

    @property
    def lengths(self) -> list[int]:
        """Number of tokens of each."""
        return [len(ids) for ids in self.ids]


def encodable(text: str) -> str:
    """The text with lone surrogates, which cannot be encoded, replaced by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def tokenise(loaded: LoadedModel, texts: list[str], others: list[str] | None = None) -> TokenisedTexts:
    """Tokenise texts, or pairs of ``texts`` and ``others``; long input is truncated, of a pair the longer text."""
    with _TOKENISER_LOCK:
        tokenizer, max_length = loaded.tokenizer, loaded.max_length
        parts = [list(map(encodable, texts_of_side)) for texts_of_side in (texts, others) if texts_of_side is not None]
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return _tokenise_in_python(tokenizer, max_length, parts)
        if others is not None:
            shortened = _shorten(tokenizer, set(chain.from_iterable(parts)), max_length)
            parts = [[shortened.get(text, text) for text in texts_of_side] for texts_of_side in parts]
        # The backend directly: the transformers layer above it would double the cost.
        backend.enable_truncation(max_length, strategy="longest_first")
        backend.no_padding()
        encode = getattr(backend, "encode_batch_fast", backend.encode_batch)
        encodings = encode(parts[0] if others is None else list(zip(*parts, strict=True)))
        # Single texts nearly always have one segment; then types are not needed.
        has_types = "token_type_ids" in tokenizer.model_input_names and any(
            any(encoding.type_ids) for encoding in encodings[:1]
        )
        types = [encoding.type_ids for encoding in encodings] if has_types else None
        return TokenisedTexts(
            [encoding.ids for encoding in encodings], types, [bool(encoding.overflowing) for encoding in encodings]
        )


def _tokenise_in_python(tokenizer: Any, max_length: int, parts: list[list[str]]) -> TokenisedTexts:
    """Tokenise with a tokenizer written in Python, which does not report truncation."""
    encoded = tokenizer(*parts, truncation="longest_first", max_length=max_length, padding=False, verbose=False)
    untruncated = tokenizer(*parts, truncation=False, padding=False, verbose=False)["input_ids"]
    return TokenisedTexts(
        encoded["input_ids"], encoded.get("token_type_ids"), [len(ids) > max_length for ids in untruncated]
    )


@contextmanager
def plain_backend(loaded: LoadedModel) -> Iterator[Any]:
    """The fast tokenizer of a model, for one thread at a time; it neither truncates nor pads.

    Special tokens that are written in a text, such as ``[SEP]``, are ordinary characters: a text cannot end its own
    segment. Raises for a tokenizer written in Python, which does not know where its tokens begin and end.
    """
    backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise BadValueError(
            f"the tokenizer {type(loaded.tokenizer).__name__} does not say where its tokens begin and end; the folder "
            "of the model needs a tokenizer.json"
        )
    with _TOKENISER_LOCK:
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        try:
            yield backend
        finally:
            backend.encode_special_tokens = False


def count_tokens(loaded: LoadedModel, texts: Sequence[str]) -> list[int]:
    """The number of tokens of each text, without those that a model adds."""
    with plain_backend(loaded) as backend:
        found = backend.encode_batch_fast([encodable(text) for text in texts], add_special_tokens=False)
    return [len(encoding.ids) for encoding in found]


def split_by_tokens(loaded: LoadedModel, text: str, size: int, *, overlap: int = 0) -> list[tuple[int, int]]:
    """Character ranges of consecutive pieces of at most ``size`` tokens, which cover the text.

    A piece ends before a white space if there is one in its second half, else between two tokens. It begins ``overlap``
    tokens before the end of the one before.
    """
    with plain_backend(loaded) as backend:
        offsets = backend.encode(encodable(text), add_special_tokens=False).offsets
    pieces: list[tuple[int, int]] = []
    first, start = 0, 0
    while len(offsets) - first > size:
        cuts = range(first + size, first, -1)  # indices of the token after the piece
        apart = (cut for cut in cuts[: size // 2] if _is_apart(text, offsets, cut))
        cut = next(apart, first + size)
        while cut < len(offsets) and offsets[cut][0] <= start:  # several tokens of one character
            cut += 1
        if cut == len(offsets):
            break
        pieces.append((start, offsets[cut][0]))
        first = max(cut - overlap, first + 1)
        start = max(offsets[first][0], start + 1)
    return [*pieces, (start, len(text))]


def _is_apart(text: str, offsets: Sequence[tuple[int, int]], index: int) -> bool:
    """Whether white space separates a token from the one before."""
    start = offsets[index][0]
    return text[start : start + 1].isspace() or text[start - 1 : start].isspace()


_SPARE_TOKENS = 64
"""Spare tokens beyond the input length when a text is shortened: a word split at the end may tokenise differently,
which must not affect the tokens that are used."""


def _shorten(tokenizer: Any, texts: Iterable[str], max_length: int) -> dict[str, str]:
    """The beginnings of texts that are far too long; they still exceed the input length.

    A tokenizer enumerates all combinations of what it truncates from a pair, which never ends for two long texts.
    """
    long = [text for text in texts if len(text) > 2 * (max_length + _SPARE_TOKENS)]
    if not long:
        return {}
    offsets = tokenizer(long, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    keep = max_length + _SPARE_TOKENS
    return {text: text[: ends[keep - 1][1]] for text, ends in zip(long, offsets, strict=True) if len(ends) > keep}


def pad_batch(tokens: TokenisedTexts, indices: Sequence[int], loaded: LoadedModel) -> dict[str, Any]:
    """Padded input tensors with attention mask for some of the texts, on the model's device."""
    import torch

    tokenizer = loaded.tokenizer
    width = max(len(tokens.ids[index]) for index in indices)
    ids = np.full((len(indices), width), tokenizer.pad_token_id or 0, dtype=np.int64)
    mask, types = np.zeros_like(ids), np.full_like(ids, getattr(tokenizer, "pad_token_type_id", 0))
    left = tokenizer.padding_side == "left"
    for row, index in enumerate(indices):
        token_ids = tokens.ids[index]
        at = slice(width - len(token_ids), width) if left else slice(0, len(token_ids))
        ids[row, at], mask[row, at] = token_ids, 1
        if tokens.types is not None:
            types[row, at] = tokens.types[index]
    columns = {"input_ids": ids, "attention_mask": mask}
    if tokens.types is not None:
        columns["token_type_ids"] = types
    return {name: torch.from_numpy(column).to(loaded.device) for name, column in columns.items()}


def run_in_batches(
    lengths: Sequence[int] | Integers,
    run: Callable[[list[int]], Sequence[T]],
    *,
    tokens: int,
    max_texts: int | None = None,
) -> list[T | InferenceFailure]:
    """The results of ``run`` for every text, computed in batches of similar length.

    A batch has at most ``tokens`` tokens, padding included, and ``max_texts`` texts. The longest come first, so that a
    lack of memory shows at once and halves the batch size. A text that does not fit alone gets a failure. Where lengths
    are the numbers of token pairs, so is ``tokens``.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    results: list[T | InferenceFailure] = [_OUT_OF_MEMORY_FAILURE] * len(order)
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        count = max(1, min(tokens // longest, max_texts or len(order)))
        indices = order[start : start + count]
        try:
            rows = run(indices)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(indices) > 1:
                # Half of the actual batch, which is smaller at the end of the list.
                max_texts, tokens = max(1, len(indices) // 2), max(longest, tokens // 2)
                continue
        else:
            for index, row in zip(indices, rows, strict=True):
                results[index] = row
        start += len(indices)
    return results


_OUT_OF_MEMORY_FAILURE = InferenceFailure(
    OUT_OF_MEMORY, "there is not enough memory for the model to read one of the texts, even alone"
)


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on a GPU or on the CPU, where only the message shows it."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "not enough memory" in text


# --- normalised token vectors, from one layer of a model -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenColumn:
    """Token ids of several texts, concatenated."""

    ids: Integers
    ends: Integers
    """Where each text ends."""
    cut: Mask
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
        return next(self.model.parameters()).device

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

    def vectors(self, tokens: TokenColumn) -> tuple[torch.Tensor, Mask]:
        """The vectors of all tokens, one row each, in the order of the tokens, on the model's device.

        Also returns which texts have none (NaN), because they do not fit into memory even alone.
        """
        import torch

        vectors = torch.empty((len(tokens.ids), self.width), dtype=self.model.dtype, device=self.device)
        starts, ends = tokens.starts, tokens.ends

        def encode(rows: Integers) -> list[None]:
            self._encode(vectors, tokens, rows)
            return [None] * len(rows)

        filled = np.flatnonzero(tokens.counts)
        outcomes = run_in_batches(
            tokens.counts[filled], lambda some: encode(filled[some]), tokens=token_budget(self.device.type)
        )
        failed = np.zeros(len(ends), np.bool_)
        failed[filled] = [isinstance(outcome, InferenceFailure) for outcome in outcomes]
        for row in np.flatnonzero(failed).tolist():
            vectors[int(starts[row]) : int(ends[row])] = torch.nan
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
