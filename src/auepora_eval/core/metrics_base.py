"""Base classes of metrics, from a batch to outcomes under the failure policy, and from outcomes to a result."""

from __future__ import annotations

import copy
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..errors import AlignmentError, AueporaError, BadValueError, MetricDefinitionError, did_you_mean
from ..options import check_arguments, check_options
from ..stats.intervals import Interval, Ints
from .batch import Batch, check_samples, warn_notes
from .clusters import any_clustered, cluster_ids, cluster_key
from .conventions import CONVENTION_NAMES, ID_PRESETS, Conventions, Match, Signature
from .derivation import NO_CONTEXT, Derivation, ExplainContext, record_steps
from .details import IntervalDetails, ResultDetails
from .metric_hooks import (
    asks_models,
    base_name,
    decides_tokens,
    for_samples,
    pair_samples,
    require_repeats,
    worst_in,
    worst_varies,
)
from .metric_metadata import (
    JOINED_FIELDS,
    OWN_FIELDS,
    REMOVED_HOOKS,
    REMOVED_SAMPLE_HOOKS,
    Declaration,
    MetricMetadata,
    declare,
    declared_options,
    refuse_removed_hooks,
)
from .reduce import Clusters, Mean, Reducer, StatMeans
from .scores import CHARACTERS, WORDS, Score, Scores, Status, to_reason
from .types import EvaluationSample, MetricResult, Response, SystemOutputs, TargetCategory

__all__ = [
    "BatchMetric",
    "Metric",
    "MetricMetadata",
    "PerSampleMetric",
    "RunInfo",
    "SampleMetric",
    "declare",
    "snake_case",
    "with_conventions",
    "with_match",
    "with_name",
]

# --- the parts of a signature that every metric has: changed options, and conventions that are not the defaults ------


def common_options(metric: BatchMetric) -> dict[str, str]:
    """Conventions about gold and failures, shown only where they differ from the default and change the number."""
    conventions = metric.active_conventions
    options: dict[str, str] = {}
    if conventions.match != "id" and metric.metadata.by_chunk_id:
        options["match"] = conventions.match
    if not metric.metadata.counts_system_failures:
        return options
    if conventions.missing != "fail":
        options["missing"] = conventions.missing
    if conventions.on_system_failure != "worst" and not metric.metadata.always_counts_failures:
        options["failed"] = conventions.on_system_failure
    return options


def non_default_options(metric: BatchMetric) -> dict[str, str]:
    """The constructor's options that differ from their defaults, as far as they are attributes."""
    options = {}
    for name, parameter in inspect.signature(type(metric)).parameters.items():
        value = getattr(metric, name, parameter.default)
        if name not in ("conventions", "overrides", "name") and value != parameter.default:
            options[name] = re.sub(r"[|:\s]+", "_", value if isinstance(value, str) else repr(value))
    return options


def changed_conventions(metric: BatchMetric) -> dict[str, str]:
    """Conventions that differ from the default and may have changed the number."""
    apart = {"missing", "on_system_failure", "k_values", "match"}  # shown elsewhere, or irrelevant
    default, conventions = Conventions.of(), metric.active_conventions
    return {
        key: str(getattr(conventions, key))
        for key in CONVENTION_NAMES
        if key not in apart and getattr(conventions, key) != getattr(default, key)
    }


# --- base classes of metrics: the interface ``Metric``, ``BatchMetric`` and ``SampleMetric`` -------------------------

MetricT = TypeVar("MetricT", bound="Metric")

GENERAL_DERIVATION = "auepora_eval.core.general_derivation"
"""The steps of a metric that records none; imported only when one is explained."""
SKIP_REASON_BY_FIELD = {
    "relevant_docs": "no_gold",
    "reference_answer": "no_reference",
    "candidate_docs": "no_candidates",
}
"""The skip reason of a sample that lacks a required annotation; any other field gives ``no_<field>``."""


def snake_case(name: str) -> str:
    """A class name as a metric name."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Settings of the run that produced the outputs, as far as they change a metric."""

    top_k: int | None = None
    concurrency: int | None = None
    gold: str | None = None
    """The gold that replaced that of the samples, for signatures."""
    prices: Mapping[str, Any] | None = None
    """The prices of the system's models, as ``run.prices`` of a plan has them."""

    def top_k_option(self, depth: float | None) -> dict[str, str]:
        """The requested ``top_k`` for the signature of a metric that reads more documents, or all."""
        return {"top_k": str(self.top_k)} if self.top_k is not None and self.top_k < (depth or math.inf) else {}


