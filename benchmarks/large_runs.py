"""Commands on large runs and on a store of many runs: seconds, processor time and peak memory of each process.

    python -m benchmarks.large_runs [--samples N ...] [--only run,compare,report,runs] [--full]

Prints Markdown. Samples have a question and a reference of a few words and two gold ids, saved outputs an answer and
ten retrieved ids; the plan has twenty metrics. Each command is a process of its own, and its peak memory is measured.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.core.results import Results
from auepora_eval.engine.evaluate import evaluate
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.runs import RunStore

from .files import WORDS

METRICS = (
    *(f"{name}@{k}" for name in ("recall", "precision", "ndcg", "hit_rate") for k in (1, 3, 5, 10)),
    "mrr@10",
    "map@10",
    "token_f1",
    "exact_match",
)
COMMANDS = ("run", "compare", "report", "runs")
SIZES, FULL = (10_000, 50_000, 100_000), 1_000_000
REPORT_LIMIT = 50_000
"""The largest size for which a report is written."""
HITS, STORED_RUNS, STORED_SAMPLES = 10, 500, 200
TARGETS = {
    ("run", 100_000): "300 MB",
    ("run", FULL): "1,000 MB",
    ("compare", FULL): "1,500 MB",
    ("report", 50_000): "500 MB, 40 s",
    ("runs", STORED_RUNS): "0.5 s",
    ("show", STORED_RUNS): "0.5 s",
}


class Usage(NamedTuple):
    """What a process used."""

    wall: float
    cpu: float
    megabytes: float


def measure(folder: Path, *arguments: str) -> Usage:
    """Run ``auepora`` with these arguments in a process of its own."""
    command = [sys.executable, "-m", "auepora_eval", *arguments]
    log = folder / "log.txt"
    with log.open("wb") as stream:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=stream, stderr=stream)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: a comparison found a difference
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    kilobytes = used.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Usage(wall, used.ru_utime + used.ru_stime, kilobytes / 1024)


def print_row(command: str, size: int, used: Usage) -> None:
    target = TARGETS.get((command, size), "")
    cells = [f"`{command}`", f"{size:,}", f"{used.wall:.2f}", f"{used.cpu:.2f}", f"{used.megabytes:,.0f}", target]
    print(f"| {' | '.join(cells)} |", flush=True)


def print_header(counted: str) -> None:
    heads = ["command", counted, "wall, s", "processor, s", "peak memory, MB", "target"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")


# --- data ------------------------------------------------------------------------------------------------------------


def write_jsonl(path: Path, rows: Iterable[object]) -> None:
    with path.open("wb") as stream:
        stream.writelines(msgspec.json.encode(row) + b"\n" for row in rows)


def make_samples(count: int) -> Iterator[dict[str, object]]:
    rng = random.Random(0)
    for n in range(count):
        yield {
            "sample_id": f"q{n}",
            "query": " ".join(rng.choices(WORDS, k=8)),
            "relevant_docs": [f"doc{2 * n}", f"doc{2 * n + 1}"],
            "reference_answer": " ".join(rng.choices(WORDS, k=4)),
        }


def make_outputs(count: int, seed: int) -> Iterator[dict[str, object]]:
    rng = random.Random(seed)
    for n in range(count):
        ids = [2 * n, *rng.sample(range(2 * count), HITS - 1)]
        rng.shuffle(ids)
        answer = " ".join(rng.choices(WORDS, k=6))
        yield {"sample_id": f"q{n}", "retrieved": [f"doc{one}" for one in ids], "response": answer}


def make_plan(folder: Path, count: int, name: str, seed: int) -> str:
    """Write the outputs and the plan of a run; return the name of the plan file."""
    write_jsonl(folder / f"{name}.jsonl", make_outputs(count, seed))
    plan = {
        "name": name,
        "dataset": "samples.jsonl",
        "outputs": f"{name}.jsonl",
        "metrics": METRICS,
        "store": "runs.sqlite",
    }
    (folder / f"{name}.yaml").write_bytes(msgspec.json.encode(plan))  # JSON is YAML
    return f"{name}.yaml"


def store_many_runs(path: Path) -> None:
    """Fill a store with many small runs."""
    samples = [EvaluationSample(f"q{n}", "question", reference_answer=Response("yes")) for n in range(STORED_SAMPLES)]
    outputs = [SystemOutputs([], Response("yes" if n % 2 else "no")) for n in range(STORED_SAMPLES)]
    results: Results = evaluate(samples, outputs, ["exact_match", "token_f1"])
    rows = [StoredOutput(n, 0, sample.sample_id, outputs[n]) for n, sample in enumerate(samples)]
    with RunStore.open(path) as store:
        for number in range(STORED_RUNS):
            run_id = store.create_run(f"run {number % 10}", samples, dataset_name="made up", plan={}).run_id
            store.append(run_id, rows)
            store.put_results(run_id, results)
            store.finish(run_id)


# --- measurements ----------------------------------------------------------------------------------------------------


def measure_size(folder: Path, count: int, only: Sequence[str]) -> None:
    """Measure ``run``, ``compare`` and ``report`` on this number of samples."""
    write_jsonl(folder / "samples.jsonl", make_samples(count))
    used = measure(folder, "run", make_plan(folder, count, "A", 1))
    if "run" in only:
        print_row("run", count, used)
    if "compare" in only or "report" in only:
        measure(folder, "run", make_plan(folder, count, "B", 2))
    if "compare" in only:
        print_row("compare", count, measure(folder, "compare", "A", "B"))
    if "report" in only and count <= REPORT_LIMIT:
        print_row("report", count, measure(folder, "report", "A", "B", "-o", "report.html"))


def measure_listing(folder: Path) -> None:
    """Measure ``runs`` and ``show`` in a store of many runs."""
    store_many_runs(folder / "runs.sqlite")
    print_row("runs", STORED_RUNS, measure(folder, "runs", "--limit", str(STORED_RUNS)))
    print_row("show", STORED_RUNS, measure(folder, "show"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=list(SIZES), metavar="N")
    parser.add_argument("--only", default=",".join(COMMANDS), help=f"some of {','.join(COMMANDS)}")
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} samples too, which takes about half an hour")
    parser.add_argument("--quick", action="store_true", help="few samples, to see that it works")
    options = parser.parse_args()
    only = options.only.split(",")
    if unknown := set(only) - set(COMMANDS):
        parser.error(f"--only takes {', '.join(COMMANDS)}, not {', '.join(sorted(unknown))}")
    sizes = [1_000] if options.quick else [*options.samples, *([FULL] if options.full else [])]
    if set(only) & {"run", "compare", "report"}:
        print_header("samples")
        for count in sizes:
            with tempfile.TemporaryDirectory() as name:
                measure_size(Path(name), count, only)
    if "runs" in only:
        print_header("stored runs")
        with tempfile.TemporaryDirectory() as name:
            measure_listing(Path(name))


if __name__ == "__main__":
    main()
