"""Gate outcomes with reasons, and the gate report with its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["GateOutcome", "GateReport", "GateStatus"]

SCHEMA = 1

GateStatus = Literal["passed", "failed", "inconclusive"]
_EXIT_CODES: dict[GateStatus, int] = {"passed": 0, "failed": 1, "inconclusive": 3}


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The outcome of one gate."""

    gate: str
    """Its text."""
    status: GateStatus
    reason: str
    """One sentence with the numbers."""
    metric: str | None = None
    value: float | None = None
    """The number that decided: a value, a difference, a proportion."""
    implied: bool = False
    """Whether it is the default coverage gate of a gated metric, which the user did not write."""
    warning: str | None = None
    """A caveat of the outcome."""


@dataclass(frozen=True, slots=True)
class GateReport:
    """The outcomes of all gates of a run."""

    outcomes: tuple[GateOutcome, ...]
    run_id: str | None = None
    against: str | None = None
    """The run it was compared with."""

    def __iter__(self) -> Iterator[GateOutcome]:
        return iter(self.outcomes)

    @property
    def status(self) -> GateStatus:
        """``failed`` where any gate failed, else ``inconclusive`` where any is, else ``passed``."""
        statuses = {one.status for one in self.outcomes}
        return "failed" if "failed" in statuses else "inconclusive" if "inconclusive" in statuses else "passed"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 inconclusive."""
        return _EXIT_CODES[self.status]

    @property
    def visible_outcomes(self) -> list[GateOutcome]:
        """The outcomes to show: all written gates, and implied ones that did not pass."""
        return [one for one in self.outcomes if not one.implied or one.status != "passed"]

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings."""
        return list(dict.fromkeys(one.warning for one in self.outcomes if one.warning is not None))

    @property
    def headline(self) -> str:
        """``3 gates: 2 passed, 1 failed``."""
        counts = {status: sum(one.status == status for one in self.visible_outcomes) for status in _EXIT_CODES}
        summary = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        n = len(self.visible_outcomes)
        return f"{n} gate{'s' * (n != 1)}: {summary}" if n else "no gates"

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON-compatible dictionary (schema 1)."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "against": self.against,
            "status": self.status,
            "gates": [asdict(one) for one in self.outcomes],
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)
