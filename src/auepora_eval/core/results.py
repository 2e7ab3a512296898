"""Results: a list of ``MetricResult`` with access by name and export to JSON, Markdown and data frames."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from .errors import BadValueError, UnknownMetricError
from .frames import FrameKind, make_frame
from .result_columns import metric_columns, sample_columns
from .types import MetricResult

__all__ = [
    "Results",
    "coverage",
    "display_name",
    "empty_answers",
    "judged_coverage",
    "registered_name",
    "results_to_dict",
    "results_to_markdown",
    "to_json_value",
]

SCHEMA = 1
NOTEBOOK_HTML = "auepora_eval.reporting.notebook"
"""The module that renders results for notebooks; imported only when one is shown."""


class _ByName(dict[str, MetricResult]):
    """Results by name; an unknown name raises an error with a suggestion."""

    def __missing__(self, name: str) -> MetricResult:
        raise UnknownMetricError(name, self)


class Results(list[MetricResult]):
    """The results of one evaluation, in plan order, with the ids of the samples behind them."""

    def __init__(
        self, results: Sequence[MetricResult] = (), *, sample_ids: Sequence[str] = (), run_id: str | None = None
    ) -> None:
        super().__init__(results)
        self.sample_ids = sample_ids
        self.run_id = run_id
        self.failure: str | None = None
        """Why the evaluation failed as a whole: most samples have no answer, or there is no usable judgement."""
        self.warnings: list[str] = []
        """Warnings about data and scores: ids that never match, many empty answers, ..."""

    @property
    def by_name(self) -> dict[str, MetricResult]:
        """The results by the name of their metric: ``results.by_name["recall@5"].value``."""
        return _ByName({result.name: result for result in self})

    def __str__(self) -> str:
        return self.to_markdown()

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """The results document (schema 1). What is not defined is ``None``, never a number."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "results": [
                {
                    "name": result.name,
                    "target": result.target.name,
                    "value": result.value if result.defined else None,
                    "interval": None if result.interval is None else list(result.interval),
                    "signature": result.signature,
                    "details": to_json_value(result.details),
                    "slices": {
                        name: {group: _group_to_dict(inner) for group, inner in groups.items()}
                        for name, groups in result.slices.items()
                    },
                }
                for result in self
            ],
        }
        if self.failure is not None:
            document["failure"] = self.failure
        if self.warnings:
            document["warnings"] = self.warnings
        if per_query:
            document["per_query"] = self.per_query()
        return document

    def per_query(self) -> list[dict[str, Any]]:
        """Per sample its id, its score by metric, and the outcomes that are not simply scored."""
        scored = [result for result in self if result.scores is not None]
        columns = {result.name: list(result.scores or ()) for result in scored}
        outcomes = {result.name: list(result.outcomes or ()) for result in scored}
        return [
            {
                "sample_id": sample_id,
                "scores": {name: column[row] for name, column in columns.items()},
                "outcomes": {name: texts[row] for name, texts in outcomes.items() if texts and texts[row] != "scored"},
            }
            for row, sample_id in enumerate(self.sample_ids)
        ]

    def to_json(self, *, per_query: bool = False, indent: int | None = 2) -> str:
        """The results document as JSON text."""
        return json.dumps(self.to_dict(per_query=per_query), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_markdown(self) -> str:
        """A Markdown table, with a coverage column where not every sample was scored."""
        return results_to_markdown(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: a table by target, and a chart of the values with their intervals."""
        shown: str = import_module(NOTEBOOK_HTML).results_html(self)
        return shown

    def to_frame(self, kind: FrameKind = "pandas", *, per_query: bool = False, slices: bool = False) -> Any:
        """A frame of pandas, polars or Arrow, whichever is asked for and installed.

        One row per metric: value, interval, how many samples it is a mean of and coverage, signature.
        ``slices`` adds a row per group of every slice. With ``per_query`` one row per sample instead: a column per
        metric with its score, and one called ``<metric>.outcome``. What is not defined is null, never a number.
        """
        if per_query and slices:
            raise BadValueError("to_frame: slices are of metrics, not of samples; leave out per_query or slices")
        columns = sample_columns(self, self.sample_ids) if per_query else metric_columns(self, slices=slices)
        return make_frame(columns, kind)


def _group_to_dict(result: Any) -> Any:
    """One group of a slice: as a result, without what is the same for all groups."""
    if not isinstance(result, MetricResult):
        return to_json_value(result)
    return {
        "value": result.value if result.defined else None,
        "interval": None if result.interval is None else list(result.interval),
        "details": to_json_value(result.details),
    }


def to_json_value(value: Any) -> Any:
    """A value of ``details`` converted for JSON; NaN and infinity become ``None``."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return to_json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def results_to_dict(results: Sequence[MetricResult]) -> dict[str, dict[str, float | None]]:
    """The values by target and metric name: ``{"RETRIEVAL_RELEVANCE": {"recall@5": 0.83}}``; undefined is ``None``."""
    grouped: dict[str, dict[str, float | None]] = {}
    for result in results:
        grouped.setdefault(result.target.name, {})[result.name] = result.value if result.defined else None
    return grouped


def results_to_markdown(results: Sequence[MetricResult]) -> str:
    """A Markdown table; a fourth column shows the coverage where any sample was not scored."""
    notes = [
        "; ".join(filter(None, [coverage(result), judged_coverage(result), empty_answers(result)]))
        for result in results
    ]
    with_coverage = any(notes)
    lines = ["| Target | Metric | Value |", "|--------|--------|-------|"]
    if with_coverage:
        lines = [f"{lines[0]} Mean of |", f"{lines[1]}---------|"]
    for result, note in zip(results, notes, strict=True):
        value = f"{result.value:.4f}" if result.defined else "n/a"
        line = f"| {result.target.name} | {_cell(display_name(result))} | {value} |"
        lines.append(f"{line} {note or 'all'} |" if with_coverage else line)
    return "\n".join(lines)


def _cell(name: str) -> str:
    """A metric name escaped for a table cell."""
    return " ".join(name.split()).replace("|", "\\|").replace("<", "&lt;")


def display_name(result: MetricResult) -> str:
    """The name for a table.

    It marks average precision over hits, which differs from the usual one, answer relevance as word overlap with the
    question, and names the inner metric of a metric over another one.
    """
    signature = result.signature or ""
    if registered_name(result) == "answer_relevance":
        return f"{result.name} (word overlap)"
    if "|ap:hits|" in signature:
        return f"{result.name} (over hits)"
    base = re.search(r"\|(?:base|similarity):([^|]*)\|", signature)
    hits = " over hits" if "|base.ap:hits|" in signature else ""
    return result.name if base is None or base[1] in result.name else f"{result.name} ({base[1]}{hits})"


def registered_name(result: MetricResult) -> str:
    """The registered name of the metric, without alias and cut-off."""
    return (result.signature or result.name).partition("|")[0].partition("@")[0]


def coverage(result: MetricResult) -> str:
    """What the value is a mean of, where that is not simply all: ``9 of 10; 1 failed, counted worst (timeout)``.

    Failures that count are distinguished from samples that are left out. With several repeats failed calls are
    reported as well: ``18 calls, 4 failed, counted worst (timeout)``.
    """
    return "; ".join(filter(None, [_sample_coverage(result.details), _call_coverage(result.details.get("repeats"))]))


def judged_coverage(result: MetricResult) -> str:
    """The proportion of retrieved documents that are judged, where the gold has known annotators.

    ``judged 83 % of top 10; gold by model 120, human 14``
    """
    details = result.details
    if "gold_by" not in details:
        return ""
    depth, share = details.get("judged_depth"), details.get("judged")
    within = "all returned" if depth is None else f"top {depth}"
    seen = f"judged nothing of {within}" if share is None else f"judged {_percent(share)} of {within}"
    whose = ", ".join(f"{by} {count}" for by, count in details["gold_by"].items())
    return f"{seen}; gold by {whose}" if whose else seen


def empty_answers(result: MetricResult) -> str:
    """The number of empty answers of an abstention metric, where there are many: ``6 of 40 answers are empty``."""
    details = result.details
    if "num_empty_answers" not in details:
        return ""
    return f"{details['num_empty_answers']} of {details['num_answers']} answers are empty"


def _percent(share: float) -> str:
    """A percentage; one that rounds to 0 or 100 without being it is shown as under 1 % or over 99 %."""
    whole = round(100 * share)
    if whole == 100 and share < 1:
        return "over 99 %"
    return "under 1 %" if whole == 0 and share > 0 else f"{whole} %"


def _sample_coverage(details: Mapping[str, Any]) -> str:
    skipped = _reasons(details, "skipped_")
    failed = _reasons(details, "failed_")
    if (not skipped and not failed) or "num_scored" not in details:
        return ""
    total = details["num_scored"] + details["num_skipped"] + details["num_failed"]
    parts = [f"{details['num_samples']} of {total}"]
    counted = details["num_samples"] - details["num_scored"]
    if failed:
        how = "counted worst" if counted else "left out"
        parts.append(f"{details['num_failed']} failed, {how} ({', '.join(failed)})")
    if skipped:
        parts.append(f"{details['num_skipped']} skipped ({', '.join(skipped)})")
    return "; ".join(parts)


def _call_coverage(repeats: Any) -> str:
    """The number of failed calls; a sample fails only where all its repeats do, so that it is not visible there."""
    if not isinstance(repeats, Mapping) or repeats.get("count", 1) < 2 or "num_calls" not in repeats:
        return ""
    calls, failed = repeats["num_calls"], repeats["num_system_failed"] + repeats["num_measure_failed"]
    if not failed:
        return ""
    how = "counted worst" if repeats["num_counted"] > calls - failed else "left out"
    return f"{calls} calls, {failed} failed, {how} ({', '.join(_reasons(repeats, 'failed_'))})"


def _reasons(details: Mapping[str, Any], prefix: str) -> list[str]:
    found = {key.removeprefix(prefix): count for key, count in details.items() if key.startswith(prefix) and count}
    return [f"{reason} {count}" if len(found) > 1 else reason for reason, count in found.items()]
