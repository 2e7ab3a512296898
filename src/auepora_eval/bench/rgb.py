"""RGB: the documents that its script gives to a system, chosen from those of a question."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

_SEED = 2333
"""Of the script, for each question anew."""


def with_documents(record: Mapping[str, Any], *, noise: float, documents: int, correct: float = 0.0) -> dict[str, Any]:
    """A record with its ``documents`` in the order in which the system gets them.

    ``noise`` is the proportion of those without the answer, and ``correct`` of those with the true one where a record
    has documents with a false one. Documents without the answer take the place of others that a record lacks.

    >>> record = {"positive": ["p1", "p2", "p3"], "negative": ["n1", "n2"]}
    >>> sorted(with_documents(record, noise=0.25, documents=4)["documents"])
    ['n1', 'p1', 'p2', 'p3']
    """
    generator = random.Random(_SEED)  # noqa: S311 -- that of the script
    noisy = math.ceil(documents * noise)
    positive, negative = record["positive"], record["negative"]
    if "positive_wrong" in record:
        places = generator.sample(range(len(positive)), min(len(positive), documents - noisy))
        false_count = max(documents - noisy - math.ceil(documents * correct), 0)
        chosen = [record["positive_wrong"][place] for place in places[:false_count]]
        chosen += [positive[place] for place in places[false_count:]]
    elif positive and isinstance(positive[0], list):
        chosen = _of_each_part(positive, documents - noisy, generator)
        noisy = max(documents - len(chosen), 0)
    else:
        if noisy < documents:  # else all are noise, however few there are
            noisy = max(min(noisy, len(negative)), documents - len(positive))
        chosen = positive[: documents - noisy]
    texts = [*chosen, *negative[:noisy]]
    generator.shuffle(texts)
    return {**record, "documents": texts}


def _of_each_part(parts: Sequence[Sequence[str]], count: int, generator: random.Random) -> list[str]:
    """The first document of each part of the question, then the second ones, each part in a random order."""
    shuffled = [list(part) for part in parts]
    for part in shuffled:
        generator.shuffle(part)
    ordered = [text for text in chain.from_iterable(zip_longest(*shuffled)) if text is not None]
    return ordered[: max(count, len(parts))]
