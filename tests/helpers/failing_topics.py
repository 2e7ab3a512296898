"""Two stored runs that fail on topics which questions name: B newly fails on invoices, both fail on customs."""

from collections.abc import Iterator

import numpy as np

from auepora_eval import EvaluationSample, Response, SystemOutputs
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.browser_runs import put, scored

WORDS = ("harbour", "printer", "garden", "ticket", "window", "laptop", "bridge", "coffee", "engine", "school")
COUNT = 400


def samples() -> list[EvaluationSample]:
    """Questions: the first 40 about customs, the next 40 about invoices, the next 40 in Chinese about refunds (退款)."""
    made = []
    for number in range(COUNT):
        words = [WORDS[number % 10], WORDS[number // 10 % 10], f"number {number}"]
        topic = ("customs duty", "an old invoice")[number // 40] if number < 80 else "our service"
        question = f"What about {topic} and the {' and the '.join(words)}?"
        if 80 <= number < 120:
            question = f"第{number}号订单如何退款？"
        elif 120 <= number < 160:
            question = f"第{number}号订单何时发货？"
        made.append(EvaluationSample(f"q{number}", question, labels={"desk": "north" if number % 3 else "south"}))
    return made


def _runs(store: RunStore) -> Iterator[RunRecord]:
    """Run A and run B."""
    rng = np.random.default_rng(5)
    outputs = [SystemOutputs([], Response(f"answer {number}")) for number in range(COUNT)]
    for name, rates in (("before", (0.8, 0.1, 0.1)), ("after", (0.8, 0.85, 0.8))):
        wrong = rng.random(COUNT) < 0.12
        for topic, rate in enumerate(rates):
            wrong[40 * topic : 40 * topic + 40] = rng.random(40) < rate
        made = scored("exact_match", [0.0 if is_wrong else 1.0 for is_wrong in wrong.tolist()])
        made_f1 = scored("token_f1", [0.25 if is_wrong else 0.75 for is_wrong in wrong.tolist()])
        yield put(store, name, samples(), outputs, [made, made_f1])


def failing_runs(store: RunStore) -> list[RunRecord]:
    """Both runs, stored."""
    return list(_runs(store))
