"""One query as JSON with short keys: the sample, the outputs of each run, and the judgements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.scores import MarkedSpan
from ...core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ...queries.view import GoldMarks, drop_empty, relevance, span_marks, utf16_ranges, word_support
from .pack import json_bytes

NumberOf = Callable[[str], int]
"""Maps a document text to its number."""

MAX_CANDIDATES = 200
"""The number of irrelevant candidates listed; all of them are counted."""


def sample_json(sample: EvaluationSample, number_of: NumberOf) -> bytes:
    """A sample as JSON."""
    reference = sample.reference_answer
    gold_ids = {document.doc_id for document in sample.relevant_docs or ()}
    others = [document for document in sample.candidate_docs or () if document.doc_id not in gold_ids]
    return json_bytes(
        drop_empty(
            {
                "id": sample.sample_id,
                "q": sample.query,
                "history": sample.history,
                "labels": sample.labels,
                "metadata": sample.metadata,
                "cluster": None if sample.cluster == sample.sample_id else sample.cluster,
                "refs": sample.references,
                "structured": None if reference is None else reference.structured,
                "others": [[other.doc_id, number_of(other.text)] for other in others[:MAX_CANDIDATES]],
                "others_count": len(others),
                "groups": sample.relevant_groups,
            }
        )
        # ``null`` means not annotated, an empty list annotated without gold.
        | {
            "gold": None
            if sample.relevant_docs is None
            else [_gold(doc_id, number_of) for doc_id in sample.relevant_docs]
        }
    )


def _gold(document: Document, number_of: NumberOf) -> list[Any]:
    metadata = {key: value for key, value in document.metadata.items() if key != "relevance"}
    text = number_of(document.text)
    return _strip_trailing_none(
        [document.doc_id, text, relevance(document), document.parent_id, document.span, metadata or None]
    )


def output_json(
    output: SystemOutputs,
    gold: GoldMarks,
    number_of: NumberOf,
    spans: Iterable[tuple[str, Sequence[MarkedSpan]]] = (),
) -> bytes:
    """An output as JSON, with its marks; ``spans`` are those of its answer, by metric."""
    response = output.response
    documents = [item.doc for item in output.retrieved]
    ranks = gold.gold_ranks(documents)
    value = drop_empty(
        {
            "error": output.error,
            "refused": output.refused,
            "timings": output.timings,
            "usage": output.usage,
            "steps": output.steps,
            "extra": output.extra,
            "unsaid": isinstance(output.retrieved, UnknownRanking) or None,
            # by span or otherwise: gold that is found at a document of another id
            "by_span": {doc_id: rank for doc_id, rank in ranks.items() if documents[rank - 1].doc_id != doc_id},
        }
    )
    value["docs"] = [
        _strip_trailing_none(
            [
                item.doc.doc_id,
                number_of(item.doc.text),
                item.score,
                mark,
                hit.level,
                item.doc.parent_id,
                item.doc.span,
                utf16_ranges(item.doc.text, gold.gold_passages(item.doc)) or None,
                item.doc.metadata or None,
                hit.how or None,
            ]
        )
        for item, (mark, hit) in zip(output.retrieved, gold.explained_marks(documents), strict=True)
    ]
    if output.citations is not None:
        value["citations"] = output.citations
    if response is not None:
        value["answer"] = response.text
        value["support"] = word_support(output)
        value |= drop_empty(
            {
                "spans": [[name, span_marks(response.text, marked)] for name, marked in spans if marked],
                "structured": response.structured,
                "answer_metadata": response.metadata,
                "sentences": response.sentences,
            }
        )
    return json_bytes(value)


def query_json(samples: Sequence[bytes], sides: Sequence[tuple[int, Sequence[bytes], Sequence[bytes]] | None]) -> bytes:
    """One query: its samples (one, unless the runs have different datasets), and per run the sample index, the outputs
    of all repeats, and the judgements."""
    runs_json = [b"null"] * len(sides)
    for run, side in enumerate(sides):
        if side is not None:
            runs_json[run] = b"[%d,%b,%b]" % (side[0], _array(side[1]), _array(side[2]))
    return b'{"samples":%b,"runs":%b}' % (_array(samples), _array(runs_json))


def _array(values: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"


def _strip_trailing_none(values: list[Any]) -> list[Any]:
    """The values without trailing ``None``."""
    while values and values[-1] is None:
        values.pop()
    return values
