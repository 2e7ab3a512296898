"""The evaluator: asks a system for its outputs on a dataset and scores them by a plan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..features.rankings import retrieved_problem
from .batch import check_samples, output_problem
from .conventions import Conventions
from .dataset import EvaluationDataset
from .engine import Progress, evaluate, resolve_metrics
from .errors import AueporaWarning, BadValueError, DuplicateIdError
from .metrics_base import Metric, RunFacts
from .plan import EvaluationPlan
from .rag_interface import RAGSystemProtocol
from .registry import Spec
from .results import Results
from .slices import SliceSpec, require_members, slices_of
from .types import EvaluationSample, SystemOutputs

__all__ = ["AueporaEvaluator", "require_distinct_ids"]


class AueporaEvaluator:
    """Runs a system over a dataset and a plan over what it returned.

    After ``evaluate`` the samples, outputs and results are kept on the evaluator for a closer look.
    """

    def __init__(
        self,
        system: RAGSystemProtocol,
        plan: EvaluationPlan | Sequence[Spec | Metric],
        *,
        top_k: int = 5,
        conventions: str | Conventions = "auepora",
    ) -> None:
        if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
            raise BadValueError(f"top_k must be a whole number of at least 1, not {top_k!r}")
        self.system = system
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
        the run goes on. ``progress`` is called with 1 after each sample.
        """
        samples = list(dataset)
        metrics = resolve_metrics(self.plan, self.conventions)
        check_samples(samples)
        require_distinct_ids(samples)
        EvaluationPlan(metrics).validate_dataset(samples)
        groups = slices_of(slices)
        require_members(groups, samples)  # before the system is asked even once
        _warn_if_too_deep(metrics, self.top_k)
        self.samples, self.outputs, self.results = samples, [], Results()
        for sample in samples:
            self.outputs.append(self._run_one(sample))
            if progress is not None:
                progress(1)
        failed = [output.error for output in self.outputs if output.error is not None]
        if failed:
            warnings.warn(
                f"the system failed on {len(failed)} of {len(samples)} samples; the first error: {failed[0]}",
                AueporaWarning,
                stacklevel=2,
            )
        facts = RunFacts(top_k=self.top_k, concurrency=1)
        self.results = evaluate(samples, self.outputs, metrics, slices=groups, run=facts)
        return self.results

    def _run_one(self, sample: EvaluationSample) -> SystemOutputs:
        start = time.perf_counter()
        try:
            output = self.system.run(sample, top_k=self.top_k)
        except Exception as error:  # the user's code may raise anything; that is its answer to this sample
            output = SystemOutputs(retrieved=[], error=f"raised: {type(error).__name__}: {error}")
        elapsed = time.perf_counter() - start
        problem = output_problem(output) or retrieved_problem(output)
        if problem is not None:
            output = SystemOutputs(retrieved=[], error=f"bad_output: what run() returned {problem}")
        # A copy: a system may hand out the same object twice, and its timings are its own.
        return replace(output, timings={"end_to_end": elapsed, **output.timings})


def require_distinct_ids(samples: Sequence[EvaluationSample]) -> None:
    """Raise where two samples have one id, since their outputs could not be told apart."""
    seen: set[str] = set()
    for sample in samples:
        if sample.sample_id in seen:
            raise DuplicateIdError(f"two samples have the id '{sample.sample_id}'; ids must be unique within a dataset")
        seen.add(sample.sample_id)


def _warn_if_too_deep(metrics: Sequence[Metric], top_k: int) -> None:
    deep = [metric.name for metric in metrics if isinstance(k := getattr(metric, "k", None), int) and k > top_k]
    if deep:
        warnings.warn(
            f"{', '.join(deep)}: the system is asked for top_k={top_k} documents, fewer than the cut-off; "
            "the signature carries the depth. Raise top_k to measure as named.",
            AueporaWarning,
            stacklevel=3,
        )
