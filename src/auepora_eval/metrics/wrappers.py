"""Wrapper metrics: another metric on a subset of the samples, by retrieval hits, or by context noise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ..core.batch import Batch
from ..core.conventions import function_name, without_separator
from ..core.derivation import (
    NO_CONTEXT,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    add_outcome,
    add_step,
    format_number,
    quote_text,
)
from ..core.family import FamilyKey, sort_by_id, with_family_keys
from ..core.metric_hooks import (
    base_name,
    for_samples,
    is_paired,
    joins_repeats,
    pair_samples,
    select_scores,
)
from ..core.metric_metadata import declared_options
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    MetricMetadata,
    RunInfo,
    apply_failure_policy,
    declare,
    set_metadata,
    with_conventions,
    with_name,
)
from ..core.reduce import Clusters, Mean, Reducer, SumsReducer
from ..core.registry import ConfiguredMetric, metric, register
from ..core.scores import Score, Scores, Status
from ..core.slices import Rows, group_names, sample_value
from ..core.types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory, response_text
from ..errors import BadTypeError, BadValueError
from ..features.matching import GoldRank, first_gold_rank, has_spans
from ..judge.metric import needs_calls
from ..options import PositiveInt
from .retrieval import HitRateAtK

# --- whether a relevant document is among the first k, by id, or by span where ids do not match ----------------------


@dataclass(frozen=True)
class GoldHitAtK(HitRateAtK):
    """A hit as other metrics use it: `hit_rate@k`, and for gold with spans also a hit by span.

    It has the name and the signature of `hit_rate@k`, to which it is equal if gold has no spans.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "name", HitRateAtK(self.k).name)

    def score(self, batch: Batch) -> Scores:
        """Whether there is a hit; spans are compared only if gold has some."""
        scores = super().score(batch)
        if self.active_conventions.match != "id":
            return scores
        rows = [row for row, sample in enumerate(batch.samples) if has_spans(sample)]
        if not rows:
            return scores
        values = np.array(scores.values)
        for row in rows:
            values[row] = float(self._hits(batch.samples[row], batch.outputs[row]))
        return scores.with_values(values)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition: by ids, else by the rank from which enough of a gold span is covered."""
        by_id = super().reference(sample, output)
        if self.active_conventions.match != "id" or by_id.status is not Status.SCORED or not has_spans(sample):
            return by_id
        found, hit = self._rank(sample, output), float(self._hits(sample, output))
        if found.by != "id":
            covered = "nowhere" if found.rank is None else f"at rank {found.rank}"
            add_step(f"No gold id is among those returned; .45 of a gold span is covered {covered}")
            add_outcome(f"So gold is {'' if hit else 'not '}among the first {self.k}", hit)
        return Score(hit)

    def _rank(self, sample: EvaluationSample, output: SystemOutputs | None) -> GoldRank:
        rules = self.active_conventions
        return first_gold_rank(sample, output, min_relevance=rules.min_relevance, depth=rules.depth)

    def _hits(self, sample: EvaluationSample, output: SystemOutputs | None) -> bool:
        rank = self._rank(sample, output).rank
        return rank is not None and (self.k is None or rank <= self.k)


# --- derivations of wrapper metrics: the steps of the inner metric, and what follows from its value ------------------


def prepend_steps(steps_before: DerivationBuilder, derivation: Derivation) -> Derivation:
    """A derivation with steps prepended."""
    return Derivation(steps_before.extend(derivation).steps, derivation.value, derivation.general)


def inner_score(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: ExplainContext
) -> tuple[str, float | None]:
    """The outcome of one sample under another metric, and the value it counts at."""
    if needs_calls(metric, around):
        return "not computed again", None
    scores = apply_failure_policy(metric, Batch([sample], [output]))
    return scores.outcomes[0], scores[0]


def inner_derivation(
    metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs | None, around: ExplainContext
) -> Derivation:
    """The steps of another metric, if it has a score; else its outcome and value."""
    if output is not None and (is_paired(metric) or needs_calls(metric, around)):
        return metric.explain(sample, output, around)
    outcome, value = inner_score(metric, sample, output, around)
    if outcome == Status.SCORED.name.lower() and output is not None:
        return metric.explain(sample, output, around)
    counts = "" if value is None else f", which counts as {format_number(value)}"
    return DerivationBuilder().finish(f"{metric.name} of {sample.sample_id}: {outcome}{counts}", value)


def add_inner_score_step(
    steps: DerivationBuilder,
    what: str,
    metric: BatchMetric,
    sample: EvaluationSample,
    output: SystemOutputs | None,
    around: ExplainContext,
) -> float | None:
    """Add a step with another metric's score of a sample; return the score."""
    outcome, value = inner_score(metric, sample, output, around)
    answer = output.response.text if output is not None and output.response is not None else ""
    shown = (
        outcome
        if value is None
        else format_number(value)
        if outcome == "scored"
        else f"{format_number(value)} ({outcome})"
    )
    steps.add_step(f"{what} {sample.sample_id}, answered with {quote_text(answer)}: {metric.name} = {shown}", value)
    return value


