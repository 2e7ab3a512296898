"""Metric cards of results as plain data: formula, options, samples and interval of a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import AueporaError
from ..core.metrics_base import BatchMetric, Metric
from ..core.registry import MetricInfo, metric_info
from ..core.results import display_name, to_json_value
from ..core.scores import Scores
from ..core.signature import Signature
from ..core.targets import TARGETS
from ..core.types import MetricResult
from ..reporting.metric_cards import metric_card
from ..reporting.plain_math import plain_math
from .option_help import (
    describe_convention,
    describe_flag,
    describe_interval,
    describe_option,
    describe_reason,
    describe_reducer,
    hint_for_reason,
)

__all__ = ["Card", "IntervalInfo", "OptionInfo", "ReasonCount", "SampleCounts", "card"]


@dataclass(frozen=True, slots=True)
class OptionInfo:
    """One option of a signature with its description."""

    key: str
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """The number of samples with one skip or failure reason."""

    reason: str
    count: int
    words: str
    needed: str | None = None
    """What would make the samples scorable."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The numbers of samples by outcome."""

    total: int
    counted: int
    """How many are in the value."""
    scored: int
    skipped: int
    system_failed: int
    measure_failed: int
    skips: tuple[ReasonCount, ...] = ()
    failures: tuple[ReasonCount, ...] = ()
    failed_counts_as: float | None = None
    """The score of a failed answer; ``None`` where it is excluded."""


