"""The evaluator: calls a system for each sample of a dataset and scores the outputs by a plan."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from ..core.batch import check_samples
from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.metrics_base import BatchMetric, Metric, RunInfo
from ..core.plan import EvaluationPlan
from ..core.registry import Spec
from ..core.results import Results
from ..core.slices import SliceSpec, parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import Progress, evaluate, resolve_metrics
from ..errors import AueporaWarning, DuplicateIdError
from .calls import CallPolicy, Task, TaskOutput, call_system
from .interfaces import as_system


class AueporaEvaluator:
    """Runs a system on a dataset and evaluates a plan on the outputs.

    ``system`` is an object with ``run(sample, *, top_k)``, plain or ``async def``, with ``arun``, with ``retrieve`` and
    ``generate``, a pair of a retriever and a generator, or a function like ``run``. Up to ``concurrency`` calls are in
    flight; one that takes longer than ``timeout`` seconds has failed; one that fails with a transient error
    is repeated up to ``retries`` times; after more than ``max_failures`` failures no further calls are made. With a
    concurrency of 1 and no timeout a plain system is called in the thread that evaluates.

    After ``evaluate`` the samples, outputs and results are attributes of the evaluator.
    """

    def __init__(
        self,
        system: object,
        plan: EvaluationPlan | Sequence[Spec | Metric],
        *,
        top_k: int = 5,
        conventions: str | Conventions = "auepora",
        concurrency: int = 1,
        timeout: float | None = None,
        retries: int = 0,
        max_failures: int | None = None,
    ) -> None:
        self.policy = CallPolicy(
            top_k=top_k, concurrency=concurrency, timeout=timeout, retries=retries, max_failures=max_failures
        )
        self.system = system
        self._asked = as_system(system)
        self.plan = plan
        self.top_k = top_k
        self.conventions = conventions
        self.samples: list[EvaluationSample] = []
        self.outputs: list[SystemOutputs] = []
        self.results: Results = Results()

    def evaluate(
        self,
        dataset: EvaluationDataset,
        *,
        slices: Iterable[SliceSpec] | SliceSpec = (),
        progress: Progress | None = None,
    ) -> Results:
        """Check the plan against the dataset, run the system on every sample, score.

        A sample on which the system raises, or returns something else than ``SystemOutputs``, is a recorded failure;
        the run continues. ``progress`` is called with 1 after each sample.
        """
        samples = list(dataset)
        metrics = resolve_metrics(self.plan, self.conventions)
        check_samples(samples)
        require_distinct_ids(samples)
        EvaluationPlan(metrics).validate_dataset(samples)
        groups = parse_slices(slices)
        require_slice_values(groups, samples)  # before the first call of the system
        require_ready(metrics)
        _warn_if_too_deep(metrics, self.top_k)
        self.samples, self.outputs, self.results = samples, [], Results()
        self.outputs = self._ask(samples, progress)
        failed = [output.error for output in self.outputs if output.error is not None]
        if failed:
            warnings.warn(
                f"the system failed on {len(failed)} of {len(samples)} samples; the first error: {failed[0]}",
                AueporaWarning,
                stacklevel=2,
            )
        facts = RunInfo(top_k=self.top_k, concurrency=self.policy.concurrency)
        self.results = evaluate(samples, self.outputs, metrics, slices=groups, run=facts)
        return self.results

    def _ask(self, samples: Sequence[EvaluationSample], progress: Progress | None) -> list[SystemOutputs]:
        """The output of the system for each sample, in the order of the samples."""
        outputs: list[SystemOutputs | None] = [None] * len(samples)

        def keep(answers: list[TaskOutput]) -> None:
            for answer in answers:
                outputs[answer.task.position] = answer.output
                if progress is not None:
                    progress(1)

        tasks = (Task(position, sample) for position, sample in enumerate(samples))
        summary = call_system(self._asked, tasks, self.policy, keep, total=len(samples))
        if summary.ended != "done":
            warnings.warn(f"not every sample was asked: {summary.message}", AueporaWarning, stacklevel=3)
        why = f"stopped after {summary.failed} failures" if summary.ended == "max_failures" else summary.message
        return [SystemOutputs([], error=f"not_asked: {why}") if output is None else output for output in outputs]


def require_distinct_ids(samples: Sequence[EvaluationSample]) -> None:
    """Raise where two samples have the same id."""
    seen: set[str] = set()
    for sample in samples:
        if sample.sample_id in seen:
            raise DuplicateIdError(f"two samples have the id '{sample.sample_id}'; ids must be unique within a dataset")
        seen.add(sample.sample_id)


def require_ready(metrics: Iterable[Metric]) -> None:
    """Raise where a package or a model that a metric needs is missing, before any call of the system."""
    for one in metrics:
        if isinstance(one, BatchMetric):
            one.require_ready()


def _warn_if_too_deep(metrics: Sequence[Metric], top_k: int) -> None:
    deep = [metric.name for metric in metrics if isinstance(k := getattr(metric, "k", None), int) and k > top_k]
    if deep:
        warnings.warn(
            f"{', '.join(deep)}: the system is asked for top_k={top_k} documents, fewer than the cut-off; "
            "the signature carries the depth. Raise top_k to measure as named.",
            AueporaWarning,
            stacklevel=3,
        )
