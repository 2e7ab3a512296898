"""Log entries of results: defined numbers, signatures, and the parameters of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..core.errors import BadTypeError, BadValueError
from ..core.results import Results, to_json_value
from ..core.secrets import redact_by_name
from ..core.types import MetricResult
from .names import legal_names, require_prefix

if TYPE_CHECKING:
    from ..client import ClientReport
    from ..running.run import RunOutcome
    from ..store.records import RunRecord

    Loggable = Results | RunOutcome | ClientReport | Iterable[MetricResult]

__all__ = ["LogEntries", "build_entries", "flatten"]


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
    require_prefix(prefix)
    results, own_record = _results_and_record(loggable)
    record = record if record is not None else own_record
    names = {name: f"{prefix}{legal}" for name, legal in legal_names(result.name for result in results).items()}
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
    if not all(isinstance(one, MetricResult) for one in listed):
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
