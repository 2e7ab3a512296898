"""Latency and throughput: hand-made timings with their reasons, in every form that is no timing, and in slices."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval import BatchMetric, EvaluationSample, SystemOutputs, evaluate, evaluate_stream, metric
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.metrics.additional import MeanLatency, QuantileLatency, Throughput
from auepora_eval.metrics.latency import AnswerRate, ClockRate, Quantile
from helpers.builders import output, sample
from helpers.suggestions import suggest_metrics


def timed(*seconds: Any, key: str = "end_to_end") -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    """A sample per timing; ``None`` for an output without one."""
    rows = [sample(sample_id=f"q{at}") for at in range(len(seconds))]
    return rows, [output(timings={} if one is None else {key: one}) for one in seconds]


def begun(*moments: tuple[float, float]) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    """A sample per (start, duration)."""
    rows = [sample(sample_id=f"q{at}") for at in range(len(moments))]
    return rows, [output(timings={"started": start, "end_to_end": took}) for start, took in moments]


def outcomes(built: BatchMetric, rows: list[EvaluationSample], outs: Any) -> list[str]:
    return list(built.compute(rows, outs).outcomes or ())


HUNDRED = [float(number) for number in range(100, 0, -1)]
QUANTILES: list[tuple[list[float], float, float, str]] = [  # timings, q, want, why
    (HUNDRED, 0.55, 55.0, "the 55th of 100, although 0.55 * 100 is 55.00000000000001"),
    (HUNDRED, 0.07, 7.0, "the 7th likewise"),
    (HUNDRED, 0.95, 95.0, "all but the slowest five"),
    (HUNDRED, 0.999, 100.0, "99.9 rounded up"),
    (HUNDRED, 1.0, 100.0, "the slowest"),
    (HUNDRED, 1e-12, 1.0, "the fastest"),
    ([3.0, 1.0, 2.0], 0.5, 2.0, "the median of three"),
    ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0, "of four the lower of the two in the middle: no mixture"),
    ([4.0, 1.0, 3.0, 2.0], 0.51, 3.0, "and a little more the upper one"),
    ([7.0], 0.01, 7.0, "of one it is that one"),
    ([2.0, 2.0, 9.0], 0.6, 2.0, "equal timings"),
    ([0.0, 0.0], 0.95, 0.0, "no time at all is a timing"),
]


@pytest.mark.parametrize(("seconds", "q", "want"), [r[:3] for r in QUANTILES], ids=[r[3] for r in QUANTILES])
def test_quantiles_by_hand(seconds: list[float], q: float, want: float) -> None:
    result = QuantileLatency(quantile=q).compute(*timed(*seconds))
    assert (result.value, result.details["num_samples"], result.details["quantile"]) == (want, len(seconds), q)
    assert list(result.scores or ()) == seconds


NO_TIMING: list[tuple[Any, str, str]] = [
    (None, "skipped:no_timing", "there is none"),
    (-0.001, "measure_failed:bad_timing", "negative"),
    (math.nan, "measure_failed:bad_timing", "not a number"),
    (math.inf, "measure_failed:bad_timing", "without end"),
    (True, "measure_failed:bad_timing", "a truth"),
    (np.True_, "measure_failed:bad_timing", "a truth of numpy's"),
    ("1.5", "measure_failed:bad_timing", "a text"),
    ([1.5], "measure_failed:bad_timing", "a list"),
    (1j, "measure_failed:bad_timing", "a complex number"),
    (np.complex128(1), "measure_failed:bad_timing", "a complex number of numpy's"),
    (10**400, "measure_failed:bad_timing", "too large for a float"),
    (0, "scored", "an integer"),
    (-0.0, "scored", "a negative zero is a zero"),
    (np.float32(0.5), "scored", "a number of numpy's"),
    (np.int64(2), "scored", "an integer of numpy"),
]


@pytest.mark.parametrize("spec", ["mean_latency", "quantile_latency", "throughput"])
@pytest.mark.parametrize(("timing", "want"), [r[:2] for r in NO_TIMING], ids=[r[2] for r in NO_TIMING])
def test_what_is_no_timing(spec: str, timing: Any, want: str) -> None:
    built = metric(spec)
    assert isinstance(built, BatchMetric)
    assert outcomes(built, *timed(1.0, timing)) == ["scored", want]


@pytest.mark.parametrize("spec", ["mean_latency", "quantile_latency", "throughput", {"throughput": {"by": "clock"}}])
def test_failed_outputs_are_left_out(spec: Any) -> None:
    rows, outs = begun((0, 1.0), (1, 30.0), (2, 1.0))
    outs[1].error = "timeout"
    (result,) = evaluate([*rows, sample(sample_id="missing")], [*outs, None], [spec])
    assert list(result.outcomes or ()) == ["scored", "system_failed:timeout", "scored", "system_failed:missing_output"]
    assert list(result.scores or ()) == [1.0, None, 1.0, None]
    (without,) = evaluate([rows[0], rows[2]], [outs[0], outs[2]], [spec])
    assert result.value == without.value == result.details["value_completed"]


def test_nothing_measured_is_undefined() -> None:
    for one in (QuantileLatency(), Throughput(), Throughput(by="clock"), MeanLatency()):
        result = one.compute(*timed(None, "x"))
        assert (result.value, result.defined, result.details["num_samples"]) == (0.0, False, 0)


def test_quantile_is_in_the_details_of_empty_and_streamed_results() -> None:
    assert QuantileLatency(quantile=0.5).compute([], []).details["quantile"] == 0.5
    rows, outs = timed(1.0, 2.0)
    (result,) = evaluate_stream(zip(rows, outs, strict=True), ["quantile_latency[end_to_end,0.5]"], keep_scores=False)
    assert (result.value, result.details["quantile"], result.scores) == (1.0, 0.5, None)


def test_intervals_of_quantiles() -> None:
    result = QuantileLatency(quantile=0.5).compute(*timed(*HUNDRED))
    assert result.interval is not None
    assert result.interval == pytest.approx((40, 60), abs=1)  # places of the order statistics, by the binomial
    assert result.details["interval"] == {"method": "bootstrap", "units": 100, "flags": []}
    few = QuantileLatency().compute(*timed(*HUNDRED[:20]))
    assert few.details["interval"]["flags"] == ["few", "unbounded"]  # twenty cannot bound their 95 % quantile
    assert QuantileLatency().compute(*timed(*[2.0] * 9)).interval is None


def test_clusters_are_drawn_whole() -> None:
    rows, outs = timed(*HUNDRED)
    for at, row in enumerate(rows):
        row.cluster_id = str(at // 5)
    outs[0].timings = {}  # a cluster may have lost a member
    alone = QuantileLatency(quantile=0.5).compute(*timed(*HUNDRED))
    together = QuantileLatency(quantile=0.5).compute(rows, outs)
    assert together.details["interval"]["units"] == 20
    assert together.interval is not None
    assert alone.interval is not None
    assert together.interval[1] - together.interval[0] > alone.interval[1] - alone.interval[0]


@pytest.mark.parametrize("key", ["", " ", "a,b", "a]", "a|b"], ids=repr)
@pytest.mark.parametrize("cls", [MeanLatency, QuantileLatency, Throughput])
def test_timing_key_that_cannot_be_in_a_name(cls: Any, key: Any) -> None:
    with pytest.raises(ValueError, match="cannot stand in a metric's name"):
        cls(timing_key=key)


def test_names_and_signatures() -> None:
    assert QuantileLatency().name == "quantile_latency[end_to_end,0.95]"
    assert QuantileLatency("retrieval", 0.5).name == "quantile_latency[retrieval,0.5]"
    assert QuantileLatency(quantile=np.float32(0.9)).name == "quantile_latency[end_to_end,0.9]"  # type: ignore[arg-type]
    assert str(QuantileLatency().signature) == "quantile_latency[end_to_end,0.95]|v1"
    (result,) = evaluate(*timed(1.0), ["quantile_latency"], run=RunInfo(concurrency=4))
    assert result.signature == "quantile_latency[end_to_end,0.95]|concurrency:4|v1"
    assert (Quantile(0.5), Quantile(0.5).name) == (Quantile(0.5), "quantile[0.5]")
    assert Quantile(0.5) != Quantile(0.6)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(1, 100))
def test_quantile_is_a_measured_timing(seconds: list[float], percent: int) -> None:
    result = QuantileLatency(quantile=percent / 100).compute(*timed(*seconds))
    assert result.value in seconds
    assert sum(one <= result.value for one in seconds) * 100 >= percent * len(seconds)
    assert sum(one < result.value for one in seconds) * 100 < percent * len(seconds)
    text = Decimal(str(percent / 100))
    assert result.value == sorted(seconds)[math.ceil(text * len(seconds)) - 1]


# --- throughput -----------------------------------------------------------------------------------------------------

RATES: list[tuple[list[Any], int | None, float, str]] = [  # timings, concurrency, want, why
    ([0.5, 0.5], None, 2 / 1, "two answers in a second"),
    ([1.0, 3.0], None, 2 / 4, "one after the other"),
    ([1.0, 3.0], 2, 2 * 2 / 4, "two at a time"),
    ([1.0, 3.0, None], 1, 2 / 4, "one without a timing is left out"),
    ([0.0, 2.0], None, 2 / 2, "an answer that took no time is an answer"),
    ([4], 8, 8 / 4, "one answer, eight lanes of the like"),
]


@pytest.mark.parametrize(("seconds", "lanes", "want"), [r[:3] for r in RATES], ids=[r[3] for r in RATES])
def test_throughput_by_latency(seconds: list[Any], lanes: int | None, want: float) -> None:
    result = Throughput(concurrency=lanes).compute(*timed(*seconds))
    assert result.value == want
    assert list(result.scores or ()) == seconds  # a sample shows its timing


CLOCKS: list[tuple[list[tuple[float, float]], float, str]] = [  # (start, duration), want, why
    ([(0, 1), (1, 1)], 2 / 2, "one after the other"),
    ([(0, 1), (0, 1)], 2 / 1, "both at once"),
    ([(0, 5), (1, 1)], 2 / 5, "the one that began first ends last"),
    ([(0, 1), (9, 1)], 2 / 10, "a pause counts"),
    ([(1000.5, 1), (1001, 1)], 2 / 1.5, "any clock"),
    ([(-1, 2), (0, 1)], 2 / 2, "even one that begins below zero"),
    ([(3, 4)], 1 / 4, "one answer"),
]


@pytest.mark.parametrize(("moments", "want"), [r[:2] for r in CLOCKS], ids=[r[2] for r in CLOCKS])
def test_throughput_by_the_clock(moments: list[tuple[float, float]], want: float) -> None:
    result = Throughput(by="clock").compute(*begun(*moments))
    assert result.value == want
    assert result.interval is None
    rows, outs = begun(*moments)
    (folded,) = evaluate_stream(zip(rows, outs, strict=True), [Throughput(by="clock")], batch_size=1, keep_scores=False)
    assert folded.value == want


@pytest.mark.parametrize("by", ["latency", "clock"])
def test_without_time_there_is_no_rate(by: Any) -> None:
    for took in (0.0, 5e-324):  # a rate beyond all floats is none either
        result = Throughput(by=by).compute(*begun((1.0, took), (1.0, took)))
        assert (result.value, result.defined, result.details["num_samples"]) == (0.0, False, 2)


def test_invalid_start_time() -> None:
    rows, outs = begun((0, 1), (0, 1), (0, 1), (0, 1))
    del outs[0].timings["started"]
    outs[1].timings["started"] = math.nan
    outs[2].timings["end_to_end"] = -1
    want = ["skipped:no_start", "measure_failed:bad_timing", "measure_failed:bad_timing", "scored"]
    assert outcomes(Throughput(by="clock"), rows, outs) == want
    assert outcomes(Throughput(), rows, outs)[:2] == ["scored", "scored"]


def test_concurrency_of_the_run() -> None:
    rows, outs = timed(1.0, 3.0)
    cases: list[tuple[RunInfo, Any, float, str]] = [
        (RunInfo(), "throughput", 2 / 4, "throughput|timing:end_to_end|by:latency|concurrency:1|v1"),
        (RunInfo(concurrency=6), "throughput", 6 * 2 / 4, "throughput|timing:end_to_end|by:latency|concurrency:6|v1"),
        (
            RunInfo(concurrency=6),
            {"throughput": {"concurrency": 2, "as": "two"}},
            2 * 2 / 4,
            "throughput|timing:end_to_end|by:latency|concurrency:2|v1",
        ),
    ]
    for run, spec, want, signature in cases:
        (result,) = evaluate(rows, outs, [spec], run=run)
        assert (result.value, result.signature) == (want, signature)
    (clock,) = evaluate(*begun((0, 1)), [Throughput(by="clock")], run=RunInfo(concurrency=6))
    assert clock.signature == "throughput|timing:end_to_end|by:clock|concurrency:6|v1"
    assert Throughput() == Throughput()  # the metric itself stays as it was
    assert Throughput().for_run(RunInfo(concurrency=3)) == Throughput(concurrency=3)


def test_wrapper_metric_gets_the_run_info() -> None:
    rows, outs = timed(1.0, 3.0, 4.0)
    rows[2].labels["lang"] = "de"
    for spec, name in [
        ({"sliced": {"base": "throughput", "where": {"labels.lang": "de"}}}, "sliced[throughput,labels.lang=de]"),
        ({"sliced": {"base": "throughput", "where": {"labels.lang": "de"}, "as": "german"}}, "german"),
    ]:
        (result,) = evaluate(rows, outs, [spec], run=RunInfo(concurrency=6))
        assert (result.name, result.value) == (name, 6 * 1 / 4)
        assert result.signature is not None
        assert "|base.concurrency:6|" in result.signature
        assert result.signature.startswith("sliced[throughput,labels.lang=de]|")


def test_its_interval_is_a_bootstrap() -> None:
    result = Throughput(concurrency=2).compute(*timed(*np.random.default_rng(0).uniform(1, 3, 200).tolist()))
    assert result.interval is not None
    low, high = result.interval
    assert low < result.value < high
    assert result.value == pytest.approx(2 / 2, abs=0.1)  # two lanes, two seconds each
    # The standard error of a mean of 200 uniform numbers of width 2, relative to 2, and so about that of the rate.
    assert high - low == pytest.approx(2 * 1.96 * (2 / math.sqrt(12) / math.sqrt(200)) / 2, rel=0.2)


def test_concurrency_is_not_an_option_of_the_clock() -> None:
    with pytest.raises(ValueError, match="'concurrency' cannot be combined with 'by: clock'"):
        metric("throughput", by="clock", concurrency=2)


def test_names_of_reducers() -> None:
    assert (AnswerRate(3).name, ClockRate().name) == ("answer_rate[3]", "clock_rate")
    assert AnswerRate(3) == AnswerRate(3) != AnswerRate(2)


# --- slices and suggestions -----------------------------------------------------------------------------------------

SLICED: list[Any] = [
    "quantile_latency[end_to_end,0.9]",
    "throughput",
    {"throughput": {"by": "clock", "as": "by_clock"}},
    "distinct_n",
    "response_diversity",
    "intra_list_diversity@2",
]


def test_slice_is_the_metric_on_the_subset() -> None:
    rng = np.random.default_rng(0)
    rows, outs = begun(*[(float(rng.uniform(0, 50)), float(rng.uniform(0, 5))) for _ in range(40)])
    for at, (row, out) in enumerate(zip(rows, outs, strict=True)):
        row.labels["lang"] = ["de", "en", "fr"][at % 3]
        answered = output("ab", answer=" ".join(rng.choice(["cat", "dog", "mat", "sat"], 3)))
        out.response, out.retrieved = answered.response, answered.retrieved
        for item in out.retrieved:
            item.doc.metadata["embedding"] = rng.normal(size=4).tolist()
    outs[3].error, outs[4].timings = "timeout", {}
    whole = evaluate(rows, outs, SLICED, slices="labels.lang")
    for lang in ("de", "en", "fr"):
        chosen = [at for at, row in enumerate(rows) if row.labels["lang"] == lang]
        part = evaluate([rows[at] for at in chosen], [outs[at] for at in chosen], SLICED)
        for result, alone in zip(whole, part, strict=True):
            found = result.slices["labels.lang"][lang]
            assert (found.value, found.defined, found.details) == (alone.value, alone.defined, alone.details)
            assert found.interval == alone.interval


def test_every_timing_is_suggested_except_start_times() -> None:
    rows, outs = begun((0, 1), (1, 1))
    outs[1].timings["retrieval"] = 0.5
    found = suggest_metrics(rows, outs)
    latencies = [spec for spec in found if "latency" in spec or spec == "throughput"]
    assert latencies == [
        "mean_latency[end_to_end]",
        "mean_latency[retrieval]",
        "quantile_latency[end_to_end,0.95]",
        "quantile_latency[retrieval,0.95]",
        "throughput",
    ]
    assert "throughput" not in suggest_metrics(*timed(1.0, key="retrieval"))
