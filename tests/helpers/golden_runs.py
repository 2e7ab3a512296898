"""Stored runs over golden queries, so that a test shows only what was expected and what was found."""

from collections.abc import Sequence
from typing import Any

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.store import RunRecord, RunStatus, RunStore, StoredOutput

Span = tuple[int, int]


def chunk(doc_id: str, parent: str | None = None, span: Span | None = None, text: str = "") -> Document:
    return Document(doc_id, text, {}, parent, span)


def golden(query_id: str, *expected: str | Document, **metadata: Any) -> EvaluationSample:
    docs = [chunk(one) if isinstance(one, str) else one for one in expected]
    return EvaluationSample(query_id, f"what of {query_id}?", relevant_docs=docs, metadata=metadata)


def found(*hits: str | Document, answer: str | None = None, **fields: Any) -> SystemOutputs:
    docs = [chunk(one) if isinstance(one, str) else one for one in hits]
    retrieved = [RetrievedDocument(doc, 1.0 / rank, rank) for rank, doc in enumerate(docs, 1)]
    return SystemOutputs(retrieved, None if answer is None else Response(answer), **fields)


def found_at(rank: int | None, wanted: str = "gold") -> SystemOutputs:
    """Ten hits, of which the wanted one stands at that rank."""
    return found(*(wanted if place == rank else f"other-{place}" for place in range(1, 11)))


def put_run(
    store: RunStore,
    name: str,
    queries: Sequence[EvaluationSample],
    *repeats: Sequence[SystemOutputs | None],
    status: RunStatus = RunStatus.FINISHED,
    **given: Any,
) -> RunRecord:
    """A stored run called ``run_<name>``; an output that is ``None`` never came."""
    plan = given.pop("plan", {"version": 1})
    dataset = given.pop("dataset_name", "golden")
    record = store.create_run(
        name, queries, dataset_name=dataset, plan=plan, run_id=f"run_{name}", repeats=len(repeats), **given
    )
    for repeat, outputs in enumerate(repeats):
        rows = [
            StoredOutput(place, repeat, query.sample_id, output)
            for place, (query, output) in enumerate(zip(queries, outputs, strict=True))
            if output is not None
        ]
        store.append(record.run_id, rows)
    store.finish(record.run_id, status)
    return store.get(record.run_id)
