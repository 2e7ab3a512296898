"""What a metric is: the small interface ``Metric``, and two bases that bring outcomes and one-pass scoring."""

from __future__ import annotations

import copy
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from .batch import Batch, warn_notes
from .conventions import Conventions
from .errors import AlignmentError, BadValueError, MetricDefinitionError
from .reduce import Mean, Reducer
from .scores import Score, Scores, Status
from .signature import Signature
from .types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory

__all__ = ["BatchMetric", "Metric", "RunFacts", "SampleMetric", "bound_to", "make_result", "renamed", "settled_scores"]

MetricT = TypeVar("MetricT", bound="Metric")

SKIP_OF_FIELD = {"relevant_docs": "no_gold", "reference_answer": "no_reference", "candidate_docs": "no_candidates"}
"""The skip reason of a sample that lacks a required annotation; any other field gives ``no_<field>``."""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """How the outputs were made, as far as it is known and as far as it shapes a number."""

    top_k: int | None = None
    concurrency: int | None = None


class Metric(ABC):
    """All a metric needs: a name, a target, ``required_fields`` and ``compute``."""

    name: str
    target: TargetCategory

    @abstractmethod
    def required_fields(self) -> list[str]:
        """Names of ``EvaluationSample`` attributes that at least one sample must have."""

    @abstractmethod
    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        """The metric's number over aligned samples and outputs."""


