"""From TREC files to twenty ranking metrics: ours by each of its readers, against ranx.

    python -m benchmarks.trec_files [--quick]

Prints Markdown: the best wall time of each, in seconds and in units of ours, and how far the numbers are apart. The run
has ties; it is written once in order, and once with all its lines shuffled. ranx compiles itself before it is timed;
where it is not installed, only ours is.
"""

import argparse
import platform
import random
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from auepora_eval import Results, evaluate_trec
from auepora_eval.io.trec import Reader, arrow_is_installed, load_qrels, load_run

from .peers import print_missing_peers
from .rankings import make_rankings
from .retrieval import METRICS
from .timing import best_times

TIED = 0.1
"""The share of lines that tie with the line above."""


def write_files(folder: Path, queries: int, depth: int, *, ties: bool = True, seed: int = 7) -> None:
    """``qrels``, ``ordered`` and ``shuffled``, with six decimals as most systems write them."""
    rng = random.Random(seed)
    qrels: list[str] = []
    run: list[str] = []
    for query, (gold, ranked) in enumerate(zip(*make_rankings(queries, depth), strict=True)):
        qrels += [f"{query} 0 {doc} {rng.choice((0, 1, 1, 2))}\n" for doc in gold]
        score = 40.0
        for rank, doc in enumerate(dict.fromkeys(ranked), 1):
            if not ties or rng.random() >= TIED:
                score -= rng.uniform(0.01, 0.3)
            run.append(f"{query} Q0 {doc} {rank} {score:.6f} system\n")
    (folder / "qrels").write_text("".join(qrels))
    (folder / "ordered").write_text("".join(run))
    rng.shuffle(run)
    (folder / "shuffled").write_text("".join(run))


def read_ours(qrels: Path, run: Path, reader: Reader) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    return load_qrels(qrels, reader=reader), load_run(run, reader=reader)


def ours(qrels: Path, run: Path, reader: Reader) -> Results:
    return evaluate_trec(qrels, run, METRICS, reader=reader)


def read_ranx(qrels: Path, run: Path) -> tuple[Any, Any]:
    from ranx import Qrels, Run

    return Qrels.from_file(str(qrels), kind="trec"), Run.from_file(str(run), kind="trec")


def ranx(qrels: Path, run: Path) -> dict[str, float]:
    from ranx import evaluate as ranx_evaluate

    numbers: dict[str, float] = ranx_evaluate(*read_ranx(qrels, run), METRICS)
    return numbers


def contenders(qrels: Path, run: Path) -> dict[str, dict[str, Callable[[], Any]]]:
    """The whole way from files to numbers, and its first part; ranx where it is installed."""
    readers: list[Reader] = ["python", "arrow"] if arrow_is_installed() else ["python"]
    whole: dict[str, Callable[[], Any]] = {f"ours, {r}": partial(ours, qrels, run, r) for r in readers}
    reading: dict[str, Callable[[], Any]] = {f"ours, {r}": partial(read_ours, qrels, run, r) for r in readers}
    if find_spec("ranx") is not None:
        whole["ranx"], reading["ranx"] = partial(ranx, qrels, run), partial(read_ranx, qrels, run)
    return {"files to numbers": whole, "reading alone": reading}


def difference(qrels: Path, run: Path) -> float:
    numbers, theirs = {r.name: r.value for r in ours(qrels, run, "auto")}, ranx(qrels, run)
    return max(abs(numbers[m] - theirs[m]) for m in METRICS)


def workload(folder: Path, order: str, title: str, *, rounds: int, peer_rounds: int) -> None:
    print(f"\n### {title}, {order}, {len(METRICS)} metrics\n")
    print("| | | seconds | ranx takes so many times as long |\n|---|---|---|---|")
    for part, calls in contenders(folder / "qrels", folder / order).items():
        times = best_times(calls, dict.fromkeys(calls, rounds) | {"ranx": peer_rounds})
        for name, seconds in times.items():
            ratio = f"{times['ranx'] / seconds:.1f}" if "ranx" in times else ""
            print(f"| {part} | {name} | {seconds:.3f} | {ratio} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # ranx's compiler remarks
    queries, depth = (1_000 if options.quick else 10_000), 100
    print(f"Python {platform.python_version()}, {platform.machine()}")
    print_missing_peers("ranx")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if find_spec("ranx") is not None:
            # Without ties first: ranx breaks them in an order of its own, so that only these numbers can be compared.
            write_files(folder, 200, depth, ties=False)
            apart = difference(folder / "qrels", folder / "shuffled")
            print(f"Largest difference between the numbers, without ties: {apart:.1e}")
        write_files(folder, queries, depth)
        for order in ("ordered", "shuffled"):
            workload(folder, order, f"{queries:,} queries x {depth:,} results", rounds=12, peer_rounds=5)


if __name__ == "__main__":
    main()
