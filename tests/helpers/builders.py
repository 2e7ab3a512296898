"""Small builders, so that a test shows only what it is about."""

from collections.abc import Mapping, Sequence
from typing import Any

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs


def documents(ids: Sequence[str] | Mapping[str, int]) -> list[Document]:
    if isinstance(ids, Mapping):
        return [Document(i, metadata={"relevance": level}) for i, level in ids.items()]
    return [Document(i) for i in ids]


def sample(
    gold: Sequence[str] | Mapping[str, int] | None = None,
    *,
    sample_id: str = "1",
    candidates: Sequence[str] | None = None,
    answer: str | None = None,
    **fields: Any,
) -> EvaluationSample:
    return EvaluationSample(
        sample_id=sample_id,
        query=fields.pop("query", "why?"),
        relevant_docs=None if gold is None else documents(gold),
        candidate_docs=None if candidates is None else documents(candidates),
        reference_answer=None if answer is None else Response(answer),
        **fields,
    )


def output(ranked: Sequence[str] = (), *, answer: str | None = None, **fields: Any) -> SystemOutputs:
    retrieved = [RetrievedDocument(Document(i), score=1.0 / rank, rank=rank) for rank, i in enumerate(ranked, 1)]
    return SystemOutputs(retrieved=retrieved, response=None if answer is None else Response(answer), **fields)


def answered(text: str | None) -> SystemOutputs | None:
    """An answer; ``!`` is a failure of the system, ``?`` an output that is missing, ``None`` no answer asked for."""
    if text == "?":
        return None
    return output(error="timeout") if text == "!" else output(answer=text)


def samples(*golds: Sequence[str] | Mapping[str, int] | None) -> list[EvaluationSample]:
    return [sample(gold, sample_id=f"q{i}") for i, gold in enumerate(golds)]
