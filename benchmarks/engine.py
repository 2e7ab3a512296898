"""Cost of calling a system: time per sample without the system's own, and many calls at once compared with the ideal.

    python -m benchmarks.engine [--quick]

Every figure is the best of some rounds, the contenders taken in turn. The ideal is what the sleeping alone takes when
no place is ever empty: waves of as many samples as there are places.
"""

import argparse
import asyncio
import math
import time
from collections.abc import Iterator
from functools import partial

from auepora_eval.core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.systems.calls import Task, TaskOutput, call_system
from auepora_eval.systems.policy import CallPolicy

from .timing import best_times

FOUND = [RetrievedDocument(Document(f"d{n}"), 1.0 / (n + 1), n + 1) for n in range(10)]
NAP = 0.05


class Prompt:
    """Answers at once."""

    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return SystemOutputs(FOUND)


class PromptAsync:
    async def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        return SystemOutputs(FOUND)


class Slow:
    """Answers after a sleep."""

    def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        time.sleep(NAP)
        return SystemOutputs(FOUND)


class SlowAsync:
    """The same, and counts how many sleep at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def run(self, sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(NAP)
        self.running -= 1
        return SystemOutputs(FOUND)


def tasks(samples: list[EvaluationSample]) -> Iterator[Task]:
    return (Task(position, sample) for position, sample in enumerate(samples))


def asking(system: object, samples: list[EvaluationSample], policy: CallPolicy) -> None:
    def deliver(answers: list[TaskOutput]) -> None:
        """Discard the output."""

    asked = call_system(system, tasks(samples), policy, deliver)
    assert (asked.delivered, asked.failed, asked.ended) == (len(samples), 0, "done")


def overhead(samples: list[EvaluationSample]) -> None:
    """Print the time per sample of a system that answers at once."""
    ways = {
        "in the asking thread": (Prompt(), CallPolicy()),
        "threads, 1 at a time": (Prompt(), CallPolicy(concurrency=1, timeout=30)),
        "threads, 8": (Prompt(), CallPolicy(concurrency=8)),
        "threads, 64, with deadlines": (Prompt(), CallPolicy(concurrency=64, timeout=30)),
        "coroutines, 1 at a time": (PromptAsync(), CallPolicy(concurrency=1)),
        "coroutines, 8": (PromptAsync(), CallPolicy(concurrency=8)),
        "coroutines, 64, with deadlines": (PromptAsync(), CallPolicy(concurrency=64, timeout=30)),
    }
    contenders = {name: partial(asking, system, samples, policy) for name, (system, policy) in ways.items()}
    best = best_times(contenders, dict.fromkeys(contenders, 3))
    print(f"\n{len(samples):,} samples with ten hits, a system that answers at once:\n")
    print("| way of calling | ms per sample |\n|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1000 * seconds / len(samples):.3f} |")


def against_the_ideal(samples: list[EvaluationSample]) -> None:
    """Print the time relative to the sleeping alone, and the number of calls in flight."""
    many = SlowAsync()
    ways: list[tuple[str, object, int]] = [
        ("threads", Slow(), 64),
        ("coroutines", SlowAsync(), 64),
        ("coroutines", many, 1000),
    ]
    print(f"\n{len(samples):,} samples, a system that sleeps {1000 * NAP:.0f} ms:\n")
    print("| way of calling | calls in flight | seconds | times the ideal |\n|---|---|---|---|")
    for name, system, concurrency in ways:
        policy = CallPolicy(concurrency=concurrency, timeout=30)
        best = best_times({name: partial(asking, system, samples, policy)}, {name: 2})[name]
        ideal = math.ceil(len(samples) / concurrency) * NAP
        print(f"| {name} | {concurrency:,} | {best:.2f} | {best / ideal:.3f} |")
    print(f"\nAt most {many.most:,} coroutines were in flight at once.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the samples")
    count = 1_000 if parser.parse_args().quick else 5_000
    samples = [EvaluationSample(str(n), "why?") for n in range(count)]
    overhead(samples)
    against_the_ideal(samples)


if __name__ == "__main__":
    main()