# --- wrapper metrics: the base class, and ``SlicedMetric``, another metric on a subset of the samples ----------------


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

    metadata = declare(
        handles_failures=True,  # failed outputs are passed as empty answers with the error
        needs_all=True,
    )

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


def as_batch_metric(given: Metric) -> BatchMetric:
    """The metric as a ``BatchMetric``, adapted if it only implements ``compute``."""
    return given if isinstance(given, BatchMetric) else _ComputeOnlyMetric(given)


def is_paired_metric(metric: BatchMetric) -> bool:
    """Whether a metric is computed from several samples together, so that no sample has its own score."""
    if isinstance(metric, SlicedMetric):
        return is_paired_metric(metric.inner)
    return is_paired(metric)


def inner_scores(inner: BatchMetric, batch: Batch) -> Scores:
    """The outcomes of a batch under another metric, cached for all metrics that wrap it."""
    # Found by equality: different functions may have equal signatures, and user metrics may omit options.
    known: list[tuple[BatchMetric, Scores]] = batch.feature("scored_by", lambda _: [])
    for other, scores in known:
        if type(other) is type(inner) and other == inner:
            return scores
    known.append((inner, apply_failure_policy(inner, batch)))
    return known[-1][1]


def score_rows(scores: Scores) -> list[Score]:
    """Each score with its status and reason."""
    parts = zip(scores.values.tolist(), scores.status.tolist(), scores.reasons, strict=True)
    return [Score(value, Status(status), reason or "") for value, status, reason in parts]


def require_in_range(name: str, threshold: float, base: BatchMetric) -> None:
    """Raise if a threshold lies outside a metric's range."""
    low, high = base.range
    if not low < threshold <= high:
        raise BadValueError(
            f"{name} must be > {low:g} and <= {high:g}, the range of '{base.name}'; not at {threshold!r}"
        )


FOLLOWED = ("target", "reducer", "range", "higher_is_better", "binary", "stat_names")
"""What a metric copies from another one whose value it has on other samples or answers."""


def inner_signature_options(inner: BatchMetric, role: str = "base") -> dict[str, str]:
    """Another metric's signature as part of this one: its name, and its options prefixed with the role."""
    signature = inner.signature
    choices = {role: without_separator(signature.name)}
    choices |= {f"{role}.{key}": value for key, value in signature.options.items()}
    return choices | ({f"{role}.v": str(signature.version)} if signature.version != 1 else {})


