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
    """A run of such a system; it is stored and scored even if every answer fails."""
    options = {"keep_going": True, **options}
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


def judged_until(
    store: RunStore,
    name: str,
    dataset: Sequence[EvaluationSample],
    spec: str,
    values: Sequence[float] | np.ndarray,
    test: Mapping[str, object] | None,
) -> RunRecord:
    """A run in which a metric has scores of the first samples only; with the details of a sequential test, if any."""
    record = store.create_run(name, dataset, dataset_name="made", plan={"metrics": [spec]})
    built = metric(spec)
    assert isinstance(built, BatchMetric)
    padded = np.zeros(len(dataset))
    padded[: len(values)] = values
    scores = Scores.of(padded, skip={"not_judged": np.arange(len(dataset)) >= len(values)})
    result = make_result(built, scores, clusters=sample_clusters(dataset))
    if test is not None:
        result.details["sequential"] = dict(test)
    store.put_result(record.run_id, result)
    store.finish(record.run_id)
    return store.get(record.run_id)


def sequential_test(
    against: str | None,
    *,
    verdict: str = "better",
    looks: int = 7,
    n: int = 200,
    reason: str | None = "boundary",
    **changes: object,
) -> dict[str, object]:
    """The details of a sequential test that stopped at this look of twenty, as a run stores them."""
    units = [n * at // 20 for at in range(1, 21)]
    gate = changes.get("threshold") is not None
    path = [
        {"number": at, "units": units[at - 1], "mean": 0.2, "low": 0.2 - 1.2 / at, "high": 0.2 + 1.2 / at,
         "p_value": 0.5 / at**2, "statistic": 0.6 * at, "boundary": 3.836 / at**0.2, "verdict": None, "chance": None}
        for at in range(1, looks + 1)
    ]  # fmt: skip
    if verdict != "inconclusive":
        path[-1] |= {"verdict": verdict, "low": 0.05, "high": 0.35}
    threshold = changes.pop("threshold", None)
    design = {"n": n, "looks": units, "delta": None if gate else 0.05, "method": "group_sequential", "alpha": 0.05,
              "tests": 1, "stop_on": ["better", "worse", "equal"], "futility": True, "threshold": threshold,
              "binary": gate}  # fmt: skip
    judged = units[looks - 1]
    return {
        "design": design, "metric": "token_f1", "against": against, "seed": 0, "claim": "each", "path": path,
        "verdict": verdict, "reason": reason, "stopped_at": judged if reason else None, "units": judged,
        "judged": judged, "samples": n, "calls": judged, "calls_saved": n - judged, "failed": 0, "known_before": 0,
        "continued": False, **changes,
    }  # fmt: skip
