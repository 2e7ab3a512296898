"""A Ray cluster of two workers compared with one process, and the cost of a million samples.

    python -m benchmarks.scale [--quick] [--only speed|memory|cost]

``speed``: 400,000 samples of the text bundle from Parquet files, one process against two workers of a cluster that is
already up; and how much of their time the workers did not spend on batches. ``memory``: the largest resident size of
the driver at 100,000 and a million samples, with no score kept. ``cost``: processor seconds, bytes that travel and
bytes that are stored per million samples, by family of metrics. Prints Markdown.

On a busy machine the clock tells little: processor seconds are shown beside it.
"""

import argparse
import json
import os
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from auepora_eval import evaluate_files
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.engine.executors import Scorable, ScoredBatch, SerialExecutor
from auepora_eval.judge.critic import Judgement, JudgeRequest, StructuredCritic, Usage
from auepora_eval.runtime.processes import gc_paused
from auepora_eval.scale.ray_executor import RayExecutor
from auepora_eval.scale.sharded import sharded_sources

from .processes import PAIRS
from .scale_data import write_texts

RETRIEVAL: list[Any] = ["recall@5", "precision@5", "mrr", "map@10", "ndcg@10", "hit_rate@5"]
GROUNDING: list[Any] = ["evidence_overlap", "support_coverage", "support_density", "hallucination_rate"]
FAMILIES: list[Any] = [{"noise_robustness": {"base": "token_f1"}}, "token_f1"]
LEAN: list[Any] = ["recall@5", "ndcg@10", "exact_match"]


class Sure(StructuredCritic):
    """A judge that answers at once: measures our own cost of judging."""

    name = "sure"

    async def judge(self, request: JudgeRequest) -> Judgement:
        answer: dict[str, Any] = {}
        for name, kind in request.schema["properties"].items():
            answer[name] = "because" if kind["type"] == "string" else kind["minimum"]
        return Judgement(answer, usage=Usage(600, 20))


class Weighed(SerialExecutor):
    """One process that measures the bytes a worker would send."""

    def __init__(self) -> None:
        self.moved = 0
        self.returned: list[bytes] = []

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        for batch in batches:
            self.moved += len(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
            for scored in super().score([batch], metrics):
                self.returned.append(pickle.dumps(scored, pickle.HIGHEST_PROTOCOL))
                self.moved += len(self.returned[-1])
                yield scored


class Replayed:
    """Replays the results of workers: measures the driver's own work."""

    def __init__(self, returned: Sequence[bytes]) -> None:
        self._returned = returned

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        for batch, returned in zip(batches, self._returned, strict=True):
            pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
            yield pickle.loads(returned)


def speed(folder: Path, count: int, rounds: int) -> None:
    """Compare one process with two workers."""
    began = time.perf_counter()
    data, out = write_texts(folder / "texts", count)
    print(f"\n{count:,} samples, {_bytes(folder / 'texts') / 1e6:.0f} MB of Parquet, written in {_since(began):.0f} s")
    began = time.perf_counter()
    with RayExecutor("local", workers=2) as cluster:
        up = _since(began)
        evaluate_files(data, out, ["exact_match"], executor=cluster, keep_scores=False)  # workers import what they need
        ready = _since(began)
        serial: list[tuple[float, float]] = []
        ray: list[tuple[float, float]] = []
        for _ in range(rounds):
            clock, own = time.perf_counter(), time.process_time()
            here = evaluate_files(data, out, PAIRS)
            serial.append((_since(clock), time.process_time() - own))
            clock, busy = time.perf_counter(), cluster.busy_seconds
            there = evaluate_files(data, out, PAIRS, executor=cluster)
            ray.append((_since(clock), cluster.busy_seconds - busy))
            assert list(here) == list(there), "the numbers differ"
            print(f"one process {serial[-1][0]:.1f} s, two workers {ray[-1][0]:.1f} s", flush=True)
        clock = time.perf_counter()
        with tempfile.TemporaryDirectory() as parts:
            evaluate_files(data, out, PAIRS, executor=cluster, keep_scores=False, parts=Path(parts) / "scores")
            with_parts, stored = _since(clock), _bytes(Path(parts))
    clock = time.perf_counter()
    batches = len(sharded_sources(data, out).sources)
    splitting = _since(clock)
    one, two = min(serial)[0], min(ray)
    ratios = [here[0] / there[0] for here, there in zip(serial, ray, strict=True)]
    idle = 1 - two[1] / (2 * (two[0] - splitting))
    print(f"\n| {count:,} samples, {len(PAIRS)} text metrics | seconds | samples a second |\n|---|---|---|")
    print(f"| one process | {one:.1f} ({min(serial)[1]:.1f} of its processor) | {count / one:,.0f} |")
    print(f"| two workers of a cluster | {two[0]:.1f} | {count / two[0]:,.0f} |")
    print(f"| the same into parts, lean | {with_parts:.1f} | {count / with_parts:,.0f} |")
    listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"\nspeed-up by rounds, taken in turn: {listed}; median {median(ratios):.2f}, of the best {one / two[0]:.2f}")
    print(f"the cluster was up after {up:.1f} s and warm after {ready:.1f} s, apart")
    print(f"of both, {splitting:.1f} s go into splitting the files; parts take {stored / 1e6:.1f} MB")
    print(f"workers: {two[1]:.1f} s at work on {batches} batches ({two[1] / batches * 1e3:.0f} ms each),", end=" ")
    print(f"{100 * idle:.1f} % of their time not, {idle * 2 * (two[0] - splitting) / batches * 1e3:.1f} ms a batch")