@dataclass(frozen=True)
class MetricOfMetric(ConfiguredMetric):
    """A metric that is computed from another metric, given as an object or a spec, under the same conventions."""

    base_role: ClassVar[str] = "base"
    """How signatures name the other metric."""
    base_option: ClassVar[str] = "base"
    """The option with the other metric: its name, ``{name: options}``, or a ``Metric``."""
    metadata = declare(
        counts_system_failures=False,  # the wrapped metric has counted them
    )

    def __post_init__(self) -> None:
        try:
            built = metric(self.wrapped)
        except BadTypeError as error:
            raise BadTypeError(f"{self.base_role} must be a metric: {error}") from error
        object.__setattr__(self, self.base_option, built)
        base = self.inner
        if joins_repeats(base):
            raise BadValueError(f"'{base.name}' is computed from several answers to a sample; no metric can wrap it")
        object.__setattr__(self, "target", getattr(type(self), "target", base.target))
        own, given = type(self).metadata, base.metadata
        set_metadata(
            self,
            reads=own.reads | given.reads,
            by_chunk_id=own.by_chunk_id or given.by_chunk_id,
            matches_gold=all(part.matches_gold for part in (own, given) if part.by_chunk_id),
            skip_reasons={**given.skip_reasons, **own.skip_reasons},
            output_skips=own.output_skips | given.output_skips,
        )
        super().__post_init__()

    @property
    def worst(self) -> float | None:
        """The worst value of the wrapped metric, where failures count as they do there."""
        return self.inner.worst if self.metadata.worst_of_base else super().worst

    @property
    def wrapped(self) -> Any:
        """The other metric as it was given."""
        return getattr(self, self.base_option)

    def copy_attributes(self, *names: str) -> None:
        """Copy these attributes and metadata from the wrapped metric; for ``__post_init__``."""
        inner = self.inner
        for name in names:
            if name in MetricMetadata.__dataclass_fields__:
                set_metadata(self, **{name: getattr(inner, name, getattr(inner.metadata, name))})
            else:
                object.__setattr__(self, name, getattr(inner, name))

    @property
    def inner(self) -> BatchMetric:
        """The wrapped metric, under the active conventions."""
        return with_conventions(as_batch_metric(self.wrapped), self.active_conventions)

    def inner_metrics(self) -> Sequence[BatchMetric]:
        """The wrapped metric."""
        return (self.inner,)

    def required_fields(self) -> list[str]:
        """The fields the wrapped metric requires."""
        return self.inner.required_fields()

    def signature_options(self) -> dict[str, str]:
        """The wrapped metric's name and options, and what the class declares."""
        return {**inner_signature_options(self.inner, self.base_role), **declared_options(self, self.metadata)}

    def for_run(self, run: RunInfo) -> Self:
        """A copy whose wrapped metric is adapted to the run."""
        return self._with_base(self.wrapped.for_run(run)) if isinstance(self.wrapped, BatchMetric) else self

    def for_samples(self, samples: Iterable[EvaluationSample]) -> Self:
        """A copy whose wrapped metric is adapted to all samples."""
        return self._with_base(for_samples(self.wrapped, samples)) if isinstance(self.wrapped, BatchMetric) else self

    def _with_base(self, base: Any) -> Self:
        if base is self.wrapped:
            return self
        twin = replace(self, **{self.base_option: base})
        return twin if base_name(self) == self.name else with_name(twin, self.name)

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The run options of the wrapped metric."""
        return {f"{self.base_role}.{key}": value for key, value in self.inner.run_signature_options(run).items()}


@dataclass(frozen=True)
class WrapperMetric(MetricOfMetric):
    """A metric that wraps another metric, its ``base``."""

    base: Any
    """The wrapped metric: its name, ``{name: options}``, or a ``Metric``."""


_WITHOUT_MARKS = str.maketrans("|[]", "   ")


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

    metadata = declare(
        handles_failures=True,
        suggested=False,
        follows_base=True,
        worst_of_base=True,
        skip_reasons={"other_slice": "the sample is not selected"},
        failure_note="as with the other metric",
        examples=(
            {"sliced": {"base": "token_f1", "where": {"labels.label": "cats"}}},
            {"sliced": {"base": {"map@3": {"conventions": "client"}}, "where": {"labels.label": ["cats", 1]}}},
            {"sliced": {"base": "bleu", "where": {"labels.kind": True}}},
            {"sliced": {"base": "response_diversity", "where": {"labels.kind": True}}},
            {"sliced": {"base": "quantile_latency", "where": {"labels.label": "cats"}}},
        ),
    )

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
        self.copy_attributes(*FOLLOWED, "needs_all")
        object.__setattr__(self, "name", f"sliced[{self.base.name},{self.condition}]")

    @property
    def condition(self) -> str:
        """A short text of the condition."""
        if not isinstance(self.where, Mapping):
            return function_name(self.where, module=False).rpartition(".")[2].replace("<lambda>", "lambda")
        parts = []
        for path, values_given in self.where.items():
            values = values_given if isinstance(values_given, (list, tuple, set, frozenset)) else [values_given]
            parts.append(f"{path}={'/'.join(map(str, values))}")
        return ",".join(parts).translate(_WITHOUT_MARKS)

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
        if not self.metadata.needs_all:
            return scores.replaced(~selected, Status.SKIPPED, "other_slice", math.nan)
        # An unselected sample may be the parent of a selected variant, so they are separated once all are known.
        keys = [None] * len(batch) if scores.keys is None else scores.keys
        return replace(scores, keys=tuple(zip(selected.tolist(), keys, strict=True)))

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The wrapped metric's score, if the sample is selected."""
        return self.inner.reference(sample, output) if self.predicate(sample) else Score.skip("other_slice")

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The wrapped metric's steps; a metric over several samples sees the selected ones only."""
        if hasattr(self.inner, "select"):
            context = around
            around = replace(context, read=lambda: [pair for pair in context.pairs if self._is_selected(pair[0])])
        steps = DerivationBuilder().add_step(f"The sample is one of those asked for: {self.condition}")
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def pair_samples(self, scores: Scores) -> Scores:
        """Join as the wrapped metric does, then skip the unselected samples."""
        if not self.metadata.needs_all or scores.keys is None:
            return scores
        # Samples that could not be scored have no key: they failed, selected or not.
        selected = np.array([key is None or key[0] for key in scores.keys], dtype=np.bool_)
        plain = replace(scores, keys=tuple(key and key[1] for key in scores.keys))
        joined = pair_samples(self.inner, plain)
        rows, others = np.flatnonzero(selected), np.flatnonzero(~selected)
        selected_scores = select_scores(self.inner, plain, joined, rows)
        rest = joined.take(others)
        rest = rest.replaced(np.ones(len(others), np.bool_), Status.SKIPPED, "other_slice", math.nan)
        return Scores.woven((rows, selected_scores), (others, rest))

    def select(self, scores: Scores, joined: Scores, rows: Rows) -> Scores:
        """The wrapped metric's selection of these samples, without unselected ones."""
        if not self.metadata.needs_all or not hasattr(self.inner, "select"):
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
        return {**super().signature_options(), "where": without_separator(where)}


