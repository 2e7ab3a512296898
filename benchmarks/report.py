"""The report of many queries: how long it takes to write, to open, to filter; how large it is.

    python -m benchmarks.report [--quick]

Prints Markdown. The store and the browser (chromium, driven by playwright) are real, the texts made up: documents of
100 words, two for each query, ten retrieved for each.
"""

import argparse
import platform
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.metrics_base import BatchMetric, make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Scores
from auepora_eval.report.pages import write_report
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
    sizes = [50] if parser.parse_args().quick else [200, 10_000]
    program = shutil.which("chromium")
    print(f"Python {platform.python_version()}, {platform.machine()}\n")
    heads = ["queries", "runs", "written, s", "of it processor, s", "MB", "first view, s", "filter, ms (median, most)"]
    heads += ["opened, ms", "elements of the list"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder, RunStore.open(Path(folder) / "runs.sqlite") as store:
            records = [store_run(store, name, count, seed) for seed, name in enumerate(("before", "after"), 1)]
            for number in (1, 2):
                path = Path(folder) / "report.html"
                started, worked = time.perf_counter(), time.process_time()
                write_report(records[:number], path, store=store)
                cells = [f"{count:,}", str(number), f"{time.perf_counter() - started:.1f}"]
                cells.append(f"{time.process_time() - worked:.1f}")
                cells.append(f"{path.stat().st_size / 1e6:.2f}")
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
