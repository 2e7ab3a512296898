"""Random numbers that depend only on a seed and a key, not on the order or number of calls."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from fractions import Fraction

__all__ = ["count_for_rate", "hash_uniform", "seeded_permutation"]


def hash_uniform(seed: int, *key: str) -> float:
    """A number in [0, 1) for this seed and key.

    An event that occurs where it lies below a rate also occurs at every higher rate, and always at rate 1.
    """
    digest = hashlib.blake2b(_text(seed, key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53  # as many bits as a float holds: with more it might round to 1


def seeded_permutation(n: int, seed: int, *key: str) -> Iterator[int]:
    """Yield the numbers below ``n`` in a random order, lazily: taking a few of a million costs only a few steps."""
    rng = random.Random(_text(seed, key).encode("utf-8", "surrogatepass"))  # noqa: S311 -- no secret
    swapped: dict[int, int] = {}
    for position in range(n):
        other = rng.randrange(position, n)
        yield swapped.get(other, other)
        swapped[other] = swapped.get(position, position)


def count_for_rate(rate: float, n: int) -> int:
    """The number of items of ``n`` for a rate, rounded half up; the rate is taken as its decimal text."""
    return int(Fraction(repr(float(rate))) * n + Fraction(1, 2))


def _text(seed: int, key: tuple[str, ...]) -> str:
    return json.dumps([seed, *key], ensure_ascii=False)
