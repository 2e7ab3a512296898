"""Generated rankings: ids of a large corpus, about ten gold documents a query, half found, mostly near the top."""

import random

Rankings = tuple[list[list[str]], list[list[str]]]


def make_rankings(queries: int, depth: int, *, seed: int = 7) -> Rankings:
    """Gold ids and ranked ids per query. Every id is a string object of its own, as it is when read from a file."""
    rng = random.Random(seed)
    gold, ranked = [], []
    for _ in range(queries):
        numbers = list(dict.fromkeys(rng.choices(range(1_000_000), k=depth)))
        relevant = list(dict.fromkeys(rng.choices(range(1_000_000), k=rng.randint(5, 15))))
        for number in relevant:
            if rng.random() < 0.5:
                # Log-uniform ranks: as many hits in positions 1-10 as in 10-100.
                place = int(len(numbers) ** rng.random()) - 1
                if number not in numbers:
                    numbers[place] = number
        gold.append([f"doc{number:07d}" for number in relevant])
        ranked.append([f"doc{number:07d}" for number in numbers])
    return gold, ranked
