"""The data types of a comparison: aggregates, queries and metrics of two runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from importlib import import_module
from string import ascii_uppercase
from typing import Any, Literal

from ..core.conventions import Match
from ..core.frames import ColumnKind, FrameColumn, make_frame
from ..core.results import to_json_value
from ..core.types import FrameKind
from ..render.block_report import BlockReport
from ..render.blocks import Block
from ..render.short import decimals
from ..render.tables import format_value
from ..stats.intervals import Floats, Ints
from .pairing import MetricMeta, MetricPair
from .stores import DecisionRegister

NOTEBOOK_HTML = "auepora_eval.compare.rendering"
SHORT_FORM = "auepora_eval.compare.short"
"""Modules that render comparisons; imported only when one is shown."""
Verdict = Literal["better", "worse", "equal", "inconclusive"]
DowngradeReason = Literal[
    "measure_failures",
    "system_failures",
    "missing_outputs",
    "question_overlap",
    "no_direction",
    "partly_judged",
    "selected_samples",
    "covered_proportion",
    "list_length",
    "skewed",
]
"""Why a verdict was downgraded to inconclusive: failed measurements could change it; it holds only because a system
failed on some samples, or because outputs are missing; the metric is word overlap with the question, and no other
metric rests on gold or a judge; it is the proportion of a class, which can differ but not be better; only a part of
the samples is judged, and no sequential design says which looks are valid; the samples were selected by the outcomes
of one of the runs; the chunks of the runs differ, and the covered proportion of the gold changed the other way; the
runs return lists of different lengths, and the metric divides by what is returned; or the differences are skewed, and
bounds that allow for it do not agree.
"""
EXPLORATORY: tuple[DowngradeReason, ...] = ("partly_judged", "selected_samples")
"""Reasons for which p-values are not valid: such a comparison is not among those that share one error rate."""


class ComparisonKind(StrEnum):
    """The outcome of a query in the second run compared with the first."""

    WIN = "Win"
    """Found now and not before, or found further up."""
    LOSS = "Loss"
    """Found in both, further down."""
    DRAW = "Draw"
    """At the same rank, or found in neither."""
    REGRESSION = "Regression"
    """Found before and not any more."""

    Win, Loss, Draw, Regression = WIN, LOSS, DRAW, REGRESSION
    """Aliases, spelled like the values."""


def run_labels(count: int) -> list[str]:
    """The labels of runs in a comparison: A, B, ..., Z, 27, ..."""
    return [*ascii_uppercase[:count], *(str(number) for number in range(27, count + 1))]


def join_notes(*notes: str | None) -> str | None:
    """Notes as one text; ``None`` without any."""
    return "; ".join(filter(None, notes)) or None


@dataclass(frozen=True, slots=True)
class AggregateMetrics:
    """The golden-query metrics of one run; ``None`` where no query enters one."""

    hit_at_k: Mapping[int, float | None]
    mrr: float | None
    recall_at_k_doc: Mapping[int, float | None]
    citation_coverage: float | None
    groundedness: float | None
    empty_result_rate: float | None
    refusal_correctness: float | None
    total_queries: int
    failed_queries: int

    def to_dict(self, *, digits: int | None = None) -> dict[str, Any]:
        """The aggregate as a JSON object, keys in their order; rounded to ``digits`` if given. NaN is ``None``."""

        def shown(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {str(key): shown(inner) for key, inner in value.items()}
            if isinstance(value, float) and not math.isfinite(value):
                return None
            return round(value, digits) if isinstance(value, float) and digits is not None else value

        return {name: shown(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AggregateMetrics:
        """The aggregate that ``to_dict`` wrote."""
        named = dict(values)
        for name in ("hit_at_k", "recall_at_k_doc"):
            named[name] = {int(k): value for k, value in named[name].items()}
        return cls(**named)


@dataclass(frozen=True, slots=True)
class QueryComparison:
    """One query in both runs: where its first expected chunk stands, and what that makes of it."""

    query_id: str
    kind: ComparisonKind
    a_hit_rank: int | None
    b_hit_rank: int | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric over the samples that both runs have. Numbers are unrounded; ``None`` where there is none."""

    name: str
    target: str
    """The name of the target category."""
    a: float | None
    b: float | None
    delta: float | None
    """b - a, system failures at the metric's worst value."""
    delta_completed: float | None
    """The same over samples that both systems answered."""
    bounds: tuple[float, float] | None
    """The values of ``delta`` with every failed measurement at its worst, and at its best."""
    interval: tuple[float, float] | None
    p_value: float | None
    p_adjusted: float | None
    """``None`` for metrics that are not among the primary ones."""
    effect_size: float | None
    mde: float | None
    """The minimum detectable effect: the smallest difference that these samples detect with a power of 80 %."""
    wins: int
    losses: int
    draws: int
    verdict: Verdict
    n: int
    clusters: int
    primary: bool = True
    negligible: bool = False
    """Whether the whole interval lies within the margin."""
    n_needed: int | None = None
    """How many samples it takes to detect the margin, if the verdict is inconclusive."""
    flags: tuple[str, ...] = ()
    doubt: DowngradeReason | None = None
    """Why the verdict was downgraded to inconclusive; ``None`` if it was not."""
    higher_is_better: bool | None = True
    """``None`` for the proportion of one of several classes: it can differ, but not be better or worse."""
    note: str | None = None
    own_spread: tuple[float | None, float | None] | None = None
    """The standard deviation of each system's scores of one sample over repeats, if samples were repeated."""
    missing: tuple[int, ...] = field(default=(0, 0), kw_only=True)
    """How many outputs each run lacks, of the samples that both have."""
    interval_adjusted: tuple[float, float] | None = None
    """An interval that holds together with those of all primary metrics in 95 % of cases; ``None`` for other metrics.
    A verdict of better or worse needs one without 0."""
    sequential: Mapping[str, Any] | None = None
    """The sequential test that decided, as stored with the run that was judged until a verdict. Then verdict,
    difference, interval and p-value are those of its deciding look: the repeated interval and p-value."""
    two_stage: Mapping[str, Any] | None = None
    """Where a judge scored a draw of the samples: the corrected difference, and what it is about."""
    match: Match | None = None
    """How gold is matched in both runs, where it is not as in the stored results of both."""
    longer_list: str | None = None
    """That the second run returns the same ranking, only longer, so that the metric can only rise."""
    label: str = ""
    """The name for display; empty if it is the name."""
    interval_under_skew: tuple[float, float] | None = None
    """Where the differences are skewed, 95 % bounds that hold nevertheless; a verdict needs them, too."""
    ratio: tuple[float, float, float] | None = None
    """Of an amount such as tokens or cost: that of B over that of A, and its 95 % interval."""

    @property
    def sure_interval(self) -> tuple[float, float] | None:
        """The interval that gates decide by: ``interval``, extended to ``interval_under_skew``."""
        if self.interval is None or self.interval_under_skew is None:
            return self.interval
        (low, high), (least, most) = self.interval, self.interval_under_skew
        return min(low, least), max(high, most)

    @property
    def shown_interval(self) -> tuple[float, float] | None:
        """The interval that tables show: the adjusted one, or that of a metric without one."""
        return self.interval if self.interval_adjusted is None else self.interval_adjusted

    def to_dict(self) -> dict[str, Any]:
        """The entry of the comparison document, without the name."""
        values = asdict(self)
        del values["name"], values["label"]
        values["missing_outputs"] = dict(zip("ab", values.pop("missing"), strict=True))
        if self.doubt != "skewed":
            values["interval_under_skew"] = None
        for key in ("sequential", "two_stage", "match", "longer_list", "interval_under_skew", "ratio"):
            found = values.pop(key)
            values |= {} if found is None else {key: found}
        return {key: to_json_value(value) for key, value in values.items()}

    def to_row(self) -> dict[str, Any]:
        """The row of a table: ``low`` and ``high`` for the interval, ``worst`` and ``best`` for the bounds."""
        ends = {
            ("low", "high"): self.interval,
            ("low_adjusted", "high_adjusted"): self.interval_adjusted,
            ("worst", "best"): self.bounds,
        }
        columns: dict[str, float | None] = {}
        for names, both in ends.items():
            columns |= zip(names, both or (None, None), strict=True)
        return {**asdict(self), **columns, "metric": self.name, "flags": ", ".join(self.flags) or None}