@dataclass(frozen=True, slots=True)
class IntervalInfo:
    """The confidence interval and its method."""

    low: float
    high: float
    method: str
    words: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """The card of a result. Texts are plain; the renderer escapes them."""

    name: str
    title: str
    target: str
    target_title: str
    question: str
    """What the target asks."""
    summary: str
    formula: str
    """In plain characters; empty where the metric gives none."""
    latex: str
    text: tuple[str, ...]
    """Further paragraphs."""
    convention: str
    choices: tuple[OptionInfo, ...]
    signature: str | None
    range: tuple[float | None, float | None] | None
    """``None`` for an end that is infinite."""
    range_text: str
    direction: str
    reducer: str
    failure: str
    """How a failed answer is counted."""
    reference: str
    value: float | None
    value_completed: float | None
    """The value without the samples on which the system failed."""
    bounds: tuple[float, float] | None
    """The bounds of the value if every measurement had succeeded."""
    interval: IntervalInfo | None
    samples: SampleCounts | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The card as a JSON-compatible dictionary."""
        return dict(to_json_value(asdict(self)))


def card(result: MetricResult, metric: Metric | None = None) -> Card:
    """The card of a result; ``metric`` is looked up by name where it is not given."""
    signature = _signature(result)
    info = _info(result, signature, metric)
    reference_card = metric_card(info) if info is not None else None
    built = metric if isinstance(metric, BatchMetric) else None
    target, own_help = TARGETS[result.target], built.option_help if built is not None else {}
    value_range = built.range if built is not None else None if reference_card is None else reference_card.range
    higher = (
        built.higher_is_better
        if built is not None
        else None
        if reference_card is None
        else reference_card.higher_is_better
    )
    if higher is None and result.details.get("lower_is_better"):
        higher = False
    return Card(
        name=result.name,
        title=display_name(result),
        target=result.target.name,
        target_title=target.title,
        question=target.question,
        summary="A metric that is not known in this process." if reference_card is None else reference_card.summary,
        formula="" if reference_card is None or not reference_card.formula else plain_math(reference_card.formula),
        latex="" if reference_card is None else reference_card.formula,
        text=() if reference_card is None else reference_card.text,
        convention=describe_convention(built.active_conventions if built is not None else None),
        choices=tuple(
            OptionInfo(key, value, describe_option(key, value, own_help))
            for key, value in ({} if signature is None else signature.options).items()
        ),
        signature=result.signature,
        range=None if value_range is None else tuple(map(to_json_value, value_range)),
        range_text=_range_text(value_range),
        direction={True: "higher is better", False: "lower is better", None: "not declared"}[higher],
        reducer="not known" if built is None else describe_reducer(built.reducer.name),
        failure="" if reference_card is None else reference_card.failures,
        reference="" if reference_card is None else reference_card.reference,
        value=result.value if result.defined else None,
        value_completed=result.details.get("value_completed"),
        bounds=_pair(result.details.get("bounds")),
        interval=_interval(result),
        samples=_samples(result, built),
        notes=_notes(result),
    )


def _signature(result: MetricResult) -> Signature | None:
    try:
        return None if result.signature is None else Signature.parse(result.signature)
    except AueporaError:  # a user's own metric may write anything there
        return None


def _info(result: MetricResult, signature: Signature | None, metric: Metric | None) -> MetricInfo | None:
    named = getattr(type(metric), "registered_as", None) if metric is not None else None
    if metric is not None and named is None:
        return MetricInfo(result.name, type(metric))
    for name in (named, None if signature is None else signature.name, result.name):
        try:
            if name is not None:
                return metric_info(name)
        except AueporaError:
            continue
    return None


def _range_text(span: tuple[float, float] | None) -> str:
    if span is None:
        return "not declared"
    low, high = ("−∞" if end == -float("inf") else "∞" if end == float("inf") else f"{end:g}" for end in span)
    return f"from {low} to {high}"


def _pair(ends: Any) -> tuple[float, float] | None:
    return (float(ends[0]), float(ends[1])) if isinstance(ends, (list, tuple)) and len(ends) == 2 else None


def _interval(result: MetricResult) -> IntervalInfo | None:
    if result.interval is None or not result.defined:
        return None
    stored_interval = result.details.get("interval") or {}
    method, units = str(stored_interval.get("method", "not known")), stored_interval.get("units")
    per_sample = units is None or units == result.details.get("num_samples")
    words = describe_interval(method, units, per_sample)
    return IntervalInfo(*result.interval, method, words, tuple(map(describe_flag, stored_interval.get("flags", ()))))


def _samples(result: MetricResult, built: BatchMetric | None) -> SampleCounts | None:
    details = result.details
    if "num_scored" not in details:
        return None
    skip_reasons = {} if built is None else built.skip_reasons
    skips = _reasons(details, "skipped_", skip_reasons)
    failures = _reasons(details, "failed_", skip_reasons)
    counts = None
    if isinstance(result.scores, Scores) and details.get("num_system_failed"):
        failed = [
            score for score, outcome in zip(result.scores, result.scores.outcomes, strict=True) if "system_f" in outcome
        ]
        counts = next((score for score in failed if score is not None), None)
    return SampleCounts(
        total=details["num_scored"] + details["num_skipped"] + details["num_failed"],
        counted=details["num_samples"],
        scored=details["num_scored"],
        skipped=details["num_skipped"],
        system_failed=details.get("num_system_failed", 0),
        measure_failed=details.get("num_measure_failed", 0),
        skips=skips,
        failures=failures,
        failed_counts_as=counts,
    )


def _reasons(details: dict[str, Any], prefix: str, skip_reasons: Any) -> tuple[ReasonCount, ...]:
    counts = {key.removeprefix(prefix): count for key, count in details.items() if key.startswith(prefix) and count}
    return tuple(
        ReasonCount(reason, int(count), describe_reason(reason, skip_reasons), hint_for_reason(reason))
        for reason, count in counts.items()
        if isinstance(count, int)
    )


def _notes(result: MetricResult) -> tuple[str, ...]:
    notes = []
    if not result.defined:
        notes.append(f"There is no value: {result.details.get('undefined_because', 'no sample is in it')}")
    repeats = result.details.get("repeats") or {}
    if isinstance(repeats, dict) and repeats.get("count", 1) > 1:
        notes.append(f"Every sample was asked {repeats['count']} times; its score is the mean over them")
    return tuple(notes)
