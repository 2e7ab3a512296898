"""What is logged of results: numbers that are defined, what they were computed by, what the run was made of."""

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
    """What a tracker is told; every name is legal, and has the prefix where it is a key of its own."""

    name: str | None
    """What the run is called, where that is known."""
    metrics: dict[str, float]
    params: dict[str, Any]
    names: dict[str, str]
    """Per logged name that of the metric."""
    signatures: dict[str, str]
    """Per logged name by which rules it was computed."""
    undefined: list[str]
    """The metrics that have no value here: nothing is logged for them, least of all a 0."""
    facts: dict[str, str]
    """Version of this library, and id of the run where it is stored."""


def build_entries(
    given: Loggable, *, prefix: str = "", record: RunRecord | None = None, params: Mapping[str, Any] | None = None
) -> LogEntries:
    """What there is to log of results, of a run's outcome or of a client's report."""
    require_prefix(prefix)
    results, own_record = _results_and_record(given)
    record = record if record is not None else own_record
    names = {name: f"{prefix}{made}" for name, made in legal_names(result.name for result in results).items()}
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
        names={made: name for name, made in names.items()},
        signatures={names[result.name]: result.signature for result in results if result.signature},
        undefined=[result.name for result in results if not _is_defined(result)],
        facts={"version": __version__, **({} if run_id is None else {"run_id": run_id})},
    )


def _results_and_record(given: Any) -> tuple[Results, RunRecord | None]:
    """The results, and what the store knows of their run where that comes with them."""
    if isinstance(given, Results):
        return given, None
    if hasattr(given, "results"):
        if given.results is None:
            raise BadValueError("there are no results to log: the run did not come to scoring")
        return given.results, getattr(given, "record", None)
    listed = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, MetricResult) for one in listed):
        raise BadTypeError(f"log the results of an evaluation or of a run, not a {type(given).__name__}")
    return Results(listed), None


def _is_defined(result: MetricResult) -> bool:
    return result.defined and math.isfinite(result.value)


def _numbers(result: MetricResult, name: str) -> Iterable[tuple[str, float]]:
    """The value, its interval and counts, as far as they are there; failures and skips where there are any."""
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
    """What the run was made of; values that are secret by their name are not shown."""
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
    made: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            made |= flatten(value, f"{prefix}{key}.")
        else:
            made[f"{prefix}{key}"] = value
    return made
