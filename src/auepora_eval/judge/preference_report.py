"""What became of a comparison by a judge: the verdict on every pair, and what they come to."""

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
    """Why nobody was asked, or why there is no judgement."""
    consistent: bool | None = None
    """Whether both orders led to the same verdict; ``None`` where nobody was asked."""
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
    """The share of pairs that B won, ties counted half; ``None`` where no pair was judged."""
    interval: Interval | None
    p_value: float | None
    """How often chance alone would make the win rate as far from a half: signs flipped by cluster."""
    bounds: tuple[float, float] | None
    """The win rate if B had lost, and if it had won, every pair the judge failed on."""
    first_rate: float | None
    """The share of verdicts other than ties that fell on the answer shown first; a half where order means nothing."""
    first_interval: Interval | None
    num_decided: int
    """How many verdicts were no tie, both orders of a pair counted apart."""
    queries: tuple[QueryPreference, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many pairs ended how; ``inconsistent`` are among the ties, ``flipped`` among those."""
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
        if ends[0] < 0.5 < ends[1]:  # the pairs the judge failed on could turn it round
            return "inconclusive"
        return "better" if self.win_rate > 0.5 else "worse"

    @property
    def order_decides(self) -> bool:
        """Whether the judge favours a position: a half lies outside the interval of its share."""
        found = self.first_interval
        return found is not None and not found.low <= 0.5 <= found.high

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
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
        """For people."""
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
        said: Mapping[str, str] = {"better": "preferred", "worse": "not preferred", "inconclusive": "inconclusive"}
        return said[self.verdict]


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.4f}" if interval is None else f"{value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
