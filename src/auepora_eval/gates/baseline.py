"""What a stored run is compared with, and the whole check of one: its results, its baseline, its gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.errors import AueporaError, BadValueError
from ..core.results import Results
from .check import check_gates
from .kinds import Gate, VerdictGate, needs_baseline
from .names import lenient_names
from .report import GateReport

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["baseline_of", "check_run", "named_baseline"]


def named_baseline(store: RunStore, against: str) -> RunRecord:
    """The run that is named as the one to compare with; it must have ended."""
    record = store.find(against)
    if record.status != "finished":
        raise BadValueError(
            f"{record.run_id} is {record.status.value}, not finished; nothing can be compared with it yet"
        )
    return record


def baseline_of(store: RunStore, record: RunRecord) -> RunRecord | None:
    """What a run is compared with where nobody names another: the latest finished one before it.

    It has the same name and the same samples.
    """
    for one in store.runs(name=record.name, status="finished"):
        earlier = (one.created_at, one.run_id) < (record.created_at, record.run_id)
        if earlier and one.fingerprint == record.fingerprint:
            return one
    return None


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
    """Hold a stored run against gates. Those that speak of another run are decided by the ``baseline``.

    Without one it is ``baseline_of`` the run. Where two runs cannot be compared, that is why such gates are
    inconclusive; with ``strict`` it is an error. Runs on different datasets cannot, unless ``other_dataset`` says that
    this is meant. The metrics whose verdict a gate asks for share one 5 %, whatever else the plan calls primary.
    """
    gates = lenient_names(gates, [one.name for one in results])
    if not any(map(needs_baseline, gates)):
        return check_gates(gates, results)
    other = baseline_of(store, record) if baseline is None else baseline
    if other is None:
        without = (
            f"there is no earlier finished run called '{record.name}' on the same samples to compare with; "
            "name one with --against"
        )
        return check_gates(gates, results, without=without)
    if other.run_id == record.run_id:
        problem = f"{record.run_id} cannot be compared with itself; name another run with --against"
        if strict:
            raise BadValueError(problem)
        return check_gates(gates, results, without=problem)
    from ..compare.paired import compare_metrics

    have = {one.name for one in results}
    asked = [one for one in gates if needs_baseline(one) and one.metric in have]
    names = list(dict.fromkeys(str(one.metric) for one in asked))
    judged = list(dict.fromkeys(one.metric for one in asked if isinstance(one, VerdictGate) and one.by is None))
    try:
        compared = compare_metrics(
            store, other, record, metrics=names, primary=judged or None, other_dataset=other_dataset
        )
    except AueporaError as error:
        if strict:
            raise
        return check_gates(gates, results, without=f"{other.run_id} cannot be compared with: {error}")
    return check_gates(gates, results, comparison=compared.by_name, refused=compared.refused, against=other.run_id)
