"""The check of gates: values, interval ends, differences, verdicts, and coverage."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from auepora_eval.compare.types import DowngradeReason, MetricComparison, Verdict
from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.gates import GateOutcome, GateReport, GateStatus, brief_reason, check_gates
from auepora_eval.stats.sequential import Look, SequentialDesign

RELEVANCE, LATENCY = TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.LATENCY


def result(
    name: str, value: float = 0.8, *, scored: int = 100, failed: int = 0, skipped: int = 0, **more: Any
) -> MetricResult:
    details = {"num_scored": scored, "num_failed": failed, "num_skipped": skipped}
    return MetricResult(name, more.pop("target", RELEVANCE), value, {**details, **more.pop("details", {})}, **more)


def make_comparison(
    name: str,
    delta: float | None = 0.0,
    interval: tuple[float, float] | None = None,
    *,
    verdict: Verdict = "inconclusive",
    bounds: tuple[float, float] | None = None,
    p: float | None = 0.5,
    mde: float | None = 0.03,
    note: str | None = None,
    doubt: DowngradeReason | None = None,
) -> MetricComparison:
    return MetricComparison(
        name, "RETRIEVAL_RELEVANCE", 0.8, None if delta is None else 0.8 + delta, delta, delta, bounds, interval, p, p, None, mde,
        1, 2, 97, verdict, 100, 100, note=note, doubt=doubt, higher_is_better="latency" not in name,
    )  # fmt: skip


def visible_outcome(report: GateReport) -> GateOutcome:
    (one,) = report.visible_outcomes
    return one


GERMAN = {"labels.lang": {"de": result("recall@5", 0.6), "en": result("recall@5", 0.9)}}
RESULTS = Results(
    [
        result("recall@5", 0.8, interval=(0.72, 0.88), slices=GERMAN),
        result("mrr", 0.5),
        result("mean_latency[end_to_end]", 1.5, target=LATENCY, interval=(1.2, 1.8)),
        result("bleu", 0.0, defined=False, details={"undefined_because": "there is no reference"}),
    ]
)
VALUES: list[tuple[str, GateStatus, str, str]] = [  # gate, status, part of the reason, why
    ("recall@5 >= 0.8", "passed", "recall@5 is 0.8000, at least 0.8 (95 % interval 0.7200 to 0.8800)", "as much as asked"),
    ("recall@5 > 0.8", "failed", "0.8000, not above 0.8", "more is asked"),
    ("recall@5 <= 0.8", "passed", "at most 0.8", "no more than asked"),
    ("recall@5 < 0.8", "failed", "not below 0.8", "less is asked"),
    ("recall@5 >= 0.81", "failed", "0.8000, below 0.81", "too little"),
    ("Recall@5 >= 0.5", "passed", "recall@5 is 0.8000", "another spelling"),
    ("recall@5 >= 0.8000000000000002", "passed", "", "a difference in the last bit"),
    ("recall@5 >= 0.80000001", "failed", "", "a small difference"),
    ("mean_latency[end_to_end] < 2", "passed", "1.5000, below 2", "lower is better"),
    ("low(recall@5) >= 0.75", "failed", "the lower end of recall@5 (0.8000) is 0.7200, below 0.75", "the lower end"),
    ("high(mean_latency[end_to_end]) < 2", "passed", "the upper end of mean_latency[end_to_end] (s) (1.5000) is 1.8000", "upper end"),
    ("low(mrr) > 0", "inconclusive", "mrr has no interval", "no interval"),
    ("bleu > 1", "inconclusive", "bleu has no value: there is no reference", "undefined"),
    ("token_f1 > 0", "inconclusive", "token_f1 was not computed", "not computed"),
    ("recall@5 where labels.lang = de >= 0.7", "failed", "recall@5 where labels.lang = de is 0.6000, below 0.7", "a group"),
    ("recall@5 where labels.lang = dee >= 0.7", "inconclusive", "did you mean 'de'?", "no such group"),
    ("mrr where labels.lang = de >= 0.7", "inconclusive", "slice by labels.lang", "not sliced"),
    ("better(mrr)", "inconclusive", "there is no run to compare with; name one with --against", "no baseline"),
]  # fmt: skip


@pytest.mark.parametrize(("gate", "status", "message"), [row[:3] for row in VALUES], ids=[row[3] for row in VALUES])
def test_values(gate: str, status: GateStatus, message: str) -> None:
    one = visible_outcome(check_gates([gate], RESULTS))
    assert one.status == status, one.reason
    assert message in one.reason


MEASURES: DowngradeReason = "measure_failures"
DIFFERENCES: list[tuple[str, MetricComparison, GateStatus, str, str]] = [
    # gate, the comparison, status, part of the reason, why
    ("delta(mrr) > -0.01", make_comparison("mrr", 0.01, (-0.005, 0.025)), "passed", "all of the interval is above -0.01", "lower end"),
    ("delta(mrr) > -0.01", make_comparison("mrr", 0.0, (-0.02, 0.02)), "inconclusive", "it may lie on either side of -0.01", "holds it"),
    ("delta(mrr) > -0.01", make_comparison("mrr", -0.05, (-0.08, -0.02)), "failed", "none of the interval is above -0.01", "beyond"),
    ("delta(mrr) > 0", make_comparison("mrr", 0.02, (0.0, 0.04)), "inconclusive", "", "the end is no more than asked"),
    ("delta(mrr) >= 0", make_comparison("mrr", 0.02, (0.0, 0.04)), "passed", "", "the end is as much as asked"),
    ("delta(mean_latency[end_to_end]) < 0.1", make_comparison("mean_latency[end_to_end]", 0.0, (-0.05, 0.05)), "passed", "below 0.1", "upper end"),
    ("delta(mean_latency[end_to_end]) < 0.1", make_comparison("mean_latency[end_to_end]", 0.0, (-0.2, 0.2)), "inconclusive", "", "upper end beyond"),
    ("delta(mrr) > -0.01", make_comparison("mrr", 0.0, None, note="no scores"), "inconclusive", "no interval (no scores); point(delta(mrr))", "no interval"),
    ("delta(mrr) > -0.01", make_comparison("mrr", None), "inconclusive", "no sample was scored in both", "no difference"),
    ("delta(mrr) > -0.01", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(-0.04, 0.03)), "inconclusive",
     "measurements that failed could put it on either side", "failed measurements could turn it"),
    ("delta(mrr) > -0.01", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(0.005, 0.03)), "passed", "", "failed measurements change nothing"),
    ("point(delta(mrr)) >= -0.01", make_comparison("mrr", 0.79 - 0.8, (-0.5, 0.5)), "passed", "is -0.0100, at least -0.01", "bare difference"),
    ("low(delta(mrr)) > -0.01", make_comparison("mrr", 0.0, (-0.02, 0.02)), "failed", "the lower end of the difference in mrr", "one end"),
    ("delta(recall@5) > 0", make_comparison("mrr"), "inconclusive", "recall@5 cannot be compared: computed differently", "refused"),
    # by a margin
    ("not worse(mrr, by=0.02)", make_comparison("mrr", -0.005, (-0.015, 0.005)), "passed", "above -0.02", "within the margin"),
    ("not worse(mrr, by=0.02)", make_comparison("mrr", -0.015, (-0.03, 0.0)), "inconclusive", "a difference of about 0.03 can be detected", "across it"),
    ("not worse(mrr, by=0.02)", make_comparison("mrr", -0.05, (-0.07, -0.03)), "failed", "", "beyond the margin"),
    ("not worse(mrr, by=0)", make_comparison("mrr", 0.05, (0.01, 0.09)), "passed", "above 0", "no margin at all"),
    ("not worse(mean_latency[end_to_end], by=0.1)", make_comparison("mean_latency[end_to_end]", -0.3, (-0.5, -0.2)), "passed", "below 0.1", "faster"),
    ("not worse(mean_latency[end_to_end], by=0.1)", make_comparison("mean_latency[end_to_end]", 0.3, (0.2, 0.5)), "failed", "", "slower"),
    ("better(mrr, by=0.02)", make_comparison("mrr", 0.05, (0.03, 0.07)), "passed", "above 0.02", "better by more"),
    ("better(mrr, by=0.02)", make_comparison("mrr", 0.02, (0.01, 0.03)), "inconclusive", "", "perhaps better by as much"),
    ("better(mean_latency[end_to_end], by=0.1)", make_comparison("mean_latency[end_to_end]", -0.3, (-0.5, -0.2)), "passed", "below -0.1", "faster by more"),
    # by the verdict
    ("better(mrr)", make_comparison("mrr", 0.1, (0.05, 0.15), verdict="better", p=0.001), "passed", "better: +0.1000", "better"),
    ("better(mrr)", make_comparison("mrr", 0.01, verdict="inconclusive"), "inconclusive", "neither better nor worse for sure", "open"),
    ("better(mrr)", make_comparison("mrr", 0.0, verdict="equal"), "failed", "equal: +0.0000", "equal is not better"),
    ("better(mrr)", make_comparison("mrr", -0.1, verdict="worse", p=0.001), "failed", "worse: -0.1000", "worse"),
    ("not worse(mrr)", make_comparison("mrr", -0.1, verdict="worse", p=0.001), "failed", "p 0.001", "worse"),
    ("not worse(mrr)", make_comparison("mrr", -0.01), "passed", "not found to be worse: -0.0100", "not found worse"),
    ("not worse(mrr)", make_comparison("mrr", 0.0, verdict="equal"), "passed", "", "equal is not worse"),
    ("not worse(mrr)", make_comparison("mrr", None), "inconclusive", "", "nothing to judge"),
    ("not worse(mrr)", make_comparison("mrr", 0.0, p=0.01), "passed", "not found to be worse", "a small p alone takes nothing back"),
    # what failed measurements could turn
    ("not worse(mrr)", make_comparison("mrr", -0.1, p=0.01, bounds=(-0.2, 0.1), doubt=MEASURES), "inconclusive",
     "measurements that failed could turn it", "would be worse but for failures"),
    ("not worse(mrr)", make_comparison("mrr", -0.01, bounds=(-0.2, 0.1), doubt=MEASURES), "inconclusive",
     "measurements that failed could turn it", "open now, worse where all were bad"),
    ("not worse(mrr)", make_comparison("mrr", -0.01, bounds=(-0.2, 0.1)), "passed", "", "open whatever failed"),
    ("not worse(mrr)", make_comparison("mrr", 0.1, bounds=(0.01, 0.2), doubt=MEASURES), "passed", "not found to be worse", "better, or open"),
    ("not worse(mean_latency[end_to_end])", make_comparison("mean_latency[end_to_end]", 0.1, bounds=(0.01, 0.2), doubt=MEASURES),
     "inconclusive", "could turn it", "slower, or open"),
    ("not worse(mean_latency[end_to_end])", make_comparison("mean_latency[end_to_end]", -0.1, bounds=(-0.2, 0.0), doubt=MEASURES),
     "passed", "", "faster, or open"),
    ("not worse(mrr)", make_comparison("mrr", 0.1, doubt=MEASURES), "inconclusive", "could turn it", "unknown bounds"),
    ("better(mrr)", make_comparison("mrr", 0.1, p=0.01, bounds=(-0.1, 0.2), doubt=MEASURES), "inconclusive", "could turn it", "better but for failures"),
    ("low(delta(mrr)) > -0.01", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(-0.04, 0.03)), "inconclusive",
     "measurements that failed could put it on either side of -0.01", "the end moves"),
    ("low(delta(mrr)) > -0.01", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(0.005, 0.03)), "passed", "", "the end moves a little"),
    ("high(delta(mrr)) < 0.03", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(0.0, 0.05)), "inconclusive", "either side of 0.03", "the other end"),
    ("point(delta(mrr)) > 0", make_comparison("mrr", 0.01, (0.0, 0.02), bounds=(-0.04, 0.03)), "inconclusive", "either side of 0", "the number moves"),
    ("point(delta(mrr)) > 0", make_comparison("mrr", -0.1, (-0.2, 0.02), bounds=(-0.14, 0.0)), "failed", "", "it moves too little"),
    *(
        (gate, make_comparison("mrr", 0.1, (0.05, 0.15), doubt=MEASURES), "inconclusive", "how far is unknown", "no bounds")
        for gate in ("delta(mrr) > 0", "low(delta(mrr)) > 0", "point(delta(mrr)) > 0", "better(mrr, by=0.01)")
    ),
    # what rests on a system's failures
    *(
        (gate, make_comparison("bleu", 3.0, (2.0, 4.0), p=0.001, doubt="system_failures", note="failed answers change it"),
         "inconclusive", "on 100 samples, but only because a system failed on some (failed answers change it)", "gain by failing")
        for gate in (
            "delta(bleu) > 0", "better(bleu, by=1)", "not worse(bleu, by=1)", "better(bleu)", "not worse(bleu)",
            "low(delta(bleu)) > 0", "high(delta(bleu)) > 0", "point(delta(bleu)) > 0",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "one", "status", "message"),
    [row[:4] for row in DIFFERENCES],
    ids=[f"{row[0]}: {row[4]}" for row in DIFFERENCES],
)
def test_differences(gate: str, one: MetricComparison, status: GateStatus, message: str) -> None:
    report = check_gates([gate], RESULTS, comparison={one.name: one}, refused={"recall@5": "computed differently"})
    found = visible_outcome(report)
    assert found.status == status, found.reason
    assert message in found.reason


def test_bare_difference_gives_warning() -> None:
    comparison = {"mrr": make_comparison("mrr", 0.01, (-0.1, 0.1))}
    (warning,) = check_gates(["point(delta(mrr)) > 0"], RESULTS, comparison=comparison).warnings
    assert "chance moves both ways; delta(mrr) goes by its interval" in warning
    assert not check_gates(["delta(mrr) > 0"], RESULTS, comparison=comparison).warnings


def test_failed_measurements_that_could_change_a_value_give_warning() -> None:
    judged = result("mrr", 0.8, scored=98, failed=2, details={"bounds": [0.784, 0.804], "num_measure_failed": 2})
    (warning,) = check_gates(["mrr >= 0.79"], Results([judged])).warnings
    assert "2 failed measurements the value may lie anywhere from 0.7840 to 0.8040" in warning
    assert not check_gates(["mrr >= 0.78", "mrr < 0.81"], Results([judged])).warnings


def test_unreliable_interval_is_mentioned() -> None:
    few = result("mrr", 0.8, interval=(0.7, 0.9), details={"interval": {"flags": ["few_samples"]}})
    (one,) = check_gates(["low(mrr) >= 0.7"], [few]).visible_outcomes
    assert one.reason.endswith("at least 0.7; the interval may claim too much (few_samples)")


def test_direction_comes_from_the_comparison() -> None:
    """The comparison knows which way a metric is better, under whatever name a plan has it."""
    less = make_comparison("mrr", -0.3, (-0.5, -0.2))
    for one, status in ((less, "failed"), (replace(less, higher_is_better=False), "passed")):
        assert check_gates(["better(mrr, by=0.1)"], RESULTS, comparison={"mrr": one}).status == status


class TestCoverage:
    def test_implied_coverage_of_gated_metrics(self) -> None:
        results = Results([result("mrr", 0.9, scored=94, failed=6), result("bleu", 30.0, scored=10, failed=90)])
        report = check_gates(["mrr >= 0.5", "point(mrr) >= 0.4"], results)
        assert [(one.gate, one.status, one.implied) for one in report] == [
            ("mrr >= 0.5", "passed", False),
            ("point(mrr) >= 0.4", "passed", False),
            ("coverage(mrr) >= 0.95", "failed", True),
        ]
        assert report.outcomes[2].reason == "94 of 100 answers were scored by mrr, 0.9400, below 0.95"
        assert report.exit_code == 1

    def test_skipped_samples_are_not_missing(self) -> None:
        report = check_gates(["mrr >= 0.5"], Results([result("mrr", scored=19, failed=1, skipped=80)]))
        assert [one.status for one in report] == ["passed", "passed"]
        assert len(report.visible_outcomes) == 1  # implied gates that passed are not shown

    @pytest.mark.parametrize(
        ("gates", "want"),
        [
            (["mrr > 0", "coverage >= 0.9"], {"coverage(mrr) >= 0.9": "passed"}),
            (["mrr > 0", "coverage >= 0.99"], {"coverage(mrr) >= 0.99": "failed"}),
            (["mrr > 0", "coverage >= 0"], {"coverage(mrr) >= 0": "passed"}),
            (["mrr > 0", "coverage(mrr) > 0.5"], {"coverage(mrr) > 0.5": "passed"}),
            (["coverage(bleu) >= 0.5", "mrr > 0"], {"coverage(bleu) >= 0.5": "failed", "coverage(mrr) >= 0.95": "failed"}),
            (["coverage >= 0.9"], {"coverage(mrr) >= 0.9": "passed", "coverage(bleu) >= 0.9": "failed"}),
            (["coverage >= 0.9", "coverage(bleu) >= 0.1"], {"coverage(mrr) >= 0.9": "passed", "coverage(bleu) >= 0.1": "passed"}),
            (["coverage(token_f1) >= 0.5"], {"coverage(token_f1) >= 0.5": "inconclusive"}),
        ],
        ids=lambda value: ", ".join(value) if isinstance(value, list) else "",
    )  # fmt: skip
    def test_gates_may_set_coverage(self, gates: list[str], want: dict[str, str]) -> None:
        results = Results([result("mrr", 0.9, scored=94, failed=6), result("bleu", 30.0, scored=10, failed=90)])
        assert {one.gate: one.status for one in check_gates(gates, results) if one.gate.startswith("cov")} == want

    def test_metric_without_counts_has_no_coverage_gate(self) -> None:
        own = Results([MetricResult("own", RELEVANCE, 0.9, {})])
        assert [one.status for one in check_gates(["own > 0.5"], own)] == ["passed"]
        assert check_gates(["own > 0.5", "coverage > 0.5"], own).status == "inconclusive"


class TestReport:
    def test_failed_wins_over_inconclusive(self) -> None:
        def report(*statuses: GateStatus) -> GateReport:
            return GateReport(tuple(GateOutcome("g", status, "r") for status in statuses))

        assert report().exit_code == 0
        assert report("passed", "passed").exit_code == 0
        assert report("passed", "inconclusive").exit_code == 3
        assert report("inconclusive", "failed", "passed").exit_code == 1
        assert report("passed", "failed", "failed").headline == "3 gates: 1 passed, 2 failed"

    def test_report_is_json(self) -> None:
        results = Results([result("mrr", 0.5)], run_id="run_1")
        document = json.loads(check_gates(["mrr >= 0.5"], results, against="run_0").to_json())
        assert (document["run_id"], document["against"], document["status"]) == ("run_1", "run_0", "passed")
        assert document["gates"][0] == {
            "gate": "mrr >= 0.5",
            "status": "passed",
            "reason": "mrr is 0.5000, at least 0.5",
            "metric": "mrr",
            "value": 0.5,
            "implied": False,
            "warning": None,
        }


# --- metrics that were judged until a verdict ------------------------------------------------------------------------


def stored_test(
    verdict: str, units: int, *, against: str | None = None, reason: str | None = "boundary"
) -> dict[str, Any]:
    """A stored test of 200 units: of a mean of 0.93 against 0.8, or of a difference of 0.2 to another run."""
    options: dict[str, Any] = {"threshold": 0.8, "binary": True} if against is None else {"delta": 0.05}
    mean, low, high = (0.93, 0.85, 0.98) if against is None else (0.2, 0.04, 0.36)
    look = Look(units // 10, units, mean, low, high, 0.012, 2.9, 2.8)
    return {
        "design": SequentialDesign.plan(200, **options).to_dict(), "metric": "judged", "against": against,
        "path": [asdict(look)], "verdict": verdict, "reason": reason, "stopped_at": units if reason else None,
        "judged": units, "samples": 200, "calls_saved": 200 - units,
    }  # fmt: skip


def judged_result(test: dict[str, Any] | None, unjudged: int = 110) -> MetricResult:
    details = {"skipped_not_judged": unjudged, **({} if test is None else {"sequential": test})}
    return result("judged", 0.93, scored=200 - unjudged, skipped=unjudged, interval=(0.88, 0.98), details=details)


NOTE = "sequential: stopped at look 9 of 20, 90 of 200 judged, 110 calls saved"
PASSED = stored_test("pass", 90)
FUTILE, OPEN = (stored_test("inconclusive", 90, reason=reason) for reason in ("futility", None))
SEQUENTIAL: list[tuple[str, dict[str, Any] | None, GateStatus, str, str]] = [  # gate, test, status, reason, why
    ("judged >= 0.8", PASSED, "passed", f"judged is 0.9300 (repeated interval 0.8500 to 0.9800), repeated p 0.012; {NOTE}", "verdict"),
    ("low(judged) > 0.8", PASSED, "passed", "repeated p 0.012", "the verdict in place of an end"),
    ("judged >= 0.8", stored_test("fail", 90), "failed", "repeated p", "fails"),
    ("judged >= 0.8", {**PASSED, "claim": "all"}, "passed", "about all metrics of the sequential test", "one of several"),
    ("judged >= 0.8", FUTILE, "inconclusive", "stopped for futility", "futility"),
    ("judged >= 0.8", OPEN, "inconclusive", "judged is not decided yet", "no verdict yet"),
    ("judged >= 0.84", PASSED, "passed", "the test was planned for 0.8, so the interval decides", "another threshold"),
    ("judged >= 0.95", PASSED, "inconclusive", "planned for 0.8", "a threshold within the interval"),
    ("judged <= 0.8", PASSED, "failed", "so the interval decides", "the other direction"),
    ("judged >= 0.8", None, "passed", "judged is 0.9300", "no design: the value"),
    ("low(judged) >= 0.8", None, "inconclusive", "judged on 90 of 200 samples, and no sequential design", "no design: no interval"),
    ("low(judged) >= 0.8", stored_test("better", 90, against="r1"), "inconclusive", "judge.stop.threshold", "a design for a difference"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("gate", "test", "status", "message"), [row[:4] for row in SEQUENTIAL], ids=[row[4] for row in SEQUENTIAL]
)
def test_metrics_judged_until_a_verdict(
    gate: str, test: dict[str, Any] | None, status: GateStatus, message: str
) -> None:
    one = visible_outcome(check_gates([gate], [judged_result(test)]))
    assert (one.status, message in one.reason) == (status, True), one.reason
    assert (one.warning is not None and "not valid" in one.warning) == (test is None and status == "passed")


def test_a_metric_judged_to_the_end_is_like_any_other() -> None:
    complete = judged_result(stored_test("better", 200, against="r1"), unjudged=0)
    one = visible_outcome(check_gates(["low(judged) >= 0.8"], [complete]))
    assert (one.status, one.warning) == ("passed", None)


NUMBERS = "+0.2000 (repeated interval 0.0400 to 0.3600) on 100 samples, repeated p 0.012"
SEQUENTIAL_DIFFERENCES: list[
    tuple[str, Verdict, str | None, GateStatus, str, str]
] = [  # gate, verdict, end, status, reason, why
    ("better(judged)", "better", "boundary", "passed", f"judged is better: {NUMBERS}; {NOTE}", "better"),
    ("not worse(judged)", "equal", "boundary", "passed", f"judged is equal: {NUMBERS}; {NOTE}", "equal"),
    ("delta(judged) > 0.05", "better", "boundary", "inconclusive", "may lie on either side", "another margin"),
    ("better(judged)", "inconclusive", None, "inconclusive", "judged is not decided yet", "no verdict yet"),
]


@pytest.mark.parametrize(
    ("gate", "verdict", "end", "status", "message"),
    [row[:5] for row in SEQUENTIAL_DIFFERENCES],
    ids=[row[5] for row in SEQUENTIAL_DIFFERENCES],
)
def test_differences_judged_until_a_verdict(
    gate: str, verdict: Verdict, end: str | None, status: GateStatus, message: str
) -> None:
    test = stored_test(verdict, 90, against="r1", reason=end)
    compared = make_comparison("judged", 0.2, (0.04, 0.36), verdict=verdict, p=0.012, mde=None)
    compared = replace(compared, sequential={"run": "b", **test})
    one = visible_outcome(check_gates([gate], [judged_result(test)], comparison={"judged": compared}))
    assert (one.status, message in one.reason) == (status, True), one.reason


@pytest.mark.parametrize("gate", ["better(judged)", "not worse(judged)", "delta(judged) > 0"])
def test_differences_of_partly_judged_runs_decide_nothing(gate: str) -> None:
    compared = make_comparison("judged", 0.2, (0.04, 0.36), doubt="partly_judged", note="90 samples so far")
    one = visible_outcome(check_gates([gate], [judged_result(None)], comparison={"judged": compared}))
    assert one.status == "inconclusive"
    assert one.reason.endswith("90 samples so far")


@pytest.mark.parametrize(("scored", "total", "brief"), [(19, 20, "0.95"), (989, 1000, "0.9890"), (949, 1000, "0.949")])
def test_coverage_has_the_digits_that_its_number_of_answers_allows(scored: int, total: int, brief: str) -> None:
    details = {"num_scored": scored, "num_failed": total - scored}
    results = Results([MetricResult("mrr", TargetCategory.RETRIEVAL_ACCURACY, 0.5, signature="mrr", details=details)])
    outcome = check_gates(["coverage(mrr) >= 0.95"], results).outcomes[0]
    assert f"{scored} of {total} answers were scored by mrr, {scored / total:.4f}, " in outcome.reason
    assert f" by mrr, {brief}, " in brief_reason(outcome)
