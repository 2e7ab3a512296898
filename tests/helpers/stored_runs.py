"""Runs in a real store: of systems that answer from a table, or of scores as a test wants them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.metrics_base import BatchMetric, Metric, make_result, sample_clusters
from auepora_eval.core.registry import Spec, metric
from auepora_eval.core.scores import Scores
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore

Answer = str | Sequence[str] | Exception | SystemOutputs
"""A text, the ids of documents, what the system raises, or a whole output."""


def samples(n: int, *, reference: str = "yes", clusters: Callable[[int], str] | None = None) -> list[EvaluationSample]:
    """Questions with one relevant document and a reference answer each."""
    return [
        EvaluationSample(
            f"q{number:05}",
            f"question {number}?",
            relevant_docs=[Document("gold", "The text of the gold document.")],
            reference_answer=Response(reference),
            cluster_id=None if clusters is None else clusters(number),
        )
        for number in range(n)
    ]


def answering(answers: Callable[[int], Answer]) -> Callable[..., SystemOutputs]:
    """A system that answers the question of each number from a table."""

    def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        answer = answers(int(sample.sample_id[1:]))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, SystemOutputs):
            return answer
        ids, text = ([], answer) if isinstance(answer, str) else (list(answer), "")
        hits = [RetrievedDocument(Document(one, f"text of {one}"), 1.0 / rank, rank) for rank, one in enumerate(ids, 1)]
        return SystemOutputs(hits[:top_k], Response(text))

    return system


def run(
    store: RunStore,
    name: str,
    dataset: Sequence[EvaluationSample],
    answers: Callable[[int], Answer],
    metrics: Sequence[Spec | Metric],
    **options: object,
) -> RunRecord:
    """A run of such a system."""
    return run_system(answering(answers), dataset, list(metrics), store=store, name=name, **options).record  # type: ignore[arg-type]


def scored(
    store: RunStore,
    name: str,
    dataset: Sequence[EvaluationSample],
    scores: Mapping[str, Sequence[float] | np.ndarray | Scores],
    *,
    plan: Mapping[str, object] | None = None,
) -> RunRecord:
    """A run with these scores of registered metrics."""
    record = store.create_run(name, dataset, dataset_name="made", plan={"metrics": list(scores), **(plan or {})})
    for spec, given in scores.items():
        built = metric(spec)
        assert isinstance(built, BatchMetric)
        column = given if isinstance(given, Scores) else Scores.of(given)
        store.put_result(record.run_id, make_result(built, column, clusters=sample_clusters(dataset)))
    store.finish(record.run_id)
    return store.get(record.run_id)
