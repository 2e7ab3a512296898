"""The baseline of a stored run, and the check of a run against its gates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..core.errors import AueporaError, BadValueError
from ..core.results import Results
from .check import check_gates
from .kinds import Gate, VerdictGate, needs_baseline
from .names import resolve_names
from .report import GateReport, GateStatus

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["FAILED_TAG", "check_run", "find_baseline", "get_baseline", "tag_gate_outcome"]

_TAGS: dict[GateStatus, str] = {"passed": "gates-passed", "failed": "gates-failed", "inconclusive": "gates-open"}
FAILED_TAG = _TAGS["failed"]
"""A run with this tag becomes a baseline only if it is named explicitly."""


def tag_gate_outcome(store: RunStore, run_id: str, report: GateReport) -> RunRecord:
    """Tag a run with its gate status: ``gates-passed``, ``gates-failed`` or ``gates-open``; returns the run."""
    tag, tags = _TAGS[report.status], store.get(run_id).tags
    others = [one for one in _TAGS.values() if one != tag and one in tags]
    if tag not in tags:
        store.tag(run_id, tag)
    if others:
        store.untag(run_id, *others)
    return store.get(run_id)


def get_baseline(store: RunStore, against: str) -> RunRecord:
    """The run with this name as the baseline; it must be finished."""
    record = store.find(against)
    if record.status != "finished":
        raise BadValueError(
            f"{record.run_id} is {record.status.value}, not finished; nothing can be compared with it yet"
        )
    return record


def find_baseline(store: RunStore, record: RunRecord) -> RunRecord | None:
    """The default baseline of a run: the latest finished run before it with the same name and samples.

    It did not fail its gates: otherwise a failed plan that is run again would be compared with its own failure.
    """
    return next((one for one in _earlier_runs(store, record) if FAILED_TAG not in one.tags), None)


def _earlier_runs(store: RunStore, record: RunRecord) -> Iterator[RunRecord]:
    """The finished runs before a run with its name and samples, newest first."""
    for one in store.runs(name=record.name, status="finished"):
        earlier = (one.created_at, one.run_id) < (record.created_at, record.run_id)
        if earlier and one.fingerprint == record.fingerprint:
            yield one


def _missing_baseline_message(store: RunStore, record: RunRecord) -> str:
    """Why a run has no baseline."""
    failed = sum(1 for _ in _earlier_runs(store, record))
    if not failed:
        return (
            f"there is no earlier finished run called '{record.name}' on the same samples to compare with; "
            "name one with --against"
        )
    which = "the one earlier run" if failed == 1 else f"each of the {failed} earlier runs"
    return (
        f"{which} called '{record.name}' on the same samples failed its gates, so there is none to compare with; "
        f"name one with --against, or accept one: auepora tag RUN {FAILED_TAG} --remove"
    )


def check_run(
    store: RunStore,
    record: RunRecord,
    results: Results,
    gates: Sequence[Gate],
    *,
    baseline: RunRecord | None = None,
    strict: bool = False,
    other_dataset: bool = False,
) -> GateReport:
    """Check a stored run against gates. Gates on a comparison use the ``baseline``.

    Without one it is ``find_baseline`` the run. Where two runs cannot be compared, such gates
    are inconclusive; with ``strict`` it is an error. Runs on different datasets are compared only with
    ``other_dataset``. The metrics whose verdict a gate uses share one 5 % error rate; the plan's primary metrics are
    ignored.
    """
    gates = resolve_names(gates, [one.name for one in results])
    if not any(map(needs_baseline, gates)):
        return check_gates(gates, results)
    other = find_baseline(store, record) if baseline is None else baseline
    if other is None:
        return check_gates(gates, results, without=_missing_baseline_message(store, record))
    if other.run_id == record.run_id:
        problem = f"{record.run_id} cannot be compared with itself; name another run with --against"
        if strict:
            raise BadValueError(problem)
        return check_gates(gates, results, without=problem)
    from ..compare.metric_comparisons import compare_metrics

    computed = {one.name for one in results}
    comparison_gates = [one for one in gates if needs_baseline(one) and one.metric in computed]
    names = list(dict.fromkeys(str(one.metric) for one in comparison_gates))
    verdict_metrics = list(
        dict.fromkeys(one.metric for one in comparison_gates if isinstance(one, VerdictGate) and one.by is None)
    )
    try:
        compared = compare_metrics(
            store, other, record, metrics=names, primary=verdict_metrics or None, other_dataset=other_dataset
        )
    except AueporaError as error:
        if strict:
            raise
        return check_gates(gates, results, without=f"{other.run_id} cannot be compared with: {error}")
    return check_gates(gates, results, comparison=compared.by_name, refused=compared.refused, against=other.run_id)
