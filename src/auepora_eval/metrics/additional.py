"""System-level metrics: latency, and how varied the answers are."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..core.metrics_base import RunFacts, SampleMetric
from ..core.reduce import Fold, Reducer
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.texts import answers, coded
from ..text.coding import RawCoder
from ..text.cutting import plain_words, word_rule
from ..text.ngrams import DistinctGrams, distinct_per_text, gram_counts
from .answers import AnswerMetric, require_count
from .base import ConfiguredMetric
from .overlap import grams

__all__ = ["DistinctN", "DistinctShare", "MeanLatency"]

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


class DistinctShare(Reducer):
    """Different n-grams over n-grams, of all texts together. Reads the texts in ``keys``.

    It has no interval: drawn anew, texts repeat, and a repeated text has no n-gram of its own.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.name = f"distinct[{n}]"

    def value(self, scores: Scores) -> float:
        """The share; NaN where there is no n-gram."""
        fold = self.fold()
        fold.add(scores)
        return fold.value()

    def fold(self) -> Fold:
        """Grows with the different n-grams, not with the texts."""
        return _DistinctFold(self.n)


class _DistinctFold(Fold):
    def __init__(self, n: int) -> None:
        self._coder = RawCoder(word_rule().cut, remember=False)
        self._grams = DistinctGrams(n)

    def add(self, scores: Scores) -> None:
        if scores.keys is not None:
            texts = [text for text, counted in zip(scores.keys, scores.counted.tolist(), strict=True) if counted]
            self._grams.add(self._coder.code(texts))

    def value(self) -> float:
        return self._grams.distinct / self._grams.total if self._grams.total else math.nan


@register("distinct_n")
@dataclass(frozen=True)
class DistinctN(AnswerMetric):
    r"""Share of different n-grams among all n-grams of all answers: low where answers repeat each other or themselves.

    .. math:: |\{\text{n-grams}\}| / |\text{n-grams}|

    Words are in lower case without punctuation; an n-gram lies within one answer. The score of a sample is the share
    within its own answer; the value is not their mean but that of all answers together, and it falls as answers grow
    in number and length: compare runs over the same samples. It has no interval. Failed answers are left out.
    """

    n: int = 2

    target = TargetCategory.DIVERSITY
    counts_system_failures: ClassVar[bool] = False
    output_skips: ClassVar[frozenset[str]] = frozenset({"too_short"})
    reference: ClassVar[str] = "Li et al. 2016"
    skip_reasons: ClassVar[dict[str, str]] = {
        **AnswerMetric.skip_reasons,
        "too_short": "the answer has fewer than n words",
    }

    def __post_init__(self) -> None:
        require_count("n", self.n)
        object.__setattr__(self, "reducer", DistinctShare(self.n))
        super().__post_init__()

    def choices(self) -> dict[str, str]:
        """The length of n-grams."""
        return {"n": str(self.n)}

    def score(self, batch: Batch) -> Scores:
        """The share within each answer, and the answer itself for all of them together."""
        words = coded(batch, word_rule(), "answers")
        every = gram_counts(words, self.n)
        values = distinct_per_text(words, self.n) / np.maximum(every, 1)
        scores = self.outcome(batch, values, skip_answer={"too_short": every == 0})
        return replace(scores, keys=tuple(answers(batch)))

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """The share within an answer by the plain definition."""
        found = grams(plain_words(answer), self.n)
        return Score(len(set(found)) / len(found)) if found else Score.skip("too_short")
