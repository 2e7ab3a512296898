"""Helpers of commands that read stored runs: the option ``--store``, completion of runs, formatting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["complete_run", "conventions_label", "format_time", "open_store", "run_dict", "store_option"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def store_option(function: FunctionT) -> FunctionT:
    """Add ``--store`` to a command."""
    return click.option(
        "--store",
        metavar="PATH|URL",
        help="Store of the runs: an SQLite file or a PostgreSQL URL; default: $AUEPORA_STORE, else runs.sqlite.",
    )(function)


@contextmanager
def open_store(store: str | None, *, output: str | None = None) -> Iterator[RunStore]:
    """Open an existing store; raises if ``output`` would overwrite it."""
    from ..running.plans import default_store
    from ..store.runs import RunStore
    from .output import refuse_input_as_output

    where = default_store(store)
    refuse_input_as_output(output, [where])
    with RunStore.open(where, create=False) as found:
        yield found


def complete_run(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Run ids and names for shell completion; empty if there is no store."""
    from ..core.errors import AueporaError

    try:
        with open_store(context.params.get("store")) as store:
            records = store.runs(limit=200)
    except AueporaError:
        return []
    names = [one for record in records for one in (record.run_id, record.name)]
    return [one for one in dict.fromkeys(["latest", *names]) if one.startswith(incomplete)]


def run_dict(record: RunRecord, store: RunStore) -> dict[str, Any]:
    """A run as a JSON-compatible dict."""
    done, failed = store.counts(record.run_id)
    return {
        "run_id": record.run_id,
        "name": record.name,
        "status": record.status.value,
        "message": record.message,
        "created_at": record.created_at.isoformat(),
        "finished_at": None if record.finished_at is None else record.finished_at.isoformat(),
        "dataset": record.dataset_name,
        "fingerprint": record.fingerprint,
        "num_samples": record.num_samples,
        "repeats": record.repeats,
        "outputs": done,
        "failed": failed,
        "commit": record.commit,
        "config": record.config,
        "usage": record.usage,
        "tags": list(record.tags),
        "version": record.version,
        "plan": record.plan,
    }


def conventions_label(record: RunRecord) -> str:
    """The conventions of the plan of a run, as text."""
    from ..store.stored_plan import conventions_label

    return conventions_label(record)


def format_time(moment: datetime | None) -> str:
    """A time as text, in UTC."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"
