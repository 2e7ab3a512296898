"""The pytest plugin: ``assert_gates`` for tests, and the fixture ``auepora_run`` that runs a plan.

pytest loads this module in every project that has the package installed, so nothing is imported before it is used.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .compare.types import MetricComparison
    from .core.results import Results
    from .gates import GateReport
    from .plan.gates import Gate
    from .runs.outcome import RunOutcome
    from .store.runs import RunStore

__all__ = ["assert_gates", "auepora_run"]


def assert_gates(
    result: Results | RunOutcome,
    *gates: str,
    against: str | RunOutcome | Mapping[str, MetricComparison] | None = None,
    store: str | Path | RunStore | None = None,
) -> GateReport:
    """Raise an ``AssertionError`` with a table unless every gate passes; an inconclusive gate does not pass.

    ``result`` is returned by ``evaluate``, ``run_system``, ``run_plan`` or the fixture ``auepora_run``. Without gates,
    those of the plan are checked. Gates that compare runs need a baseline: ``against`` is its name or id in the store,
    its outcome, or comparisons by metric; by default it is the latest finished run before this one with the same name
    and samples. ``store`` is the store of both runs, by default that of ``result``.
    """
    __tracebackhide__ = True
    from .errors import AueporaWarning, BadValueError
    from .report.gate_table import gates_table

    outcome = None if isinstance(result, list) else result
    results = result if isinstance(result, list) else result.results
    if results is None:
        message = outcome.message if outcome is not None else ""
        raise AssertionError(f"the run was not scored: {message or 'it ended early'}")
    report = outcome.gates if outcome is not None and not gates and against is None else None
    if report is None:
        if not gates and outcome is not None:
            gates = tuple(outcome.record.plan.get("gates") or ())
        if not gates:
            raise BadValueError("there is no gate to check; give one, such as 'recall@5 >= 0.80'")
        report = _check(results, outcome, gates, against, store)
    for warning in report.warnings:
        warnings.warn(warning, AueporaWarning, stacklevel=2)
    if report.status != "passed":
        raise AssertionError(f"{report.headline}\n\n{gates_table(report)}")
    return report


def _check(
    results: Results,
    outcome: RunOutcome | None,
    texts: tuple[str, ...],
    against: str | RunOutcome | Mapping[str, MetricComparison] | None,
    store: str | Path | RunStore | None,
) -> GateReport:
    from .gates import check_gates
    from .plan.gates import needs_baseline, parse_gates, require_known_names

    slices = list(dict.fromkeys(chain.from_iterable(result.slices for result in results)))
    gates = require_known_names(parse_gates(texts), [result.name for result in results], slices=slices)
    if isinstance(against, Mapping):
        return check_gates(gates, results, comparison=against)
    place = store or (None if outcome is None else outcome.store)
    if not any(map(needs_baseline, gates)) or outcome is None or place is None:
        without = "results alone cannot be compared; give the outcome of a stored run, and the one to compare with"
        return check_gates(gates, results, without=without)
    from .store.runs import RunStore

    if isinstance(place, RunStore):
        return _check_stored_run(place, outcome, results, gates, against)
    with RunStore.open(place, create=False) as opened:
        return _check_stored_run(opened, outcome, results, gates, against)


def _check_stored_run(
    store: RunStore, outcome: RunOutcome, results: Results, gates: list[Gate], against: str | RunOutcome | None
) -> GateReport:
    from .gates import check_run

    name = against if against is None or isinstance(against, str) else against.record.run_id
    baseline = None if name is None else store.find(name).require_finished()
    return check_run(store, outcome.record, results, gates, baseline=baseline, strict=baseline is not None)


@pytest.fixture
def auepora_run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., RunOutcome]:
    """Runs a plan: ``auepora_run("plan.yaml", name="try", **{"run.concurrency": 1})`` returns a ``RunOutcome``.

    A relative path is searched in the folder of the test file, then in the current folder. Keyword arguments replace
    keys of the plan; ``store``, ``limit``, ``tags`` and ``against`` are those of ``run_plan``. The default store is
    in the temporary folder of the test.
    """

    def run(
        plan: str | Path,
        *,
        store: str | Path | None = None,
        limit: int | None = None,
        tags: tuple[str, ...] = (),
        against: str | None = None,
        **changes: Any,
    ) -> RunOutcome:
        from .runs.run import run_plan

        monkeypatch.setattr(sys, "path", sys.path[:])  # a plan adds its folder to it
        near_test = request.path.parent / plan
        place = tmp_path / "runs.sqlite" if store is None else store
        return run_plan(
            near_test if near_test.exists() else plan,
            store=place,
            changes=changes,
            limit=limit,
            tags=tags,
            against=against,
        )

    return run
