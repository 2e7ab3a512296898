"""The numbers of a benchmark: those of the published script, and our safer variants beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean
from typing import Any

import numpy as np

from ..core.conventions import Conventions
from ..core.registry import Spec, metric, use_resources
from ..core.results import Results
from ..core.slices import sample_value
from ..core.types import EvaluationSample, MetricResult
from ..engine.evaluate import evaluate
from ..errors import AueporaError, BadValueError, MissingDependencyError
from ..judge.cache import RecordedCritic
from ..judge.critic import JudgePolicy
from ..plan.resources import used_resources
from ..stats.calibration import corrected_mean, threshold_counts
from ..stats.intervals import Floats
from .entries import Benchmark, Example, Part, PublishedMetric, named_spec
from .reading import Loaded, load_part

TOLERANCE = 1e-9
_WORD = re.compile(r"[\w-]+")
_SMALL_WORDS = frozenset({"the", "in", "is", "a", "of"})
_NORMAL_QUANTILE = NormalDist().inv_cdf(0.975)
OURS = " (ours)"
CONDITION = " (condition)"
SUFFIXES = {"metric": "", "ours": OURS, "condition": CONDITION}
"""What the names of results end in, by the field of a number that has their spec."""


@dataclass(frozen=True, slots=True)
class Number:
    """One published number of a system."""

    name: str
    value: float | None
    """By the published conventions; ``None`` where no sample counts."""
    ours: float | None
    """By our variant; the same value where there is none."""
    intervals: tuple[Sequence[float], Sequence[float]]
    """The 95 % intervals of both; empty where there is none."""
    counted: int
    """How many samples count."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The numbers of a benchmark for one system."""

    loaded: Loaded
    numbers: Sequence[Number]
    results: Results
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By name of a number why it was not computed."""
    documents: str = ""
    """From which documents a system answered, where the benchmark gives some."""


def metric_specs(part: Part) -> dict[str, Spec]:
    """The specs of a part by the name of their result: each published number, and ours where there is one."""
    specs: dict[str, Spec] = {}
    for name, published in part.metrics.items():
        for key, spec in published.specs().items():
            full_name = name + SUFFIXES[key]
            specs[full_name] = named_spec(spec, full_name)
    return specs


def score_loaded(loaded: Loaded, *, resources: Mapping[str, Any] | None = None, judging: Any = None) -> Scored:
    """The numbers of samples and outputs that were read."""
    usable, left_out = _usable(loaded.part, resources or {})
    choices = dict(loaded.part.conventions)
    with use_resources(resources or {}):
        results = evaluate(
            loaded.samples,
            loaded.outputs,
            list(usable.values()),
            conventions=Conventions.of(choices.pop("name", None), **choices),
            slices=used_slices(loaded),
            judging=judging or JudgePolicy(),
        )
    return with_numbers(loaded, results, left_out)


def with_numbers(loaded: Loaded, results: Results, left_out: Mapping[str, str]) -> Scored:
    """The published numbers from the results of their metrics."""
    by_name = {result.name: result for result in results}
    numbers: list[Number] = []
    for name, published in loaded.part.metrics.items():
        if published.column is not None:
            numbers.append(_column_number(name, published, loaded.samples))
        elif name in by_name:
            numbers.append(_number(loaded, name, published, by_name))
    return Scored(loaded, numbers, results, left_out)


def used_slices(loaded: Loaded) -> list[str]:
    """The slices of the part of which samples have a value."""
    return [path for path in loaded.part.slices if _is_known(path, loaded.samples)]


def _is_known(path: str, samples: Sequence[EvaluationSample]) -> bool:
    return any(sample_value(sample, path) is not None for sample in samples)


def judges_of(part: Part) -> list[str]:
    """The names of the resources that the metrics of a part use."""
    return list(dict.fromkeys(used_resources(list(metric_specs(part).values()))))


def _usable(part: Part, resources: Mapping[str, Any]) -> tuple[dict[str, Spec], dict[str, str]]:
    """The specs that can be computed, and why others cannot."""
    usable: dict[str, Spec] = {}
    left_out: dict[str, str] = {}
    for name, spec in metric_specs(part).items():
        missing = sorted(set(used_resources(spec)) - resources.keys())
        try:
            if missing:
                left_out[name] = f"needs {' and '.join(missing)}: give --plan with resources.{missing[0]}"
            else:
                with use_resources(resources):
                    metric(spec)
                usable[name] = spec
        except MissingDependencyError as error:
            left_out[name] = str(error)
    if not usable:
        raise BadValueError(f"nothing can be computed: {'; '.join(dict.fromkeys(left_out.values()))}")
    return usable, left_out


def _column_number(name: str, published: PublishedMetric, samples: Sequence[EvaluationSample]) -> Number:
    """A number that samples have: its mean, or how well it tells their labels apart."""
    given = [sample_value(sample, published.column or "") for sample in samples]
    numbers, labels = _labelled_numbers(given, published, samples)
    if published.against:
        is_labelled = np.isfinite(labels)
        numbers, labels = numbers[is_labelled], labels[is_labelled]
    value = None
    if len(numbers):
        value = threshold_counts(numbers, labels).auroc() if published.against else fmean(numbers.tolist())
        value = _transformed(published, value)
    return Number(name, value, ours=value, intervals=((), ()), counted=len(numbers))


def _labelled_numbers(
    given: Sequence[Any], published: PublishedMetric, samples: Sequence[EvaluationSample]
) -> tuple[Floats, Floats]:
    """The numbers that are given, and the label of each; NaN where there is none."""
    pairs = [(sample, number) for sample, number in zip(samples, given, strict=True) if number is not None]
    labels = [sample_value(sample, published.against or "") for sample, _ in pairs]
    return np.array([number for _, number in pairs], np.float64), np.array(labels, np.float64)


def _number(loaded: Loaded, name: str, published: PublishedMetric, results: Mapping[str, MetricResult]) -> Number:
    result = results[name]
    if published.against is not None:
        return _corrected_number(name, published, result, loaded.samples)
    condition = results.get(name + CONDITION)
    if condition is not None:
        means = _cluster_values(loaded.samples, result, condition)
        value = _transformed(published, fmean(means)) if means else None
        return Number(name, value, ours=value, intervals=((), ()), counted=len(means))
    value = _value(loaded.part, published, result)
    ours = results.get(name + OURS)
    other = value if ours is None else _value(loaded.part, published, ours)
    intervals = (_interval(published, result), _interval(published, ours or result))
    return Number(name, value, ours=other, intervals=intervals, counted=result.details.num_samples)


def _corrected_number(
    name: str, published: PublishedMetric, result: MetricResult, samples: Sequence[EvaluationSample]
) -> Number:
    """The mean label, by the scores of all samples and the labels of some."""
    scores, labels = _labelled_numbers(result.scores or (), published, samples)
    others, excess = scores[np.isnan(labels)], (scores - labels)[np.isfinite(labels)]
    if not len(others) or not len(excess):
        return Number(name, None, ours=None, intervals=((), ()), counted=len(scores))
    value = float(others.mean() - excess.mean())
    half_width = _NORMAL_QUANTILE * math.sqrt(others.var() / len(others) + excess.var() / len(excess))
    ours = corrected_mean(scores, labels, binary=True)
    own_bounds = () if ours.interval is None else (ours.interval.low, ours.interval.high)
    intervals = (value - half_width, value + half_width), own_bounds
    return Number(name, value, ours=ours.value, intervals=intervals, counted=len(scores))


def _cluster_values(samples: Sequence[EvaluationSample], result: MetricResult, condition: MetricResult) -> list[float]:
    """The mean score of each cluster; 0 where a sample of it does not have 1 under the condition."""
    clusters: dict[str, list[float]] = {}
    failed: set[str] = set()
    for sample, score, holds in zip(samples, result.scores or (), condition.scores or (), strict=True):
        cluster = sample.cluster_id or sample.sample_id
        if holds != 1:
            failed.add(cluster)
        if score is not None:
            clusters.setdefault(cluster, []).append(score)
    return [fmean(scores) * (cluster not in failed) for cluster, scores in clusters.items()]


def _interval(published: PublishedMetric, result: MetricResult) -> Sequence[float]:
    if result.interval is None or published.formula != "value":
        return ()
    return [end * published.scale + published.shift for end in result.interval]


def _value(part: Part, published: PublishedMetric, result: MetricResult) -> float | None:
    if not result.defined:
        return None
    value = result.value
    if published.formula == "mean_of_slices":
        groups = [group.value for group in result.slices.get(part.slices[0], {}).values() if group.defined]
        value = sum(groups) / len(groups)
    return _transformed(published, value)


def _transformed(published: PublishedMetric, value: float) -> float:
    match published.formula:
        case "complement":
            value = 1 - value
        case "binary_accuracy":
            value = 1 / (3 - 2 * value)
        case "root":
            value = math.sqrt(value)
    return value * published.scale + published.shift


# --- the check of an example -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """One example with the values that were computed."""

    split: str
    example: str
    differences: Mapping[str, tuple[float, float | None]]
    """By name of a number the published and the computed value, where they are not equal."""
    equal: int
    problem: str = ""
    """Why nothing could be computed."""


def check_example(benchmark: Benchmark, split: str, name: str) -> Checked:
    """Score an example and compare its values with the published ones."""
    example = benchmark.parts[split].examples[name]
    try:
        scored = score_example(benchmark, split, example)
    except AueporaError as error:
        return Checked(split, name, {}, 0, str(error))
    values = {number.name: number.value for number in scored.numbers}
    differences: dict[str, tuple[float, float | None]] = {}
    for key, expected in example.expected.items():
        if not is_equal(values.get(key), expected, example.digits):
            differences[key] = (expected, values.get(key))
    missing = dict.fromkeys(scored.left_out[key] for key in example.expected if key in scored.left_out)
    return Checked(split, name, differences, len(example.expected) - len(differences), "; ".join(missing))


def score_example(benchmark: Benchmark, split: str, example: Example) -> Scored:
    """The numbers of an example."""
    outputs = None if example.outputs is None else benchmark.folder / example.outputs
    loaded = load_part(benchmark, split, benchmark.folder / example.data, outputs, given=example.settings)
    return score_loaded(loaded, resources=fixed_judges(example.resources))


def is_equal(value: float | None, expected: float, digits: int | None) -> bool:
    """Whether a value is the published one, which may have been rounded."""
    if value is None:
        return False
    half_unit = 0.0 if digits is None else 0.5 * 10**-digits
    return abs(value - expected) <= half_unit + TOLERANCE


def content_words(premise: str, hypothesis: str) -> bool:
    """A toy function of entailment: whether the premise has every content word of the hypothesis."""
    known = set(_WORD.findall(premise.lower()))
    return set(_WORD.findall(hypothesis.lower())) - _SMALL_WORDS <= known


def fixed_judges(resources: Mapping[str, Any]) -> dict[str, Any]:
    """The judges of an example: verdicts by sample, or the toy function of entailment."""
    judges: dict[str, Any] = {}
    for name, verdicts in resources.items():
        is_function = verdicts == content_words.__name__
        judges[name] = content_words if is_function else RecordedCritic(verdicts)
    return judges