# --- accuracy by context noise: any metric, broken down by the proportion of irrelevant documents --------------------


def noise_ratio(sample: EvaluationSample) -> float | None:
    """The proportion of noise among the documents of a sample: ``None`` if missing, NaN if invalid."""
    ratio = sample.labels.get("noise_ratio")
    if ratio is None:
        return None
    if isinstance(ratio, (bool, np.bool_)) or not isinstance(ratio, (int, float, np.number)) or not 0 <= ratio <= 1:
        return math.nan
    return float(ratio)


def declares_insufficient(output: SystemOutputs | None) -> bool:
    """Whether RGB's script counts an answer as a refusal: the phrase occurs anywhere, case-sensitive."""
    if output is None or output.response is None:
        return False
    return any(words in output.response.text for words in ("insufficient information", "信息不足"))


class _BaseReducer(Reducer):
    """The base metric's reducer, for metrics that read keys: here a key is (noise ratio, base key)."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer
        self.name = reducer.name

    def value(self, scores: Scores) -> float:
        """The base metric's value over the same samples."""
        own = None if scores.keys is None else tuple(key and key.payload[1] for key in scores.keys)
        return self.reducer.value(replace(scores, keys=own))


@register("context_noise_accuracy")
@dataclass(frozen=True)
class ContextNoiseAccuracy(WrapperMetric):
    r"""How often the answer is right although some of the documents given to the system are noise.

    .. math:: M(\{s : s \text{ has a noise ratio}\})

    `labels["noise_ratio"]` is the proportion of noise among the documents, from 0 to 1. The value is that of the base
    metric M over all samples that have one; `details["by_noise_ratio"]` has value, interval and number of samples for
    each ratio, in ascending order. An invalid ratio is a failed measurement (`bad_noise_ratio`). With
    `insufficient="rgb_script"` an answer that contains "insufficient information" is wrong, but right if all documents
    are noise, as RGB's script counts; by default it is judged by M like any other.
    """

    base: Any = "containment"
    insufficient: Literal["judged", "rgb_script"] = "judged"

    target = TargetCategory.NOISE_ROBUSTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        handles_failures=True,
        needs_all=True,
        skip_reasons={"no_noise_ratio": '`labels["noise_ratio"]` is not there'},
        failure_note="as with the base metric",
        reference="Chen et al. 2024 (RGB)",
        examples=(
            "context_noise_accuracy",
            {"context_noise_accuracy": {"base": "token_f1"}},
            {"context_noise_accuracy": {"base": "bleu"}},
            {"context_noise_accuracy": {"base": "distinct_n"}},
            {"context_noise_accuracy": {"insufficient": "rgb_script"}},
        ),
        signature={"insufficient": "insufficient"},
        worst_of_base=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        if is_paired_metric(inner):
            raise BadValueError(
                f"'{inner.name}' is computed from several samples together; it has no value by noise ratio"
            )
        if self.insufficient == "rgb_script" and not inner.metadata.binary:
            raise BadValueError(
                f"insufficient='rgb_script' needs a base whose scores are 0 or 1, which those of '{inner.name}' are not"
            )
        self.copy_attributes("range", "higher_is_better", "binary", "stat_names")
        known = isinstance(inner.reducer, (Mean, SumsReducer))
        object.__setattr__(self, "reducer", inner.reducer if known else _BaseReducer(inner.reducer))

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the sample has a noise ratio, and the base metric applies."""
        return noise_ratio(sample) is not None and self.inner.is_applicable(sample, output)

    def score(self, batch: Batch) -> Scores:
        """The base metric's outcomes; each sample's ratio is stored in its key."""
        scores, ratios = inner_scores(self.inner, batch), [noise_ratio(sample) for sample in batch.samples]
        column = np.array(ratios, dtype=np.float64)  # NaN where there is none
        missing = np.array([ratio is None for ratio in ratios], dtype=np.bool_)
        if self.insufficient == "rgb_script":
            declined = np.array([declares_insufficient(output) for output in batch.outputs], dtype=np.bool_)
            declined &= scores.status == Status.SCORED
            scores = replace(scores, values=np.where(declined, column == 1, scores.values))
        measured = (scores.status == Status.SCORED) | (scores.status == Status.MEASURE_FAILED)
        invalid = np.isnan(column) & ~missing & measured
        usable = column.astype(object)
        usable[np.isnan(column)] = None
        payloads = list(zip(usable.tolist(), scores.keys or [None] * len(batch), strict=True))
        scores = scores.replaced(invalid, Status.MEASURE_FAILED, "bad_noise_ratio", math.nan)
        return with_family_keys(scores.replaced(missing, Status.SKIPPED, "no_noise_ratio", math.nan), batch, payloads)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The base metric's outcome by its plain definition, where the sample has a ratio."""
        ratio = noise_ratio(sample)
        if ratio is None:
            return Score.skip("no_noise_ratio")
        outcome = self.inner.reference(sample, output)
        if outcome is None or outcome.status is Status.SKIPPED:
            return outcome
        if math.isnan(ratio):
            return Score.fail("bad_noise_ratio")
        if self.insufficient == "rgb_script" and outcome.status is Status.SCORED and declares_insufficient(output):
            return Score(ratio == 1)
        return outcome

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The noise ratio, then the base metric's steps."""
        ratio = noise_ratio(sample)
        steps = DerivationBuilder().add_step(f"{format_number(100 * (ratio or 0.0))} % of its documents are noise")
        if self.insufficient == "rgb_script" and declares_insufficient(output):
            steps.add_step(f"The answer says that information is insufficient: {quote_text(response_text(output))}")
            return steps.finish(
                f"That is {'right, all' if ratio == 1 else 'wrong, not all'} being noise", float(ratio == 1)
            )
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """Value, interval and number of samples by noise ratio."""
        scores, clusters = sort_by_id(scores, clusters)
        keys: Sequence[FamilyKey | None] = scores.keys or ()  # None for a sample that could not be scored
        groups: dict[float, list[int]] = {}
        for row, key in enumerate(keys):
            ratio = None if key is None else key.payload[0]
            if ratio is not None:
                groups.setdefault(round(ratio, 9) + 0.0, []).append(row)  # 0.1 + 0.2 is 0.3, and -0.0 is 0.0
        return {
            "by_noise_ratio": {repr(ratio): self._group(scores, clusters, groups[ratio]) for ratio in sorted(groups)}
        }

    def _group(self, scores: Scores, clusters: Clusters | None, rows: list[int]) -> dict[str, Any]:
        group, group_clusters = scores.take(rows), None if clusters is None else clusters[rows]
        value = self.reducer.value(group)
        interval = self.reducer.interval(group, *self.range, binary=self.metadata.binary, clusters=group_clusters)
        return {
            "value": None if math.isnan(value) else value,
            "interval": None if interval is None else [interval.low, interval.high],
            "num_samples": int(group.counted.sum()),
        }


