"""Datasets: named collections of evaluation samples."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from .types import EvaluationSample

__all__ = ["EvaluationDataset", "InMemoryDataset"]


class EvaluationDataset(ABC):
    """A collection of samples with a name and a length."""

    @abstractmethod
    def __iter__(self) -> Iterator[EvaluationSample]:
        """The samples, in a fixed order."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the dataset is called in reports."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""


class InMemoryDataset(EvaluationDataset):
    """A dataset that is a list."""

    def __init__(self, name: str, samples: list[EvaluationSample]) -> None:
        self._name = name
        self._samples = samples

    def __iter__(self) -> Iterator[EvaluationSample]:
        return iter(self._samples)

    @property
    def name(self) -> str:
        """What the dataset is called in reports."""
        return self._name

    def __len__(self) -> int:
        return len(self._samples)
