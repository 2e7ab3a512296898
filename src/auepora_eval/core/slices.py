"""Slices: groups of samples by label, metadata or a function, by which every result is broken down."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import BadTypeError, BadValueError, did_you_mean
from .clusters import any_clustered, cluster_ids, cluster_key
from .reduce import Clusters
from .types import EvaluationSample, SystemOutputs

Rows = npt.NDArray[np.intp]
NO_GROUP = "(none)"
"""The group of samples that have no such label."""
MAX_GROUPS = 500
MembersT = TypeVar("MembersT")
MadeT = TypeVar("MadeT")


@dataclass(frozen=True, slots=True)
class Slice:
    """A name, and a function that returns the group of a sample: a value, a list of several, or ``None``."""

    name: str
    group_of: Callable[[EvaluationSample], Any]

    def groups(self, sample: EvaluationSample) -> list[str]:
        """The names of the groups a sample belongs to."""
        try:
            value = self.group_of(sample)
        except Exception as error:
            raise BadValueError(
                f"slice '{self.name}' raised {type(error).__name__} on sample '{sample.sample_id}': {error}"
            ) from error
        return list(group_names(value)) or [NO_GROUP]


@dataclass(frozen=True, slots=True)
class _FieldPath:
    """The value of a path of labels or metadata."""

    path: str

    def __call__(self, sample: EvaluationSample) -> Any:
        return sample_value(sample, self.path)


def sample_value(sample: EvaluationSample, path: str) -> Any:
    """The value of a sample at ``labels.<key>`` or ``metadata.<key>.<key>``; ``None`` where there is none.

    >>> sample_value(EvaluationSample("1", "?", metadata={"source": {"kind": "wiki"}}), "metadata.source.kind")
    'wiki'
    """
    side, _, rest = path.partition(".")
    value: Any = sample.labels if side == "labels" else sample.metadata
    keys = rest.split(".")
    for at, key in enumerate(keys):
        if not isinstance(value, Mapping):
            return None
        whole = ".".join(keys[at:])
        if whole in value:  # a key with dots
            return value[whole]
        value = value.get(key)
    return value


def group_names(value: Any) -> KeysView[str]:
    """The group names of a value, or of each value of a list."""
    values = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return dict.fromkeys(map(_group_name, values)).keys()


def map_groups(
    slices: Mapping[str, Mapping[str, MembersT]], make: Callable[[MembersT], MadeT]
) -> dict[str, dict[str, MadeT]]:
    """What is made of each group of each slice."""
    found: dict[str, dict[str, MadeT]] = {}
    for name, groups in slices.items():
        found[name] = {group: make(members) for group, members in groups.items()}
    return found


def _group_name(value: Any) -> str:
    if value is None:
        return NO_GROUP
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


SliceSpec = str | Slice | Mapping[str, str | Callable[[EvaluationSample], Any]]
"""A path (``labels.lang``, ``metadata.source.kind``), a ``Slice``, or ``{name: path or function}``."""


def parse_slices(specs: Iterable[SliceSpec] | SliceSpec) -> list[Slice]:
    """Slices from paths, functions by name, or ``Slice`` objects."""
    if callable(specs):
        raise BadTypeError("a function needs a name to slice by: write slices={'long': lambda sample: ...}")
    listed = [specs] if isinstance(specs, (str, Slice, Mapping)) else list(specs)
    slices: list[Slice] = []
    for given in listed:
        if isinstance(given, Slice):
            slices.append(given)
        elif isinstance(given, str):
            slices.append(Slice(given, _parse_path(given)))
        elif isinstance(given, Mapping):
            slices += [Slice(name, _parse_path(how) if isinstance(how, str) else how) for name, how in given.items()]
        else:
            raise BadTypeError(
                f"a slice is a path such as 'labels.lang', or {{name: function of a sample}}, not {given!r:.80}"
            )
    for sliced in slices:
        if not isinstance(sliced.name, str) or not callable(sliced.group_of):
            raise BadTypeError(
                f"slice {sliced.name!r} needs a name and a path or a function, not {sliced.group_of!r:.80}"
            )
    names = [sliced.name for sliced in slices]
    for name in names:
        if names.count(name) > 1:
            raise BadValueError(f"two slices are called '{name}'; rename one, as in {{'{name}_b': ...}}")
    return slices


def _parse_path(text: str) -> _FieldPath:
    side, dot, key = text.partition(".")
    if side not in ("labels", "metadata") or not dot or not key:
        raise BadValueError(f"cannot slice by {text!r}; write 'labels.<key>' or 'metadata.<key>', such as labels.lang")
    return _FieldPath(text)


def require_slice_values(slices: Sequence[Slice], samples: Sequence[EvaluationSample]) -> None:
    """Raise where no sample has the field of a slice, most likely a misspelt label."""
    for sliced in slices:
        path = sliced.group_of
        if not isinstance(path, _FieldPath) or not samples or any(path(sample) is not None for sample in samples):
            continue
        side, _, key = path.path.partition(".")
        there = dict.fromkeys(chain.from_iterable(getattr(sample, side) or () for sample in samples))
        known = ", ".join(sorted(map(str, there))[:10]) or "none at all"
        hint = did_you_mean(key, map(str, there), otherwise=f"; its {side} are {known}")
        raise BadValueError(f"no sample has '{path.path}' to slice by{hint}")


@dataclass(frozen=True, slots=True)
class BatchMembership:
    """Ids, clusters and groups of the samples of a batch, kept after the batch is released."""

    size: int
    ids: tuple[str, ...] = ()
    """Their ids, if ids are kept."""
    clustered: bool = False
    """Whether any of them belongs to a cluster."""
    families: tuple[tuple[bool, str], ...] = ()
    """The cluster key of each sample, if ids are kept and some samples are clustered."""
    groups: Mapping[tuple[str, str], Rows] = field(default_factory=dict)
    """The rows of each group, by the names of slice and group."""
    annotated: frozenset[str] = frozenset()
    """The requested fields that any of them has; ``relevant_groups`` always."""
    gold_sums: Mapping[str, int] = field(default_factory=dict)
    """How their gold occurs in their rankings, where the way of matching it is checked at the end."""
    failed_outputs: int = 0
    """How many of their outputs have an error."""


def batch_membership(
    samples: Sequence[EvaluationSample],
    slices: Sequence[Slice],
    *,
    keep: bool,
    fields: Iterable[str] = (),
    outputs: Iterable[SystemOutputs | None] = (),
) -> BatchMembership:
    """The membership of these samples; ``keep`` says whether scores are kept, and ids with them."""
    clustered = any_clustered(samples)
    groups: dict[tuple[str, str], list[int]] = {}
    for sliced in slices:
        for row, sample in enumerate(samples):
            for group in sliced.groups(sample):
                groups.setdefault((sliced.name, group), []).append(row)
    annotated = {name for name in fields if any(getattr(sample, name, None) is not None for sample in samples)}
    if any(sample.relevant_groups for sample in samples):
        annotated.add("relevant_groups")
    return BatchMembership(
        size=len(samples),
        ids=tuple(sample.sample_id for sample in samples) if keep else (),
        clustered=clustered,
        families=tuple(map(cluster_key, samples)) if keep and clustered else (),
        groups={key: np.array(rows, dtype=np.intp) for key, rows in groups.items()},
        annotated=frozenset(annotated),
        # Outputs are checked when they are scored: here they may be anything.
        failed_outputs=sum(getattr(output, "error", None) is not None for output in outputs),
    )


class Grouping:
    """Collects clusters and slices of samples batch by batch."""

    def __init__(self, slices: Sequence[Slice], *, keep: bool) -> None:
        """``keep`` says whether scores are kept, and with them ids, clusters and the rows of every group."""
        self.slices = slices
        self.ids: list[str] = []
        self.annotated: set[str] = set()
        """The requested fields that any sample has; ``relevant_groups`` always."""
        self.gold_sums = Counter[str]()
        """How gold occurs in rankings, summed over the batches that workers have read."""
        self.failed_outputs = 0
        """How many outputs have an error, whatever the metrics apply to."""
        self.keep = keep
        self._clustered = False
        self._families: list[tuple[bool, str]] = []
        self._codes: Clusters | None = None
        self._seen = 0
        self._rows: dict[str, dict[str, list[int]]] = {sliced.name: {} for sliced in slices}
        self._batches: deque[Mapping[tuple[str, str], Rows]] = deque()

    def add(
        self,
        samples: Sequence[EvaluationSample],
        fields: Iterable[str] = (),
        outputs: Iterable[SystemOutputs | None] = (),
    ) -> None:
        """Add the samples of the next batch, and record which of the fields they have."""
        self.add_membership(batch_membership(samples, self.slices, keep=self.keep, fields=fields, outputs=outputs))

    def add_membership(self, members: BatchMembership) -> None:
        """Add the membership of the next batch."""
        if not self._clustered and members.clustered:
            self._clustered = True
            self._families = [(False, sample_id) for sample_id in self.ids]  # so far each sample is its own cluster
        self.annotated |= members.annotated
        self.gold_sums.update(members.gold_sums)
        self.failed_outputs += members.failed_outputs
        self.ids += members.ids
        if self._clustered and self.keep:
            self._families += members.families or [(False, sample_id) for sample_id in members.ids]
        if self.slices:
            self._add_groups(members)
        self._seen += members.size

    def _add_groups(self, members: BatchMembership) -> None:
        for (name, group), rows in members.groups.items():
            whole = self._rows[name].setdefault(group, [])
            if self.keep:
                whole += (rows + self._seen).tolist()
        for name, groups in self._rows.items():
            if len(groups) > MAX_GROUPS:
                raise BadValueError(
                    f"slice '{name}' has more than {MAX_GROUPS} groups, which is too many; "
                    "slice by something that many samples share"
                )
        self._batches.append(members.groups)

    def next_batch(self) -> Mapping[tuple[str, str], Rows]:
        """The rows of each group in the next batch."""
        return self._batches.popleft() if self._batches else {}

    def rows(self) -> dict[str, dict[str, Rows]]:
        """By slice and group the rows of all samples, groups sorted, samples without a label last."""
        return {
            name: {group: np.array(groups[group], dtype=np.intp) for group in sort_groups(groups)}
            for name, groups in self._rows.items()
        }

    def require_groups(self) -> None:
        """Raise where no sample had the field of a slice; for a stream, whose samples are not known in advance."""
        for sliced in self.slices:
            if isinstance(sliced.group_of, _FieldPath) and list(self._rows[sliced.name]) == [NO_GROUP]:
                raise BadValueError(f"no sample has '{sliced.group_of.path}' to slice by")

    def clusters(self) -> Clusters | None:
        """The cluster id of each sample; None where no sample belongs to a cluster."""
        if not self._clustered:
            return None
        if self._codes is None or len(self._codes) != len(self._families):
            self._codes = cluster_ids(self.ids, self._families) if self.keep else np.zeros(0, dtype=np.intp)
        return self._codes


def sort_groups(groups: Iterable[str]) -> list[str]:
    """Sort groups: numbers by value, then strings, then samples without a group."""

    def key(group: str) -> tuple[bool, bool, float, str]:
        try:
            number = float(group)
        except ValueError:
            number = float("nan")
        is_number = number == number
        return group == NO_GROUP, not is_number, number if is_number else 0.0, group

    return sorted(groups, key=key)
