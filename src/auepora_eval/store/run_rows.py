"""Rows of runs: list, find by id, prefix or name, and update."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from ..core.errors import BadValueError, UnknownRunError, did_you_mean
from .ids import RUN_PREFIX
from .records import RunRecord, RunStatus, clean_column_text, from_json, record_from_row
from .schema import runs

__all__ = [
    "PERTURBED_TAG",
    "REPLAY_TAG",
    "claim_run",
    "find_run",
    "get_run",
    "list_runs",
    "require_run",
    "unknown_run_error",
    "update_run",
]

REPLAY_TAG = "replay"
"""The tag of runs that replay the documents of another run."""
PERTURBED_TAG = "perturbed"
"""The tag of runs with perturbed documents."""
_LATEST = re.compile(r"latest(?:~(\d+))?")
_MAX_LISTED = 8


def list_runs(
    connection: Connection,
    *,
    name: str | None = None,
    tag: str | None = None,
    status: RunStatus | str | None = None,
    dataset: str | None = None,
    limit: int | None = None,
) -> list[RunRecord]:
    """Return the matching runs, newest first."""
    query = select(runs).order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
    if name is not None:
        query = query.where(runs.c.name == clean_column_text(name))
    if status is not None:
        query = query.where(runs.c.status == _status(status))
    if dataset is not None:
        query = query.where(runs.c.dataset_name == clean_column_text(dataset))
    if limit is not None and tag is None:
        query = query.limit(limit)
    found = map(record_from_row, connection.execute(query).mappings())
    matching = [record for record in found if tag is None or tag in record.tags]
    return matching if limit is None else matching[:limit]


def _status(status: RunStatus | str) -> str:
    try:
        return RunStatus(status).value
    except ValueError:
        known = ", ".join(one.value for one in RunStatus)
        raise BadValueError(f"unknown status {status!r}; choose one of: {known}") from None


def _has_id(run_id: str) -> ColumnElement[bool]:
    """Return the condition for a run with that id."""
    return runs.c.run_id == clean_column_text(run_id)


def get_run(connection: Connection, run_id: str, *, to_change: bool = False) -> RunRecord:
    """Return the run with that id; with ``to_change`` its row is locked."""
    query = select(runs).where(_has_id(run_id))
    row = connection.execute(query.with_for_update() if to_change else query).mappings().one_or_none()
    if row is None:
        raise unknown_run_error(run_id)
    return record_from_row(row)


def require_run(connection: Connection, run_id: str) -> None:
    """Raise if there is no run with that id: it may have been deleted."""
    if connection.execute(select(runs.c.run_id).where(_has_id(run_id))).first() is None:
        raise unknown_run_error(run_id)


def update_run(connection: Connection, run_id: str, **values: Any) -> None:
    """Update columns of a run."""
    if connection.execute(update(runs).where(_has_id(run_id)).values(**values)).rowcount == 0:
        raise unknown_run_error(run_id)


def claim_run(connection: Connection, run_id: str, owner: str, **values: Any) -> bool:
    """Update columns of a run if it still belongs to a process; return whether it did."""
    query = update(runs).where(_has_id(run_id), runs.c.process == owner).values(**values)
    return connection.execute(query).rowcount > 0


def unknown_run_error(text: str, hint: str = "; `auepora runs` lists them all") -> UnknownRunError:
    """Return the error for an unknown run."""
    return UnknownRunError(f"no run is called '{text}'{hint}")


def find_run(connection: Connection, text: str) -> RunRecord:
    """Find a run by id, prefix of an id, name (the latest), ``latest`` or ``latest~1``.

    Replays and perturbed runs do not evaluate the system itself: ``latest`` skips them, and so does a name that another
    run has.
    """
    columns = select(runs.c.run_id, runs.c.name, runs.c.tags_json)
    newest_first = columns.order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
    rows = [
        (run_id, name, _is_replay_or_perturbed(from_json(tags)))
        for run_id, name, tags in connection.execute(newest_first)
    ]
    known = [(run_id, name) for run_id, name, _ in rows]
    if not known:
        raise UnknownRunError(f"no run is called '{text}': the store holds no runs yet")
    ids = [run_id for run_id, _ in known]
    offset = _LATEST.fullmatch(text)
    if text in ids:
        chosen = text
    elif offset is not None:
        chosen = _nth_latest(text, int(offset[1] or 0), [run_id for run_id, _, trial in rows if not trial], len(ids))
    elif any(name == text for _, name in known):
        named = [(trial, run_id) for run_id, name, trial in rows if name == text]
        chosen = min(named, key=lambda one: one[0])[1]  # the newest, regular runs first
    else:
        chosen = _find_by_prefix(text, known)
    return get_run(connection, chosen)


def _is_replay_or_perturbed(tags: list[str]) -> bool:
    """Whether a run is a replay or perturbed."""
    return REPLAY_TAG in tags or PERTURBED_TAG in tags


def _nth_latest(text: str, steps: int, ids: list[str], total: int) -> str:
    """Return the run ``steps`` before the latest one, without replays and perturbed runs."""
    if steps < len(ids):
        return ids[steps]
    note = f", {total - len(ids)} of them replays or perturbed, which do not count" if total > len(ids) else ""
    raise UnknownRunError(f"'{text}' goes back too far: the store holds {total} runs{note}")


def _find_by_prefix(text: str, known: list[tuple[str, str]]) -> str:
    start = text.lower()
    starts = (start, RUN_PREFIX + start)
    found = [(run_id, name) for run_id, name in known if start and run_id.lower().startswith(starts)]
    if len(found) == 1:
        return found[0][0]
    if found:
        listed = ", ".join(f"{run_id} ({name})" for run_id, name in found[:_MAX_LISTED])
        more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        raise UnknownRunError(f"'{text}' may be any of {len(found)} runs: {listed}{more}; write more of the id")
    names = {name for _, name in known} | {run_id for run_id, _ in known}
    raise unknown_run_error(text, did_you_mean(text, names, otherwise="; `auepora runs` lists them all"))
