"""``auepora plan-size``: one run, two runs, repeats, costs, and input that cannot be planned with."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval.stats.difference import required_n, unit_sd
from auepora_eval.stats.planning import single_run_variance
from auepora_eval.store import RunStore
from helpers.stored_runs import samples, scored

Cli = Callable[..., tuple[int, str, str]]
N = 60
FIRST = np.random.default_rng(1).random(N)
SECOND = np.clip(FIRST + np.random.default_rng(2).normal(0.02, 0.2, N), 0, 1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUEPORA_STORE", "runs.sqlite")
    return RunStore.open("runs.sqlite")


def add_runs(store: RunStore, *, clusters: Callable[[int], str] | None = None, **details: Any) -> None:
    """Two runs of a judge metric, which was asked once for each answer at a cost of 0.002."""
    dataset = samples(N, clusters=clusters)
    judging = {"judgements": N, "calls": N, "shared": 0, "cost": 0.002 * N}
    with store:
        for name, values in (("first", FIRST), ("second", SECOND)):
            record = scored(store, name, dataset, {"token_f1": values, "bleu": values})
            (result,) = (one for one in store.results(record.run_id) if one.name == "token_f1")
            result.details |= {"judging": judging, **details}
            store.put_result(record.run_id, result)


def planned(auepora: Cli, *arguments: str) -> dict[str, Any]:
    code, out, err = auepora("plan-size", *arguments, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_two_runs_give_the_spread_of_their_differences(store: RunStore, auepora: Cli) -> None:
    add_runs(store)
    (found,) = planned(auepora, "first", "second", "--delta", "0.05", "--power", "0.9")["metrics"]
    sd = unit_sd(SECOND - FIRST)
    needed = required_n(0.05, sd, power=0.9)
    assert needed is not None
    assert found["sd"] == pytest.approx(sd)
    (row,) = found["rows"]
    assert needed <= row["questions"] <= 1.05 * needed  # sign flips need a little more than Student's t
    assert row["answers"] == row["judge_calls"] == 2 * row["questions"]
    assert row["cost"] == pytest.approx(row["answers"] * 0.002)
    assert 0 < found["labels_with_scores"] <= found["labels_alone"]
    assert found["repeated"] is None
    assert "nothing was repeated" in found["notes"][-1]


def test_one_run_needs_a_correlation(store: RunStore, auepora: Cli) -> None:
    add_runs(store)
    for correlation in (0.5, 0.0):
        (found,) = planned(auepora, "first", "--delta", "0.05", "--correlation", str(correlation))["metrics"]
        variance = single_run_variance(unit_sd(FIRST) ** 2, correlation)
        assert found["rows"][0]["questions"] == required_n(0.05, math.sqrt(variance))
        assert f"assumed to correlate by {correlation:g}" in found["notes"][0]
        assert 0 < found["labels_with_scores"] <= found["labels_alone"]


def test_differences_in_steps_and_skewed_ones_need_more(store: RunStore, auepora: Cli) -> None:
    """A tenth of the grades gains a grade; the rule of the verdict needs more questions than Student's t."""
    gains = np.repeat([0.25, -0.25, 0.0], [8, 2, 90])
    with store:
        for name, values in (("first", np.full(100, 0.5)), ("second", 0.5 + gains)):
            scored(store, name, samples(100), {"token_f1": values})
    (found,) = planned(auepora, "first", "second", "--delta", "0.015")["metrics"]
    needed = required_n(0.015, unit_sd(gains))
    assert needed is not None
    assert 1.05 * needed < found["rows"][0]["questions"] < 1.3 * needed
    assert "times as many as for Student's t: the differences are in steps, or skewed" in found["notes"][0]


