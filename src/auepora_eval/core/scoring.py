"""From a metric and a batch to outcomes under the failure policy, and from outcomes to a result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..stats.interval import Interval
from .batch import Batch
from .errors import AueporaError, MetricDefinitionError
from .metrics_base import BatchMetric, RunInfo, snake_case
from .reduce import Clusters, StatMeans
from .scores import Scores, Status, to_reason
from .signature import Signature
from .types import EvaluationSample, MetricResult

__all__ = [
    "any_clustered",
    "apply_failure_policy",
    "assemble_result",
    "cluster_ids",
    "cluster_key",
    "make_result",
    "run_signature",
    "sample_clusters",
]


def apply_failure_policy(metric: BatchMetric, batch: Batch) -> Scores:
    """Score a batch, with missing outputs and system failures handled by the metric's conventions.

    A sample the question does not apply to stays skipped even where the system failed on it; for a skip that
    is caused by the output (no response) the failure takes precedence, so that no crash is hidden.
    """
    conventions = metric.active_conventions
    scores = _score(metric, batch)
    if batch.all_answered or metric.handles_failures:
        return scores
    counts = conventions.on_system_failure == "worst" or metric.always_counts_failures
    worst = metric.worst if counts else None
    value, stats = (math.nan, None) if worst is None else (metric.worst_in(batch), metric.worst_stats)
    if scores.stats is not None and worst is not None and stats is None:
        raise MetricDefinitionError(f"metric '{metric.name}' has statistics but no 'worst_stats' for a failed answer")
    in_output = scores.status != Status.SKIPPED
    for code, name in enumerate(scores.reason_names):
        if name in metric.output_skips:
            in_output |= scores.reason_codes == code
    missing = batch.missing
    if missing.any():
        if conventions.missing == "skip":
            scores = scores.replaced(missing & in_output, Status.SKIPPED, "missing_output", math.nan)
        else:
            # Read as nothing returned, a missing output that still cannot be scored is a failure after all.
            unscored = missing & in_output & (scores.status != Status.SCORED)
            failed = missing & in_output if conventions.missing == "fail" else unscored
            scores = scores.replaced(failed, Status.SYSTEM_FAILED, "missing_output", value, stats)
    for reason in dict.fromkeys(filter(None, batch.failures)):
        failed = np.fromiter((failure == reason for failure in batch.failures), np.bool_, len(batch))
        scores = scores.replaced(failed & in_output, Status.SYSTEM_FAILED, reason, value, stats)
    return scores


def _score(metric: BatchMetric, batch: Batch) -> Scores:
    try:
        scores = metric.score(batch)
    except AueporaError:
        raise
    except Exception as error:
        if type(metric).__module__.startswith(__name__.partition(".")[0] + "."):
            raise  # a bug of ours must be visible
        for sample in batch.samples:
            batch.note(f"metric '{metric.name}' raised {type(error).__name__}: {error}", sample.sample_id)
        failed = to_reason(f"raised_{snake_case(type(error).__name__)}")
        return Scores.of(np.zeros(len(batch)), fail={failed: np.ones(len(batch), dtype=np.bool_)})
    if not isinstance(scores, Scores):
        raise MetricDefinitionError(f"{type(metric).__name__}.score returned a {type(scores).__name__}, not Scores")
    if len(scores) != len(batch):
        raise MetricDefinitionError(f"metric '{metric.name}' gave {len(scores)} scores for {len(batch)} samples")
    return scores


def any_clustered(samples: Sequence[EvaluationSample]) -> bool:
    """Whether any sample belongs to a cluster."""
    # Sets of a column are faster than a generator over samples; this runs for every batch.
    named = {sample.cluster_id for sample in samples} - {None}
    return bool(named) or True in {"variant_of" in sample.labels for sample in samples}


def sample_clusters(samples: Sequence[EvaluationSample]) -> Clusters | None:
    """The cluster id of each sample; None where no sample belongs to a cluster."""
    if not any_clustered(samples):
        return None
    return cluster_ids([sample.sample_id for sample in samples], list(map(cluster_key, samples)))


def cluster_key(sample: EvaluationSample) -> tuple[bool, str]:
    """The cluster key of a sample: whether it has a ``cluster_id``, and the name of the cluster."""
    return sample.cluster_id is not None, sample.cluster


def cluster_ids(ids: Sequence[str], families: Sequence[tuple[bool, str]]) -> Clusters:
    """The cluster id of each sample. A variant of a variant belongs to the cluster of the first parent."""
    # Samples by id, as ``cluster_key`` names them, and what each belongs to where that is not itself.
    above = {(False, one): family for one, family in zip(ids, families, strict=True) if family != (False, one)}
    roots: dict[tuple[bool, str], tuple[bool, str]] = {}
    for family in dict.fromkeys(families):
        root, passed = family, {family}
        while (higher := above.get(root)) is not None and higher not in passed:
            root = higher
            passed.add(root)
        # All samples of a cycle are one cluster.
        roots[family] = min(passed) if above.get(root) in passed else root
    numbers: dict[tuple[bool, str], int] = {}
    return np.array([numbers.setdefault(roots[family], len(numbers)) for family in families], dtype=np.intp)


def run_signature(metric: BatchMetric, run: RunInfo) -> Signature:
    """The signature of a metric with what the settings of the run, or other gold, add to it."""
    other_gold = {} if run.gold is None else {"gold": run.gold}
    return metric.signature.with_options(**metric.run_signature_options(run), **other_gold)


def make_result(
    metric: BatchMetric,
    scores: Scores,
    *,
    signature: Signature | None = None,
    keep_scores: bool = True,
    clusters: Clusters | None = None,
) -> MetricResult:
    """The result of a metric from the final outcomes of all its samples."""
    fold, completed, bounds = metric.reducer.value(scores), math.nan, None
    if scores.status.any():
        if (scores.status == Status.SYSTEM_FAILED).any():
            completed = metric.reducer.value(scores.take(scores.status == Status.SCORED))
        if (scores.status == Status.MEASURE_FAILED).any():
            bounds = metric.reducer.bounds(scores, *metric.range)
    means = StatMeans(metric.stat_names)
    means.add(scores)
    return assemble_result(
        metric,
        value=fold,
        completed=completed,
        bounds=bounds,
        num_samples=int(np.count_nonzero(scores.counted)),
        tally=scores.tally(),
        further={**means.values(), **metric.further_details(scores, clusters)},
        signature=signature or metric.signature,
        scores=scores if keep_scores else None,
        interval=metric.reducer.interval(scores, *metric.range, binary=metric.binary, clusters=clusters),
    )


def assemble_result(
    metric: BatchMetric,
    *,
    value: float,
    completed: float,
    bounds: tuple[float, float] | None,
    num_samples: int,
    tally: dict[tuple[Status, str], int],
    further: dict[str, Any],
    signature: Signature,
    scores: Scores | None,
    interval: Interval | None,
) -> MetricResult:
    """A result with the details of every metric: the number of samples by outcome and reason."""
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
    if "empty_gold" in metric.skip_reasons and "relevant_docs" in metric.required_fields():
        details.setdefault("skipped_empty_gold", 0)
    if totals[Status.SYSTEM_FAILED]:
        details["value_completed"] = None if math.isnan(completed) else completed
    if bounds is not None:
        details["bounds"] = list(bounds)
    if interval is not None:
        details["interval"] = {"method": interval.method, "units": interval.units, "flags": list(interval.flags)}
    details |= further
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
        interval=None if interval is None else (interval.low, interval.high),
    )
