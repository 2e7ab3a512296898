"""Golden comparisons of stored runs at full precision, for three seeds: differences, intervals, p-values, verdicts, leaderboards."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    Document,
    EvaluationSample,
    Metric,
    Response,
    RetrievedDocument,
    RunStore,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
    evaluate,
    metric,
)
from auepora_eval.compare import compare_metrics, compare_runs, compute_aggregate
from auepora_eval.compare.queries import explain_changes
from auepora_eval.compare.runs import build_leaderboard
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.gates import check_gates
from auepora_eval.store import StoredOutput
from helpers.golden import check_golden, check_golden_text
from helpers.golden_metrics import quiet

N = 48
WORDS = [
    "the",
    "tower",
    "stands",
    "in",
    "paris",
    "near",
    "river",
    "seine",
    "and",
    "it",
    "was",
    "built",
    "by",
    "eiffel",
    "long",
    "ago",
]
METRICS = (
    "recall@3", "recall@5", "ndcg@5", "hit_rate@1", "exact_match", "token_f1", "bleu", "rejection_precision", "negative_rejection_rate",
    "mean_latency", "quantile_latency[end_to_end,0.9]", "empty_result_rate",
)  # fmt: skip
"""Means, proportions, a corpus score, a ratio (what is refused differs between runs), a latency and a quantile."""
WITH_CLUSTERS = ("recall@5", "exact_match", "token_f1", "bleu", "rejection_precision", "mean_latency[end_to_end]")
GATES = (
    "recall@5 >= 0.3", "low(recall@5) >= 0.9", "token_f1 where labels.lang = de >= 0.1", "delta(token_f1) > -0.5", "better(recall@5)",
    "not worse(bleu, by=60)", "not worse(exact_match)", "coverage >= 0.5", "mean_latency[end_to_end] <= 0.001",
)  # fmt: skip


class AnswerLength(SampleMetric):
    """A metric of a user, which fails to measure some answers; signatures name it by module and class."""

    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        words = (output.response.text if output.response else "").split()
        return Score.fail("too_many_words") if len(words) == 8 else Score(len(words) / 10)


def own_metrics() -> list[Metric]:
    """Metrics that a comparison is given as objects: one of a user, and one under another name that leaves failures out."""
    return [AnswerLength(), metric("token_f1", on_system_failure="exclude", **{"as": "completed_f1"})]


def make_samples(seed: int, *, clustered: bool) -> list[EvaluationSample]:
    rng = random.Random(f"samples {seed}")
    return [
        EvaluationSample(
            f"q{number:02}",
            f"question {number}?",
            relevant_docs=[Document(f"d{doc}") for doc in rng.sample(range(12), rng.randint(1, 3))],
            reference_answer=Response(" ".join(rng.sample(WORDS, rng.randint(4, 8)))),
            labels={"lang": rng.choice(["de", "en"]), **({"answerable": False} if rng.random() < 0.25 else {})},
            cluster_id=f"c{rng.randrange(16)}" if clustered else None,
        )
        for number in range(N)
    ]


def make_outputs(seed: int, run: int, samples: list[EvaluationSample], *, skill: float) -> list[SystemOutputs | None]:
    """What a system returned; the more skill, the more gold, right words and refusals of what has no answer."""
    rng = random.Random(f"outputs {seed} {run}")
    return [_output(rng, sample, skill) for sample in samples]


def _output(rng: random.Random, sample: EvaluationSample, skill: float) -> SystemOutputs | None:
    chance = rng.random()
    if chance < 0.03:
        return None
    if chance < (0.07 if skill < 0.9 else 0.4):  # the last run is quick, and often fails
        return SystemOutputs([], error=rng.choice(["timeout: 30 s", "raised: ValueError"]))
    gold = [document.doc_id for document in sample.relevant_docs or ()]
    ids = [f"d{number}" for number in range(12)]
    ids.sort(key=lambda one: (rng.random() < 0.5) - (skill if one in gold and rng.random() < skill else 0.0))
    assert sample.reference_answer is not None
    words = [word if rng.random() < skill else rng.choice(WORDS) for word in sample.reference_answer.text.split()]
    refused = rng.random() < (skill if sample.labels.get("answerable") is False else 0.05)
    return SystemOutputs(
        [RetrievedDocument(Document(one), None, rank) for rank, one in enumerate(ids[:6], start=1)],
        Response("I don't know." if refused else " ".join(words)),
        timings={"end_to_end": rng.expovariate(1 + skill if skill < 0.9 else 9)},
    )


def make_store(path: Path, seed: int, *, clustered: bool = False) -> RunStore:
    """A store with three runs over the same samples."""
    samples = make_samples(seed, clustered=clustered)
    store = RunStore.open(path)
    for run, skill in enumerate((0.4, 0.75, 0.9)):
        outputs = make_outputs(seed, run, samples, skill=skill)
        record = store.create_run(
            f"run {run}", samples, dataset_name="made", plan={"metrics": list(METRICS)}, run_id=f"run_{run}"
        )
        rows = [(place, sample, output) for place, (sample, output) in enumerate(zip(samples, outputs, strict=True))]
        store.append(
            record.run_id,
            [StoredOutput(place, 0, sample.sample_id, output) for place, sample, output in rows if output is not None],
        )
        with quiet():
            metrics: list[str | Metric] = list(WITH_CLUSTERS) if clustered else [*METRICS, *own_metrics()]
            results = evaluate(samples, outputs, metrics, slices=() if clustered else "labels.lang")
        store.put_results(record.run_id, results)
        store.finish(record.run_id)
    return store


SEEDS = [pytest.param(seed, id=f"seed {seed}", marks=[pytest.mark.slow] if seed > 1 else []) for seed in (1, 2, 3)]


@pytest.fixture(scope="module", params=SEEDS)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, RunStore]]:
    with make_store(tmp_path_factory.mktemp("plain") / "runs.sqlite", request.param) as store:
        yield request.param, store


@pytest.fixture(scope="module", params=SEEDS)
def clustered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, RunStore]]:
    with make_store(tmp_path_factory.mktemp("clustered") / "runs.sqlite", request.param, clustered=True) as store:
        yield request.param, store


def without_notes(document: Any, notes: list[str]) -> Any:
    """The document with each sentence replaced by whether there is one; the sentences go to ``notes``."""
    if isinstance(document, list):
        return [without_notes(one, notes) for one in document]
    if not isinstance(document, dict):
        return document
    found: dict[str, Any] = {}
    for key, value in document.items():
        if key in ("note", "detail", "reason", "warning"):
            notes += [] if value is None else [value]
            found[key] = value is not None
        elif key in ("notes", "refused"):
            notes += value if isinstance(value, list) else value.values()
            found[key] = len(value)
        else:
            found[key] = without_notes(value, notes)
    return found


def test_two_runs(stored: tuple[int, RunStore]) -> None:
    """Samples on their own, max-T over all metrics, a margin for some; gates on the comparison; why queries changed."""
    # A quantile is compared once, and single queries are recorded once: both are much work, or much text.
    seed, store = stored
    first, second = store.get("run_0"), store.get("run_1")
    report = compare_runs(
        "run_0",
        "run_1",
        store=store,
        delta={"token_f1": 0.9, "exact_match": 0.02, "ndcg@5": 0.5},
        metrics=[one for one in _names() if one != "recall@3" and (seed == 1 or not one.startswith("quantile"))],
        seed=seed,
    )
    gates = check_gates(
        GATES,
        store.results("run_1"),
        comparison={one.name: one for one in report.metrics},
        refused=report.refused,
        against="run_0",
    )
    changes = explain_changes(store, first, second, metric="token_f1", worse_only=False)
    notes: list[str] = []
    document = without_notes(report.to_dict(), notes)
    if seed > 1:
        del document["per_query"]
    check_golden(
        f"metrics/compare_{seed}.json",
        {
            "report": document,
            "aggregate": compute_aggregate("run_0", store=store).to_dict(),
            "causes": {one.sample_id: f"{one.cause.value} {one.a_rank} {one.b_rank}" for one in changes},
            "gates": without_notes(gates.to_dict(), notes),
        },
    )
    check_golden_text(f"metrics/compare_{seed}_wording.txt", "\n".join(notes) + "\n")


def test_failed_measurements(stored: tuple[int, RunStore]) -> None:
    """A metric of a user that fails on some samples, and a system that fails often: bounds, verdicts in doubt."""
    seed, store = stored
    names = ["recall@3", "mean_latency[end_to_end]"]
    first, *others = (store.get(f"run_{run}") for run in range(3))
    compared = [compare_metrics(store, first, one, metrics=[*names, *own_metrics()], seed=seed) for one in others]
    check_golden(f"metrics/compare_failed_{seed}.json", [without_notes(one.to_dict(), []) for one in compared])


def test_two_runs_with_clusters(clustered: tuple[int, RunStore]) -> None:
    """Samples in clusters, Holm over two primary metrics."""
    seed, store = clustered
    report = compare_runs(
        "run_1",
        "run_0",
        store=store,
        primary=["recall@5", "token_f1"],
        adjust="holm",
        seed=seed,
    )
    document = without_notes(report.to_dict(), [])
    check_golden(f"metrics/compare_clusters_{seed}.json", document["deltas"]["metrics"])


def test_three_runs(stored: tuple[int, RunStore]) -> None:
    """A leaderboard of three runs, with Tukey's HSD and with max-T."""
    seed, store = stored
    records = [store.get(f"run_{run}") for run in range(3)]
    names = ["recall@5", "exact_match", "token_f1"]
    check_golden(
        f"metrics/leaderboard_{seed}.json",
        {
            "tukey": without_notes(
                build_leaderboard(store, records, metrics=names, adjust="tukey", seed=seed).to_dict(), []
            ),
            "max-t": {
                one.name: [[pair.comparison.p_adjusted, pair.comparison.verdict] for pair in one.pairs]
                for one in build_leaderboard(store, records, metrics=names, seed=seed).metrics
            },
        },
    )


