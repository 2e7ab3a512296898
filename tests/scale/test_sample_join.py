"""Batches of samples and their outputs, joined by id: pairs of variants and bases as among all samples."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, SystemOutputs, evaluate, evaluate_stream
from auepora_eval.core.metrics_base import SampleMetric
from auepora_eval.core.registry import Spec
from auepora_eval.core.scores import Score
from auepora_eval.core.types import TargetCategory
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import AueporaWarning
from auepora_eval.scale.inputs import hash_ids, make_id_hashes
from auepora_eval.scale.sharded import join_by_id, sharded_sources
from helpers.builders import output, sample
from helpers.critics import SteadyCritic
from helpers.generated_shards import WORDS, Rows, rows, write_shards
from helpers.requirements import examples

FAMILIES: list[Spec] = [
    "noise_robustness",
    {"noise_robustness": {"base": "bleu", "as": "of sums"}},
    {"noise_robustness": {"base": "quantile_latency", "as": "of folds"}},
    {"noise_robustness": {"base": "recall@2", "base_set": "all", "as": "all bases"}},
    "counterfactual_consistency",
    "misleading_rate",
    {"sliced": {"base": "misleading_rate", "where": {"labels.lang": "de"}}},
    {"sliced": {"base": "noise_robustness", "where": {"labels.lang": "de"}}},
]
OTHERS: list[Spec] = ["token_f1", "distinct_n", "response_diversity", "recall@2"]


@dataclass(frozen=True)
class InMemory:
    """Rows of a list."""

    start: int
    stop: int
    every: Any

    @property
    def size(self) -> int:
        return self.stop - self.start

    def read(self) -> Rows:
        samples, outputs = self.every
        return samples[self.start : self.stop], outputs[self.start : self.stop]


def in_memory(given: Rows, size: int) -> list[InMemory]:
    total = len(given[0])
    return [InMemory(start, min(start + size, total), given) for start in range(0, total, size)]


@st.composite
def families(draw: st.DrawFn) -> Rows:
    """Samples that are variants of any others: chains, circles, absent bases, ids that two samples have."""
    total = draw(st.integers(1, 14))
    names = st.integers(0, 15).map(lambda n: f"q{n}")
    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    for number in range(total):
        made = sample(["a"], sample_id=draw(st.just(f"q{number}") | names), answer=" ".join(WORDS[: 2 + number % 4]))
        made.labels = {"lang": draw(st.sampled_from(["de", "en"]))}
        if draw(st.booleans()):
            made.labels |= {"variant_of": draw(names), "scenario": draw(st.sampled_from(["typo", "counterfactual"]))}
        if draw(st.integers(0, 3)) == 0:
            made.labels["scenario"] = draw(st.sampled_from(["counterfactual", "typo", ["typo", "paraphrase"]]))
            made.metadata["counterfactual"] = True
        samples.append(made)
        error = draw(st.sampled_from([None, None, None, "timeout"]))
        answer = " ".join(WORDS[draw(st.integers(0, 2)) : draw(st.integers(3, 6))])
        repeat = draw(st.sampled_from([0, 0, 0, 1]))
        made_output = output(["x", "a"], answer=answer, error=error, repeat=repeat, timings={"total": 1.0 + number})
        outputs.append(draw(st.just(made_output) | st.none()))
    return samples, outputs


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(given=families(), size=st.integers(1, 15))
def test_any_families_are_joined_as_among_all(given: Rows, size: int) -> None:
    want = evaluate(*given, [*FAMILIES, *OTHERS], slices="labels.lang")
    got = evaluate_sources(in_memory(given, size), [*FAMILIES, *OTHERS], slices="labels.lang")
    assert got == want
    assert [one.slices for one in got] == [one.slices for one in want]


CASES = {
    "a chain over batches": {"q1": "q4", "q4": "q7", "q7": "q9"},
    "a circle": {"q0": "q5", "q5": "q9", "q9": "q0"},
    "a way into a circle": {"q1": "q5", "q5": "q9", "q9": "q5"},
    "its own base": {"q3": "q3"},
    "an absent base": {"q2": "nobody", "q4": "q2"},
    "a base of many": dict.fromkeys(["q0", "q4", "q8", "q11"], "q6"),
}


@pytest.mark.parametrize("size", [1, 2, 5, 12])
@pytest.mark.parametrize("variants", CASES.values(), ids=list(CASES))
def test_families_over_files(tmp_path: Path, variants: dict[str, str], size: int) -> None:
    samples, outputs = rows(12)
    for one in samples:
        one.labels = {"lang": one.labels["lang"]}
        if one.sample_id in variants:
            one.labels |= {"variant_of": variants[one.sample_id], "scenario": ["typo", "counterfactual"]}
    sharded = sharded_sources(
        *write_shards(tmp_path, (samples, outputs), [5], [7]),
        batch_size=size,
    )
    got = evaluate_sources(sharded.sources, FAMILIES, slices="labels.lang")
    assert got == evaluate(samples, outputs, FAMILIES, slices="labels.lang")
    assert any(one.details["num_scored"] for one in got)


@pytest.mark.parametrize("executor", ["serial", "processes"])
def test_files_of_everything_lean(tmp_path: Path, executor: Any) -> None:
    """Without scores: the numbers and details of the serial run."""
    given = rows(200)
    specs: list[Spec] = ["counterfactual_consistency", "misleading_rate", "token_f1"]
    sharded = sharded_sources(*write_shards(tmp_path, given, [60], [90]), batch_size=13)
    got = evaluate_sources(
        sharded.sources,
        specs,
        slices="labels.lang",
        keep_scores=False,
        executor=executor,
        workers=2 if executor == "processes" else None,
    )
    want = evaluate(*given, specs, slices="labels.lang")
    for one, whole in zip(got, want, strict=True):
        assert one.scores is None
        assert (one.value, one.defined, one.signature) == (whole.value, whole.defined, whole.signature)
        # Pairs are kept, other scores are not: no interval rather than one too narrow.
        left_out = "interval" if one.name == "token_f1" else ""
        assert one.details == {key: value for key, value in whole.details.items() if key != left_out}
        for name, groups in whole.slices.items():
            for group, part in groups.items():
                assert one.slices[name][group].value == part.value
    assert got.sample_ids == ()


def test_noise_robustness_lean(tmp_path: Path) -> None:
    given = rows(200)
    sharded = sharded_sources(*write_shards(tmp_path, given, [60], [90]), batch_size=13)
    got = evaluate_sources(sharded.sources, ["noise_robustness"], keep_scores=False)
    want = evaluate_stream(zip(*given, strict=True), ["noise_robustness"], keep_scores=False)
    assert got == want
    assert got[0].details["scenarios"]["typo"]["interval"] is not None


def test_judged_pairs_are_joined_when_all_are_there() -> None:
    given = rows(30)
    judged: Spec = {"noise_robustness": {"base": {"llm_answer_quality": {"critic": SteadyCritic()}}, "as": "judged"}}
    got = evaluate_sources(in_memory(given, 7), [judged, "misleading_rate"])
    assert got == evaluate(*given, [judged, "misleading_rate"])


class Talkative(SampleMetric):
    """Has something to remark of every sample it is asked about."""

    target = TargetCategory.GENERATION_CORRECTNESS

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        raise ValueError("hm")


def test_warnings_of_bases_come_from_their_own_batch() -> None:
    given = rows(40, missing=False)
    noisy: Spec = {"noise_robustness": {"base": Talkative()}}
    with pytest.warns(AueporaWarning, match=r"raised ValueError: hm \(sample 'q1' and 37 more\)"):
        evaluate(*given, noisy)
    with pytest.warns(AueporaWarning, match=r"raised ValueError: hm \(sample 'q1' and 37 more\)"):
        evaluate_sources(in_memory(given, 7), noisy)


# --- who belongs to whom ---------------------------------------------------------------------------------------------


def test_pairs_by_id() -> None:
    samples, outputs = make_id_hashes(["a", "b", "c", "d"]), make_id_hashes(["d", "x", "b", "a"])
    found = join_by_id(samples, outputs)
    assert not found.in_order
    assert (found.missing.tolist(), found.unknown.tolist()) == ([2], [1])
    assert [one.tolist() for one in found.of_batches(np.array([0, 2, 4]))] == [[2, 3], [0]]
    assert join_by_id(samples, samples).in_order
    assert not join_by_id(samples, samples, sure=False).in_order


@given(st.lists(st.text(max_size=6)))
def test_hashes_of_ids(given: list[str]) -> None:
    """The same for the same id, whatever stands beside it, and another for every other."""
    together = hash_ids(given).tolist()
    assert together == [int(hash_ids([one])[0]) for one in given]
    assert len(set(together)) == len(set(given))


def test_hashes_of_many_ids_are_distinct() -> None:
    many = [f"{stem}{number}" for stem in ("q", "q0", "sample-", "\0", "ä") for number in range(40_000)]
    assert len(np.unique(hash_ids(many))) == len(set(many))
    for one in ("", "q1", "\ud800"):
        by_hand = enumerate(one.encode("utf-8", "surrogatepass") + b"\0", start=1)
        want = sum((byte + 1) * pow(0x9E3779B97F4A7C15, place, 2**64) for place, byte in by_hand) % 2**64
        assert hash_ids([one]).tolist() == [want]
