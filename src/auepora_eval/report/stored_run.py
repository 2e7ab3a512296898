"""The stored data of one run for a report; each part is read once, on first access."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..compare.pairing import MetricMeta, lookup_metric
from ..core.metrics_base import sample_clusters
from ..core.reduce import Clusters
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..errors import BadValueError
from ..store.records import RunRecord
from ..store.runs import RunStore, aligned_outputs

Floats = npt.NDArray[np.float64]


class StoredRun:
    """The stored data of a run. Document texts are not read."""

    def __init__(self, store: RunStore, record: RunRecord, letter: str = "") -> None:
        """``letter`` identifies the run among several, as in ``A``."""
        self.store = store
        self.record = record
        self.letter = letter

    @property
    def label(self) -> str:
        """Its name, with its letter where there are several runs."""
        return f"{self.letter}: {self.record.name}" if self.letter else self.record.name

    @cached_property
    def results(self) -> Results:
        """Its results, the latest of each name."""
        return self.store.results(self.record.run_id)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """The number of outputs, and of failed ones."""
        return self.store.counts(self.record.run_id)

    @cached_property
    def samples(self) -> list[EvaluationSample]:
        """Its samples; documents have no texts."""
        return self.store.samples(self.record.run_id, texts=False)

    @cached_property
    def clusters(self) -> Clusters | None:
        """The cluster code of each sample; ``None`` where there are no clusters."""
        return sample_clusters(self.samples)

    def outputs(self) -> Iterator[SystemOutputs | None]:
        """Read the outputs of the first repeat, in the order of the samples; ``None`` where one is missing."""
        return aligned_outputs(self.store, self.record.run_id, texts=False)

    @cached_property
    def _summary(self) -> tuple[list[str], dict[str, Floats], int]:
        """Errors, timings and depth, from one pass over all outputs."""
        errors: list[str] = []
        seconds: dict[str, array[float]] = {}
        depth = 0
        for row in self.store.outputs(self.record.run_id, texts=False):
            output = row.output
            if row.repeat == 0:
                depth = max(depth, len(output.retrieved))
            if output.error is not None:
                errors.append(output.error)
                continue
            for name, value in output.timings.items():
                number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
                if number and name != "started":
                    seconds.setdefault(name, array("d")).append(float(value))
        return errors, {name: np.array(values) for name, values in seconds.items()}, depth

    @property
    def errors(self) -> list[str]:
        """The error of each failed output."""
        return self._summary[0]

    @property
    def timings(self) -> dict[str, Floats]:
        """Seconds by timing name, of all answers that did not fail."""
        return self._summary[1]

    @property
    def depth(self) -> int:
        """The length of the longest ranking."""
        return self._summary[2]

    @cached_property
    def definitions(self) -> dict[str, MetricMeta]:
        """The metadata of the metric of each result, by name."""
        return {one.name: lookup_metric(one, self.record, {}) for one in self.results}

    def find_result(self, name: str) -> MetricResult | None:
        """The result of that name."""
        return next((one for one in self.results if one.name == name), None)


def find_runs(store: RunStore, runs: Sequence[str | RunRecord]) -> list[RunRecord]:
    """The runs, found as in ``RunStore.find``; a run that is listed twice is an error."""
    records = [store.find(one) if isinstance(one, str) else one for one in runs]
    ids = [one.run_id for one in records]
    for run_id in ids:
        if ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is listed twice; name each run once")
    return records


def score_column(result: MetricResult) -> Floats:
    """The scores of a result per sample; NaN for samples without a score, empty where no scores are stored."""
    return result.scores.values if isinstance(result.scores, Scores) else np.zeros(0)
