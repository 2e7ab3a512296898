"""Wrapper metrics: the base class, and ``SlicedMetric``, another metric on a subset of the samples."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.errors import BadTypeError, BadValueError
from ..core.metrics_base import BatchMetric, Metric, RunInfo, with_conventions, with_name
from ..core.reduce import Reducer
from ..core.registry import metric, register
from ..core.scores import Score, Scores, Status
from ..core.scoring import apply_failure_policy
from ..core.signature import function_name
from ..core.slices import group_names, sample_value
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from .base import ConfiguredMetric
from .derivations_wrappers import inner_derivation, prepend_steps

__all__ = [
    "ComputedReducer",
    "SlicedMetric",
    "WrapperMetric",
    "as_batch_metric",
    "inner_scores",
    "inner_signature_options",
    "is_paired_metric",
    "require_in_range",
]


class ComputedReducer(Reducer):
    """The value of a metric that only implements ``compute``: ``keys`` contain the samples and outputs."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.name = f"compute[{metric.name}]"

    def value(self, scores: Scores) -> float:
        """``compute`` over these samples; NaN if its result is undefined."""
        used = [key for key, counted in zip(scores.keys or (), scores.counted.tolist(), strict=True) if counted]
        if not used:
            return float("nan")
        samples, outputs = zip(*used, strict=True)
        result = self.metric.compute(list(samples), list(outputs))
        return float(result.value) if result.defined else float("nan")


class _ComputeOnlyMetric(BatchMetric):
    """Adapts a metric that only implements ``compute``: each sample is its own statistic."""

    needs_all: ClassVar[bool] = True
    handles_failures: ClassVar[bool] = True  # failed outputs are passed as empty answers with the error

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.name, self.target = metric.name, metric.target
        self.range = (-float("inf"), float("inf"))
        self.reducer = ComputedReducer(metric)

    def required_fields(self) -> list[str]:
        """The fields the metric requires."""
        return self.metric.required_fields()

    def score(self, batch: Batch) -> Scores:
        """The samples themselves, without scores."""
        outputs = batch.present_outputs()
        return replace(Scores.of(np.zeros(len(batch))), keys=tuple(zip(batch.samples, outputs, strict=True)))

    def signature_options(self) -> dict[str, str]:
        """The class of the metric."""
        return {"by": f"{type(self.metric).__module__}.{type(self.metric).__qualname__}"}

    def compute(self, samples: Any, outputs: Any) -> MetricResult:
        """The metric's own ``compute``."""
        return self.metric.compute(samples, outputs)


def as_batch_metric(one: Metric) -> BatchMetric:
    """The metric as a ``BatchMetric``, adapted if it only implements ``compute``."""
    return one if isinstance(one, BatchMetric) else _ComputeOnlyMetric(one)


def is_paired_metric(one: BatchMetric) -> bool:
    """Whether a metric is computed from several samples together, so that no sample has its own score."""
    if isinstance(one, SlicedMetric):
        return is_paired_metric(one.inner)
    return one.is_paired


def inner_scores(one: BatchMetric, batch: Batch) -> Scores:
    """The outcomes of a batch under another metric, cached for all metrics that wrap it."""
    # Found by equality: different functions may have equal signatures, and user metrics may omit options.
    known: list[tuple[BatchMetric, Scores]] = batch.feature("scored_by", lambda _: [])
    for other, scores in known:
        if type(other) is type(one) and other == one:
            return scores
    known.append((one, apply_failure_policy(one, batch)))
    return known[-1][1]


def require_in_range(name: str, threshold: float, base: BatchMetric) -> None:
    """Raise if a threshold lies outside a metric's range."""
    low, high = base.range
    if not low < threshold <= high:
        raise BadValueError(
            f"{name} must be > {low:g} and <= {high:g}, the range of '{base.name}'; not at {threshold!r}"
        )


def inner_signature_options(one: BatchMetric, role: str = "base") -> dict[str, str]:
    """Another metric's signature as part of this one: its name, and its options prefixed with the role."""
    signature = one.signature
    choices = {role: signature.name.replace("|", "/")}
    choices |= {f"{role}.{key}": value for key, value in signature.options.items()}
    return choices | ({f"{role}.v": str(signature.version)} if signature.version != 1 else {})


