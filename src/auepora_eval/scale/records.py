"""What is read of a range: outputs that may be absent, and ids as 64-bit numbers that are the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.types import SystemOutputs

__all__ = ["Hashes", "ReadIds", "ReadMaybe", "hashes_of", "ids_read"]

Hashes = npt.NDArray[np.uint64]


class ReadMaybe(NamedTuple):
    """An output, whose it is, and where it stands; ``None`` where a record that could hold one has none."""

    line: int
    sample_id: str
    output: SystemOutputs | None
    has_retrieved: bool


@dataclass(frozen=True, slots=True)
class ReadIds:
    """The ids of some records, each as a number, and whose variants they are."""

    ids: Hashes
    variants: npt.NDArray[np.int64]
    """Which of the records are variants."""
    bases: Hashes
    """Of each of those the id it is a variant of."""
    absent: npt.NDArray[np.int64]
    """Which of the records hold no output, where they could."""


def hashes_of(ids: Sequence[str]) -> Hashes:
    """A number for each id. Two ids may have the same one, though hardly ever: whoever reads them compares the ids."""
    digests = b"".join([blake2b(one.encode("utf-8", "surrogatepass"), digest_size=8).digest() for one in ids])
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def ids_read(ids: Sequence[str], bases: Sequence[str | None] = (), absent: Sequence[int] = ()) -> ReadIds:
    """Ids, of each whose variant it is, and which have no output."""
    variants = [row for row, base in enumerate(bases) if base is not None]
    return ReadIds(
        hashes_of(ids),
        np.array(variants, dtype=np.int64),
        hashes_of([base for base in bases if base is not None]),
        np.array(absent, dtype=np.int64),
    )
