"""System-level metrics: latency."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.errors import BadValueError
from ..core.metrics_base import RunFacts, SampleMetric
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from .base import ConfiguredMetric

__all__ = ["MeanLatency"]

# What can stand between the brackets of a name and be read back.
_NAMEABLE = re.compile(r"[^\s\[\],|@](?:[^\[\],|@]*[^\s\[\],|@])?")


@register("mean_latency", keys=("timing_key",))
@dataclass(frozen=True)
class MeanLatency(ConfiguredMetric, SampleMetric):
    r"""Mean of one timing, in the unit the system reports (seconds, by our own runner).

    .. math:: t_\text{key}

    Failed outputs are left out: a crash is not a fast answer. The concurrency of the run, where known, is part of the
    signature, since waiting in line is part of the wait. A timing that is negative or not a number is a failed
    measurement (`bad_timing`).
    """

    timing_key: str = "end_to_end"

    target = TargetCategory.LATENCY
    range = (0.0, math.inf)
    higher_is_better = False
    counts_system_failures: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"timings"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_timing": "the output has no such timing"}

    def __post_init__(self) -> None:
        if not isinstance(self.timing_key, str) or not _NAMEABLE.fullmatch(self.timing_key):
            raise BadValueError(f"a timing called {self.timing_key!r} cannot stand in a metric's name; rename it")
        super().__post_init__()

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The timing."""
        seconds = output.timings.get(self.timing_key)
        if seconds is None:
            return Score.skip("no_timing")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.number)) or not 0 <= seconds < math.inf:
            return Score.fail("bad_timing")
        return Score(float(seconds))

    def choices(self) -> dict[str, str]:
        """The name says it all."""
        return {}

    def run_choices(self, run: RunFacts) -> dict[str, str]:
        """How many requests were in flight at once."""
        return {} if run.concurrency is None else {"concurrency": str(run.concurrency)}