@dataclass(frozen=True)
class WrapperMetric(ConfiguredMetric):
    """A metric that wraps another metric, given as an object or a spec, under the same conventions."""

    base: Any
    """The wrapped metric: its name, ``{name: options}``, or a ``Metric``."""

    base_role: ClassVar[str] = "base"
    counts_system_failures: ClassVar[bool] = False  # the wrapped metric has counted them

    def __post_init__(self) -> None:
        try:
            built = metric(self.base)
        except BadTypeError as error:
            raise BadTypeError(f"{self.base_role} must be a metric: {error}") from error
        object.__setattr__(self, "base", built)
        base = self.inner
        object.__setattr__(self, "target", getattr(type(self), "target", base.target))
        object.__setattr__(self, "reads", type(self).reads | base.reads)
        object.__setattr__(self, "by_chunk_id", type(self).by_chunk_id or base.by_chunk_id)
        object.__setattr__(self, "skip_reasons", {**base.skip_reasons, **type(self).skip_reasons})
        object.__setattr__(self, "output_skips", type(self).output_skips | base.output_skips)
        super().__post_init__()

    def copy_attributes(self, *names: str) -> None:
        """Copy these attributes from the wrapped metric; for ``__post_init__``."""
        inner = self.inner
        for name in names:
            object.__setattr__(self, name, getattr(inner, name))

    @property
    def inner(self) -> BatchMetric:
        """The wrapped metric, under the active conventions."""
        return with_conventions(as_batch_metric(self.base), self.active_conventions)

    def inner_metrics(self) -> Sequence[BatchMetric]:
        """The wrapped metric."""
        return (self.inner,)

    def required_fields(self) -> list[str]:
        """The fields the wrapped metric requires."""
        return self.inner.required_fields()

    def signature_options(self) -> dict[str, str]:
        """The wrapped metric's name and options."""
        return inner_signature_options(self.inner, self.base_role)

    def for_run(self, run: RunInfo) -> Self:
        """A copy whose wrapped metric is adapted to the run."""
        base = self.base.for_run(run) if isinstance(self.base, BatchMetric) else self.base
        if base is self.base:
            return self
        twin = replace(self, base=base)
        return twin if self.base_name == self.name else with_name(twin, self.name)

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The run options of the wrapped metric."""
        return {f"{self.base_role}.{key}": value for key, value in self.inner.run_signature_options(run).items()}


@register("sliced")
@dataclass(frozen=True)
class SlicedMetric(WrapperMetric):
    r"""Another metric, on a subset of the samples.

    .. math:: M(\{s : \text{where}(s)\})

    `where` is `{path: value}` with paths such as `labels.lang` or `metadata.source.kind`, or, in Python, a function of
    the sample. All paths must match; a list of values means any of them; values are compared as slices show them, so
    that 1 and "1" are equal. Value, interval and per-sample scores are those of the other metric on that subset; all
    other samples are skipped. To see every group at once, use the slices of the evaluation instead.
    """

    where: Any
    """``{path: value or values}``, or a function from sample to true or false."""

    handles_failures: ClassVar[bool] = True
    follows_base: ClassVar[bool] = True
    failure_note: ClassVar[str] = "as with the other metric"
    suggested: ClassVar[bool] = False
    skip_reasons: ClassVar[dict[str, str]] = {"other_slice": "the sample is not selected"}

    def __post_init__(self) -> None:
        if isinstance(self.where, Mapping):
            for path in self.where:
                if not isinstance(path, str) or path.partition(".")[0] not in ("labels", "metadata") or "." not in path:
                    raise BadValueError(f"cannot select by {path!r}; write 'labels.<key>' or 'metadata.<key>'")
        elif not callable(self.where):
            raise BadTypeError(
                f"where must be {{'labels.<key>': value}} or a function of the sample, not {self.where!r:.80}"
            )
        super().__post_init__()
        self.copy_attributes("target", "reducer", "range", "higher_is_better", "binary", "stat_names", "needs_all")
        self.copy_attributes("needs_parents_only", "details_need_all")
        object.__setattr__(self, "name", f"sliced[{self.base.name},{self.condition}]")

    @property
    def worst(self) -> float | None:
        """The wrapped metric's worst value."""
        return self.inner.worst

    @property
    def condition(self) -> str:
        """A short text of the condition."""
        if not isinstance(self.where, Mapping):
            name = function_name(self.where, module=False).rpartition(".")[2]
            return name.replace("<lambda>", "lambda")
        parts = []
        for path, values_given in self.where.items():
            values = values_given if isinstance(values_given, (list, tuple, set, frozenset)) else [values_given]
            parts.append(f"{path}={'/'.join(map(str, values))}")
        text = ",".join(parts)
        return "".join(" " if mark in "|[]" else mark for mark in text)

    @property
    def predicate(self) -> Callable[[EvaluationSample], bool]:
        """A function that tests whether a sample is selected."""
        return self._matches if isinstance(self.where, Mapping) else self.where

    def _is_selected(self, sample: EvaluationSample) -> bool:
        try:
            return bool(self.predicate(sample))
        except Exception as error:
            raise BadValueError(
                f"the condition of '{self.name}' raised {type(error).__name__} on sample '{sample.sample_id}': {error}"
            ) from error

    def _matches(self, sample: EvaluationSample) -> bool:
        return all(group_names(wanted) & group_names(sample_value(sample, path)) for path, wanted in self.where.items())

    def score(self, batch: Batch) -> Scores:
        """The wrapped metric's outcomes; other samples are skipped."""
        selected = np.fromiter(map(self._is_selected, batch.samples), np.bool_, len(batch))
        scores = inner_scores(self.inner, batch)
        if not self.needs_all:
            return scores.replaced(~selected, Status.SKIPPED, "other_slice", math.nan)
        # An unselected sample may be the parent of a selected variant, so they are separated once all are known.
        keys = [None] * len(batch) if scores.keys is None else scores.keys
        return replace(scores, keys=tuple(zip(selected.tolist(), keys, strict=True)))

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's score, if the sample is selected."""
        return self.inner.reference_score(sample, output) if self.predicate(sample) else Score.skip("other_slice")

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The wrapped metric's steps; a metric over several samples sees the selected ones only."""
        if type(self.inner).select is not BatchMetric.select:
            context = around
            around = replace(context, read=lambda: [pair for pair in context.pairs if self._is_selected(pair[0])])
        steps = DerivationBuilder().add_step(f"The sample is one of those asked for: {self.condition}")
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def pair_samples(self, scores: Scores) -> Scores:
        """Join as the wrapped metric does, then skip the unselected samples."""
        if not self.needs_all or scores.keys is None:
            return scores
        # Samples that could not be scored have no key: they failed, selected or not.
        selected = np.array([key is None or key[0] for key in scores.keys], dtype=np.bool_)
        plain = replace(scores, keys=tuple(key and key[1] for key in scores.keys))
        joined = self.inner.pair_samples(plain)
        rows, others = np.flatnonzero(selected), np.flatnonzero(~selected)
        selected_scores = self.inner.select(plain, joined, rows)
        rest = joined.take(others)
        rest = rest.replaced(np.ones(len(others), np.bool_), Status.SKIPPED, "other_slice", math.nan)
        return Scores.woven((rows, selected_scores), (others, rest))

    def select(self, scores: Scores, joined: Scores, rows: npt.NDArray[np.intp]) -> Scores:
        """The wrapped metric's selection of these samples, without unselected ones."""
        if not self.needs_all or type(self.inner).select is BatchMetric.select:
            return joined.take(rows)
        return self.pair_samples(scores.take(rows))

    def further_details(self, scores: Scores, clusters: Any) -> dict[str, Any]:
        """The wrapped metric's details."""
        return self.inner.further_details(scores, clusters)

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample is selected and the wrapped metric applies."""
        return self.predicate(sample) and self.inner.is_applicable(sample, output)

    def signature_options(self) -> dict[str, str]:
        """The wrapped metric and the condition."""
        where = self.condition
        if isinstance(self.where, Mapping):  # unambiguous form
            where = json.dumps({path: sorted(group_names(wanted)) for path, wanted in self.where.items()})
        return {**super().signature_options(), "where": where.replace("|", "/")}
