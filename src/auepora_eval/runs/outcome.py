"""``RunOutcome``: how a run ended, with its results and gates."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..core.results import Results
from ..render.block_report import BlockReport
from ..render.blocks import Block, Prose
from ..render.short import failed_samples
from ..render.tables import results_blocks
from ..store.records import RunRecord

if TYPE_CHECKING:
    from ..gates import GateReport


@dataclass(frozen=True, slots=True)
class RunOutcome(BlockReport):
    """The outcome of a run."""

    record: RunRecord
    ended: Literal["finished", "stopped", "failed"]
    results: Results | None = field(repr=False, default=None)
    """``None`` if the run was not scored."""
    asked: int = 0
    """Number of outputs stored by this call."""
    failed: int = 0
    """Number of failures among them."""
    message: str = ""
    unreachable: bool = False
    """Whether it stopped because the system could not be reached, or because the first calls all failed in the same
    way; ``retry_failed`` retries those samples."""
    traceback: str = field(repr=False, default="")
    """The traceback of the user's code in the first call, where all first calls failed."""
    gates: GateReport | None = None
    """The outcome of the gates; ``None`` if the plan has none, or if the run was not scored."""
    report: Path | None = None
    """Path of the report, if the plan names one."""
    store: str | None = field(repr=False, default=None)
    """Path or address of the store, if known. Not in the repr, because it may contain a password."""
    counts: tuple[int, int] = (0, 0)
    """Number of outputs of the finished run, those of earlier calls included, and of failures among them."""

    @property
    def headline(self) -> str:
        """``baseline finished: 0 of 60 samples failed``, or why it ended early."""
        _, failed = failed_samples(self.counts, self.record.num_samples, self.record.repeats)
        return f"{self.record.name} {self.ended}: {self.message or failed}"

    def blocks(self) -> list[Block]:
        """How the run ended, its results and its gates."""
        results = [] if self.results is None else results_blocks(self.results)
        return [Prose(self.headline), *results, *([] if self.gates is None else self.gates.blocks())]

    def to_dict(self) -> dict[str, Any]:
        """The results document, with the id of the run, how it ended, and its gates."""
        document = {} if self.results is None else self.results.to_dict()
        gates = None if self.gates is None else self.gates.to_dict()
        return {**document, "run_id": self.record.run_id, "ended": self.ended, "message": self.message, "gates": gates}
