"""Writing a run to the store compared with the bare driver writing the same bytes, and the size of the file."""

import argparse
import gc
import random
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from auepora_eval import Document, EvaluationSample, MetricResult, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.results import Results
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import TargetCategory
from auepora_eval.store import RunStore, StoredOutput

from .files import WORDS

METRICS, HITS, CHUNK = 20, 10, 1000
TABLES = ("eval_runs", "eval_query_results", "eval_samples", "eval_documents", "eval_scores")
PASSAGES = 20_000


def make_data(count: int, *, texts: bool) -> tuple[list[EvaluationSample], list[StoredOutput], Results]:
    """Samples with two relevant documents and a reference; outputs with ten hits, an answer and timings; scores."""
    rng = random.Random(0)
    passages = [" ".join(rng.choices(WORDS, k=100)) if texts else "" for _ in range(PASSAGES)]
    samples, outputs = [], []
    for n in range(count):
        ids = rng.sample(range(PASSAGES), HITS)
        answer = " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))
        gold = [Document(f"doc{i}", passages[i]) for i in ids[:2]]
        query = " ".join(rng.choices(WORDS, k=7))
        samples.append(EvaluationSample(f"q{n}", query, gold, reference_answer=Response(answer)))
        hits = [
            RetrievedDocument(Document(f"doc{i}", passages[i]), rng.random(), rank) for rank, i in enumerate(ids, 1)
        ]
        output = SystemOutputs(hits, Response(answer), {"end_to_end": rng.random(), "retrieval": rng.random()})
        outputs.append(StoredOutput(n, 0, f"q{n}", output))
    numbers = np.random.default_rng(0)
    results = []
    for m in range(METRICS):
        scores = Scores.of(numbers.random(count))
        target = TargetCategory.RETRIEVAL_RELEVANCE
        results.append(MetricResult(f"metric{m}", target, 0.5, {}, scores, scores.outcomes, f"metric{m}|v1"))
    return samples, outputs, Results(results)


def write_store(
    path: Path, samples: Sequence[EvaluationSample], outputs: Sequence[StoredOutput], results: Results
) -> dict[str, float]:
    """Seconds of each step."""
    marks = [time.perf_counter()]
    with RunStore.open(path) as store:
        run_id = store.create_run("benchmark", samples, dataset_name="made", plan={}).run_id
        marks.append(time.perf_counter())
        for start in range(0, len(outputs), CHUNK):
            store.append(run_id, outputs[start : start + CHUNK])
        marks.append(time.perf_counter())
        store.put_results(run_id, results)
        store.finish(run_id)
    marks.append(time.perf_counter())
    steps = ("create_run", "append", "put_results")
    return {step: end - start for step, start, end in zip(steps, marks, marks[1:], strict=False)}


def write_bare(made: Path, path: Path) -> dict[str, float]:
    """Seconds of the driver alone, writing what the store wrote to tables like its own."""
    source = sqlite3.connect(made)
    plans = [
        sql for (sql,) in source.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name LIKE 'eval%'")
    ]
    rows = {table: source.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    source.close()
    seconds = dict.fromkeys(TABLES, 0.0)
    bare = sqlite3.connect(path, isolation_level=None)
    bare.execute("PRAGMA journal_mode=WAL")
    bare.execute("PRAGMA synchronous=NORMAL")
    for plan in plans:
        bare.execute(plan)
    for table, table_rows in rows.items():
        marks = ", ".join("?" * len(table_rows[0])) if table_rows else "?"
        size = CHUNK if table == "eval_query_results" else max(1, len(table_rows))
        start = time.perf_counter()
        for first in range(0, len(table_rows), size):
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(f"INSERT INTO {table} VALUES ({marks})", table_rows[first : first + size])
            bare.execute("COMMIT")
        seconds[table] = time.perf_counter() - start
    start = time.perf_counter()
    bare.close()  # which moves the rest of the log into the file, as closing the store does
    seconds["close"] = time.perf_counter() - start
    return seconds


def read_back(path: Path) -> None:
    with RunStore.open(path) as store:
        run_id = store.find("latest").run_id
        for what, texts in (("outputs", False), ("outputs with texts", True)):
            start = time.perf_counter()
            count = sum(1 for _ in store.outputs(run_id, texts=texts))
            print(f"  {count:,} {what} read in {time.perf_counter() - start:.2f} s")
        start = time.perf_counter()
        store.results(run_id)
        print(f"  {METRICS} results read in {time.perf_counter() - start:.2f} s")


def compare(folder: Path, count: int, rounds: int, *, texts: bool) -> None:
    data = make_data(count, texts=texts)
    gc.collect()
    gc.freeze()  # what a run never has in memory at once should not be looked through again and again
    ours: list[dict[str, float]] = []
    bare: list[dict[str, float]] = []
    for turn in range(rounds):
        path, other = folder / f"store{texts}{turn}.sqlite", folder / f"bare{texts}{turn}.sqlite"
        ours.append(write_store(path, *data))
        bare.append(write_bare(path, other))
    total = min(sum(one.values()) for one in ours)
    least = min(sum(one.values()) for one in bare)
    size = path.stat().st_size
    print(f"{count:,} results with {HITS} hits and {METRICS} metrics, {'with texts' if texts else 'without texts'}:")
    print(f"  store {total:.2f} s, the driver alone {least:.2f} s: {total / least:.2f} times")
    without = min(sum(one.values()) - one["eval_samples"] for one in bare)
    print(f"  ... and {total / without:.2f} times the driver writing results and scores but no samples")
    print("  store:", ", ".join(f"{step} {min(one[step] for one in ours):.2f} s" for step in ours[0]))
    print("  driver:", ", ".join(f"{step} {min(one[step] for one in bare):.2f} s" for step in bare[0]))
    print(f"  {size / count:.0f} bytes of file per query ({size / 1e6:.0f} MB)")
    read_back(path)


def durability(folder: Path, count: int, rounds: int) -> None:
    """Print the rate of answers that are committed one by one or in tens, in both modes of SQLite."""
    samples, outputs, _ = make_data(count, texts=True)
    for chunk in (1, 10):
        taken: dict[str, list[float]] = {"NORMAL": [], "FULL": []}
        for turn, (mode, seconds) in product(range(rounds), taken.items()):
            with RunStore.open(folder / f"{mode}{chunk}{turn}.sqlite") as store:
                run_id = store.create_run("benchmark", samples, dataset_name="made", plan={}).run_id
                with store._database.read() as connection:  # it is used again below
                    connection.driver.commit()  # a mode cannot change in a transaction
                    connection.driver.execute(f"PRAGMA synchronous={mode}")
                start = time.perf_counter()
                for place in range(0, count, chunk):
                    store.append(run_id, outputs[place : place + chunk])
                seconds.append(time.perf_counter() - start)
        rates = ", ".join(f"{mode} {count / min(seconds):,.0f}" for mode, seconds in taken.items())
        print(f"{count:,} answers, {chunk} per commit, answers a second: {rates}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as name:
        compare(Path(name), 20_000 if quick else 200_000, 2, texts=False)
        compare(Path(name), 2_000 if quick else 20_000, 2, texts=True)
        durability(Path(name), 2_000, 3)


if __name__ == "__main__":
    main()
