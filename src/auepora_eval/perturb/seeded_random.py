"""Chance that depends on nothing but a seed and a name: not on the order of calls, not on how many there are."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from fractions import Fraction

__all__ = ["count_for_rate", "hash_uniform", "seeded_permutation"]


def hash_uniform(seed: int, *key: str) -> float:
    """A number from 0 up to 1, below 1, for this seed and key.

    What happens where it lies below a rate happens at every higher rate too, and at 1 always.
    """
    digest = hashlib.blake2b(_text(seed, key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53  # as many bits as a float holds: with more it might round to 1


def seeded_permutation(n: int, seed: int, *key: str) -> Iterator[int]:
    """The numbers below ``n`` in a random order, one by one: who takes a few of a million pays for a few."""
    draw = random.Random(_text(seed, key).encode("utf-8", "surrogatepass"))  # noqa: S311 -- no secret
    moved: dict[int, int] = {}
    for place in range(n):
        other = draw.randrange(place, n)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)


def count_for_rate(rate: float, n: int) -> int:
    """How many of ``n`` a rate comes to, a half being one more; the rate is taken as it is written."""
    return int(Fraction(repr(float(rate))) * n + Fraction(1, 2))


def _text(seed: int, key: tuple[str, ...]) -> str:
    return json.dumps([seed, *key], ensure_ascii=False)
