"""Batches that workers read from sources: the same results as from lists."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from auepora_eval import EvaluationSample, SystemOutputs, evaluate, evaluate_stream
from auepora_eval.core.registry import Spec
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.engine.executors import BatchSource
from auepora_eval.errors import BadTypeError, BadValueError, MissingFieldError
from helpers.builders import output, sample
from helpers.critics import SteadyCritic

METRICS: list[Spec] = [
    "recall@2",
    "ndcg@3",
    "token_f1",
    "bleu",
    "rejection_f1",
    {"noise_robustness": {"base": "token_f1"}},
]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@dataclass(frozen=True)
class Counted:
    """Rows that follow from their numbers alone, so that every process makes the same."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        return rows(range(self.start, self.stop))


def rows(numbers: Sequence[int]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples, outputs = [], []
    for number in numbers:
        made = sample(["a", f"d{number % 7}"], sample_id=f"q{number}", answer=" ".join(WORDS[: 2 + number % 5]))
        made.labels = {"answerable": number % 4 > 0, "lang": "de" if number % 3 else "en"}
        if number % 10 == 9:  # often in another batch than its base
            made.labels |= {"scenario": "typo", "variant_of": f"q{number // 2}"}
        samples.append(made)
        error = "timeout" if number % 29 == 0 else None
        outputs.append(output(["x", f"d{number % 5}", "a"], answer=" ".join(WORDS[number % 3 : 5]), error=error))
    return samples, [None if number % 31 == 0 else one for number, one in zip(numbers, outputs, strict=True)]


def sources(total: int, size: int) -> list[Counted]:
    return [Counted(start, min(start + size, total)) for start in range(0, total, size)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_the_same_as_from_lists(size: int) -> None:
    want = evaluate(*rows(range(200)), METRICS, slices="labels.lang")
    assert isinstance(Counted(0, 1), BatchSource)
    got = evaluate_sources(sources(200, size), METRICS, slices="labels.lang")
    assert got == want
    assert got.sample_ids == want.sample_ids
    assert [one.slices for one in got] == [one.slices for one in want]


@pytest.mark.slow
def test_sources_are_read_by_worker_processes() -> None:
    want = evaluate(*rows(range(300)), METRICS, slices="labels.lang")
    got = evaluate_sources(sources(300, 40), METRICS, slices="labels.lang", executor="processes", workers=3)
    assert got == want


def test_batches_change_no_bit_of_an_interval_that_keeps_no_scores() -> None:
    """Of values that are added up as they pass, too: 3,000 samples, in batches that do not fit into each other."""
    samples, outputs = rows([number for number in range(3000) if number % 10 != 9])
    metrics = ["token_f1", "ndcg@3", "recall@2"]
    kept = evaluate(samples, outputs, metrics)
    lean = [
        evaluate_stream(zip(samples, outputs, strict=True), metrics, keep_scores=False, batch_size=size)
        for size in (1024, 100, 7, 5000)
    ]
    for one in lean[1:]:
        assert [result.interval for result in one] == [result.interval for result in lean[0]]
        assert [result.details for result in one] == [result.details for result in lean[0]]
    for result, whole in zip(lean[0], kept, strict=True):
        assert result.value == whole.value
        assert result.interval == pytest.approx(whole.interval, rel=1e-12)


def test_judged_metrics_work_with_sources() -> None:
    judged: Spec = {"llm_answer_quality": {"critic": SteadyCritic()}}
    got = evaluate_sources(sources(40, 8), ["token_f1", judged])
    assert got == evaluate(*rows(range(40)), ["token_f1", judged])
    assert got[1].details["num_scored"] > 30


@dataclass(frozen=True)
class Wrong:
    size = 1

    def read(self) -> tuple[list[str], list[None]]:
        return ["no sample"], [None]


def test_errors_of_sources() -> None:
    with pytest.raises(BadTypeError, match=r"samples\[0\] is a str"):
        evaluate_sources([Wrong()], ["recall@2"])  # type: ignore[list-item]
    with pytest.raises(BadValueError, match=r"no sample has 'labels\.land' to slice by"):
        evaluate_sources(sources(5, 5), ["recall@2"], slices="labels.land")

    @dataclass(frozen=True)
    class Bare(Counted):
        def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
            return [EvaluationSample("q", "?")], [output(["a"])]

    with pytest.raises(MissingFieldError, match="relevant_docs"):
        evaluate_sources([Bare(0, 1)], ["recall@2"])
