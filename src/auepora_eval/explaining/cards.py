"""Metric cards of results: what a number is, in plain data that a terminal, a page or a program can show."""

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
    """One choice of a signature."""

    key: str
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """Why some samples were not simply scored."""

    reason: str
    count: int
    words: str
    needed: str | None = None
    """What it would take to have a score."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """The samples a value stands on."""

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
    """What a failed answer counts at; ``None`` where it leaves the value."""


@dataclass(frozen=True, slots=True)
class IntervalInfo:
    """How far the value may be off, and how that was found."""

    low: float
    high: float
    method: str
    words: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """What a number is. Texts are plain: whoever shows them escapes them."""

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
    """What becomes of a failed answer."""
    reference: str
    value: float | None
    value_completed: float | None
    """The value without the samples on which the system failed."""
    bounds: tuple[float, float] | None
    """Between what the value would lie, had every measurement succeeded."""
    interval: IntervalInfo | None
    samples: SampleCounts | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return dict(to_json_value(asdict(self)))


def card(result: MetricResult, metric: Metric | None = None) -> Card:
    """The card of a result; ``metric`` is what it is a result of, found by its name where it is not given."""
    signature = _signature(result)
    info = _info(result, signature, metric)
    one = metric_card(info) if info is not None else None
    built = metric if isinstance(metric, BatchMetric) else None
    target, own = TARGETS[result.target], built.option_help if built is not None else {}
    span = built.range if built is not None else None if one is None else one.range
    higher = built.higher_is_better if built is not None else None if one is None else one.higher_is_better
    if higher is None and result.details.get("lower_is_better"):
        higher = False
    return Card(
        name=result.name,
        title=display_name(result),
        target=result.target.name,
        target_title=target.title,
        question=target.question,
        summary="A metric that is not known in this process." if one is None else one.summary,
        formula="" if one is None or not one.formula else plain_math(one.formula),
        latex="" if one is None else one.formula,
        text=() if one is None else one.text,
        convention=describe_convention(built.active_conventions if built is not None else None),
        choices=tuple(
            OptionInfo(key, value, describe_option(key, value, own))
            for key, value in ({} if signature is None else signature.options).items()
        ),
        signature=result.signature,
        range=None if span is None else tuple(map(to_json_value, span)),
        range_text=_range_text(span),
        direction={True: "higher is better", False: "lower is better", None: "not declared"}[higher],
        reducer="not known" if built is None else describe_reducer(built.reducer.name),
        failure="" if one is None else one.failures,
        reference="" if one is None else one.reference,
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
    told = result.details.get("interval") or {}
    method, units = str(told.get("method", "not known")), told.get("units")
    alone = units is None or units == result.details.get("num_samples")
    words = describe_interval(method, units, alone)
    return IntervalInfo(*result.interval, method, words, tuple(map(describe_flag, told.get("flags", ()))))


def _samples(result: MetricResult, built: BatchMetric | None) -> SampleCounts | None:
    details = result.details
    if "num_scored" not in details:
        return None
    own = {} if built is None else built.skip_reasons
    skips = _reasons(details, "skipped_", own)
    failures = _reasons(details, "failed_", own)
    counts = None
    if isinstance(result.scores, Scores) and details.get("num_system_failed"):
        failed = [
            score for score, said in zip(result.scores, result.scores.outcomes, strict=True) if "system_f" in said
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


def _reasons(details: dict[str, Any], prefix: str, own: Any) -> tuple[ReasonCount, ...]:
    found = {key.removeprefix(prefix): count for key, count in details.items() if key.startswith(prefix) and count}
    return tuple(
        ReasonCount(reason, int(count), describe_reason(reason, own), hint_for_reason(reason))
        for reason, count in found.items()
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
