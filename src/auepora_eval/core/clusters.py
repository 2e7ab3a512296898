"""Clusters of samples: the units of statistics, such as conversations, or variants with their parents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .reduce import Clusters
from .types import EvaluationSample


def any_clustered(samples: Sequence[EvaluationSample]) -> bool:
    """Whether any sample belongs to a cluster."""
    # Sets of a column are faster than a generator over samples; this runs for every batch.
    named = {sample.cluster_id for sample in samples} - {None}
    return bool(named) or True in {"variant_of" in sample.labels for sample in samples}


def cluster_key(sample: EvaluationSample) -> tuple[bool, str]:
    """The cluster key of a sample: whether it has a ``cluster_id``, and the name of the cluster."""
    return sample.cluster_id is not None, sample.cluster


def cluster_ids(ids: Sequence[str], families: Sequence[tuple[bool, str]]) -> Clusters:
    """The cluster id of each sample. A variant of a variant belongs to the cluster of the first parent."""
    # Samples by id, as ``cluster_key`` names them, and what each belongs to where that is not itself.
    pairs = zip(((False, sample_id) for sample_id in ids), families, strict=True)
    above = {own: family for own, family in pairs if family != own}
    roots: dict[tuple[bool, str], tuple[bool, str]] = {}
    for family in dict.fromkeys(families):
        root, passed = family, {family}
        while (higher := above.get(root)) is not None and higher not in passed:
            root = higher
            passed.add(root)
        # All samples of a cycle are one cluster.
        roots[family] = min(passed) if above.get(root) in passed else root
    numbers: dict[tuple[bool, str], int] = {}
    return np.array([numbers.setdefault(roots[family], len(numbers)) for family in families], dtype=np.intp)
