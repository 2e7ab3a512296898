"""The report of many queries: time and memory to write it, its size, how long it takes to open and to filter.

    python -m benchmarks.report [--quick]

Prints Markdown. The store and the browser (chromium, driven by playwright) are real, the texts made up: documents of
100 words, two for each query, ten retrieved for each.
"""

import argparse
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.metrics_base import BatchMetric, make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Scores
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.runs import RunStore

from .files import WORDS

METRICS = ("recall@5", "precision@5", "mrr@10", "ndcg@10", "token_f1", "rougeL_answer", "support_density")
WORDS_EACH, HITS = 100, 10
SEARCHES = ("river", "q00", "nothing has this")
FILTER = """(text) => {
  const field = document.getElementById("qb-search-field");
  field.value = text;
  const started = performance.now();
  field.dispatchEvent(new Event("input"));
  document.querySelector(".qb-list").offsetHeight;
  return performance.now() - started;
}"""


def store_run(store: RunStore, name: str, count: int, seed: int) -> RunRecord:
    """Store a run of `queries` queries over twice as many documents."""
    rng = random.Random(0)
    passages = [" ".join(rng.choices(WORDS, k=WORDS_EACH)) for _ in range(2 * count)]
    samples = [
        EvaluationSample(
            f"q{n:05}",
            " ".join(rng.choices(WORDS, k=8)),
            [Document(f"doc{2 * n}", passages[2 * n])],
            reference_answer=Response(" ".join(rng.choices(WORDS, k=12))),
            labels={"topic": f"topic {n % 12}", "difficulty": ("easy", "hard")[n % 2]},
        )
        for n in range(count)
    ]
    record = store.create_run(name, samples, dataset_name="made up", plan={"metrics": list(METRICS)})
    rng = random.Random(seed)
    outputs = []
    for n, sample in enumerate(samples):
        ids = [2 * n, *rng.sample(range(2 * count), HITS - 1)]
        rng.shuffle(ids)
        hits = [RetrievedDocument(Document(f"doc{i}", passages[i]), 1 / rank, rank) for rank, i in enumerate(ids, 1)]
        answer = Response(" ".join(rng.choices(WORDS, k=30)))
        outputs.append(StoredOutput(n, 0, sample.sample_id, SystemOutputs(hits, answer, {"end_to_end": rng.random()})))
    store.append(record.run_id, outputs)
    results = []
    values = np.random.default_rng(seed)
    for spec in METRICS:
        built = metric(spec)
        assert isinstance(built, BatchMetric)
        results.append(make_result(built, Scores.of(values.random(count).round(3))))
    store.put_results(record.run_id, results)
    store.finish(record.run_id)
    return store.get(record.run_id)


def write(store: Path, runs: Sequence[str], path: Path) -> list[str]:
    """Write the report with the command: seconds, seconds of the processor, peak memory and size of the file in MB."""
    command = [sys.executable, "-m", "auepora_eval", "report", *runs, "--store", str(store), "-o", str(path), "-q"]
    started = time.perf_counter()
    with subprocess.Popen(command) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(process.returncode)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    worked = used.ru_utime + used.ru_stime
    return [f"{seconds:.1f}", f"{worked:.1f}", f"{peak / 1e6:.0f}", f"{path.stat().st_size / 1e6:.2f}"]


def first_view(browser: Any, path: Path) -> tuple[Any, float]:
    """The page, and the seconds until its list was there."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    started = time.perf_counter()
    page.goto(path.as_uri())
    page.locator("#queries[data-ready=true] .qb-row").first.wait_for()
    return page, time.perf_counter() - started


def measured(browser: Any, path: Path) -> list[str]:
    """First view, the median and the slowest filter, one query opened; and how many elements the list takes."""
    page, seen = first_view(browser, path)
    page.evaluate(FILTER, SEARCHES[0])  # unpacks what is searched
    page.wait_for_timeout(2_000)
    times = [page.evaluate(FILTER, text) for _ in range(5) for text in (*SEARCHES, "")]
    started = time.perf_counter()
    page.evaluate("location.hash = document.querySelector('.qb-row .qb-question a').getAttribute('href')")
    page.locator(".qb-query").wait_for()
    opened = time.perf_counter() - started
    nodes = page.evaluate("document.querySelectorAll('.qb-list *').length")
    page.close()
    return [f"{seen:.2f}", f"{statistics.median(times):.0f}, {max(times):.0f}", f"{opened * 1000:.0f}", str(nodes)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer queries, to see that it works")
    sizes = [50] if parser.parse_args().quick else [200, 5_000, 20_000, 50_000]
    program = shutil.which("chromium")
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    heads = ["queries", "runs", "written, s", "of it processor, s", "memory, MB", "file, MB", "first view, s"]
    heads += ["filter, ms (median, most)", "opened, ms", "elements of the list"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    names = ("before", "after")
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            database, path = Path(folder) / "runs.sqlite", Path(folder) / "report.html"
            with RunStore.open(database) as store:
                for seed, name in enumerate(names, 1):
                    store_run(store, name, count, seed)
            for number in (1, 2):
                cells = [f"{count:,}", str(number), *write(database, names[:number], path)]
                if program is None:
                    cells += ["no chromium", "", "", ""]
                else:
                    from playwright.sync_api import sync_playwright

                    with sync_playwright() as playwright:
                        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                        cells += measured(browser, path)
                        browser.close()
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