def test_clusters_are_units(store: RunStore, auepora: Cli) -> None:
    add_runs(store, clusters=lambda number: str(number // 3))
    (found,) = planned(auepora, "first", "second", "--delta", "0.05")["metrics"]
    units = required_n(0.05, unit_sd(SECOND - FIRST, np.arange(N) // 3))
    assert units is not None
    assert found["rows"][0]["questions"] == 3 * units


REPEATED = [  # details of each run, what is repeated, calls for 2 repeats of a question with two answers
    ({"repeats": {"sd_within_samples": 0.1}}, "answers", 4),
    ({"judge": {"sd_within_samples": 0.1, "repeats": 1}}, "judgements", 4),
]


@pytest.mark.parametrize(("details", "repeated", "calls"), REPEATED, ids=[row[1] for row in REPEATED])
def test_more_questions_or_more_repeats(
    store: RunStore, auepora: Cli, details: dict[str, Any], repeated: str, calls: int
) -> None:
    add_runs(store, **details)
    arguments = (
        "first",
        "second",
        "--delta",
        "0.05",
        "-m",
        "token_f1",
        "--questions",
        "100",
        "--question-cost",
        "0.01",
    )
    (found,) = planned(auepora, *arguments)["metrics"]
    assert found["repeated"] == repeated
    variance = unit_sd(SECOND - FIRST) ** 2
    assert found["share_within"] == pytest.approx(0.02 / variance)
    assert found["fewest_questions"] == required_n(0.05, math.sqrt(variance - 0.02))
    two = found["rows"][1]
    assert two["repeats"] == 2
    assert two["judge_calls"] == calls * two["questions"]
    assert two["answers"] == two["questions"] * (4 if repeated == "answers" else 2)
    code, out, _ = auepora("plan-size", *arguments)
    assert code == 0
    assert "more questions or more repeats? questions: with any number of repeats" in out
    assert "100 questions" in out


def test_without_a_pilot(auepora: Cli, tmp_path: Path) -> None:
    found = planned(auepora, "--delta", "0.05")["metrics"]
    assert [one["rows"][0]["questions"] for one in found] == [
        required_n(0.05, math.sqrt(changed - 0.05**2), binary=True) for changed in (0.1, 0.25, 0.5)
    ]
    assert len(planned(auepora, "--delta", "0.2")["metrics"]) == 2  # 10 % changed scores cannot differ by 0.2
    assert auepora("plan-size", "--delta", "0.05", "-o", str(tmp_path / "size.md"))[0] == 0
    assert "| 0/1 scores, 25%" in (tmp_path / "size.md").read_text()


REFUSED = [  # arguments, part of the message
    (("first",), "Missing option '--delta'"),
    (("first", "second", "first", "--delta", "0.05"), "one run or two runs"),
    (("--delta", "0.05", "-m", "token_f1"), "give a run"),
    (("first", "--delta", "0.05", "-m", "bleu"), "'bleu' cannot be planned"),
    (("first", "--delta", "0.05", "-m", "recall@5"), "recall@5"),
    (("third", "--delta", "0.05"), "third"),
    (("--delta", "0.05", "-o", "size.csv"), "CSV"),
    (("--delta", "0"), "--delta"),
    (("--delta", "0.6"), "at most 50% differ"),
    (("first", "--delta", "1"), "scores lie between 0 and 1; --delta must be smaller"),
    (("first", "second", "--delta", "1.5"), "scores lie between 0 and 1; --delta must be smaller"),
]


def test_refused_input(store: RunStore, auepora: Cli) -> None:
    add_runs(store)
    for arguments, message in REFUSED:
        code, _, err = auepora("plan-size", *arguments)
        assert (code, message in err) == (2, True), (arguments, err)


def test_partly_judged_pilots_plan_calls_for_all_questions(store: RunStore, auepora: Cli) -> None:
    add_runs(store, skipped_not_judged=N // 2, two_stage={"target": "what the large judge would say"})
    (found,) = planned(auepora, "first", "second", "--delta", "0.05", "--question-cost", "1")["metrics"]
    (row,) = found["rows"]
    assert row["judge_calls"] == 2 * row["answers"]  # the judge was asked about half of the answers
    notes = "; ".join(found["notes"])
    assert f"judged on {N} of {N} questions; the judge calls are those for all questions" in notes
    assert "two-stage judging prefers uncertain answers" in notes


def test_small_differences_need_no_memory(store: RunStore, auepora: Cli) -> None:
    add_runs(store)
    (found,) = planned(auepora, "first", "second", "--delta", "0.0001", "--questions", "200")["metrics"]
    assert found["labels_alone"] > 1_000_000
    assert found["labels_with_scores"] is None
    assert "200 questions do not suffice" in found["notes"]
    assert "labels" in auepora("plan-size", "first", "second", "--delta", "0.0001")[1]


def test_equal_runs_give_no_size(store: RunStore, auepora: Cli) -> None:
    with store:
        for name in ("first", "second"):
            scored(store, name, samples(20), {"token_f1": np.full(20, 0.5)})
    (found,) = planned(auepora, "first", "second", "--delta", "0.05")["metrics"]
    assert found["rows"] == []
    assert "does not show how many questions" in found["notes"][-1]
