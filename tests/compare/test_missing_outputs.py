"""Missing outputs in comparisons, leaderboards and gates: no run wins by leaving out what is hard."""

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from auepora_eval import EvaluationSample, SystemOutputs, evaluate
from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.metrics import build_comparisons
from auepora_eval.compare.runs import build_leaderboard, compare_metrics
from auepora_eval.compare.types import MetricComparison
from auepora_eval.core.conventions import PRESETS, Conventions
from auepora_eval.core.metrics_base import BatchMetric, Metric
from auepora_eval.core.reduce import Mean
from auepora_eval.core.registry import metric
from auepora_eval.core.results import Results
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.builders import output, sample
from helpers.golden_runs import put_run
from helpers.metric_examples import SPECS, built, made_data, model_names
from helpers.requirements import profile

Outputs = Sequence[SystemOutputs | None]
Compared = tuple[MetricComparison, np.ndarray, bool]

PLAN = """\
version: 1
name: {name}
dataset: {{trec: qrels.txt}}
outputs: {{trec: {name}.run}}
metrics: [map, recall@5]
store: runs.sqlite
"""


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Run) -> Run:
    """Two stored TREC runs: B is A without the 20 topics on which A finds the relevant document last."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    topics = range(50)
    rows = {name: [f"{topic} 0 {name} {int(name == 'gold')}" for topic in topics] for name in ("gold", "x", "y")}
    Path("qrels.txt").write_text("\n".join(line for lines in rows.values() for line in lines) + "\n")
    for name in ("a", "b"):
        lines = []
        for topic in topics:
            ranking = ["x", "y", "gold"] if topic < 20 else ["gold", "x", "y"]
            if name == "a" or topic >= 20:
                lines += [f"{topic} Q0 {doc} {rank} {9 - rank} {name}" for rank, doc in enumerate(ranking, 1)]
        Path(f"{name}.run").write_text("\n".join(lines) + "\n")
        Path(f"{name}.yaml").write_text(PLAN.format(name=name))
        assert auepora("run", f"{name}.yaml")[0] == 0
    return auepora


class TestCommands:
    def test_a_run_does_not_win_by_leaving_out_its_worst_topics(self, trec: Run) -> None:
        report = json.loads(trec("compare", "a", "b", "--json")[1])
        found = report["deltas"]["metrics"]["map"]
        # Twenty topics have a third in A, and count as 0 in B.
        assert found["delta"] == pytest.approx(-20 / 50 / 3)
        assert found["verdict"] == "worse"
        assert found["missing_outputs"] == report["missing_outputs"] == {"a": 0, "b": 20}
        assert found["delta_completed"] == 0

    def test_tables_count_missing_outputs(self, trec: Run) -> None:
        for options in (("--all",), ("-o", "page.md")):
            page = trec("compare", "a", "b", *options)[1] or Path("page.md").read_text()
            assert "missing outputs: 0 in A, 20 in B" in page

    def test_a_relative_gate_fails(self, trec: Run) -> None:
        code, output, _ = trec("gate", "b", "--against", "a", "-g", "not worse(map)")
        assert (code, "map is worse" in output) == (1, True)

    def test_an_absolute_gate_is_inconclusive_where_the_convention_skips(self, trec: Run) -> None:
        code, output, _ = trec("gate", "b", "-g", "map >= 0.5")
        assert code == 3
        assert "without 20 missing outputs, which its conventions skip" in output
        assert trec("gate", "a", "-g", "map >= 0.5")[0] == 0
        # Counted as failures they have a value, and the gate decides by it.
        assert trec("rescore", "b", "-m", "map:missing=fail")[0] == 0
        code, output, _ = trec("gate", "b", "-g", "map >= 0.7", "-g", "coverage >= 0.5")
        assert (code, "map is 0.60, below 0.7" in output) == (1, True)

    def test_leaderboard_counts_missing_outputs(self, trec: Run) -> None:
        Path("c.yaml").write_text(PLAN.format(name="a").replace("name: a", "name: c"))
        assert trec("run", "c.yaml")[0] == 0
        made = json.loads(trec("compare", "a", "b", "c", "--json")[1])
        assert [one["missing_outputs"] for one in made["runs"]] == [0, 20, 0]
        assert made["metrics"]["map"]["values"] == pytest.approx([(30 + 20 / 3) / 50, 30 / 50, (30 + 20 / 3) / 50])
        assert "missing outputs: 0 in A, 20 in B, 0 in C" in trec("compare", "a", "b", "c", "--all")[1]


def stored(
    store: RunStore,
    name: str,
    queries: Sequence[EvaluationSample],
    *repeats: Outputs,
    metrics: Sequence[Metric],
    conventions: str | Conventions,
) -> RunRecord:
    """A stored run with these outputs, scored; ``None`` is a missing output."""
    rules = Conventions.of(conventions)
    record = put_run(store, name, queries, *repeats, plan={"conventions": {"name": rules.name, **rules.changes()}})
    results: Results = (
        evaluate(queries, list(repeats[0]), metrics, conventions=rules)
        if len(repeats) == 1
        else evaluate_repeats(queries, [partial(list, one) for one in repeats], metrics, conventions=rules)
    )
    store.put_results(record.run_id, results, reducers={})
    return record


def only(store: RunStore, a: RunRecord, b: RunRecord, one: Metric, **options: object) -> MetricComparison:
    return compare_metrics(store, a, b, metrics=[one], **options).by_name[one.name]


class TestValues:
    QUERIES: ClassVar = [sample(["gold"], sample_id=f"q{n}", answer="yes") for n in range(12)]
    GOOD = output(["gold"], answer="yes", timings={"end_to_end": 1.0})

    @pytest.mark.parametrize("missing", ["skip", "zero", "fail"])
    @pytest.mark.parametrize(("spec", "worst"), [("recall@5", 0.0), ("aqwv@5", -40.0), ("hallucination_rate", 1.0)])
    def test_the_convention_does_not_matter(self, store: RunStore, spec: str, worst: float, missing: str) -> None:
        one = metric(spec, conventions=Conventions.of("auepora", missing=missing))
        good = output(["gold"], answer="yes")
        good.retrieved[0].doc.text = "yes"
        a = stored(store, "a", self.QUERIES, [good] * 12, metrics=[one], conventions="auepora")
        b = stored(store, "b", self.QUERIES, [None] * 9 + [good] * 3, metrics=[one], conventions="auepora")
        found = only(store, a, b, one)
        assert found.a is not None
        assert found.b == pytest.approx((9 * worst + 3 * found.a) / 12)
        assert (found.verdict, found.missing) == ("worse", (0, 9))

    def test_missing_part_of_the_repeats(self, store: RunStore) -> None:
        one = metric("recall@5", conventions="trec")
        full, half = [self.GOOD] * 12, [None] * 6 + [self.GOOD] * 6
        a = stored(store, "a", self.QUERIES, full, full, metrics=[one], conventions="trec")
        b = stored(store, "b", self.QUERIES, full, half, metrics=[one], conventions="trec")
        found = only(store, a, b, one)
        assert (found.a, found.b, found.missing) == (1.0, (6 + 6 / 2) / 12, (0, 6))

    def test_samples_that_the_metric_does_not_apply_to_stay_out(self, store: RunStore) -> None:
        one = metric("recall@5", conventions="trec")
        queries = [*self.QUERIES, sample(None, sample_id="no gold")]
        a = stored(store, "a", queries, [self.GOOD] * 13, metrics=[one], conventions="trec")
        b = stored(store, "b", queries, [self.GOOD] * 12 + [None], metrics=[one], conventions="trec")
        assert (only(store, a, b, one).n, only(store, a, b, one).delta) == (12, 0.0)
        assert store.result("run_b", "recall@5").details["skipped_no_gold"] == 1

    @pytest.mark.parametrize(
        "spec", ["mean_latency[end_to_end]", "throughput", "rejection_f1", "groundedness", "bleu", "noise_robustness"]
    )
    def test_without_a_worst_value_or_a_mean_there_is_no_verdict(self, store: RunStore, spec: str) -> None:
        one = metric(spec)
        fast = output(["gold"], answer="yes", timings={"end_to_end": 0.1})
        a = stored(store, "a", self.QUERIES, [self.GOOD] * 12, metrics=[one], conventions="auepora")
        b = stored(store, "b", self.QUERIES, [fast] * 9 + [None] * 3, metrics=[one], conventions="auepora")
        found = only(store, a, b, one, delta=10.0)
        assert (found.verdict, found.doubt, found.missing) == ("inconclusive", "missing_outputs", (0, 3))
        assert "no verdict: 3 outputs of B are missing" in str(found.note)

    def test_equal_needs_all_outputs(self, store: RunStore) -> None:
        one = metric("recall@5")
        a = stored(store, "a", self.QUERIES, [output(["x"])] * 12, metrics=[one], conventions="auepora")
        b = stored(store, "b", self.QUERIES, [output(["x"])] * 11 + [None], metrics=[one], conventions="auepora")
        found = only(store, a, b, one, delta=0.9)
        assert (found.verdict, found.doubt) == ("inconclusive", "missing_outputs")

    def test_better_must_hold_at_the_best_value_too(self, store: RunStore) -> None:
        # Eleven small gains and a large one: without the large one their spread is small, and they seem sure.
        one = metric("precision@5", conventions="client")
        queries = [sample(["g1", "g2", "g3", "g4", "g5"], sample_id=f"q{n}") for n in range(8)]
        a = stored(store, "a", queries, [output(["x"])] * 8, metrics=[one], conventions="client")
        gain = output(["g1"])
        large = output(["g1", "g2", "g3", "g4", "g5"])
        b = stored(store, "b", queries, [*[gain] * 7, large], metrics=[one], conventions="client")
        c = stored(store, "c", queries, [*[gain] * 7, None], metrics=[one], conventions="client")
        whole, part = only(store, a, b, one), only(store, a, c, one)
        assert part.verdict in (whole.verdict, "inconclusive")

    def test_a_run_scored_elsewhere_has_no_missing_outputs(self, store: RunStore) -> None:
        one = metric("recall@5")
        assert isinstance(one, BatchMetric)
        records = []
        for name in "ab":
            record = store.create_run(name, self.QUERIES, dataset_name="made", plan={})
            store.put_result(record.run_id, one.compute(self.QUERIES, [self.GOOD] * 12))
            store.finish(record.run_id)
            records.append(store.get(record.run_id))
        assert build_leaderboard(store, records).missing == (0, 0)


# --- over random sets -------------------------------------------------------------------------------------------------

COUNTED = [
    one
    for spec in SPECS
    if not model_names(spec)
    and (one := built(spec)).worst is not None
    and type(one.reducer) is Mean
    and one.conventions is None
]


def random_runs(seed: int) -> tuple[list[EvaluationSample], Outputs, Outputs]:
    """Samples and the outputs of two runs, the second often the better one; some have failed, some are missing."""
    rng = random.Random(seed)
    n = rng.randint(6, 13)
    rows, first = made_data(seed, n)
    _, second = made_data(seed + 1000, n)
    share = rng.random()
    for place, row in enumerate(rows):
        if rng.random() < share:
            texts = row.references
            ids = [] if row.relevant_docs is None else [one.doc_id for one in row.relevant_docs]
            second[place] = output(ids, answer=texts[0] if texts else "cats sat", citations=ids)
    for one in (*first, *second):
        if one is not None:  # what a store does not take, and what trec does not
            one.timings = {}
            one.retrieved = list({item.doc.doc_id: item for item in one.retrieved}.values())
            for rank, item in enumerate(one.retrieved, 1):
                item.rank, item.doc.metadata = rank, {}
    return rows, first, second


def compared(
    store: RunStore, a: RunRecord, b: RunRecord, metrics: Sequence[Metric], delta: float | None
) -> dict[str, Compared]:
    """By metric the comparison, the values of B that it uses, and whether higher ones are better."""
    asked = build_comparisons(store, [a, b], metrics=metrics, delta=delta, primary=None, other_dataset=False)
    found = compute_comparisons(asked.inputs, asked.shared.clusters)
    return {
        one.name: (one, question.pair.second.values, question.pair.definition.higher_score_is_better)
        for one, question in zip(found, asked.inputs, strict=True)
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::auepora_eval.errors.AueporaWarning")  # of samples that say odd things
def test_removing_outputs_never_helps(store: RunStore) -> None:
    """No value of a sample rises by it, and no verdict turns into better or equal."""
    for seed in range(20 if profile() == "thorough" else 6):
        preset = list(PRESETS)[seed % len(PRESETS)]
        rng = random.Random(f"{preset} {seed}")
        rows, first, second = random_runs(seed)
        fewer = [None if rng.random() < 0.25 else one for one in second]
        metrics = list({one.name: one for one in rng.sample(COUNTED, 8)}.values())
        a, whole, part = (
            stored(store, f"{name} {preset} {seed}", rows, outputs, metrics=metrics, conventions=preset)
            for name, outputs in (("a", first), ("b", second), ("c", fewer))
        )
        delta = 0.2 if seed % 2 else None
        before, after = (compared(store, a, one, metrics, delta) for one in (whole, part))
        for name, (found, new, higher) in after.items():
            if name not in before:  # refused there: rankings of unequal length, or other chunks
                continue
            then, old, _ = before[name]
            where = f"{name} by {preset} in set {seed}: {then}, with outputs removed {found}"
            assert found.verdict in ("worse", "inconclusive", then.verdict), where
            change = (new - old) * (1 if higher else -1)
            assert not (change > 0).any(), where
            if found.doubt != "missing_outputs":
                assert not (np.isnan(new) & ~np.isnan(old)).any(), where
