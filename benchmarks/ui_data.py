"""A large store for the workbench: many small runs, and two runs of many queries.

    python -m benchmarks.ui_data runs.sqlite [--queries 100000] [--runs 500]

The two large runs have the same dataset and twenty metrics. Texts, rankings, timings, labels, refusals and failures
are made up; the scores are those of the made-up answers.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.conventions import Conventions
from auepora_eval.core.types import GOLD_BY
from auepora_eval.engine.evaluate import evaluate, resolve_metrics
from auepora_eval.runs.job import ScoringJob
from auepora_eval.runs.scoring import score_run
from auepora_eval.store.records import RunStatus, StoredOutput, to_iso
from auepora_eval.store.rows import update_run
from auepora_eval.store.runs import RunStore, result_summaries

from .made_texts import vocabulary

METRICS = (
    *(f"recall@{k}" for k in (1, 3, 5, 10)),
    *(f"hit_rate@{k}" for k in (1, 5, 10)),
    "precision@5",
    "ndcg@5",
    "ndcg@10",
    "mrr@10",
    "map@10",
    "token_f1",
    "containment",
    "exact_match",
    "rougeL_answer",
    "support_density",
    "failure_attribution@5",
    "over_refusal_rate",
    "mean_latency[end_to_end]",
)
SMALL_METRICS = ("recall@5", "ndcg@10", "token_f1", "exact_match", "mean_latency[end_to_end]")
LARGE_NAMES = ("large baseline", "large reranker")
SYSTEMS = ("bm25", "dense", "hybrid", "reranker", "agent", "long context")
TOPICS = ("billing", "shipping", "returns", "security", "accounts", "devices", "travel", "taxes")
TAGS = ("nightly", "release", "baseline", "experiment")
PASSAGES, HITS, CHUNK = 20_000, 10, 5_000
SMALL_SAMPLES, VARIANTS = 200, 8
FIRST_DAY = datetime(2025, 11, 1, tzinfo=UTC)


class Texts:
    """Made-up words, passages and questions."""

    def __init__(self, seed: int = 0, passages: int = PASSAGES) -> None:
        self.random = random.Random(seed)
        self.words = vocabulary(np.random.default_rng(seed), 4_000)
        self.passages = [self.text(60) for _ in range(passages)]

    def text(self, length: int) -> str:
        """Words in a row; words at the front of the vocabulary are more frequent."""
        draw, size = self.random.random, len(self.words)
        return " ".join([self.words[int(size * draw() ** 2)] for _ in range(length)])

    def document(self, number: int) -> Document:
        place = number % len(self.passages)
        return Document(f"doc{place:05}", self.passages[place])

    def samples(self, count: int) -> list[EvaluationSample]:
        """Questions with two gold documents, a reference from the first of them, and labels."""
        made = []
        for n in range(count):
            gold = [self.document(2 * n), self.document(2 * n + 1)]
            words = gold[0].text.split()
            start = self.random.randrange(len(words) - 4)
            made.append(
                EvaluationSample(
                    f"q{n:06}",
                    f"What is {self.text(7)}?",
                    gold,
                    reference_answer=Response(" ".join(words[start : start + 4])),
                    labels={"topic": TOPICS[n % len(TOPICS)], "difficulty": ("easy", "medium", "hard")[n // 7 % 3]},
                    metadata={GOLD_BY: {"human": 2} if n % 4 else {"model": 2}},
                )
            )
        return made

    def outputs(self, samples: Sequence[EvaluationSample], quality: float, seed: int) -> Iterator[StoredOutput]:
        """An output per sample; with a higher quality gold is ranked higher and answers are right more often."""
        rng = random.Random(seed)
        for n, sample in enumerate(samples):
            yield StoredOutput(n, 0, sample.sample_id, self._output(rng, sample, quality))

    def _output(self, rng: random.Random, sample: EvaluationSample, quality: float) -> SystemOutputs:
        times = {"retrieval": rng.lognormvariate(-2.5, 0.4), "generation": rng.lognormvariate(-0.3, 0.5)}
        times["end_to_end"] = sum(times.values())
        if rng.random() < 0.01:
            return SystemOutputs([], error="TimeoutError: no reply within 30 s", timings=times)
        ranked = [self.document(rng.randrange(len(self.passages))) for _ in range(HITS)]
        assert sample.relevant_docs is not None
        assert sample.reference_answer is not None
        for gold, chance in zip(sample.relevant_docs, (quality, quality - 0.3), strict=True):
            if rng.random() < chance:
                ranked[int(HITS * rng.random() ** 3)] = gold
        ranked = list({one.doc_id: one for one in ranked}.values())
        hits = [RetrievedDocument(one, round(1 / rank, 3), rank) for rank, one in enumerate(ranked, 1)]
        found = any(one.doc_id == sample.relevant_docs[0].doc_id for one in ranked[:5])
        chance = rng.random()
        if chance < 0.04:
            answer = "I don't know."
        elif chance < 0.045:
            answer = ""
        elif chance < (0.9 if found else 0.25):
            answer = f"{self.text(6)} {sample.reference_answer.text}."
        else:
            answer = " ".join(ranked[0].text.split()[:8]) + "." if rng.random() < 0.5 else self.text(10) + "."
        usage = {"prompt_tokens": rng.randrange(700, 1400), "completion_tokens": rng.randrange(10, 90)}
        return SystemOutputs(hits, Response(answer), times, usage=usage)


def store_large_runs(store: RunStore, texts: Texts, count: int) -> None:
    """Store two runs over the same samples and score them."""
    samples = texts.samples(count)
    for number, name in enumerate(LARGE_NAMES):
        plan = {"metrics": list(METRICS), "system": {"kind": "python"}}
        record = store.create_run(name, samples, dataset_name="support questions", plan=plan, tags=["large"])
        rows = list(texts.outputs(samples, 0.72 + 0.06 * number, number + 1))
        for start in range(0, count, CHUNK):
            store.append(record.run_id, rows[start : start + CHUNK])
        del rows
        conventions = Conventions.of()
        metrics = resolve_metrics(METRICS, conventions)
        slices = ["labels.topic", "labels.difficulty"]
        score_run(ScoringJob(store, record, metrics, conventions=conventions, slices=slices))
        store.finish(record.run_id)
        set_times(store, record.run_id, FIRST_DAY + timedelta(days=378, hours=number), timedelta(minutes=95))


def store_small_runs(store: RunStore, texts: Texts, count: int) -> None:
    """Store many runs over three datasets: a dataset changes once, and so does a signature."""
    rng = random.Random(5)
    old, new = texts.samples(SMALL_SAMPLES), texts.samples(SMALL_SAMPLES)
    datasets = (("faq", old), ("faq", new), ("tickets", texts.samples(SMALL_SAMPLES // 2)))
    variants = []
    for variant in range(VARIANTS):
        for name, samples in datasets:
            rows = list(texts.outputs(samples, 0.5 + variant / 20, variant))
            specs = SMALL_METRICS[: 3 if variant == 1 else None]
            conventions = Conventions.of("trec" if variant >= VARIANTS // 2 else None)
            results = evaluate(samples, [row.output for row in rows], specs, conventions=conventions)
            variants.append((name, samples, rows, results))
    for number in range(count):
        quarter = number * 4 // max(count, 1)
        dataset = 2 if number % 3 == 2 else int(quarter >= 2)
        variant = rng.randrange(VARIANTS // 2) + (VARIANTS // 2 if quarter >= 3 else 0)
        name, samples, rows, results = variants[variant * len(datasets) + dataset]
        tags = rng.sample(TAGS, rng.randrange(3))
        system = SYSTEMS[number % len(SYSTEMS)]
        record = store.create_run(f"{system} {number % 40}", samples, dataset_name=name, plan={}, tags=tags)
        chance = rng.random()
        if chance < 0.03:
            store.finish(record.run_id, RunStatus.FAILED, message="the system failed 20 times in a row")
        elif chance < 0.06:
            store.append(record.run_id, rows[: len(rows) // 2])
            store.finish(record.run_id, RunStatus.STOPPED, message="stopped by the user")
        else:
            store.append(record.run_id, rows)
            store.put_results(record.run_id, results)
            store.finish(record.run_id)
        if number % 5 == 0:
            calls = rng.randrange(100, 900)
            store.add_usage(record.run_id, {"total": {"judgements": calls, "calls": calls, "cost": calls * 0.0007}})
        began = FIRST_DAY + timedelta(hours=18 * number, minutes=rng.randrange(600))
        set_times(store, record.run_id, began, timedelta(seconds=rng.randrange(40, 4000)))


def set_times(store: RunStore, run_id: str, began: datetime, duration: timedelta) -> None:
    """Move a run in time."""
    with store._writing() as connection:
        update_run(connection, run_id, {"created_at": to_iso(began), "finished_at": to_iso(began + duration)})


def write_store(path: Path, *, queries: int = 100_000, runs: int = 500) -> None:
    """Write a store of ``runs`` runs, two of them with ``queries`` queries."""
    texts = Texts(passages=min(PASSAGES, 2 * queries))
    with RunStore.open(path) as store:
        store_small_runs(store, texts, runs - len(LARGE_NAMES))
        store_large_runs(store, texts, queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="the file to write; it must not exist")
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=500)
    options = parser.parse_args()
    if options.store.exists():
        parser.error(f"{options.store} exists already; name a file that does not")
    options.store.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    write_store(options.store, queries=options.queries, runs=options.runs)
    seconds = time.perf_counter() - started
    print(f"{options.store}: {options.store.stat().st_size / 1e6:,.0f} MB in {seconds:.0f} s")
    with RunStore.open(options.store) as store:
        for name in LARGE_NAMES:
            record = store.find(name)
            print(f"{record.run_id}  {record.name}  {len(result_summaries(store, record.run_id))} metrics")


if __name__ == "__main__":
    main()
