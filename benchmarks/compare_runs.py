"""Two stored runs compared on twenty metrics, from opening the store to the verdicts.

    python -m benchmarks.compare_runs [--quick]

Prints Markdown. The scores are made up; the store is a real file.
"""

import argparse
import platform
import tempfile
import time
from pathlib import Path

import numpy as np

from auepora_eval import Document, EvaluationSample
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.core.metrics_base import BatchMetric, make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Scores
from auepora_eval.store.runs import RunStore

MEANS = [f"{name}@{k}" for name in ("recall", "precision", "hit_rate", "ndcg") for k in (1, 3, 5, 10)]
MEANS += ["token_f1", "containment"]
CORPUS = ["bleu", "quantile_latency[end_to_end,0.95]"]


def store_run(store: RunStore, name: str, samples: list[EvaluationSample], shift: float, seed: int) -> str:
    """A run with made-up scores; ``shift`` is how much better it is."""
    rng = np.random.default_rng(seed)
    n = len(samples)
    hard = np.random.default_rng(0).beta(2, 2, n)
    record = store.create_run(name, samples, dataset_name="made up", plan={"metrics": [*MEANS, *CORPUS]})
    results = []
    for spec in [*MEANS, *CORPUS]:
        built = metric(spec)
        assert isinstance(built, BatchMetric)
        values = np.clip(hard + rng.normal(shift, 0.2, n), 0, 1)
        stats = None
        if spec == "bleu":  # the lengths of answer and reference, then matches and totals of 1- to 4-grams
            lengths = np.full((n, 2), 20.0)
            matches = np.floor(values[:, None] * np.array([20, 19, 18, 17]) * np.array([1, 0.8, 0.7, 0.6]))
            stats = np.concatenate([lengths, matches, np.tile([20.0, 19, 18, 17], (n, 1))], axis=1)
        elif spec.startswith("hit_rate"):
            values = (values > 0.5).astype(float)
        results.append(make_result(built, Scores.of(values, stats=stats)))
    store.put_results(record.run_id, results)
    store.finish(record.run_id)
    return record.run_id


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples, to see that it works")
    sizes = [500] if parser.parse_args().quick else [1_000, 20_000]
    print(f"Python {platform.python_version()}, numpy {np.__version__}\n")
    print("| samples | metrics | means only, s | with BLEU and a quantile, s |\n|---|---|---|---|")
    for n in sizes:
        samples = [EvaluationSample(f"q{i}", f"question {i}", relevant_docs=[Document("d")]) for i in range(n)]
        with tempfile.TemporaryDirectory() as folder, RunStore.open(Path(folder) / "runs.sqlite") as store:
            a, b = (store_run(store, name, samples, shift, seed) for name, shift, seed in (("a", 0, 1), ("b", 0.01, 2)))
            times = []
            for chosen in (MEANS, None):
                started = time.perf_counter()
                found = compare_metrics(store, store.get(a), store.get(b), metrics=chosen)
                times.append(time.perf_counter() - started)
                assert len(found.metrics) == len(chosen or [*MEANS, *CORPUS])
        print(f"| {n:,} | {len(MEANS)}, {len(MEANS) + len(CORPUS)} | {times[0]:.2f} | {times[1]:.2f} |")


if __name__ == "__main__":
    main()