GuardrailState = Literal["within_margin", "worse", "inconclusive"]


@dataclass(frozen=True, slots=True)
class GuardrailOutcome:
    """How much worse the second run may be on a metric, and the margin that is allowed.

    The bounds are one-sided ones at 95 %, not adjusted for other metrics. ``within_margin`` needs ``most`` within the
    margin; otherwise ``worse`` needs ``least`` above 0.
    """

    metric: str
    margin: float
    """The largest loss that is allowed, in the unit of the metric."""
    state: GuardrailState
    delta: float | None = None
    """The difference, B - A."""
    least: float | None = None
    """The lower bound of the loss; below 0 where B may be better."""
    most: float | None = None
    """The upper bound of the loss."""
    n: int = 0
    n_needed: int | None = None
    """About how many samples would decide if the systems were equal, where these do not."""
    reason: str = ""
    """Why the bounds do not decide, where something else speaks against them."""

    def describe(self, label: str = "", *, short: bool = False) -> str:
        """The state with the bound that decides: ``recall@5 is worse by at least 0.0512 (margin 0.02)``.

        With ``short`` it has as many digits as the bounds allow.
        """
        label, margin = label or self.metric, f"margin {self.margin:g}"
        if self.least is None or self.most is None or self.reason:
            return f"{label} is inconclusive ({margin}): {self.reason}"
        bounds = (self.least, self.most) if short else None
        if self.state == "worse":
            at_least = format_value(self.least, decimals(bounds, [self.least], 0.0))
            return f"{label} is worse by at least {at_least} ({margin})"
        at_most = f"at most {format_value(max(self.most, 0.0), decimals(bounds, [self.most], self.margin))} worse"
        if self.state == "within_margin":
            return f"{label} is within its margin of {self.margin:g} ({at_most})"
        needed = f"; about {self.n_needed:,} samples would decide" if self.n_needed else ""
        return f"{label} is inconclusive: {at_most} ({margin}{needed})"


