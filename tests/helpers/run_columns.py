"""Columns of a stored run that are set directly, as another process or version would have left them."""

from collections.abc import Mapping
from typing import Any

from auepora_eval.store.rows import update_run
from auepora_eval.store.runs import RunStore


def set_run_columns(store: RunStore, run_id: str, values: Mapping[str, Any]) -> None:
    """Set columns of the row of a run."""
    with store._writing() as connection:
        update_run(connection, run_id, values)