@pytest.mark.slow
def test_runs_with_repeats(tmp_path: Path) -> None:
    """Two outputs per sample: the spread of the answers to one sample."""
    samples = make_samples(1, clustered=False)[:24]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        for run, skill in enumerate((0.6, 0.7)):
            each = [make_outputs(7 + repeat, run, samples, skill=skill) for repeat in range(2)]
            record = store.create_run(
                f"run {run}", samples, dataset_name="made", plan={}, run_id=f"run_{run}", repeats=2
            )
            for repeat, outputs in enumerate(each):
                store.append(
                    record.run_id,
                    [
                        StoredOutput(place, repeat, sample.sample_id, output)
                        for place, (sample, output) in enumerate(zip(samples, outputs, strict=True))
                        if output is not None
                    ],
                )
            names = ["recall@5", "exact_match", "token_f1", "bleu"]
            with quiet():
                store.put_results(
                    record.run_id,
                    evaluate_repeats(samples, [lambda outputs=outputs: outputs for outputs in each], names),  # type: ignore[misc]
                )
            store.finish(record.run_id)
        report = compare_runs("run_0", "run_1", store=store)
    check_golden("metrics/compare_repeats.json", without_notes(report.to_dict(), [])["deltas"]["metrics"])


def _names() -> list[str]:
    return [metric(spec).name for spec in METRICS]