def guardrails_document(guardrails: Iterable[GuardrailOutcome], fallen: Iterable[str]) -> dict[str, Any]:
    """The keys of a comparison document for guardrails and other metrics that fell, where there are any."""
    document: dict[str, Any] = {}
    if outcomes := [asdict(outcome) for outcome in guardrails]:
        document["guardrails"] = outcomes
    if names := list(fallen):
        document["fallen"] = names
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFindings:
    """What a comparison of runs says besides its metrics."""

    refused: Mapping[str, str] = field(default_factory=dict)
    """Metrics that cannot be compared, and why."""
    missing: tuple[int, ...] = ()
    """How many outputs each run lacks, of the samples that all have."""
    register: DecisionRegister | None = None
    """How often the dataset decided before; ``None`` if the comparison is not recorded in a store."""
    sample_set: str | None = None
    """The name of the set of samples that the runs were compared on; ``None`` for all samples that they share."""
    refused_primary: tuple[str, ...] = ()
    """The primary metrics among those that cannot be compared."""
    guardrails: tuple[GuardrailOutcome, ...] = ()
    """Of two runs: the metrics that must not get worse by more than a margin."""
    fallen: tuple[str, ...] = ()
    """Of two runs without guardrails: metrics that are not primary and worse, by max-T over all of them."""
    metric_labels: Mapping[str, str] = field(default_factory=dict)
    """The names of metrics for display."""
    ranked: tuple[str, ...] = ()
    """The names of the compared metrics: the main one first, those that are equal in all runs last."""
    rivals: int = 0
    """Comparisons that share the error rate and are not shown: those of a sweep in which one of two runs was picked."""