class Metric(ABC):
    """The interface of a metric: a name, a target, ``required_fields`` and ``compute``.

    Example:
        >>> class Answers(Metric):
        ...     name, target = "answers", TargetCategory.DIVERSITY
        ...     def required_fields(self):
        ...         return []
        ...     def compute(self, samples, outputs):
        ...         different = {output.response.text for output in outputs}
        ...         return MetricResult(self.name, self.target, float(len(different)))
        >>> evaluate(samples, outputs, [Answers()])[0].value
        1.0
    """

    name: str
    target: TargetCategory

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if inspect.isfunction(vars(cls).get("__init__")):
            cls.__init__ = check_arguments(cls.__init__)  # type: ignore[method-assign]

    @abstractmethod
    def required_fields(self) -> list[str]:
        """Names of ``EvaluationSample`` attributes that at least one sample must have."""

    @abstractmethod
    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        """The metric's number over aligned samples and outputs."""


def _merge_metadata(cls: type[BatchMetric]) -> MetricMetadata:
    """The metadata of a class: what it and its bases declare, the nearest first, with fields that are joined."""
    merged: dict[str, Any] = {"output_skips": MetricMetadata().output_skips}
    for base in reversed(cls.__mro__):
        declared = dict(vars(base).get("_declared") or {})
        if base is cls or not issubclass(base, BatchMetric):
            own = vars(base).get("metadata", {})
            if not isinstance(own, Declaration) and base is cls and own:
                raise MetricDefinitionError(f"{cls.__name__}: write metadata = declare(...)")
            declared = dict(own) if isinstance(own, Declaration) else {}
            if base is cls:
                declared |= {name: vars(cls)[name] for name in ("range", "higher_is_better") if name in vars(cls)}
                cls._declared = declared
        joined = {name: merged[name] | declared[name] for name in JOINED_FIELDS if name in declared and name in merged}
        merged |= {name: value for name, value in declared.items() if base is cls or name not in OWN_FIELDS} | joined
    unknown = sorted(set(merged) - set(MetricMetadata.__dataclass_fields__))
    if unknown:
        raise MetricDefinitionError(
            f"{cls.__name__} declares '{unknown[0]}', which metadata does not have"
            f"{did_you_mean(unknown[0], MetricMetadata.__dataclass_fields__)}"
        )
    return MetricMetadata(**merged)


def _refuse_moved_names(cls: type[BatchMetric]) -> None:
    for name in set(MetricMetadata.__dataclass_fields__) - {"range", "higher_is_better"}:
        value = vars(cls).get(name)
        if value is not None and not callable(value) and not isinstance(value, (property, Field)):
            raise MetricDefinitionError(
                f"{cls.__name__} defines '{name}', which is now part of its metadata: metadata = declare({name}=...)"
            )


def set_metadata(metric: BatchMetric, **changes: Any) -> None:
    """Change the metadata of one object under construction, where it depends on the options."""
    object.__setattr__(metric, "metadata", replace(metric.metadata, **changes))
    for name in ("range", "higher_is_better"):
        if name in changes:
            object.__setattr__(metric, name, changes[name])


