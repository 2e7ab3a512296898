"""Results to MLflow."""

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

# What MLflow takes in one request, and how long a text may be (since 2.10).
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
    """Log results to an MLflow run; gives its id.

    ``results`` are those of an evaluation, the outcome of ``run_plan`` or ``run_system``, or a client's report.
    ``run`` is an MLflow run or its id; without, the active one, or else a new one that is ended again. A defined value
    is logged as ``recall_at_5``, its interval as ``…_low`` and ``…_high``, counts as ``…_n``, ``…_skipped``,
    ``…_failed``. What is not defined is left out and named in the tag ``auepora.undefined``.

    A run's dataset and configuration become params, with whatever ``params`` adds; of results from a store, ``record``
    brings them along. ``prefix``, such as ``"dev/"``, stands before every key, so that one run can hold several
    evaluations.
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
    """The id of the run that is meant; one that is started here is ended again."""
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
    own = {
        **{f"auepora.name.{key}": name for key, name in entries.names.items()},
        **{f"auepora.signature.{key}": signature for key, signature in entries.signatures.items()},
        **{f"auepora.{prefix}{key}": value for key, value in entries.facts.items()},
        # There even where it is empty: it takes back what an earlier evaluation of the same run said.
        f"auepora.{prefix}undefined": ", ".join(entries.undefined),
        **tags,
    }
    listed = [RunTag(key, _truncate(str(value), MAX_TAG_LENGTH)) for key, value in _keys(own, "").items()]
    client = mlflow.MlflowClient()
    # Params first: MLflow refuses those that contradict the run they go to, and then nothing else is there yet.
    for kind, values, size in (
        ("params", params, MAX_PARAMS),
        ("tags", listed, MAX_TAGS),
        ("metrics", metrics, MAX_METRICS),
    ):
        for some in _batches(values, size):
            client.log_batch(run_id, **{kind: some})


def _keys(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The values under keys that MLflow takes; two that would have the same are refused."""
    made: dict[str, Any] = {}
    for key, value in values.items():
        legal = _ILLEGAL_KEY_CHARACTERS.sub("_", f"{prefix}{key}")[:MAX_KEY_LENGTH]
        if legal in made:
            raise BadValueError(f"two parameters would be logged as '{legal}', one of them '{key}'; rename one of them")
        made[legal] = value
    return made


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _batches(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    coming = iter(values)
    while some := list(islice(coming, size)):
        yield some