def findings_of(comparison: ComparisonFindings | CompareReport) -> dict[str, Any]:
    """The findings of a comparison by name, for another object with the same fields."""
    return {shared.name: getattr(comparison, shared.name) for shared in fields(ComparisonFindings)}


@dataclass(frozen=True, slots=True)
class CompareReport(BlockReport):
    """The comparison of two runs. Its findings are those of ``ComparisonFindings``."""

    run_a: str
    run_b: str
    aggregate_a: AggregateMetrics
    aggregate_b: AggregateMetrics
    deltas: Mapping[str, Any]
    """``chunker_version_match``, ``only_in_a``, ``only_in_b``, each aggregate's difference, and ``metrics`` by name."""
    per_query: list[QueryComparison]
    metrics: list[MetricComparison] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What else differs between the runs: versions of chunker, embedding, model, prompt."""
    missing: tuple[int, ...] = (0, 0)
    register: DecisionRegister | None = None
    sample_set: str | None = None
    refused_primary: tuple[str, ...] = ()
    guardrails: tuple[GuardrailOutcome, ...] = ()
    fallen: tuple[str, ...] = ()
    metric_labels: Mapping[str, str] = field(default_factory=dict)
    ranked: tuple[str, ...] = ()
    rivals: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The comparison document."""
        return {
            "schema": 1,
            "run_a": self.run_a,
            "run_b": self.run_b,
            "aggregate_a": self.aggregate_a.to_dict(),
            "aggregate_b": self.aggregate_b.to_dict(),
            "deltas": dict(self.deltas),
            "per_query": [asdict(query) for query in self.per_query],
            "refused": dict(self.refused),
            "notes": list(self.notes),
            "missing_outputs": dict(zip("ab", self.missing, strict=True)),
            **({} if self.register is None else {"register": self.register.to_dict()}),
            **({} if self.sample_set is None else {"sample_set": self.sample_set}),
            **guardrails_document(self.guardrails, self.fallen),
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """The comparison document as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def blocks(self) -> list[Block]:
        """The conclusion in one sentence, the primary metrics and notes."""
        blocks: list[Block] = import_module(SHORT_FORM).comparison_blocks(self)
        return blocks

    def _repr_html_(self) -> str:
        """The rendering in a notebook: a table of differences, and a chart of them."""
        shown: str = import_module(NOTEBOOK_HTML).comparison_html(self)
        return shown

    def to_frame(self, kind: FrameKind = "pandas", *, per_query: bool = False) -> Any:
        """A frame of pandas, polars or Arrow: one row per metric, or with ``per_query`` one per golden query.

        ``low`` and ``high`` are the interval of the difference, ``worst`` and ``best`` its bounds. A metric that was
        refused has a row as well, in which ``note`` says why.
        """
        return make_frame(_query_columns(self.per_query) if per_query else _metric_columns(self), kind)


_METRIC_COLUMNS: dict[str, ColumnKind] = {
    "metric": "text",
    "target": "text",
    "a": "number",
    "b": "number",
    "delta": "number",
    "low": "number",
    "high": "number",
    "p_value": "number",
    "p_adjusted": "number",
    "verdict": "text",
    "negligible": "flag",
    "primary": "flag",
    "wins": "count",
    "losses": "count",
    "draws": "count",
    "n": "count",
    "clusters": "count",
    "effect_size": "number",
    "mde": "number",
    "n_needed": "count",
    "delta_completed": "number",
    "worst": "number",
    "best": "number",
    "higher_is_better": "flag",
    "doubt": "text",
    "flags": "text",
    "note": "text",
    "low_adjusted": "number",
    "high_adjusted": "number",
}


def _metric_columns(report: CompareReport) -> dict[str, FrameColumn]:
    rows = [metric.to_row() for metric in report.metrics]
    rows += [{"metric": name, "note": f"not compared: {why}"} for name, why in report.refused.items()]
    return {name: FrameColumn(kind, _values_of(rows, name)) for name, kind in _METRIC_COLUMNS.items()}


def _values_of(rows: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    return [row.get(name) for row in rows]


def _query_columns(queries: list[QueryComparison]) -> dict[str, FrameColumn]:
    columns: dict[str, ColumnKind] = {
        "query_id": "text",
        "kind": "text",
        "a_hit_rank": "count",
        "b_hit_rank": "count",
        "note": "text",
    }
    rows = [asdict(query) for query in queries]
    return {name: FrameColumn(kind, _values_of(rows, name)) for name, kind in columns.items()}


# --- the input of a comparison: one metric of two runs ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SequentialComparison:
    """A stored sequential test of one run against the other."""

    details: Mapping[str, Any]
    """As stored with the run that was judged until a verdict."""
    is_reversed: bool = False
    """Whether that is the first run of the comparison."""


@dataclass(frozen=True, slots=True, eq=False)
class TwoStageComparison:
    """Scores of a judge on a draw of the samples, and predicted scores of all of them, in both runs."""

    target: str
    """What a corrected difference is about."""
    first: Floats
    """The scores of the judge in the first run; NaN where there is none."""
    second: Floats
    first_predictions: Floats
    second_predictions: Floats
    strata: Ints
    """The stratum of each sample; -1 where one of the runs has nothing to judge."""
    failed: int = 0
    """Drawn samples that have no usable judgement in one of the runs."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonInput:
    """One metric of two runs, with the options and notes of its comparison."""

    name: str
    definition: MetricMeta
    read: Callable[[], MetricPair]
    """Returns the scores; they are not part of this object, because those of all metrics may be too large."""
    target: str
    primary: bool = True
    margin: float | None = None
    notes: tuple[str, ...] = ()
    stored: tuple[float, float] | None = None
    """The stored values of the runs, for a metric without usable scores; only if the runs have the same samples."""
    own_spread: tuple[float | None, float | None] | None = None
    repeats: tuple[int, int] = (1, 1)
    runs: tuple[int, int] = (0, 1)
    """The indices of the two runs among all runs compared."""
    withheld: DowngradeReason | None = None
    """Why there is no verdict, whatever the numbers."""
    sequential: SequentialComparison | None = None
    """The sequential test of these two runs, which decides instead of a test of all samples."""
    two_stage: TwoStageComparison | None = None
    """The scores of a draw, where two-stage judging has the same draw in both runs."""
    match: Match | None = None
    """How gold is matched, where it is not as in the stored results of both runs."""
    covered: float | None = None
    """The difference in the covered proportion of the gold, where the chunks of the runs differ."""
    longer_list: str | None = None
    """That the second run returns the same ranking, only longer."""
    cut: str = ""
    """Where lists are cut above the ranks that the metric reads, that they are, with bounds."""
    other_end: ComparisonInput | None = None
    """With ``cut`` the other end of what the lists allow: here the first run has what it lacks, there the second."""
    is_joint: bool = False
    """Whether the intervals allow for all comparisons that share the error rate, as the adjusted one does."""

    @property
    def ends(self) -> tuple[ComparisonInput, ...]:
        """The input, and where lists are cut that of the other end."""
        return (
            (self,)
            if self.other_end is None
            else (self, replace(self.other_end, primary=self.primary, is_joint=self.is_joint))
        )

    @property
    def pair(self) -> MetricPair:
        """The scores of the metric in both runs."""
        return self.read()
