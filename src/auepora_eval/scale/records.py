"""Records read from a range: outputs that may be absent, and ids as 64-bit hashes that are the same on all machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.types import SystemOutputs

__all__ = ["Hashes", "IdHashes", "OptionalOutput", "hash_ids", "make_id_hashes"]

Hashes = npt.NDArray[np.uint64]


class OptionalOutput(NamedTuple):
    """An output with its sample id and line; ``None`` if the record has no output."""

    line: int
    sample_id: str
    output: SystemOutputs | None
    has_retrieved: bool


@dataclass(frozen=True, slots=True)
class IdHashes:
    """The ids of some records as hashes, and of which samples they are variants."""

    ids: Hashes
    variants: npt.NDArray[np.int64]
    """Which of the records are variants."""
    bases: Hashes
    """For each of those the id it is a variant of."""
    absent: npt.NDArray[np.int64]
    """Which of the records have no output."""


_FACTOR = 0x9E3779B97F4A7C15
"""Odd, and with bits everywhere."""


def hash_ids(ids: Sequence[str]) -> Hashes:
    """A hash for each id. Two ids may have the same one, though hardly ever: readers compare the ids.

    The number is the value of a polynomial, with the bytes of the id for its coefficients, modulo 2^64.
    """
    if not ids:
        return np.zeros(0, dtype=np.uint64)
    text = "\0".join(ids) + "\0"  # so that every id has a byte at least
    lengths = list(map(len, ids if text.isascii() else [one.encode("utf-8", "surrogatepass") for one in ids]))
    sizes = np.array(lengths, dtype=np.int64) + 1
    starts = np.cumsum(sizes) - sizes
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8).astype(np.uint64)
    powers = np.cumprod(np.full(int(sizes.max()), _FACTOR, dtype=np.uint64))
    places = np.arange(len(data)) - np.repeat(starts, sizes)
    hashes: Hashes = np.add.reduceat((data + np.uint64(1)) * powers[places], starts)
    return hashes


def make_id_hashes(ids: Sequence[str], bases: Sequence[str | None] = (), absent: Sequence[int] = ()) -> IdHashes:
    """The hashes of ids, of the ids they are variants of, and which have no output."""
    variants = [row for row, base in enumerate(bases) if base is not None]
    return IdHashes(
        hash_ids(ids),
        np.array(variants, dtype=np.int64),
        hash_ids([base for base in bases if base is not None]),
        np.array(absent, dtype=np.int64),
    )
