"""Datasets: named collections of evaluation samples."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from .types import EvaluationSample

__all__ = ["EvaluationDataset", "InMemoryDataset", "LazyDataset"]


class EvaluationDataset(ABC):
    """A collection of samples with a name and a length.

    Example:
        >>> class Numbered(EvaluationDataset):
        ...     name = "numbered"
        ...     def __iter__(self):
        ...         return (EvaluationSample(str(number), "Why?") for number in range(len(self)))
        ...     def __len__(self):
        ...         return 3
        >>> [sample.sample_id for sample in Numbered()]
        ['0', '1', '2']
    """

    @abstractmethod
    def __iter__(self) -> Iterator[EvaluationSample]:
        """The samples, in a fixed order."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the dataset in reports."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""


class InMemoryDataset(EvaluationDataset):
    """A dataset that is a list.

    Example:
        >>> len(InMemoryDataset("two", samples))
        2
    """

    def __init__(self, name: str, samples: list[EvaluationSample]) -> None:
        self._name = name
        self._samples = samples

    def __iter__(self) -> Iterator[EvaluationSample]:
        return iter(self._samples)

    @property
    def name(self) -> str:
        """The name of the dataset in reports."""
        return self._name

    def __len__(self) -> int:
        return len(self._samples)


class LazyDataset(EvaluationDataset):
    """A dataset that is produced on every iteration and never kept in memory: a file, a query, a generator.

    Without a given length, ``len`` iterates over the samples once.

    Example:
        >>> dataset = LazyDataset("two", lambda: iter(samples))
        >>> len(dataset), [sample.sample_id for sample in dataset]
        (2, ['q1', 'q2'])
    """

    def __init__(
        self, name: str, samples: Callable[[], Iterable[EvaluationSample]], *, length: int | None = None
    ) -> None:
        """``samples`` is called for every iteration and must return the same samples each time."""
        self._name = name
        self._samples = samples
        self._length = length

    def __iter__(self) -> Iterator[EvaluationSample]:
        return iter(self._samples())

    @property
    def name(self) -> str:
        """The name of the dataset in reports."""
        return self._name

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in self)
        return self._length

    def __length_hint__(self) -> int:
        """The known length, or 0: lets ``list`` avoid an extra iteration."""
        return self._length or 0


class LazySamples(Sequence[EvaluationSample]):
    """Samples that are read again on each iteration; only the first ones stay in memory, for checks that need few."""

    KEPT = 1000

    def __init__(self, read: Callable[[], Iterable[EvaluationSample]], length: int) -> None:
        """``read`` is called for every iteration and must return the same samples each time."""
        self._read = read
        self._length = length
        self._first: list[EvaluationSample] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[EvaluationSample]:
        if self._first is None:
            self._first = list(islice(self._read(), self.KEPT))
        yield from self._first
        if self._length > len(self._first):
            yield from islice(self._read(), len(self._first), None)

    def __getitem__(self, index: Any) -> Any:
        """Return the sample at this position, or those of a slice; reads all samples."""
        return list(self)[index]
