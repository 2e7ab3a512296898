"""Records of the store: runs, outputs, ids, the process of a run, settings of a stored plan."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.conventions import Conventions
from ..core.types import SystemOutputs
from ..errors import AueporaError, BadValueError
from ..runtime.processes import process_exists, process_name
from .connect import Record

if TYPE_CHECKING:
    from ..core.metrics_base import RunInfo

# --- ids of runs and results, and times in UTC -----------------------------------------------------------------------

RUN_PREFIX = "run_"
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: without I, L, O and U
_RANDOM_BITS = 80


_lock = threading.Lock()
_last = (0, 0)
"""The process of the last id and its number: a forked process must not continue the sequence of its parent."""


def new_run_id() -> str:
    """Return a new id: ``run_`` and a ULID of 26 characters, which sort by time and increase within a process."""
    global _last  # noqa: PLW0603 -- the sequence of this process
    fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
    with _lock:
        process, before = _last
        number = max(fresh, before + 1) if process == os.getpid() else fresh
        _last = os.getpid(), number
    return RUN_PREFIX + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def score_key(name: str, signature: str) -> str:
    """Return the key of a result within its run: a hash of name and signature. Stores contain it: never change it."""
    # Length prefixes make the pairs unambiguous.
    return hashlib.blake2b(f"{len(name)}:{name}{len(signature)}:{signature}".encode(), digest_size=16).hexdigest()


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_iso(moment: datetime) -> str:
    """Format a time with a fixed width, so that strings sort as times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_iso(text: str) -> datetime:
    """Parse a time of ``to_iso``."""
    return datetime.fromisoformat(text)


# --- the process of a run, and whether it still exists ---------------------------------------------------------------

HEARTBEAT_INTERVAL_S = 15.0
"""Seconds between two heartbeats of a run."""
_HEARTBEAT_TIMEOUT = timedelta(minutes=2)
"""Age of the last heartbeat after which a run on another host counts as interrupted; the clocks may differ by less."""


def this_process() -> str:
    """Return ``host:pid:start@heartbeat`` for this process, with the current time."""
    return f"{process_name()}@{to_iso(utc_now())}"


def is_this_process(process: str) -> bool:
    """Whether this is the text of this process, at any time."""
    return process.partition("@")[0] == process_name()


def is_running(process: str) -> bool:
    """Whether the process of a run still exists; one on another host does if its heartbeat is recent."""
    name, _, heartbeat = process.partition("@")
    exists = process_exists(name)
    if exists is None:
        return bool(heartbeat) and utc_now() - from_iso(heartbeat) < _HEARTBEAT_TIMEOUT
    return exists


OUTPUTS_DIGEST = "outputs_digest"
"""Beside the usage of a run that has ended: the digest of its outputs."""

# --- runs and outputs ------------------------------------------------------------------------------------------------


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended early, by the user or because too much failed; it can be resumed."""
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Stored as running, but its process is gone: it was killed, or its host failed. It can be resumed."""
    ELIMINATED = "eliminated"
    """Left a sweep before all of its samples were asked: another configuration is better."""


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
    """``host:pid:start@heartbeat``: the process that created or last resumed it, and when it last reported."""
    aggregate: dict[str, Any] | None = None
    message: str | None = None
    usage: dict[str, Any] | None = None
    """The judge usage, summed over all scorings: calls, tokens, cost."""
    judging: dict[str, Any] | None = None
    """The process and the judge usage of a scoring that has not ended, which ``usage`` does not include yet."""

    def require_finished(self) -> RunRecord:
        """This run; raises if it is not finished, so that nothing can be compared with it."""
        if self.status is not RunStatus.FINISHED:
            state = f"{self.run_id} is {self.status.value}, not finished"
            raise BadValueError(f"{state}; nothing can be compared with it yet")
        return self

    @property
    def status_text(self) -> str:
        """The status, of a run that left a sweep with the number of its samples: ``eliminated after 150``."""
        return self.message or self.status.value if self.status is RunStatus.ELIMINATED else self.status.value

    @property
    def is_rescored(self) -> bool:
        """Whether the run had ended and is scored again, or was when the process was killed."""
        return self.judging is not None and self.status not in (RunStatus.RUNNING, RunStatus.INTERRUPTED)

    @property
    def current_process(self) -> str:
        """The process that makes the run, or that rescores it."""
        return str((self.judging or {}).get("process", "")) if self.is_rescored else self.process

    @property
    def heartbeat(self) -> datetime | None:
        """When the current process last reported."""
        _, at, time_text = self.current_process.partition("@")
        return from_iso(time_text) if at else None


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """The output for one sample, with its position in the dataset and its repeat."""

    position: int
    repeat: int
    sample_id: str
    output: SystemOutputs
    text_keys: Sequence[str] | None = field(default=None, repr=False, compare=False)
    """After reading: the key of the text of each retrieved document; equal texts have equal keys."""


def record_from_row(row: Record) -> RunRecord:
    """Return the record of a row of ``eval_runs``; a running run whose process is gone is interrupted."""
    status = RunStatus(row["status"])
    if status is RunStatus.RUNNING and not is_running(row["process"]):
        status = RunStatus.INTERRUPTED
    usage = from_json(row["usage_json"] or "{}")
    judging = usage.pop("in_progress", None)
    usage.pop(OUTPUTS_DIGEST, None)
    return RunRecord(
        run_id=row["run_id"],
        name=row["name"],
        status=status,
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
        usage=usage or None,
        judging=judging,
    )


def to_json(value: object) -> str:
    """Encode a value as JSON; values of other types are converted to strings."""
    return msgspec.json.encode(value, enc_hook=plain_value).decode()


def plain_value(value: object) -> object:
    """Convert a value that JSON does not have: arrays and numbers of NumPy, any other as a string."""
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


# --- settings of a stored plan that affect scores: conventions, and how the system was called ------------------------


def plan_conventions(record: RunRecord) -> Conventions:
    """Return the conventions of a run's plan, with the way in which the gold of the run is matched."""
    choices = _convention_choices(record)
    name = choices.pop("name", "auepora")
    try:
        return Conventions.of(None if name == "auto" else name, **choices)
    except AueporaError:  # written by another version
        return Conventions.of()


def conventions_label(record: RunRecord, preset: str | None = None, *, match: str | None = None) -> str:
    """Return a label for the conventions of a run's plan, or for a preset; ``match`` replaces its way to match gold."""
    choices = _convention_choices(record) if preset is None else {"name": preset}
    if match is not None:
        choices["match"] = match
    name = str(choices.pop("name", "auepora"))
    if choices.get("match") == "id":
        del choices["match"]
    return ", ".join([name, *(f"{key} {value}" for key, value in choices.items())])


def _convention_choices(record: RunRecord) -> dict[str, Any]:
    """The conventions as a plan has them; a way to match gold that was resolved later is one of them."""
    named = record.plan.get("conventions") or "auepora"
    choices = dict(named) if isinstance(named, Mapping) else {"name": named}
    resolved = (record.plan.get("gold") or {}).get("resolved")
    return choices if resolved is None else {**choices, "match": resolved["match"]}


def run_info(record: RunRecord) -> RunInfo:
    """Return the settings of the run that affect scores; for saved outputs only the prices."""
    from ..core.metrics_base import RunInfo  # imports NumPy

    settings = record.plan.get("run") or {}
    prices = settings.get("prices")
    if "system" not in record.plan:
        return RunInfo(prices=prices)
    return RunInfo(top_k=settings.get("top_k"), concurrency=settings.get("concurrency"), prices=prices)
