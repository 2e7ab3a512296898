"""Logging of results to Weights & Biases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.errors import MissingDependencyError
from .entries import LogEntries, build_entries

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from .entries import Loggable

__all__ = ["log_to_wandb"]


def log_to_wandb(
    results: Loggable,
    *,
    run: Any = None,
    project: str | None = None,
    prefix: str = "",
    step: int | None = None,
    record: RunRecord | None = None,
    params: Mapping[str, Any] | None = None,
) -> str:
    """Log results to a Weights & Biases run; returns its id.

    ``run`` is what ``wandb.init`` returned; by default the active one, or a new one in ``project`` that is finished
    afterwards. Numbers are named as in ``log_to_mlflow``. A run's dataset and configuration go into its config, with
    ``params``; so do, under ``auepora``, the names and signatures of the metrics and the list of undefined ones.
    """
    try:
        import wandb
    except ImportError as error:
        raise MissingDependencyError("wandb", purpose="log_to_wandb()", install="wandb") from error
    entries = build_entries(results, prefix=prefix, record=record, params=params)
    with _open_run(wandb, run, project, entries) as opened:
        auepora_config = {
            **entries.facts,
            "names": entries.names,
            "signatures": entries.signatures,
            "undefined": entries.undefined,
        }
        config = {f"{prefix}{key}": value for key, value in {**entries.params, "auepora": auepora_config}.items()}
        opened.config.update(config, allow_val_change=True)
        if entries.metrics:
            opened.log(entries.metrics, step=step)
        return str(opened.id)


@contextmanager
def _open_run(wandb: Any, run: Any, project: str | None, entries: LogEntries) -> Iterator[Any]:
    """The run to log to; a run that is started here is finished afterwards."""
    run = wandb.run if run is None else run
    if run is None:
        with wandb.init(project=project, name=entries.name) as started:
            yield started
    else:
        yield run