# --- answer quality conditional on retrieval: any answer metric on samples with or without a hit ---------------------


@dataclass(frozen=True)
class _ConditionalQuality(WrapperMetric):
    """Another metric on the samples for which a relevant document was, or was not, among the first k."""

    base: Any = "token_f1"
    k: PositiveInt = 5

    metadata = declare(
        reads=frozenset({"retrieved"}),
        handles_failures=True,
        by_chunk_id=True,
        matches_gold=True,
        failure_note="leaves the mean: nothing is known of what it retrieved",
        follows_base=True,
    )
    on_hit: ClassVar[bool]
    other_reason: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        if is_paired_metric(inner):
            raise BadValueError(
                f"'{inner.name}' is computed from several samples together; it has no value on a subset"
            )
        self.copy_attributes(*FOLLOWED)

    def required_fields(self) -> list[str]:
        """Gold documents, and the fields the other metric requires."""
        return list(dict.fromkeys([*super().required_fields(), "relevant_docs"]))

    @property
    def hit(self) -> GoldHitAtK:
        """The metric that tests for a relevant document among the first k."""
        return with_conventions(GoldHitAtK(self.k), self.active_conventions)

    def signature_options(self) -> dict[str, str]:
        """The other metric, and the definition of a hit."""
        return {**super().signature_options(), **inner_signature_options(self.hit, "given")}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The run options of the other metric and of the hit."""
        return super().run_signature_options(run) | {
            f"given.{key}": value for key, value in self.hit.run_signature_options(run).items()
        }

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """Whether there is a hit, and then the other metric's steps."""
        steps = DerivationBuilder().extend(self.hit.explain(sample, output, around))
        steps.add_step(f"So the sample is one with{'' if self.on_hit else 'out'} a hit, and {self.inner.name} counts")
        return prepend_steps(steps, inner_derivation(self.inner, sample, output, around))

    def score(self, batch: Batch) -> Scores:
        """The other metric's outcomes on the selected samples; the others, and samples without gold, are skipped."""
        scores, hit_scores = inner_scores(self.inner, batch), self.hit.score(batch)
        failed = scores.status == Status.SYSTEM_FAILED
        scores = replace(scores, values=np.where(failed, math.nan, scores.values))
        measured = (scores.status == Status.SCORED) | (scores.status == Status.MEASURE_FAILED)
        excluded = measured & (hit_scores.status == Status.SCORED) & (hit_scores.values != float(self.on_hit))
        scores = scores.replaced(excluded, Status.SKIPPED, self.other_reason, math.nan)
        for reason in hit_scores.reason_names[1:]:
            scores = scores.replaced(hit_scores.with_reason(reason), Status.SKIPPED, reason, math.nan)
        return scores

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The other metric's outcome, if the sample is selected, by the plain definitions of both."""
        hit, outcome = self.hit.reference(sample, output), self.inner.reference(sample, output)
        if hit is None or outcome is None or hit.status is Status.SKIPPED:
            return hit if hit is not None and hit.status is Status.SKIPPED else None
        excluded = hit.value != float(self.on_hit) and outcome.status is not Status.SKIPPED
        return Score.skip(self.other_reason) if excluded else outcome


