"""What a store knows of a run, and one output of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import RowMapping

from ..core.types import SystemOutputs
from .ids import from_iso

__all__ = [
    "RunRecord",
    "RunStatus",
    "StoredOutput",
    "clean_column_text",
    "from_json",
    "record_from_row",
    "sum_nested",
    "to_json",
]


class RunStatus(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    """Being made, or killed while it was: ``process`` says by whom."""
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended early, by the user or because too much failed; it can be resumed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run: who made it, when, of what, and how it stands."""

    run_id: str
    name: str
    status: RunStatus
    created_at: datetime
    finished_at: datetime | None
    plan: dict[str, Any]
    config: dict[str, Any]
    dataset_name: str
    fingerprint: str
    num_samples: int
    repeats: int
    commit: str | None
    tags: tuple[str, ...]
    version: str
    """The version of this library that made it."""
    process: str
    """``host:pid:start`` of who made it, or resumed it last."""
    aggregate: dict[str, Any] | None = None
    message: str | None = None
    usage: dict[str, Any] | None = None
    """What judging it took, over all times it was scored: calls, tokens, cost."""


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What came back for one sample: where it stands in the dataset, and which repetition it is."""

    position: int
    repeat: int
    sample_id: str
    output: SystemOutputs
    text_keys: Sequence[str] | None = field(default=None, repr=False, compare=False)
    """Of an output that was read: for each retrieved document the key of its text; equal texts have equal keys."""


def record_from_row(row: RowMapping) -> RunRecord:
    """The record in a row of ``eval_runs``."""
    return RunRecord(
        run_id=row["run_id"],
        name=row["name"],
        status=RunStatus(row["status"]),
        created_at=from_iso(row["created_at"]),
        finished_at=None if row["finished_at"] is None else from_iso(row["finished_at"]),
        plan=from_json(row["plan_json"]),
        config=from_json(row["config_json"]),
        dataset_name=row["dataset_name"],
        fingerprint=row["fingerprint"],
        num_samples=row["num_samples"],
        repeats=row["repeats"],
        commit=row["commit_hash"],
        tags=tuple(from_json(row["tags_json"])),
        version=row["version"],
        process=row["process"],
        aggregate=None if row["aggregate_json"] is None else from_json(row["aggregate_json"]),
        message=row["message"],
        usage=None if row["usage_json"] is None else from_json(row["usage_json"]),
    )


def to_json(value: object) -> str:
    """A value as JSON text; what JSON has not is written as its text."""
    return msgspec.json.encode(value, enc_hook=_to_json_default).decode()


def _to_json_default(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def from_json(text: str) -> Any:
    """The value again."""
    return msgspec.json.decode(text)


def sum_nested(held: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables of figures added up, by name, however deep; of what is no number, the second one's is taken."""
    made = dict(held)
    for name, value in more.items():
        old = made.get(name)
        if isinstance(value, Mapping):
            made[name] = sum_nested(old if isinstance(old, Mapping) else {}, value)
        elif isinstance(value, int | float) and isinstance(old, int | float) and not isinstance(value, bool):
            made[name] = old + value
        elif value is not None or name not in made:
            made[name] = value
    return made


def clean_column_text(text: str) -> str:
    """A text as every database can hold it in a column: no NUL, no half of a surrogate pair."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
