"""One query as JSON with short keys: the sample, each run's outputs, and the judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ....core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ....store.judgement_rows import StoredJudgement
from .blocks import json_bytes
from .marks import GoldMarks, WordIndex, relevance, word_support

__all__ = ["judgement_json", "output_json", "query_json", "sample_json"]

NumberOf = Callable[[str], int]
"""Maps a document text to its number."""

MAX_CANDIDATES = 200
"""The number of irrelevant candidates listed; all of them are counted."""
_MAX_RAW_LENGTH = 20_000


def sample_json(sample: EvaluationSample, number_of: NumberOf) -> bytes:
    """A sample as JSON."""
    reference = sample.reference_answer
    gold_ids = {one.doc_id for one in sample.relevant_docs or ()}
    others = [one for one in sample.candidate_docs or () if one.doc_id not in gold_ids]
    return json_bytes(
        _drop_empty(
            {
                "id": sample.sample_id,
                "q": sample.query,
                "history": sample.history,
                "labels": sample.labels,
                "metadata": sample.metadata,
                "cluster": None if sample.cluster == sample.sample_id else sample.cluster,
                "refs": sample.references,
                "structured": None if reference is None else reference.structured,
                "others": [[one.doc_id, number_of(one.text)] for one in others[:MAX_CANDIDATES]],
                "others_count": len(others),
            }
        )
        # ``null`` means not annotated, an empty list annotated without gold.
        | {"gold": None if sample.relevant_docs is None else [_gold(one, number_of) for one in sample.relevant_docs]}
    )


def _gold(document: Document, number_of: NumberOf) -> list[Any]:
    metadata = {key: value for key, value in document.metadata.items() if key != "relevance"}
    text = number_of(document.text)
    return _strip_trailing_none(
        [document.doc_id, text, relevance(document), document.parent_id, document.span, metadata or None]
    )


def output_json(output: SystemOutputs, gold: GoldMarks, words: WordIndex, number_of: NumberOf) -> bytes:
    """An output as JSON, with its marks."""
    response = output.response
    documents = [item.doc for item in output.retrieved]
    ranks = gold.ranks(documents)
    marks = gold.marks(documents, ranks)
    by_span = {doc_id: one.rank for doc_id, one in (ranks or {}).items() if one.by == "span"}
    levels = {rank: gold.levels[doc_id] for doc_id, rank in by_span.items()}
    value = _drop_empty(
        {
            "error": output.error,
            "refused": output.refused,
            "timings": output.timings,
            "usage": output.usage,
            "steps": output.steps,
            "extra": output.extra,
            "unsaid": isinstance(output.retrieved, UnknownRanking) or None,
            "by_span": by_span,
        }
    )
    value["docs"] = [
        _strip_trailing_none(
            [
                item.doc.doc_id,
                number_of(item.doc.text),
                item.score,
                mark,
                levels.get(rank, gold.levels.get(item.doc.doc_id)),
                item.doc.parent_id,
                item.doc.span,
                gold.passages_in(item.doc) or None,
                item.doc.metadata or None,
            ]
        )
        for rank, (item, mark) in enumerate(zip(output.retrieved, marks, strict=True), 1)
    ]
    if output.citations is not None:
        value["citations"] = output.citations
    if response is not None:
        value["answer"] = response.text
        support = word_support(output, words)
        value["support"] = None if support is None else [support.missing, support.words, support.unsupported]
        value |= _drop_empty(
            {
                "structured": response.structured,
                "answer_metadata": response.metadata,
                "sentences": response.sentences,
            }
        )
    return json_bytes(value)


def judgement_json(one: StoredJudgement, *, is_old: bool = False) -> bytes:
    """A judgement as JSON, or its failure. The raw reply is kept only where there is no parsed answer.

    ``is_old`` says that the metric has another signature by now.
    """
    body = dict(one.body)
    answer = body.get("answer")
    raw = body.get("raw") if one.reason is not None or not answer else None
    value = {
        "metric": one.metric,
        "critic": one.critic,
        "prompt": one.prompt_id,
        "repeat": one.repeat,
        "again": one.judge_repeat,
        "failed": one.reason,
        "old": is_old or None,
        "message": body.get("message"),
        "answer": answer,
        "raw": raw[:_MAX_RAW_LENGTH] if isinstance(raw, str) else raw,
    }
    return json_bytes(_drop_empty(value))


def query_json(samples: Sequence[bytes], sides: Iterable[tuple[int, Sequence[bytes], Sequence[bytes]] | None]) -> bytes:
    """One query: its samples (one, unless the runs have different datasets), and per run the sample index, the outputs
    of all repeats, and the judgements."""
    runs_json = [
        b"null" if side is None else b"[%d,%b,%b]" % (side[0], _array(side[1]), _array(side[2])) for side in sides
    ]
    return b'{"samples":%b,"runs":%b}' % (_array(samples), _array(runs_json))


def _array(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def _drop_empty(value: dict[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if inner is not None and inner != {} and inner != []}


def _strip_trailing_none(values: list[Any]) -> list[Any]:
    """The values without trailing ``None``."""
    while values and values[-1] is None:
        values.pop()
    return values
