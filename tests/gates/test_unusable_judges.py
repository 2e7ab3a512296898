"""Gates name a judge that is not usable by its control items, and do not pass by what it measured."""

from pathlib import Path

import numpy as np

from auepora_eval.compare.runs import compare_runs
from auepora_eval.gates import check_run
from auepora_eval.plan.gates import parse_gates
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import samples, scored

CONTROLS = {
    "usable": False,
    "limit": 0.2,
    "false_accepts": {"errors": 3, "n": 4, "rate": 0.75, "interval": (0.3, 0.95)},
}
WORDS = (
    "the judge of token_f1 is not usable: it accepts 3 of 4 control items that it must reject (75 %, 95 % interval "
    "30 % to 95 %; the limit is 20 %)"
)


def put(store: RunStore, name: str, *, usable: bool) -> RunRecord:
    """A run with a metric that a judge decides, and one that none does."""
    scores = np.arange(30) % 2.0
    record = scored(store, name, samples(30), {"token_f1": scores, "recall@1": scores})
    result = store.result(record.run_id, "token_f1")
    result.details["controls"] = {**CONTROLS, "usable": usable}
    store.put_result(record.run_id, result)
    return record


def test_gates_name_judges_that_are_not_usable(tmp_path: Path) -> None:
    gates = parse_gates(["not worse(token_f1)", "token_f1 >= 0.4", "not worse(recall@1)"])
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        first, second, third = (put(store, name, usable=name == "b") for name in "abc")
        for baseline, run, labels in ((first, third, "BA"), (first, second, "A"), (second, third, "B")):
            results = store.results(run.run_id)
            report = check_run(store, run, results, gates, baseline=baseline)
            compared, value, other, *implied = report.outcomes
            assert compared.warning == "; ".join(f"{label}: {WORDS}" for label in labels)
            assert value.warning == (f"B: {WORDS}" if "B" in labels else None)
            assert (compared.status, value.status) == ("inconclusive", "inconclusive" if "B" in labels else "passed")
            assert compared.reason.endswith(", but its judge is not usable")
            assert other.status == "passed"
            assert [one.warning for one in (other, *implied)] == [None] * (1 + len(implied))
            notes = compare_runs(baseline.run_id, run.run_id, store=store).notes
            assert {f"{label}: {WORDS}" for label in labels} <= set(notes)
            (alone, *_) = check_run(store, run, results, gates[1:2]).outcomes
            assert alone.warning == (WORDS if "B" in labels else None)
            (failed, *_) = check_run(store, run, results, parse_gates(["token_f1 >= 0.9"])).outcomes
            assert failed.status == "failed"
