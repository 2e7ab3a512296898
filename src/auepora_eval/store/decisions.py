"""The decisions made on each dataset: comparisons, sweeps, gates and sequential designs.

A dataset that has decided many comparisons is no longer an independent test set. The store counts them by the
fingerprint of the dataset. A decision is recorded once: repeating it does not count again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import RowMapping, inspect, select, update

from .records import clean_column_text, from_iso, from_json, to_iso, utc_now
from .runs import RunStore
from .schema import decisions as decision_table
from .schema import insert_statement

DecisionKind = Literal["comparison", "sweep", "gate", "sequential", "labels"]
DESIGNS = ("sequential", "labels")
"""Kinds that are recorded before the first judgement or label; ``results`` of the body is missing until they decide."""
_INSERT = insert_statement(decision_table)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that was made on a dataset."""

    fingerprint: str
    key: str
    kind: DecisionKind
    recorded_at: datetime
    runs: tuple[str, ...]
    """Ids of the runs; they may have been deleted since."""
    metrics: tuple[str, ...]
    body: dict[str, Any]
    """Verdicts, or the design and the result of a sequential test."""


def decision_key(kind: DecisionKind, runs: Sequence[str], metrics: Sequence[str]) -> str:
    """Return the key of a decision: a hash of its kind, runs and metrics, in any order.

    A design has no metrics in its key, so that two runs have one design. Stores contain it: never change it.
    """
    words = [kind, *sorted(runs), *([] if kind in DESIGNS else ["", *sorted(metrics)])]
    text = "".join(f"{len(word)}:{word}" for word in words)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def record_decision(
    store: RunStore,
    fingerprint: str,
    kind: DecisionKind,
    runs: Sequence[str],
    metrics: Sequence[str],
    body: Mapping[str, Any],
    *,
    replace: bool = False,
) -> Decision:
    """Record a decision and return it as stored; one with the same key is kept, or its body replaced.

    The order of the runs is replaced with the body. Raises ``StoreError`` if the store is read-only.
    """
    key = decision_key(kind, runs, metrics)
    own = (decision_table.c.fingerprint == fingerprint) & (decision_table.c.decision_key == key)
    with store._database.write() as connection:
        values = (
            fingerprint,
            key,
            kind,
            to_iso(utc_now()),
            store._json(list(runs)),
            store._json([clean_column_text(name) for name in metrics]),
            store._json(dict(body)),
        )
        store._database.execute_many(connection, _INSERT, [values])
        if replace:
            changes = {"runs_json": values[4], "body_json": values[-1]}  # the verdict is about the runs in this order
            connection.execute(update(decision_table).where(own).values(changes))
        return _decision(connection.execute(select(decision_table).where(own)).mappings().one())


def decisions(
    store: RunStore, *, fingerprint: str | None = None, kind: DecisionKind | None = None, run_id: str | None = None
) -> list[Decision]:
    """Return the recorded decisions, oldest first: all, those on a dataset, of a kind, or about a run."""
    query = select(decision_table).order_by(decision_table.c.recorded_at, decision_table.c.decision_key)
    if fingerprint is not None:
        query = query.where(decision_table.c.fingerprint == fingerprint)
    if kind is not None:
        query = query.where(decision_table.c.kind == kind)
    with store._database.read() as connection:
        if store._database.read_only and not inspect(connection).has_table(decision_table.name):
            return []  # a read-only store of an earlier version
        found = [_decision(row) for row in connection.execute(query).mappings()]
    return found if run_id is None else [one for one in found if run_id in one.runs]


def _decision(row: RowMapping) -> Decision:
    return Decision(
        fingerprint=row["fingerprint"],
        key=row["decision_key"],
        kind=row["kind"],
        recorded_at=from_iso(row["recorded_at"]),
        runs=tuple(from_json(row["runs_json"])),
        metrics=tuple(from_json(row["metrics_json"])),
        body=from_json(row["body_json"]),
    )
