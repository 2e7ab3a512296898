"""One process against two on the text bundle, with the pool already started."""

import time
from typing import Any

from auepora_eval import EvaluationSample, SystemOutputs, evaluate
from auepora_eval.core.executors import ProcessExecutor

from .made_texts import make_texts

METRICS: list[Any] = [
    "rouge1_answer",
    "rouge2_answer",
    "rougeL_answer",
    "bleu",
    "exact_match",
    "token_f1",
    "evidence_overlap",
]


def compare(count: int) -> None:
    """Prints both times, and whether the numbers are the same."""
    from .text import objects

    unique = min(count, 20_000)
    samples, outputs = objects(*make_texts(unique))
    rows = [(n, samples[n % unique], outputs[n % unique]) for n in range(count)]
    many = [EvaluationSample(str(n), "", reference_answer=sample.reference_answer) for n, sample, _ in rows]
    given: list[SystemOutputs] = [output for _, _, output in rows]
    with ProcessExecutor(2) as pool:
        pool.start()
        times: dict[str, list[float]] = {"one process": [], "two processes": []}
        results = {}
        for _ in range(2):
            for name, options in (("one process", {}), ("two processes", {"executor": pool})):
                start = time.perf_counter()
                results[name] = evaluate(many, given, METRICS, **options)  # type: ignore[arg-type]
                times[name].append(time.perf_counter() - start)
    best = {name: min(seconds) for name, seconds in times.items()}
    print(f"\n{count:,} pairs with five passages, {len(METRICS)} metrics:", end=" ")
    print("; ".join(f"{name} {seconds:.1f} s" for name, seconds in best.items()), end="; ")
    print(f"{best['one process'] / best['two processes']:.2f} times")
    assert list(results["one process"]) == list(results["two processes"])