@register("quality_given_hit", at="k")
@dataclass(frozen=True)
class QualityGivenHit(_ConditionalQuality):
    r"""Another metric, on the samples for which a relevant document was among the first k.

    .. math:: M(\{s : \text{hit@}k(s) = 1\})

    Answer quality given good retrieval; compared with `quality_given_miss@k` it shows whether to improve the retriever
    or the generator. M is any metric of the answer. Failed answers are left out. Gold with spans is also hit where
    chunks of other ids cover .45 of a gold span.
    """

    on_hit: ClassVar[bool] = True
    other_reason: ClassVar[str] = "no_hit"
    metadata = declare(
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
            "unresolved_gold": "the gold has no span, text or id by which it could be found",
            "no_hit": "no relevant document was among the first k",
        },
        examples=(
            "quality_given_hit",
            {"quality_given_hit@2": {"base": "rougeL_answer"}},
        ),
    )


@register("quality_given_miss", at="k")
@dataclass(frozen=True)
class QualityGivenMiss(_ConditionalQuality):
    r"""Another metric, on the samples for which no relevant document was among the first k.

    .. math:: M(\{s : \text{hit@}k(s) = 0\})

    Answer quality without retrieval: from memory, or by luck. Well above 0 means that the questions do not need the
    documents. M is any metric of the answer. Failed answers are left out. Gold with spans is also hit where chunks of
    other ids cover .45 of a gold span.
    """

    on_hit: ClassVar[bool] = False
    other_reason: ClassVar[str] = "hit"
    metadata = declare(
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
            "unresolved_gold": "the gold has no span, text or id by which it could be found",
            "hit": "a relevant document was among the first k",
        },
        examples=(
            "quality_given_miss@3",
            {"quality_given_miss": {"base": "bleu", "min_relevance": 2}},
        ),
    )
