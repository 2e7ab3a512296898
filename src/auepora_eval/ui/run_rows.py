"""The metrics of a run as rows and tiles with links to what is behind each number, and its groups and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..compare.metrics import rank_metrics
from ..core.results import display_name
from ..core.targets import Target, group_by_target
from ..core.types import MetricResult, TargetCategory
from ..queries.filters import Condition
from ..render.html import interval_text, value_text
from ..report.pages import answers_result
from ..report.run_sections import StoredRun
from ..report.score_sections import alternative_values, coverage_notes, interval_flags, value_bar
from ..store.records import RunRecord
from .numbers import interval_numbers, is_proportion, metric_number
from .workbench import make_url, run_url

MAX_TILES = 6
LABELS = "labels."
MAX_SLICES, MAX_GROUPS = 3, 8
"""The number of slices beside the metrics, and of groups of each."""
SCALE_MARGIN = 4 / 3
"""An axis without an end reaches so much further than the greatest interval on it."""

# --- addresses and conditions ----------------------------------------------------------------------------------------


def queries_url(record: RunRecord, *conditions: str) -> str:
    """The address of the list of queries of a run under some conditions."""
    return make_url("/queries", run=record.run_id, where=list(conditions))


def derivation_url(record: RunRecord, metric: str, sample_id: str | None = None, *, fragment: bool = False) -> str:
    """The address of the derivation of a metric, or of one sample's score."""
    return make_url(run_url(record, "derivation"), metric=metric, sample=sample_id, fragment="1" if fragment else None)


def outcome_condition(metric: str, outcome: str, operator: str = "=") -> str:
    """The condition on the outcome of a metric: ``scored``, ``skipped`` or ``failed``, or one with a reason."""
    return str(Condition("metric", metric, operator=operator, value=outcome))


def condition_link(record: RunRecord, text: str, condition: str = "", note: str = "") -> dict[str, str]:
    """A link to the queries of a run under a condition; without one a text alone."""
    url = queries_url(record, condition) if condition else ""
    return {"text": text, "condition": condition, "url": url, "note": note}


# --- a metric as a row or a tile -------------------------------------------------------------------------------------


def score_groups(run: StoredRun) -> list[tuple[Target, list[dict[str, Any]]]]:
    """The targets with metrics of a run, in the order of the report, each with its metrics as rows."""
    groups = []
    for target, results in group_by_target(run.results):
        groups.append((target, [metric_row(run, result) for result in results]))
    return groups


def metric_row(run: StoredRun, result: MetricResult) -> dict[str, Any]:
    """A metric of a run with its links, as the templates show it."""
    record, details, name = run.record, result.details, result.name
    notes = [] if result.defined else [str(details.undefined_because or "no sample was scored")]
    if details.num_system_failed:
        notes.append(f"failed answers are {'counted at the worst value' if details.counts_failures else 'left out'}")
    notes = [alternative_values(result), *notes, *coverage_notes(result)]
    value, _, unit = (metric_number(result, result.value) if result.defined else "–").partition(" ")
    return {
        "name": name,
        "title": display_name(result).removesuffix(" (s)"),  # the value has its own unit
        "is_lower_better": not run.definitions[name].higher_is_better,
        "role": _role(record, name),
        "value": value,
        "unit": unit,
        "interval": interval_numbers(result, unit),
        "is_uncertain": bool(interval_flags(result)),  # the interval may be too narrow
        "digits": f"{value_text(result.known_value)}; {interval_text(result.interval) or 'no interval'}",
        "bar": value_bar(result, *_scale(run, result)),
        "count": _count_link(record, result),
        "left_out": _left_out(record, result),
        "notes": [note for note in notes if note],
        "url": derivation_url(record, name),
        "drawer": derivation_url(record, name, fragment=True),
    }


def _role(record: RunRecord, name: str) -> str:
    """What the plan calls a metric."""
    if name in (record.plan.get("primary") or ()):
        return "primary"
    return "guardrail" if name in (record.plan.get("guardrails") or ()) else ""


def _scale(run: StoredRun, result: MetricResult) -> tuple[float, float]:
    """The axis of the bar: the range of the metric; metrics without an end share one that shows all of them."""
    low, high = run.definitions[result.name].range
    if math.isfinite(high) or not math.isfinite(low):
        return low, high
    others = [other for other in run.results if other.target is result.target and other.interval is not None]
    return low, SCALE_MARGIN * max((other.interval[1] for other in others if other.interval is not None), default=0.0)