class BatchMetric(Metric):
    """A metric that scores a whole batch at once, one outcome per sample; a reducer turns them into one number.

    Implement ``score``; ``reference`` gives the plain definition of one sample, and ``explain`` its steps. What the
    metric declares about itself is one value, ``metadata``. Options are checked against their type hints
    (``auepora_eval.options``). Objects hold configuration only, so one may be used from any thread and sent to any
    process. ``core.metric_hooks`` lists what else a metric may define.

    Example:
        >>> class SeveralDocuments(BatchMetric):
        ...     target = TargetCategory.RETRIEVAL_RELEVANCE
        ...     def score(self, batch):
        ...         return Scores.of([len(output.retrieved) > 1 for output in batch.present_outputs()])
        >>> evaluate(samples, outputs, [SeveralDocuments()]).by_name["several_documents"].value
        1.0
    """

    metadata: MetricMetadata = MetricMetadata()
    _removed_hooks: ClassVar[Mapping[str, str]] = REMOVED_HOOKS
    """Former names of members of a class and its subclasses, with the new ones."""
    _declared: ClassVar[Mapping[str, Any]] = {}
    reducer: Reducer = Mean()
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    conventions: Conventions | None = None
    """The metric's own conventions; ``None`` takes those of the plan."""
    overrides: tuple[tuple[str, Any], ...] = ()
    """Single conventions that override the others: ``(("min_relevance", 2),)``."""

    def __init__(self, *, name: str = "") -> None:
        set_name(self, name)

    def __post_init__(self) -> None:
        """Check the options of a dataclass; those of other classes are checked as arguments of ``__init__``."""
        check_options(self)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        refuse_removed_hooks(cls)
        _refuse_moved_names(cls)
        if "name" not in vars(cls) and "name" not in getattr(cls, "__annotations__", {}):
            cls.name = snake_case(cls.__name__)
        cls.metadata = _merge_metadata(cls)
        if not all(isinstance(bound, (int, float)) for bound in cls.metadata.range):
            raise MetricDefinitionError(
                f"{cls.__name__}: range must be two numbers, not {cls.metadata.range}; write float('inf') for no limit"
            )
        cls.range, cls.higher_is_better = cls.metadata.range, cls.metadata.higher_is_better

    def applies(self, sample: EvaluationSample) -> str | None:
        """The skip reason of a sample that the metric does not apply to, whatever the output; ``None`` where it does.

        Metrics of single samples ask this first, so that a failure on such a sample is a skip and not a zero.
        """
        return None

    @abstractmethod
    def score(self, batch: Batch) -> Scores:
        """One outcome per sample. The engine replaces those of failed outputs afterwards."""

    def required_fields(self) -> list[str]:
        """The declared ones: none by default."""
        return list(self.metadata.requires)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome of one answered sample by the plain definition, if there is one, to check ``score``."""
        return None

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """How the score of one scored sample is computed, step by step.

        By the steps that ``reference`` records (``core.derivation``); where it records none, the inputs and the
        resulting number are shown.
        """
        if not asks_models(self) or around.may_call_models:
            with record_steps() as steps:
                outcome = self.reference(sample, output)
            if steps.steps and outcome is not None and outcome.value is not None:
                return steps.derivation(outcome.value)
        derivation: Derivation = import_module(GENERAL_DERIVATION).general_derivation(self, sample, output, around)
        return derivation

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether this sample and output contain what the metric needs, beyond ``required_fields`` and ``reads``.

        Where the user names no metrics, one that is not applicable to any sample is not run.
        """
        return True

    @property
    def active_conventions(self) -> Conventions:
        """The metric's own conventions, else the default ones, with ``overrides`` applied."""
        return _resolve_conventions(self.conventions, self.overrides)

    @property
    def worst(self) -> float | None:
        """The value a failed answer counts at; ``None`` where there is none and failures leave the mean."""
        low, high = self.range
        value = low if self.higher_is_better else high
        return value if self.metadata.counts_system_failures and math.isfinite(value) else None

    @property
    def worst_stats(self) -> Sequence[float] | None:
        """The statistics of a failed answer, for reducers that read ``stats``. NaN keeps what an empty answer gave."""
        return None

    def further_details(self, scores: Scores, clusters: Ints | None) -> dict[str, Any]:
        """Additional details of the result; requires ``needs_all``."""
        return {}

    def require_ready(self) -> None:
        """Raise unless everything the metric needs besides data, such as a package or a model, is available.

        Called before the system, so that no calls are made that cannot be scored.
        """
        for inner in self.inner_metrics():
            inner.require_ready()

    def inner_metrics(self) -> Sequence[BatchMetric]:
        """The metrics that this one is computed from."""
        return ()

    def expand(self) -> Sequence[BatchMetric]:
        """The metrics that one spec stands for, each with a result of its own; usually the metric itself."""
        return (self,)

    def check_annotations(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise if no sample has what the options ask for, beyond ``required_fields``; called before anything else."""

    def for_run(self: MetricT, run: RunInfo) -> MetricT:
        """The metric adapted to the settings of a run."""
        return self

    def signature_options(self) -> dict[str, str]:
        """The options that change this metric's number, for its signature.

        Those that the metadata declares; else the class, and its options and conventions that are not defaults.
        """
        if self.metadata.signature is not None:
            return declared_options(self, self.metadata)
        return {
            "by": f"{type(self).__module__}.{type(self).__qualname__}",
            **non_default_options(self),
            **({} if isinstance(self, SampleMetric) else changed_conventions(self)),
        }

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """What the settings of a run add to the signature: the requested depth, if the metric reads more documents."""
        depth = self.metadata.reads_depth
        return run.top_k_option(getattr(self, depth)) if depth else {}

    @property
    def signature(self) -> Signature:
        """Name, every option that changes the number, and the formula's version."""
        return Signature(base_name(self), {**self.signature_options(), **common_options(self)}, self.metadata.version)

    def compute(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs | None]) -> MetricResult:
        """The metric's number over aligned samples and outputs."""
        AlignmentError.check(len(samples), len(outputs))
        check_samples(samples)
        require_repeats(self, 1)
        batch = Batch(samples, outputs)
        metric = for_samples(self, samples)
        scores = pair_samples(metric, apply_failure_policy(metric, batch))
        warn_notes([batch.notes], stacklevel=3)
        return make_result(metric, scores, clusters=sample_clusters(samples))


