"""The card of a comparison: primary metrics on one scale, what got worse on its own, the others folded; leaderboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..compare.runs import Leaderboard, LeaderboardMetric
from ..compare.types import MetricComparison
from ..core.metrics_base import BatchMetric
from ..core.registry import metric as registered
from ..core.results import UNITS
from ..core.targets import TARGETS
from ..errors import AueporaError
from ..features.matching import MATCH_WORDS
from ..render.html import interval_text, metric_range, seconds_text, value_text
from ..render.tables import format_value
from ..store.records import RunRecord, plan_conventions
from .numbers import MINUS, decimals_of, with_minus

GLYPHS = {"better": "▲", "worse": "▼", "equal": "=", "open": "◇"}
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
"""The distances of the marks of an axis."""
MAX_TICKS = 4


CardRow = dict[str, Any]
"""A metric of the card, as the template shows it."""


def comparison_card(board: Leaderboard, main: str | None) -> dict[str, Any]:
    """The card of two runs; the main metric is the first of the primary ones."""
    usual = Counter(comparison.n for comparison in board.comparisons).most_common(1)
    usual_n = usual[0][0] if usual else 0
    rows = {metric.name: _card_row(metric, metric.pairs[0].comparison, usual_n) for metric in board.metrics}
    named = [metric.name for metric in board.metrics if metric.primary]
    primary = [name for name in named if name == main] + [name for name in named if name != main]
    guarded = [guardrail.metric for guardrail in board.guardrails if guardrail.state == "worse"]
    fallen = [name for name in dict.fromkeys([*guarded, *board.fallen]) if name in rows and name not in primary]
    groups = []
    for target, entry in TARGETS.items():
        own = [metric.name for metric in board.metrics if metric.target == target.name and metric.name not in primary]
        shown = [name for name in own if same_metric(name) not in rows]
        if shown:
            found = Counter(rows[name]["tone"] for name in shown)
            counts = [(tone, glyph, found[tone]) for tone, glyph in GLYPHS.items() if found[tone]]
            groups.append(_group(entry.title, [rows[name] for name in shown]) | {"counts": counts})
    return {
        "primary": _group("Primary metrics", [rows[name] for name in primary]),
        "fallen": _group("Got worse", [rows[name] for name in fallen]),
        "groups": groups,
    }


LeaderCells = list[dict[str, Any]]
"""The values of the runs in a leaderboard, each with what it is compared with the first run."""


def leaderboard_card(
    board: Leaderboard, main: str | None
) -> list[tuple[str, list[tuple[LeaderboardMetric, LeaderCells]]]]:
    """The metrics of three or more runs under their titles: the primary ones first, then those of each target."""
    titles = {target.name: entry.title for target, entry in TARGETS.items()}
    groups: dict[str, list[tuple[LeaderboardMetric, LeaderCells]]] = {"Primary metrics": []}
    groups |= {title: [] for title in titles.values()}
    first = [metric for metric in board.metrics if metric.name == main]
    for metric in [*first, *(metric for metric in board.metrics if metric.name != main)]:
        title = "Primary metrics" if metric.primary else titles[metric.target]
        groups[title].append((metric, _leader_cells(metric)))
    return [(title, rows) for title, rows in groups.items() if rows]


def _leader_cells(metric: LeaderboardMetric) -> LeaderCells:
    against_first = {pair.second: pair.comparison for pair in metric.pairs if pair.first == 0}
    unbeaten = metric.unbeaten() if metric.primary else []
    cells: LeaderCells = []
    for run, value in enumerate(metric.values):
        comparison = against_first.get(run, metric.pairs[0].comparison)
        text = "–" if value is None else _shown(metric.pairs[0].comparison, value)
        difference = _card_row(metric, comparison, comparison.n) if run else None
        # No other run is significantly better, where that sets some of them apart.
        is_unbeaten = run in unbeaten and len(unbeaten) < len(metric.values)
        cells.append({"value": text, "is_unbeaten": is_unbeaten, "difference": difference})
    return cells


def gold_fact(board: Leaderboard, records: Sequence[RunRecord]) -> str:
    """How gold was matched; empty without metrics of retrieval."""
    if not any(metric.target.startswith("RETRIEVAL") for metric in board.metrics):
        return ""
    changed = {comparison.match for comparison in board.comparisons if comparison.match is not None}
    ways = [MATCH_WORDS[plan_conventions(record).match] for record in records]
    if not changed:
        return f"Gold is matched by {' and '.join(dict.fromkeys(ways))}"
    words = " and ".join(sorted(MATCH_WORDS[way] for way in changed))
    stored = " and ".join(dict.fromkeys(ways))
    return f"Gold is matched by {words} in all runs, recomputed from stored outputs; the stored results have {stored}"


def same_metric(name: str) -> str:
    """The metric that another one is a function of, such as ``support_density``; empty where it is of none."""
    try:
        known = registered(name)
    except AueporaError:  # a user's metric
        return ""
    decides = known.metadata.function_of if isinstance(known, BatchMetric) else None
    return name.replace(name.partition("@")[0].partition("[")[0], decides, 1) if decides else ""


def _group(title: str, rows: Sequence[CardRow]) -> dict[str, Any]:
    """The rows with one scale in percent, from the least to the greatest end of their intervals, and 0."""
    values = [0.0]
    for row in rows:
        values += row["ends"]
    low, high = min(values), max(values)
    step = next((step for step in STEPS if (high - low) / step <= MAX_TICKS - 1), STEPS[-1])
    first, last = int(low // step), -int(-high // step)
    last = max(last, first + 1)

    def places(found: Sequence[float]) -> list[float]:
        return [round(100 * (value / step - first) / (last - first), 2) for value in found]

    marks = [number * step for number in range(first, last + 1)]
    texts = [with_minus(f"{mark:+g}") for mark in marks]
    texts[-first] = "0"
    placed = [row | {"places": places(row["ends"])} for row in rows]
    return {"title": title, "rows": placed, "ticks": list(zip(places(marks), texts, strict=True))}


def _card_row(metric: LeaderboardMetric, comparison: MetricComparison, usual_n: int) -> CardRow:
    """What two runs have of a metric; ``ends`` are those of the interval and the difference, where a scale has them."""
    first, last, difference = comparison.a, comparison.b, comparison.delta
    values = "–" if first is None or last is None else f"{_shown(comparison, first)} → {_shown(comparison, last)}"
    if comparison.n != usual_n:
        values += f" · n = {comparison.n:,}"
    interval = comparison.shown_interval
    note = f"{value_text(first)} → {value_text(last)}, difference {value_text(difference)}"
    note += f", 95 % interval {interval_text(interval)}" if interval is not None else ""
    ends: list[float] = []
    if difference is not None and _is_proportion(comparison):
        low, high = interval or (difference, difference)
        ends = [low, difference, high]
    tone = _tone(comparison)
    return {
        "name": metric.name,
        "label": metric.label,
        "is_lower_better": metric.higher_is_better is False,
        "values_text": values,
        "difference": "–" if difference is None else _signed(comparison, difference),
        "tone": tone,
        "glyph": GLYPHS[tone],
        "note": f"{note}, n = {comparison.n:,}",  # the numbers with all digits
        "interval": "" if interval is None else " – ".join(_shown(comparison, end) for end in interval),
        "ends": ends,
        # of durations and the like, how many times the value of the first run
        "ratio": f"× {last / first:.3g}" if first and last and not _is_proportion(comparison) else "",
    }


def _is_proportion(comparison: MetricComparison) -> bool:
    return metric_range(comparison.name) == (0.0, 1.0)


def _shown(comparison: MetricComparison, value: float) -> str:
    """A number of a metric: with the digits that the interval of the difference allows, or a unit."""
    if UNITS.get(comparison.name.partition("[")[0].partition("@")[0]) == "s":
        return with_minus(seconds_text(value))
    if not _is_proportion(comparison):
        return with_minus(format_value(value))
    return with_minus(f"{value:.{decimals_of(comparison.shown_interval)}f}")


def _signed(comparison: MetricComparison, value: float) -> str:
    text = _shown(comparison, abs(value))
    if not any(digit in text for digit in "123456789"):
        return "0"
    return f"{'+' if value > 0 else MINUS}{text}"


def _tone(comparison: MetricComparison) -> str:
    """The verdict on a primary metric; of another one the direction of an interval without 0."""
    if comparison.primary:
        return comparison.verdict if comparison.verdict in GLYPHS else "open"
    if comparison.higher_is_better is None or comparison.interval is None or comparison.delta is None:
        return "open"
    if comparison.interval[0] <= 0 <= comparison.interval[1]:
        return "equal" if comparison.delta == 0 else "open"
    return "better" if (comparison.delta > 0) == comparison.higher_is_better else "worse"