def memory(folder: Path, counts: Sequence[int]) -> None:
    """Print the driver's peak resident size, each time in a separate process."""
    print("\n| samples, lean, two workers | driver at the start, MB | at most, MB | after splitting, MB | seconds |")
    print("|---|---|---|---|---|")
    for count in counts:
        data, out = write_texts(folder / f"lean{count}", count)
        made = [sys.executable, "-m", "benchmarks.scale", "--driver", data, out]
        done = subprocess.run(made, check=True, capture_output=True, text=True)
        measured = json.loads(done.stdout.splitlines()[-1])
        figures = " | ".join(f"{measured[name]:.0f}" for name in ("start", "most", "split", "seconds"))
        print(f"| {count:,} | {figures} |")


def driver(data: str, out: str) -> None:
    """The process that ``memory`` measures."""
    began = time.perf_counter()
    with RayExecutor("local", workers=2) as cluster:
        evaluate_files(data.replace("*", "part-0000"), out.replace("*", "part-0000"), LEAN, executor=cluster)
        start = _resident()
        sharded_sources(data, out)
        split = _resident()
        evaluate_files(data, out, LEAN, executor=cluster, keep_scores=False)
        measured = {"start": start, "split": split, "most": _resident(), "seconds": _since(began)}
    print(json.dumps(measured))


def cost(folder: Path, quick: bool) -> None:
    """Print the cost of a million samples, by family of metrics."""
    scale = 10 if quick else 1
    plain = write_texts(folder / "plain", 40_000 // scale)
    grounded = write_texts(folder / "grounded", 10_000 // scale, passages=5)
    paired = write_texts(folder / "paired", 20_000 // scale, variants=True)
    few = write_texts(folder / "few", 1_000 // scale)
    kinds: list[tuple[str, list[Any], tuple[str, str], int]] = [
        ("retrieval, 6 metrics", RETRIEVAL, plain, 40_000 // scale),
        ("text, 7 metrics", PAIRS, plain, 40_000 // scale),
        ("grounding in 5 passages, 4 metrics", GROUNDING, grounded, 10_000 // scale),
        ("families, 2 metrics", FAMILIES, paired, 20_000 // scale),
        ("judge, simulated, 1 metric", [{"llm_answer_quality": {"critic": Sure()}}], few, 1_000 // scale),
    ]
    if embedded := _semantic():
        kinds.append(("semantic on the CPU, 1 metric", embedded, few, 1_000 // scale))
    seconds = ("splitting", "reading", "all", "driver", "from parts")
    columns = " | ".join([*(f"CPU s, {one}" for one in seconds), "MB read", "MB moved", "MB stored"])
    print(f"\n| per million samples | measured on | {columns} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, metrics, (data, out), count in kinds:
        figures = _cost(metrics, data, out, folder / name.partition(",")[0].replace(" ", "_"))
        cells = " | ".join(f"{1e6 / count * one:,.0f}" for one in figures)
        print(f"| {name} | {count:,} | {cells} |", flush=True)


def _cost(metrics: list[Any], data: str, out: str, parts: Path) -> tuple[float, ...]:
    sharded_sources(data, out)  # imports what it needs
    own = time.process_time()
    found = sharded_sources(data, out)
    splitting = time.process_time() - own
    own = time.process_time()
    with gc_paused():
        for source in found.sources:
            source.read()
    reading = time.process_time() - own
    evaluate_files(data.replace("*", "part-0000"), out.replace("*", "part-0000"), metrics)  # loads models
    weighed = Weighed()
    own = time.process_time()
    evaluate_files(data, out, metrics, executor=weighed, keep_scores=False, parts=parts)
    whole, moved = time.process_time() - own, weighed.moved
    own = time.process_time()
    evaluate_files(data, out, metrics, keep_scores=False, parts=parts)
    from_parts = time.process_time() - own - splitting
    weighed = Weighed()
    sources = sharded_sources(data, out).sources
    evaluate_sources(sources, metrics, executor=weighed, keep_scores=False)
    own = time.process_time()
    evaluate_sources(sources, metrics, executor=Replayed(weighed.returned), keep_scores=False)
    driver_own = time.process_time() - own
    return splitting, reading, whole, driver_own, from_parts, found.bytes / 1e6, moved / 1e6, _bytes(parts) / 1e6


def _semantic() -> list[Any]:
    from auepora_eval.models.loading import find_installed_model

    model = find_installed_model()
    return [] if model is None else [{"sbert_similarity": {"model": model, "device": "cpu"}}]


def _since(began: float) -> float:
    return time.perf_counter() - began


def _resident() -> float:
    """The largest resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, or less")
    parser.add_argument("--only", choices=("speed", "memory", "cost"))
    parser.add_argument("--samples", type=int, default=400_000, help="for the speed")
    parser.add_argument("--driver", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.driver:
        driver(*options.driver)
        return
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}")
    with tempfile.TemporaryDirectory(prefix="auepora-scale-") as folder:
        here = Path(folder)
        if options.only in (None, "speed"):
            speed(here, options.samples // (40 if options.quick else 1), 1 if options.quick else 3)
        if options.only in (None, "memory"):
            memory(here, [5_000, 50_000] if options.quick else [100_000, 1_000_000])
        if options.only in (None, "cost"):
            cost(here, options.quick)


if __name__ == "__main__":
    main()
