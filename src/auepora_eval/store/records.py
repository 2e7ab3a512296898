"""Records of the store: a run, and one output of it."""

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
    """The status of a run."""

    RUNNING = "running"
    """Running, or killed while running: ``process`` identifies the process."""
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended early, by the user or because too much failed; it can be resumed."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run with its plan, dataset, status and times."""

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
    """The version of this library that created it."""
    process: str
    """``host:pid:start`` of the process that created or last resumed it."""
    aggregate: dict[str, Any] | None = None
    message: str | None = None
    usage: dict[str, Any] | None = None
    """The judge usage, summed over all scorings: calls, tokens, cost."""


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """The output for one sample, with its position in the dataset and its repeat."""

    position: int
    repeat: int
    sample_id: str
    output: SystemOutputs
    text_keys: Sequence[str] | None = field(default=None, repr=False, compare=False)
    """After reading: the key of the text of each retrieved document; equal texts have equal keys."""


def record_from_row(row: RowMapping) -> RunRecord:
    """Return the record of a row of ``eval_runs``."""
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
    """Encode a value as JSON; values of other types are converted to strings."""
    return msgspec.json.encode(value, enc_hook=_to_json_default).decode()


def _to_json_default(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def from_json(text: str) -> Any:
    """Decode JSON."""
    return msgspec.json.decode(text)


def sum_nested(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Add two nested mappings of numbers by key; for other values the second one is used."""
    total = dict(first)
    for name, value in second.items():
        old = total.get(name)
        if isinstance(value, Mapping):
            total[name] = sum_nested(old if isinstance(old, Mapping) else {}, value)
        elif isinstance(value, int | float) and isinstance(old, int | float) and not isinstance(value, bool):
            total[name] = old + value
        elif value is not None or name not in total:
            total[name] = value
    return total


def clean_column_text(text: str) -> str:
    """Return a string that every database can store: without NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