class BatchMetric(Metric):
    """A metric that scores a whole batch at once, one outcome per sample; a reducer folds them.

    Objects hold configuration only, so one may be used from any thread and sent to any process.
    """

    reducer: Reducer = Mean()
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    version: ClassVar[int] = 1
    """Raised when the formula changes, so that old and new numbers are never subtracted."""
    conventions: Conventions | None = None
    """The metric's own choices; ``None`` takes those of the plan."""
    counts_system_failures: ClassVar[bool] = True
    """Whether a failed answer counts at the worst value; latency and the like have none."""
    output_skips: ClassVar[frozenset[str]] = frozenset({"no_response", "empty_answer", "no_text", "no_timing"})
    """Skip reasons that lie in the output. A failed system has no output to skip: the failure wins over these."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """What an output must hold for this metric to say anything: ``retrieved``, ``response``, ``timings``."""
    suggested: ClassVar[bool] = True
    """Whether the metric runs where the user names none; one that needs a deliberate choice does not."""
    skip_reasons: ClassVar[dict[str, str]] = {}
    """Why a sample may be skipped, for the reference page."""
    reference: ClassVar[str] = ""
    """Where the definition comes from."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls) and "name" not in getattr(cls, "__annotations__", {}):
            cls.name = _snake(cls.__name__)

    @abstractmethod
    def score(self, batch: Batch) -> Scores:
        """One outcome per sample. Failed outputs need no care: the engine settles them afterwards."""

    def required_fields(self) -> list[str]:
        """Nothing, unless a metric says so."""
        return []

    @property
    def rules(self) -> Conventions:
        """The conventions in force: the metric's own, else the default."""
        return self.conventions or Conventions.of()

    @property
    def worst(self) -> float | None:
        """The value a failed answer counts at; ``None`` where there is none and failures leave the mean."""
        low, high = self.range
        value = low if self.higher_is_better else high
        return value if self.counts_system_failures and math.isfinite(value) else None

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """The statistics of a failed answer, for reducers that read ``stats``."""
        return None

    def choices(self) -> dict[str, str]:
        """The choices that shape this metric's number, for its signature."""
        return {}

    def run_choices(self, run: RunFacts) -> dict[str, str]:
        """What the way the outputs were made adds to the signature, such as the depth that was asked for."""
        return {}

    @property
    def base_name(self) -> str:
        """The name before an alias (``as:`` in a spec) replaced it; what the signature carries."""
        return getattr(self, "_plain_name", self.name)

    @property
    def signature(self) -> Signature:
        """Name, every choice that changes the number, and the formula's version."""
        return Signature(self.base_name, {**self.choices(), **_general_choices(self)}, self.version)

    def compute(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> MetricResult:
        """The metric's number over aligned samples and outputs."""
        if len(samples) != len(outputs):
            raise AlignmentError(len(samples), len(outputs))
        batch = Batch(samples, outputs)
        scores = settled_scores(self, batch)
        warn_notes([batch], stacklevel=3)
        return make_result(self, scores)


class SampleMetric(BatchMetric):
    """A metric written for one sample at a time: implement ``score_one``.

    It is called only where it makes sense: samples without a required field are skipped, failed outputs are settled by
    the engine, and for a generation target an output without an answer is skipped (``no_response``).
    """

    needs_response: bool | None = None
    """Whether ``output.response`` must be there; ``None`` means: if the target is one of generation."""

    @abstractmethod
    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample."""

    def score(self, batch: Batch) -> Scores:
        """``score_one`` of every sample. One that raises is a failed measurement, and a warning says so."""
        required = self.required_fields()
        answer = self.needs_response
        if answer is None:
            answer = self.target.name.startswith("GENERATION")
        return Scores.from_list(
            [
                self._outcome(batch, sample, output, failure, required, answer)
                for sample, output, failure in zip(batch.samples, batch.outputs, batch.failures, strict=True)
            ]
        )

    def _outcome(
        self,
        batch: Batch,
        sample: EvaluationSample,
        output: SystemOutputs | None,
        failure: str | None,
        required: list[str],
        answer: bool,
    ) -> Score:
        for field in required:
            if getattr(sample, field) is None:
                return Score.skip(SKIP_OF_FIELD.get(field, f"no_{field}"))
        if failure is not None:
            return Score.skip("no_response")  # gives way to the failure when the outcomes are settled
        if output is None:
            output = SystemOutputs(retrieved=[])
        if answer and output.response is None:
            return Score.skip("no_response")
        try:
            score = self.score_one(sample, output)
        except Exception as error:  # whatever a user's code raises must not cost the other samples their scores
            batch.note(f"metric '{self.name}' raised {type(error).__name__}: {error}", sample.sample_id)
            return Score.fail(f"raised_{_snake(type(error).__name__)}")
        if not isinstance(score, Score):
            raise MetricDefinitionError(
                f"{type(self).__name__}.score_one returned {score!r}; return Score(number), Score.skip(reason) "
                "or Score.fail(reason)"
            )
        return score


def settled_scores(metric: BatchMetric, batch: Batch) -> Scores:
    """The outcomes of a batch, with missing outputs and system failures settled by the metric's conventions.

    A sample the question does not apply to stays skipped even where the system failed on it; a skip that lies in the
    output (no response) gives way to the failure, or a crash would hide behind it.
    """
    rules = metric.rules
    scores = metric.score(batch)
    if len(scores) != len(batch):
        raise MetricDefinitionError(f"metric '{metric.name}' gave {len(scores)} scores for {len(batch)} samples")
    if batch.all_answered:
        return scores
    worst = metric.worst if rules.on_system_failure == "worst" else None
    value, stats = (math.nan, None) if worst is None else (worst, metric.worst_stats)
    applies = scores.status != Status.SKIPPED
    for code, name in enumerate(scores.reason_names):
        if name in metric.output_skips:
            applies |= scores.reason_codes == code
    missing = batch.missing
    if missing.any() and rules.missing == "fail":
        scores = scores.replaced(missing & applies, Status.SYSTEM_FAILED, "missing_output", value, stats)
    elif missing.any() and rules.missing == "skip":
        scores = scores.replaced(missing, Status.SKIPPED, "missing_output", math.nan)
    for reason in dict.fromkeys(filter(None, batch.failures)):
        failed = np.fromiter((failure == reason for failure in batch.failures), np.bool_, len(batch))
        scores = scores.replaced(failed & applies, Status.SYSTEM_FAILED, reason, value, stats)
    return scores


def make_result(
    metric: BatchMetric, scores: Scores, *, signature: Signature | None = None, keep_scores: bool = True
) -> MetricResult:
    """The result of a metric from the settled outcomes of all its samples."""
    fold, completed = metric.reducer.value(scores), math.nan
    if (scores.status == Status.SYSTEM_FAILED).any():
        completed = metric.reducer.value(scores.take(scores.status == Status.SCORED))
    bounds = None
    if (scores.status == Status.MEASURE_FAILED).any() and all(map(math.isfinite, metric.range)):
        bounds = metric.reducer.bounds(scores, *metric.range)
    return result_of(
        metric,
        value=fold,
        completed=completed,
        bounds=bounds,
        num_samples=int(scores.counted.sum()),
        tally=scores.tally(),
        signature=signature or metric.signature,
        scores=scores if keep_scores else None,
    )


def result_of(
    metric: BatchMetric,
    *,
    value: float,
    completed: float,
    bounds: tuple[float, float] | None,
    num_samples: int,
    tally: dict[tuple[Status, str], int],
    signature: Signature,
    scores: Scores | None,
) -> MetricResult:
    """A result with the details every metric shows: who is in the mean, who is not, and why."""
    totals = dict.fromkeys(Status, 0)
    for (status, _), count in tally.items():
        totals[status] += count
    details: dict[str, Any] = {
        "num_samples": num_samples,
        "num_scored": totals[Status.SCORED],
        "num_skipped": totals[Status.SKIPPED],
        "num_system_failed": totals[Status.SYSTEM_FAILED],
        "num_measure_failed": totals[Status.MEASURE_FAILED],
        "num_failed": totals[Status.SYSTEM_FAILED] + totals[Status.MEASURE_FAILED],
    }
    for (status, reason), count in sorted(tally.items()):
        if status is not Status.SCORED:
            key = f"{'skipped' if status is Status.SKIPPED else 'failed'}_{reason}"
            details[key] = details.get(key, 0) + count
    if totals[Status.SYSTEM_FAILED]:
        details["value_completed"] = None if math.isnan(completed) else completed
    if bounds is not None:
        details["bounds"] = list(bounds)
    defined = not math.isnan(value)
    return MetricResult(
        name=metric.name,
        target=metric.target,
        value=value if defined else 0.0,
        details=details,
        scores=scores,
        outcomes=None if scores is None else scores.outcomes,
        signature=str(signature),
        defined=defined,
    )


def bound_to(metric: MetricT, conventions: Conventions) -> MetricT:
    """The metric under these conventions, unless it brings its own."""
    if not isinstance(metric, BatchMetric) or metric.conventions is not None:
        return metric
    twin = copy.copy(metric)
    object.__setattr__(twin, "conventions", conventions)  # built-in metrics are frozen; this is a fresh copy
    return twin


def renamed(metric: MetricT, name: str) -> MetricT:
    """The same metric under another name, so that a plan can hold it twice."""
    if not name or not isinstance(name, str):
        raise BadValueError(f"a metric cannot be called {name!r}")
    twin = copy.copy(metric)
    object.__setattr__(twin, "_plain_name", getattr(metric, "_plain_name", metric.name))
    object.__setattr__(twin, "name", name)
    return twin


def _general_choices(metric: BatchMetric) -> dict[str, str]:
    """Choices that concern every metric, shown only where they depart from the rule."""
    rules = metric.rules
    choices: dict[str, str] = {}
    if rules.missing != "fail":
        choices["missing"] = rules.missing
    if rules.on_system_failure != "worst" and metric.counts_system_failures:
        choices["failed"] = rules.on_system_failure
    return choices
