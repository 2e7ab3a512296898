"""A run with every kind of outcome, for tests of the page of a run."""

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import run

METRICS = ["recall@2", "token_f1", "failure_attribution@2", "mean_latency[end_to_end]"]


def answer(number: int) -> SystemOutputs:
    """Right, retrieved too low, not retrieved, refused or wrong, in turn; 7 lost a found document, and 9 failed."""
    kinds = [
        (["gold", "a"], "yes"),
        (["a", "b", "gold"], "no"),
        (["a", "b"], "no"),
        (["a", "gold"], "I do not know."),
        (["gold"], "text of gold"),
    ]
    ids, text = kinds[number % 5]
    hits = [RetrievedDocument(Document(one, f"text of {one}"), 1.0 / rank, rank) for rank, one in enumerate(ids, 1)]
    if number == 9:
        return SystemOutputs([], error="Timeout: no answer within 30 s")
    steps: list[dict[str, object]] = (
        [{"query": "first"}, {"query": "second", "retrieved": ["c", "gold"]}] if number in (5, 7) else []
    )
    return SystemOutputs(hits, Response(text), timings={"end_to_end": 0.1 * (number + 1)}, steps=steps)


def questions() -> list[EvaluationSample]:
    """Twenty questions with gold; the last two have no reference."""
    return [
        EvaluationSample(
            f"q{number:05}",
            f"question {number}?",
            relevant_docs=[Document("gold", "The text of the gold document.")],
            reference_answer=Response("yes") if number < 18 else None,
            labels={"kind": "easy" if number % 2 else 'h"=a<rd'},
        )
        for number in range(20)
    ]


def mixed_run(store: RunStore) -> str:
    """The id of the run."""
    return run(store, "mixed", questions(), answer, METRICS, slices=["labels.kind"]).run_id
