"""Report of a pairwise comparison: the verdict on every pair, and their summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..stats.interval import Interval

__all__ = ["PreferenceReport", "QueryPreference"]

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class QueryPreference:
    """The verdict on one pair of answers."""

    sample_id: str
    verdict: str
    """``a``, ``b``, ``tie``, ``failed`` (the judge gave no judgement) or ``skipped``."""
    reason: str = ""
    """Why no call was made, or why it failed."""
    consistent: bool | None = None
    """Whether both orders led to the same verdict; ``None`` if no call was made."""
    a_first: str | None = None
    """``first``, ``second`` or ``tie``, with A's answer shown first."""
    b_first: str | None = None
    """The same with B's answer shown first."""


@dataclass(frozen=True, slots=True)
class PreferenceReport:
    """How often the answers of B were preferred to those of A."""

    names: tuple[str, str]
    critic: str
    prompt: str
    win_rate: float | None
    """Proportion of pairs that B won, ties counted half; ``None`` if no pair was judged."""
    interval: Interval | None
    p_value: float | None
    """Of a permutation test that flips signs by cluster: is the win rate 0.5?"""
    bounds: tuple[float, float] | None
    """Win rate if B had lost, and if it had won, every pair on which the judge failed."""
    first_rate: float | None
    """Proportion of verdicts, ties excluded, for the answer shown first; 0.5 without position bias."""
    first_interval: Interval | None
    num_decided: int
    """Number of verdicts that are not ties, counting both orders of a pair."""
    queries: tuple[QueryPreference, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Pairs by outcome; ``inconsistent`` ones are among the ties, ``flipped`` among the inconsistent."""
        verdicts = Counter(one.verdict for one in self.queries)
        reasons = Counter(one.reason for one in self.queries if one.reason)
        return {
            "a_wins": verdicts["a"],
            "b_wins": verdicts["b"],
            "ties": verdicts["tie"],
            "inconsistent": sum(one.consistent is False for one in self.queries),
            "flipped": sum({one.a_first, one.b_first} in ({"first"}, {"second"}) for one in self.queries),
            "judge_failed": verdicts["failed"],
            "skipped": verdicts["skipped"],
            **{f"because_{reason}": count for reason, count in sorted(reasons.items())},
        }

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``inconclusive``: B against A."""
        if self.win_rate is None or self.p_value is None or self.p_value >= ALPHA:
            return "inconclusive"
        ends = self.bounds or (self.win_rate, self.win_rate)
        if ends[0] < 0.5 < ends[1]:  # the pairs on which the judge failed could reverse it
            return "inconclusive"
        return "better" if self.win_rate > 0.5 else "worse"

    @property
    def order_decides(self) -> bool:
        """Whether the judge has a position bias: 0.5 lies outside the interval of the first position's rate."""
        interval = self.first_interval
        return interval is not None and not interval.low <= 0.5 <= interval.high

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "schema": 1,
            "a": self.names[0],
            "b": self.names[1],
            "critic": self.critic,
            "prompt": self.prompt,
            "verdict": self.verdict,
            "win_rate": self.win_rate,
            "interval": _ends(self.interval),
            "p_value": self.p_value,
            "bounds": None if self.bounds is None else list(self.bounds),
            "counts": self.counts,
            "position": {
                "first_rate": self.first_rate,
                "interval": _ends(self.first_interval),
                "num_decided": self.num_decided,
                "order_decides": self.order_decides,
            },
            "per_query": [asdict(one) for one in self.queries],
        }

    def to_markdown(self) -> str:
        """The report as Markdown."""
        a, b = self.names
        counts = self.counts
        rows = [
            (f"{b} wins", str(counts["b_wins"])),
            (f"{a} wins", str(counts["a_wins"])),
            ("ties", f"{counts['ties']}, {counts['inconsistent']} of them because the order changed the verdict"),
            (f"win rate of {b}", _with_interval(self.win_rate, self.interval)),
            ("p-value", "n/a" if self.p_value is None else f"{self.p_value:.4f}"),
            ("first position wins", _with_interval(self.first_rate, self.first_interval)),
        ]
        if counts["judge_failed"] and self.bounds is not None:
            low, high = self.bounds
            rows.append(("judge failed", f"{counts['judge_failed']}, so the win rate lies in [{low:.4f}, {high:.4f}]"))
        if counts["skipped"]:
            rows.append(("skipped", f"{counts['skipped']} without an answer to compare"))
        lines = [f"# {b} against {a}: {self._sentence()}", "", "| | |", "|---|---|"]
        lines += [f"| {label} | {value} |" for label, value in rows]
        if self.order_decides:
            lines += ["", "The judge favours a position. Both orders were asked, so that neither system gains by it."]
        lines += ["", f"Judged by {self.critic} with the prompt {self.prompt}."]
        return "\n".join(lines) + "\n"

    def _sentence(self) -> str:
        wording: Mapping[str, str] = {"better": "preferred", "worse": "not preferred", "inconclusive": "inconclusive"}
        return wording[self.verdict]


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if interval is None else f"{value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
