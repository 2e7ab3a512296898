"""Hashes of a column of texts, eight bytes at a time and all texts at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .arrow import ArrowDocs

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["hashes_of"]

Hashes = npt.NDArray[np.uint64]
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def hashes_of(docs: ArrowDocs) -> Hashes:
    """A number for each text, the same for equal ones. Others may share it: who finds two must look at the texts."""
    return np.concatenate([_hashes(chunk) for chunk in docs.column.chunks])


def _hashes(texts: pa.Array) -> Hashes:
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    # Eight bytes more, so that a word can be read from any place.
    padded = np.concatenate([np.frombuffer(data or b"", dtype=np.uint8)[: bounds[-1]], np.zeros(8, dtype=np.uint8)])
    words = np.ndarray(len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,))
    lengths = np.diff(bounds)
    mixed = lengths.astype(np.uint64)
    live = np.arange(len(texts))
    at, left = bounds[:-1], lengths
    while len(live):
        word = words[at]
        short = np.flatnonzero(left < 8)
        word[short] &= (np.uint64(1) << (left[short] * 8).astype(np.uint64)) - np.uint64(1)
        own = (mixed[live] ^ word) * _FACTOR
        mixed[live] = own ^ (own >> _SHIFT)
        further = np.flatnonzero(left > 8)
        live, at, left = live[further], at[further] + 8, left[further] - 8
    return mixed