class PerSampleMetric(BatchMetric):
    """Base class of metrics that score one sample at a time."""

    _removed_hooks = REMOVED_SAMPLE_HOOKS


def sample_rows(metric: BatchMetric, batch: Batch) -> Iterator[tuple[EvaluationSample, SystemOutputs, bool]]:
    """Each sample, its output (a placeholder where missing), and whether that counts as an answer."""
    nothing = SystemOutputs(retrieved=[], response=Response(""))
    # Read as nothing returned, a missing output is an answer only where failing to give one would count.
    zero = metric.active_conventions.missing == "zero" and metric.metadata.counts_system_failures
    for sample, output, failure in zip(batch.samples, batch.outputs, batch.failures, strict=True):
        yield sample, output or nothing, failure is None if output is not None else zero


def precheck(metric: BatchMetric, sample: EvaluationSample, output: SystemOutputs, *, answered: bool) -> Score | None:
    """The outcome of a sample that need not be scored; ``None`` where it must be.

    Samples without a required field are skipped, failed outputs are handled by the engine, and for a generation target
    an output without an answer is skipped (``no_response``), unless ``needs_response`` says otherwise.
    """
    for required in metric.required_fields():
        if getattr(sample, required, None) is None:
            return Score.skip(SKIP_REASON_BY_FIELD.get(required) or to_reason(f"no_{required}"))
    reason = metric.applies(sample)
    if reason is not None:
        return Score.skip(reason)
    if not answered:
        return Score(None, Status.SYSTEM_FAILED, "no_output")  # the engine decides how it counts
    needs = getattr(metric, "needs_response", metric.target.name.startswith("GENERATION"))
    return Score.skip("no_response") if needs and output.response is None else None


def exception_outcome(metric: BatchMetric, batch: Batch, sample: EvaluationSample, error: Exception) -> Score:
    """The outcome of a sample for which user code raised; other samples keep their scores."""
    batch.note(f"metric '{metric.name}' raised {type(error).__name__}: {error}", sample.sample_id)
    return Score.fail(to_reason(f"raised_{snake_case(type(error).__name__)}"))


def check_score(metric: BatchMetric, score: object) -> Score:
    """The return value of user code; raises unless it is a ``Score``."""
    if not isinstance(score, Score):
        raise MetricDefinitionError(
            f"{type(metric).__name__}.score_one returned {score!r}; return Score(number), Score.skip(reason) "
            "or Score.fail(reason)"
        )
    return score


