"""Metrics for tests that kill processes: one logs each sample and waits, one kills its worker."""

import os
import signal
import time
from pathlib import Path

from auepora_eval import EvaluationSample, SampleMetric, Score, SystemOutputs, TargetCategory

__all__ = ["Deadly", "Slow"]


class Slow(SampleMetric):
    """One for everybody."""

    name = "slow"
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def __init__(self, log: str, gate: str, waits_at: str = "q150") -> None:
        self._log, self._gate, self._waits_at = log, gate, waits_at

    def signature_options(self) -> dict[str, str]:
        """Where it writes changes nothing."""
        return {}

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """One, once the gate is open."""
        while sample.sample_id == self._waits_at and not Path(self._gate).exists():
            time.sleep(0.02)
        with open(self._log, "a") as file:
            file.write(f"{sample.sample_id}\n")
        return Score(1.0)


class Deadly(Slow):
    """Kills the worker at one sample, until the gate is open."""

    name = "deadly"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """One, or the end."""
        if sample.sample_id == self._waits_at and not Path(self._gate).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return Score(1.0)
