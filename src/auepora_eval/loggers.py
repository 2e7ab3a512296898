"""Logging of results to experiment trackers: MLflow, Weights & Biases."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .core.results import Results, to_json_value
from .core.types import MetricResult
from .errors import BadTypeError, BadValueError, MissingDependencyError
from .runtime.secrets import redact_by_name

if TYPE_CHECKING:
    from .client import ClientReport
    from .runs.outcome import RunOutcome
    from .store.records import RunRecord

    Loggable = Results | RunOutcome | ClientReport | Iterable[MetricResult]

# --- metric names that experiment trackers accept --------------------------------------------------------------------

_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_PREFIX = re.compile(r"[A-Za-z0-9_./-]*")


def legal_name(name: str) -> str:
    """A name of letters, digits and underscores only, which every tracker accepts.

    ``@`` becomes ``_at_``; brackets, commas and all other characters become ``_``, stripped at both ends.

    >>> legal_name("recall@5"), legal_name("quantile_latency[end_to_end,0.95]")
    ('recall_at_5', 'quantile_latency_end_to_end_0_95')
    """
    legal = _ILLEGAL_CHARACTERS.sub("_", name.replace("@", "_at_")).strip("_")
    if not legal:
        raise BadValueError(f"the metric name {name!r} has no letter a to z and no digit; rename it (`as:`)")
    return f"_{legal}" if legal[0].isdigit() else legal


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """The legal name of each metric; two metrics with the same one are an error."""
    taken: dict[str, str] = {}
    for name in names:
        legal = legal_name(name)
        if legal in taken:
            which = f"'{taken[legal]}' and '{name}'" if taken[legal] != name else f"two metrics called '{name}'"
            raise BadValueError(f"{which} would both be logged as '{legal}'; give one of them another name (`as:`)")
        taken[legal] = name
    return {name: legal for legal, name in taken.items()}


# --- log entries: defined numbers, signatures, parameters of the run -------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogEntries:
    """The entries for a tracker; every name is legal, and every key has the prefix."""

    name: str | None
    """The name of the run, where it is known."""
    metrics: dict[str, float]
    params: dict[str, Any]
    names: dict[str, str]
    """The metric name of each logged name."""
    signatures: dict[str, str]
    """The signature of each logged name."""
    undefined: list[str]
    """The metrics without a value; nothing is logged for them."""
    facts: dict[str, str]
    """Version of this library, and the id of a stored run."""


def build_entries(
    loggable: Loggable, *, prefix: str = "", record: RunRecord | None = None, params: Mapping[str, Any] | None = None
) -> LogEntries:
    """Build the log entries of results, of a run's outcome or of a client's report."""
    if not _PREFIX.fullmatch(prefix):
        raise BadValueError(f"the prefix {prefix!r} may contain only letters, digits and _ . / -, such as 'dev/'")
    results, own_record = _results_and_record(loggable)
    record = record if record is not None else own_record
    legal = legal_names(result.name for result in results)
    names = {name: f"{prefix}{legal_name}" for name, legal_name in legal.items()}
    metrics: dict[str, float] = {}
    for result in results:
        for key, value in _numbers(result, names[result.name]):
            if key in metrics:
                raise BadValueError(
                    f"two numbers would be logged as '{key}', one of them of '{result.name}'; "
                    "give one of the metrics another name (`as:`)"
                )
            metrics[key] = value
    run_id = results.run_id if record is None else record.run_id
    return LogEntries(
        name=None if record is None else record.name,
        metrics=metrics,
        params=_params(record, params),
        names={legal: name for name, legal in names.items()},
        signatures={names[result.name]: result.signature for result in results if result.signature},
        undefined=[result.name for result in results if not _is_defined(result)],
        facts={"version": __version__, **({} if run_id is None else {"run_id": run_id})},
    )


def _results_and_record(loggable: Any) -> tuple[Results, RunRecord | None]:
    """The results, and the stored record of their run where there is one."""
    if isinstance(loggable, Results):
        return loggable, None
    if hasattr(loggable, "results"):
        if loggable.results is None:
            raise BadValueError("there are no results to log: the run was not scored")
        return loggable.results, getattr(loggable, "record", None)
    listed = list(loggable) if isinstance(loggable, Iterable) else [loggable]
    if not all(isinstance(result, MetricResult) for result in listed):
        raise BadTypeError(f"log the results of an evaluation or of a run, not a {type(loggable).__name__}")
    return Results(listed), None


def _is_defined(result: MetricResult) -> bool:
    return result.defined and math.isfinite(result.value)


def _numbers(result: MetricResult, name: str) -> Iterable[tuple[str, float]]:
    """The value, its interval and its counts where present; failures and skips only if there are any."""
    if _is_defined(result):
        yield name, float(result.value)
        for end, value in zip(("low", "high"), result.interval or (), strict=False):
            if math.isfinite(value):
                yield f"{name}_{end}", float(value)
    for suffix, key, always in (("n", "samples", True), ("skipped", "skipped", False), ("failed", "failed", False)):
        count = result.details.get(f"num_{key}")
        if isinstance(count, int) and (count or always):
            yield f"{name}_{suffix}", float(count)


def _params(record: RunRecord | None, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters of the run; values whose name marks a secret are hidden."""
    known: dict[str, Any] = {}
    if record is not None:
        conventions = record.plan.get("conventions") or "auepora"
        known = {
            "dataset": record.dataset_name,
            "dataset_fingerprint": record.fingerprint,
            "num_samples": record.num_samples,
            "repeats": record.repeats,
            "commit": record.commit,
            "conventions": conventions if isinstance(conventions, Mapping) else {"name": conventions},
            "config": record.config,
        }
    shown: dict[str, Any] = to_json_value(redact_by_name({**known, **(params or {})}))
    return {key: value for key, value in shown.items() if value is not None}


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under dotted keys: ``{"config": {"model": "m"}}`` is ``{"config.model": "m"}``."""
    flattened: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flattened |= flatten(value, f"{prefix}{key}.")
        else:
            flattened[f"{prefix}{key}"] = value
    return flattened


# --- MLflow ----------------------------------------------------------------------------------------------------------

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
    mlflow = MissingDependencyError.import_module("mlflow", purpose="log_to_mlflow()", install="mlflow")
    entries = build_entries(results, prefix=prefix, record=record, params=params)
    active = mlflow.active_run() if run is None else run
    used = mlflow.start_run(run_name=entries.name) if active is None else nullcontext(active)
    with used as opened:
        run_id: str = opened if isinstance(opened, str) else opened.info.run_id
        _log(mlflow, run_id, entries, prefix=prefix, step=step or 0, tags=tags or {})
    return run_id


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
        for first in range(0, len(values), size):
            client.log_batch(run_id, **{kind: values[first : first + size]})


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


# --- Weights & Biases ------------------------------------------------------------------------------------------------


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
    wandb = MissingDependencyError.import_module("wandb", purpose="log_to_wandb()", install="wandb")
    entries = build_entries(results, prefix=prefix, record=record, params=params)
    active = wandb.run if run is None else run
    used = wandb.init(project=project, name=entries.name) if active is None else nullcontext(active)
    with used as opened:
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