class SampleMetric(PerSampleMetric):
    """A metric written for one sample at a time: implement ``score_one``. It is called only for applicable samples.

    Example:
        >>> class NamesAda(SampleMetric):
        ...     target = TargetCategory.GENERATION_CORRECTNESS
        ...     def score_one(self, sample, output):
        ...         return Score("Ada" in output.response.text)
        >>> evaluate(samples, outputs, [NamesAda()]).by_name["names_ada"].value
        1.0
    """

    @abstractmethod
    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample."""

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """``score_one`` is the definition."""
        return self._outcome(Batch([sample], [output]), sample, output, answered=True)

    def score(self, batch: Batch) -> Scores:
        """``score_one`` of every sample. One that raises is a failed measurement, with a warning."""
        return Scores.from_list(
            [
                self._outcome(batch, sample, output, answered=answered)
                for sample, output, answered in sample_rows(self, batch)
            ]
        )

    def _outcome(self, batch: Batch, sample: EvaluationSample, output: SystemOutputs, *, answered: bool) -> Score:
        skipped = precheck(self, sample, output, answered=answered)
        if skipped is not None:
            return skipped
        try:
            score = self.score_one(sample, output)
        except Exception as error:
            return exception_outcome(self, batch, sample, error)
        return check_score(self, score)


@lru_cache(maxsize=256)
def _resolve_conventions(conventions: Conventions | None, overrides: tuple[tuple[str, Any], ...]) -> Conventions:
    return Conventions.of(conventions, **dict(overrides))


def with_option(metric: MetricT, name: str, value: object) -> MetricT:
    """A copy of the metric with another value of an option, which is not checked again."""
    clone = copy.copy(metric)
    object.__setattr__(clone, name, value)  # built-in metrics are frozen; this is a fresh copy
    return clone


def with_conventions(metric: MetricT, conventions: Conventions) -> MetricT:
    """A copy of the metric with these conventions, unless it has its own; gold is matched in one way by all."""
    if not isinstance(metric, BatchMetric):
        return metric
    if metric.conventions is not None:
        return metric if conventions.match == "id" else with_match(metric, conventions.match)
    return with_option(metric, "conventions", conventions)


def with_match(metric: MetricT, match: Match) -> MetricT:
    """A copy of the metric that matches gold in this way, unless it names its own or its conventions compare ids."""
    if not isinstance(metric, BatchMetric) or "match" in dict(metric.overrides):
        return metric
    own = metric.conventions or Conventions.of()
    if own.match == match or own.name in ID_PRESETS:
        return metric
    return with_option(metric, "conventions", replace(own, match=match))


def with_name(metric: MetricT, name: str) -> MetricT:
    """A copy of the metric with another name, so that a plan can contain it twice."""
    if not name:
        raise BadValueError(f"a metric cannot be called {name!r}")
    clone = copy.copy(metric)
    set_name(clone, name)
    return clone


def set_name(metric: Metric, name: str | None) -> None:
    """Set the name of a new metric; its signature keeps the default name."""
    if name is None or name == "":
        return
    if not isinstance(name, str):
        raise BadValueError(f"a metric cannot be called {name!r}")
    plain = getattr(metric, "_plain_name", None) or getattr(metric, "name", name)
    object.__setattr__(metric, "_plain_name", plain)  # built-in metrics are frozen
    object.__setattr__(metric, "name", name)


def is_judged(metric: BatchMetric) -> bool:
    """Whether the metric or one of its inner metrics calls a judge."""
    return metric.metadata.calls_judge or any(map(is_judged, metric.inner_metrics()))


# --- from a metric and a batch to outcomes under the failure policy, and from outcomes to a result -------------------

NOT_BY_ID = "match"
"""The skip reason of a metric that compares ids where gold is not matched by id."""


def is_defined_by_match(metric: BatchMetric) -> bool:
    """Whether a metric has a value by the way in which its conventions match gold."""
    if metric.active_conventions.match == "id" or not metric.metadata.by_chunk_id:
        return True
    return metric.metadata.matches_gold


def apply_failure_policy(metric: BatchMetric, batch: Batch) -> Scores:
    """Score a batch, with missing outputs and system failures handled by the metric's conventions.

    A sample the question does not apply to stays skipped even where the system failed on it; for a skip that
    is caused by the output (no response) the failure takes precedence, so that no crash is hidden.
    """
    conventions = metric.active_conventions
    if not is_defined_by_match(metric):
        return Scores.of(np.zeros(len(batch)), skip={NOT_BY_ID: np.ones(len(batch), dtype=np.bool_)})
    scores = _score(metric, batch)
    if batch.all_answered or metric.metadata.handles_failures:
        return scores
    counts = conventions.on_system_failure == "worst" or metric.metadata.always_counts_failures
    counts &= metric.worst is not None or worst_varies(metric)
    value, stats = (worst_in(metric, batch), metric.worst_stats) if counts else (math.nan, None)
    if scores.stats is not None and counts and stats is None:
        raise MetricDefinitionError(f"metric '{metric.name}' has statistics but no 'worst_stats' for a failed answer")
    in_output = scores.status != Status.SKIPPED
    for code, name in enumerate(scores.reason_names):
        if name in metric.metadata.output_skips:
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


def sample_clusters(samples: Sequence[EvaluationSample]) -> Clusters | None:
    """The cluster id of each sample; None where no sample belongs to a cluster."""
    if not any_clustered(samples):
        return None
    return cluster_ids([sample.sample_id for sample in samples], list(map(cluster_key, samples)))


def run_signature(metric: BatchMetric, run: RunInfo) -> Signature:
    """The signature of a metric with what the settings of the run, or other gold, add to it."""
    other_gold = {} if run.gold is None else {"gold": run.gold}
    return metric.signature.with_options(**metric.run_signature_options(run), **other_gold)


def has_signature(metric: BatchMetric, run: RunInfo, signature: str | None) -> bool:
    """Whether a stored signature is that of a metric, with what the samples may have added to it."""
    own = run_signature(metric, run)
    if signature is None or signature == str(own):
        return signature is not None
    found = re.search(r"\|tok:(char|mixed|zh)(?=\|)", signature)
    if found is not None and decides_tokens(metric):
        own = own.with_options(tok=found[1])
    return signature in (str(own), str(own.with_options(**_GROUPED)))


_GROUPED = {"groups": "yes"}


def add_groups_option(metric: Metric, result: MetricResult) -> None:
    """Show in the signatures of a result that documents of a group were one unit, if the metric counts units."""
    if not isinstance(metric, BatchMetric) or not (metric.metadata.by_chunk_id and metric.metadata.matches_gold):
        return
    signature = str(Signature.parse(result.signature or "").with_options(**_GROUPED))
    result.signature = signature
    for groups in result.slices.values():
        for part in groups.values():
            part.signature = signature


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
    means = StatMeans(metric.metadata.stat_names)
    means.add(scores)
    # A judge's scores may lie between 0 and 1: means over repeats, or weighted by probabilities.
    between = metric.metadata.calls_judge and bool(((scores.values > 0) & (scores.values < 1)).any())
    binary = metric.metadata.binary and not between
    return assemble_result(
        metric,
        value=fold,
        completed=completed,
        bounds=bounds,
        num_samples=int(np.count_nonzero(scores.counted)),
        tally=scores.tally(),
        cuts=scores.count_cuts(),
        further={**means.values(), **metric.further_details(scores, clusters)},
        signature=signature or metric.signature,
        scores=scores if keep_scores else None,
        interval=metric.reducer.interval(scores, *metric.range, binary=binary, clusters=clusters),
    )


def assemble_result(
    metric: BatchMetric,
    *,
    value: float,
    completed: float,
    bounds: tuple[float, float] | None,
    num_samples: int,
    tally: dict[tuple[Status, str], int],
    cuts: Mapping[int, int],
    further: dict[str, Any],
    signature: Signature,
    scores: Scores | None,
    interval: Interval | None,
) -> MetricResult:
    """A result with the details of every metric: the number of samples by outcome and reason."""
    totals = dict.fromkeys(Status, 0)
    for (status, _), count in tally.items():
        totals[status] += count
    details = ResultDetails()
    details.num_samples = num_samples
    details.num_scored = totals[Status.SCORED]
    details.num_skipped = totals[Status.SKIPPED]
    details.num_system_failed = totals[Status.SYSTEM_FAILED]
    details.num_measure_failed = totals[Status.MEASURE_FAILED]
    details.num_failed = details.num_system_failed + details.num_measure_failed
    for (status, reason), count in sorted(tally.items()):
        if status is not Status.SCORED:
            key = f"{'skipped' if status is Status.SKIPPED else 'failed'}_{reason}"
            details[key] = details.get(key, 0) + count
    if "empty_gold" in metric.metadata.skip_reasons and "relevant_docs" in metric.required_fields():
        details.skipped_empty_gold = details.skipped_empty_gold  # 0 is stored, too
    if totals[Status.SYSTEM_FAILED]:
        details.value_completed = None if math.isnan(completed) else completed
    if bounds is not None:
        details.bounds = list(bounds)
    if interval is not None:
        details.interval = IntervalDetails(method=interval.method, units=interval.units, flags=list(interval.flags))
    details |= further
    if cuts[CHARACTERS]:
        details.tokenizer = {"words": cuts[WORDS], "char": cuts[CHARACTERS]}
        tokens = "mixed" if cuts[WORDS] else "char"
        signature = signature.with_options(tok=tokens)
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