def _count_link(record: RunRecord, result: MetricResult) -> dict[str, str] | None:
    """The number of samples in the value: those with a score, and failed answers where they count."""
    details = result.details
    count = details.num_samples
    if not details.counts_samples:
        return None
    if count == details.num_scored:
        return condition_link(record, f"{count:,}", outcome_condition(result.name, "scored"))
    if details.counts_outcomes and count == details.num_scored + details.num_failed:
        return condition_link(record, f"{count:,}", outcome_condition(result.name, "skipped", "!="))
    return condition_link(record, f"{count:,}")


def _left_out(record: RunRecord, result: MetricResult) -> dict[str, str] | None:
    """The number of samples without a score, and why; of several reasons the number, and all in the note."""
    reasons: list[tuple[int, str, str]] = []
    totals = {"skipped": result.details.num_skipped, "failed": result.details.num_failed}
    for outcome, total in totals.items():
        found, word = result.details.reasons(outcome), "failed: " if outcome == "failed" else ""
        reasons += [(count, f"{word}{reason}", f"{outcome}:{reason}") for reason, count in found.items()]
        if total and not found:
            reasons.append((total, outcome, outcome))
    if not reasons:
        return None
    words = [f"{count:,} {reason.replace('_', ' ')}" for count, reason, _ in reasons]
    if len(reasons) == 1:
        return condition_link(record, words[0], outcome_condition(result.name, reasons[0][2]))
    text = f"{sum(count for count, _, _ in reasons):,}, {len(reasons)} reasons"
    return condition_link(record, text, outcome_condition(result.name, "scored", "!="), ", ".join(words))


# --- the tiles -------------------------------------------------------------------------------------------------------


def headline_tiles(run: StoredRun) -> list[dict[str, Any]]:
    """Primary metrics, then guardrails, then latency: at most six.

    A plan without guardrails has the rates of which less is better in their place; one without primary metrics the
    most important metrics of the run.
    """
    by_name = {result.name: result for result in run.results if result.defined}
    plan = run.record.plan
    latency = [result for result in by_name.values() if result.target is TargetCategory.LATENCY]
    latency = [*(result for result in latency if result.name.startswith("quantile_latency")), *latency][:1]
    primary = plan.get("primary") or rank_metrics(run.record, run.results)[:3]
    guardrails = plan.get("guardrails") or [name for name, result in by_name.items() if _is_loss_rate(run, result)]
    names = dict.fromkeys([*primary, *guardrails])
    found = [by_name[name] for name in names if name in by_name and by_name[name] not in latency]
    shown = [*found[: MAX_TILES - len(latency)], *latency]
    return [_tile(metric_row(run, result)) for result in shown]


def _is_loss_rate(run: StoredRun, result: MetricResult) -> bool:
    """Whether less is better of a proportion of all answers; causes are a proportion of the wrong ones."""
    less = not run.definitions[result.name].higher_is_better
    return less and is_proportion(result) and "causes" not in result.details


def _tile(row: dict[str, Any]) -> dict[str, Any]:
    name, _, rest = row["name"].partition("[")
    if name != "quantile_latency" or not rest.startswith("end_to_end,"):
        return row
    quantile = float(rest.removeprefix("end_to_end,").rstrip("]"))
    return row | {"title": f"latency, {100 * quantile:g} %"}


# --- beside the metrics: groups of queries, and settings -------------------------------------------------------------


def sliced_result(run: StoredRun, name: str) -> MetricResult | None:
    """The metric of the slices beside the table: the chosen one, else that of answers, else the main one."""
    answers = answers_result(run)
    wanted = (name, "" if answers is None else answers.name, run.main_metric)
    found = [run.find_result(metric) for metric in wanted]
    return next((result for result in found if result is not None and result.slices), None)


def slice_cards(run: StoredRun, result: MetricResult) -> Iterator[dict[str, Any]]:
    """A metric by the first slices, each with its best groups and the place of the value over all queries."""
    low, high = _scale(run, result)
    for name, parts in list(result.slices.items())[:MAX_SLICES]:
        label, rows = name.removeprefix(LABELS), []
        known = [(group, part) for group, part in parts.items() if part.defined]
        known.sort(key=lambda pair: pair[1].value, reverse=run.definitions[result.name].higher_is_better)
        for group, part in known[:MAX_GROUPS]:
            condition = "" if name == label else label_condition(label, group)
            rows.append(
                {
                    "link": condition_link(run.record, group, condition),
                    "value": metric_number(part, part.value),
                    "bar": value_bar(part, low, high),
                    "count": part.details.num_samples,
                    "is_uncertain": bool(interval_flags(part)),
                }
            )
        yield {
            "title": f"{display_name(result)} by {label}",
            "rows": rows,
            "num_more": len(known) - len(rows),
            "whole": (result.value - low) / (high - low) if result.defined and math.isfinite(high) else None,
        }


def label_condition(label: str, group: str) -> str:
    """The condition on a label."""
    return str(Condition("label", label, value=group))
