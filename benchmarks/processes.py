"""One process against two on text metrics, with the pool already started: pairs alone, and with passages."""

import time
from typing import Any

from auepora_eval import EvaluationSample, SystemOutputs, evaluate
from auepora_eval.engine.executors import ProcessExecutor

from .made_texts import make_texts

PAIRS: list[Any] = ["rouge1_answer", "rouge2_answer", "rougeL_answer", "bleu", "chrf", "exact_match", "token_f1"]
EVIDENCE: list[Any] = [*(name for name in PAIRS if name != "chrf"), "evidence_overlap"]


def compare(count: int) -> None:
    """Prints both times for both kinds of data, and makes sure that the numbers are the same."""
    from .text import objects

    answers, references, evidence = make_texts(min(count, 20_000))
    none: list[list[str]] = [[] for _ in answers]
    kinds = (("answers and references", none, PAIRS), ("the same with five passages each", evidence, EVIDENCE))
    with ProcessExecutor(2) as pool:
        for what, passages, metrics in kinds:
            samples, outputs = objects(answers, references, passages)
            rows = [samples[n % len(samples)] for n in range(count)]
            many = [EvaluationSample(str(n), "", reference_answer=row.reference_answer) for n, row in enumerate(rows)]
            given = [outputs[n % len(outputs)] for n in range(count)]
            one, two = timed(many, given, metrics, pool)
            print(
                f"\n{count:,} pairs, {what}, {len(metrics)} metrics: one process {one:.1f} s, two {two:.1f} s,", end=" "
            )
            print(f"{one / two:.2f} times")


def timed(
    samples: list[EvaluationSample], outputs: list[SystemOutputs], metrics: list[Any], pool: ProcessExecutor
) -> tuple[float, float]:
    """The best of two rounds each, taken in turn."""
    best = [float("inf"), float("inf")]
    for _ in range(2):
        start = time.perf_counter()
        here = evaluate(samples, outputs, metrics)
        middle = time.perf_counter()
        there = evaluate(samples, outputs, metrics, executor=pool)
        best = [min(best[0], middle - start), min(best[1], time.perf_counter() - middle)]
        assert list(here) == list(there)
    return best[0], best[1]
