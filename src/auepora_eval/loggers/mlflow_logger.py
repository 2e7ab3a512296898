"""Logging of results to MLflow."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..core.errors import BadValueError, MissingDependencyError
from .entries import LogEntries, build_entries, flatten

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from .entries import Loggable

__all__ = ["log_to_mlflow"]

# MLflow's limits for one request, and for the length of values (since 2.10).
MAX_METRICS, MAX_PARAMS, MAX_TAGS = 1000, 100, 100
MAX_PARAM_LENGTH, MAX_TAG_LENGTH, MAX_KEY_LENGTH = 6000, 5000, 250
_ILLEGAL_KEY_CHARACTERS = re.compile(r"[^A-Za-z0-9_./ -]")


def log_to_mlflow(
    results: Loggable,
    *,
    run: Any = None,
    prefix: str = "",
    step: int | None = None,
    record: RunRecord | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Log results to an MLflow run; returns its id.

    ``results`` are those of an evaluation, the outcome of ``run_plan`` or ``run_system``, or a client's report.
    ``run`` is an MLflow run or its id; by default the active one, or a new one that is ended afterwards.
    A defined value is logged as ``recall_at_5``, its interval as ``…_low`` and ``…_high``, counts as ``…_n``,
    ``…_skipped``, ``…_failed``. Undefined metrics are left out and listed in the tag ``auepora.undefined``.

    A run's dataset and configuration become params, together with ``params``; for results from a store, give the
    ``record``. ``prefix``, such as ``"dev/"``, is put before every key, so that one run can hold several evaluations.
    """
    try:
        import mlflow
    except ImportError as error:
        raise MissingDependencyError("mlflow", purpose="log_to_mlflow()", install="mlflow") from error
    entries = build_entries(results, prefix=prefix, record=record, params=params)
    with _run_id(mlflow, run, entries) as run_id:
        _log(mlflow, run_id, entries, prefix=prefix, step=step or 0, tags=tags or {})
    return run_id


@contextmanager
def _run_id(mlflow: Any, run: Any, entries: LogEntries) -> Iterator[str]:
    """The id of the run to log to; a run that is started here is ended afterwards."""
    run = mlflow.active_run() if run is None else run
    if run is None:
        with mlflow.start_run(run_name=entries.name) as started:
            yield started.info.run_id
    else:
        yield run if isinstance(run, str) else run.info.run_id


def _log(mlflow: Any, run_id: str, entries: LogEntries, *, prefix: str, step: int, tags: Mapping[str, str]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    metrics = [Metric(key, value, now, step) for key, value in entries.metrics.items()]
    params = [
        Param(key, _truncate(str(value), MAX_PARAM_LENGTH))
        for key, value in _keys(flatten(entries.params), prefix).items()
    ]
    auepora_tags = {
        **{f"auepora.name.{key}": name for key, name in entries.names.items()},
        **{f"auepora.signature.{key}": signature for key, signature in entries.signatures.items()},
        **{f"auepora.{prefix}{key}": value for key, value in entries.facts.items()},
        # Written even if empty: it replaces the tag of an earlier evaluation of the same run.
        f"auepora.{prefix}undefined": ", ".join(entries.undefined),
        **tags,
    }
    run_tags = [RunTag(key, _truncate(str(value), MAX_TAG_LENGTH)) for key, value in _keys(auepora_tags, "").items()]
    client = mlflow.MlflowClient()
    # Params first: MLflow rejects params that contradict the run, and then nothing else has been logged.
    for kind, values, size in (
        ("params", params, MAX_PARAMS),
        ("tags", run_tags, MAX_TAGS),
        ("metrics", metrics, MAX_METRICS),
    ):
        for batch in _batches(values, size):
            client.log_batch(run_id, **{kind: batch})


def _keys(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The values under keys that MLflow accepts; two values with the same key are an error."""
    legal_values: dict[str, Any] = {}
    for key, value in values.items():
        legal = _ILLEGAL_KEY_CHARACTERS.sub("_", f"{prefix}{key}")[:MAX_KEY_LENGTH]
        if legal in legal_values:
            raise BadValueError(f"two parameters would be logged as '{legal}', one of them '{key}'; rename one of them")
        legal_values[legal] = value
    return legal_values


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _batches(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
