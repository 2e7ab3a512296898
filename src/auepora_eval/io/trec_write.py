"""Writing of TREC files: judgements as qrels, rankings as runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core.errors import BadValueError, DuplicateIdError
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..features.rankings import parse_level
from .files import write_lines

_TAG = "auepora"


def judged_documents(levels: dict[str, int]) -> tuple[list[Document], list[Document] | None]:
    """Return relevant documents with their level, and those judged non-relevant; negative levels are not judgements."""
    relevant = [Document(doc, metadata={"relevance": level}) for doc, level in levels.items() if level > 0]
    others = [Document(doc) for doc, level in levels.items() if level == 0]
    return relevant, others or None


def judged_levels(sample: EvaluationSample) -> dict[str, int]:
    """Return the level by document: the highest of each relevant one, 0 for other candidates. No level is an error."""
    levels: dict[str, int] = {}
    for doc in sample.relevant_docs or ():
        level = parse_level(doc.metadata.get("relevance", 1), doc.doc_id, sample.sample_id)
        levels[doc.doc_id] = max(level, levels.get(doc.doc_id, level))
    for doc in sample.candidate_docs or ():
        levels.setdefault(doc.doc_id, 0)
    if not levels:
        raise BadValueError(
            f"sample {sample.sample_id!r} cannot be written: it has no judged document, and qrels list only "
            "queries with judgements; leave the sample out"
        )
    return levels


def save_qrels(samples: Iterable[EvaluationSample], path: str | Path) -> None:
    """Write judgements: the level of each relevant document, 0 for other candidates."""

    def lines() -> Iterator[bytes]:
        seen: set[str] = set()
        for sample in samples:
            owner = f"sample {sample.sample_id!r}"
            query = _query_cell(sample.sample_id, owner, seen)
            if query == b"#":
                raise BadValueError(f"{owner} cannot be written: a line of qrels that begins with '# ' is a comment")
            for doc, level in judged_levels(sample).items():
                yield b"%b 0 %b %d" % (query, _cell(doc, owner), level)

    write_lines(Path(path), lines())


def save_run(outputs: Iterable[tuple[str, SystemOutputs]], path: str | Path) -> None:
    """Write rankings with the scores they have.

    A run is sorted by its scores when it is read. If a score is missing, or the scores do not give the order of the
    list, the whole ranking is written with 1/rank, so that the order of the list is kept.
    """

    def lines() -> Iterator[bytes]:
        seen: set[str] = set()
        for sample_id, output in outputs:
            owner = f"the output for sample {sample_id!r}"
            query = _query_cell(sample_id, owner, seen)
            if not output.retrieved:
                raise BadValueError(
                    f"{owner} cannot be written: it retrieved nothing, which a run cannot represent; "
                    "leave the sample out"
                )
            scores = _run_scores(output.retrieved, owner)
            for rank, (item, score) in enumerate(zip(output.retrieved, scores, strict=True), start=1):
                doc = _cell(item.doc.doc_id, owner)
                yield b"%b Q0 %b %d %b %b" % (query, doc, rank, repr(score).encode(), _TAG.encode())

    write_lines(Path(path), lines())


def _run_scores(retrieved: list[RetrievedDocument], owner: str) -> list[float]:
    try:
        scores = [float(item.score) for item in retrieved if item.score is not None]
    except (TypeError, ValueError, OverflowError) as error:
        raise BadValueError(f"{owner} cannot be written: a score is not a number: {error}") from error
    if any(map(math.isnan, scores)):
        raise BadValueError(f"{owner} cannot be written: a score is NaN")
    if len(scores) == len(retrieved):
        keys = [(score, item.doc.doc_id) for score, item in zip(scores, retrieved, strict=True)]
        if keys == sorted(keys, reverse=True):
            return scores
    return [1 / rank for rank in range(1, len(retrieved) + 1)]


def _query_cell(sample_id: str, owner: str, seen: set[str]) -> bytes:
    if sample_id in seen:
        raise DuplicateIdError(f"sample_id {sample_id!r} comes twice; each id may come once in a file")
    seen.add(sample_id)
    return _cell(sample_id, owner)


def require_trec_id(text: str, owner: str) -> None:
    """Raise unless an id is valid in a TREC file."""
    _cell(text, owner)


def _cell(text: str, owner: str) -> bytes:
    try:
        cell = text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise BadValueError(f"{owner} cannot be written: the id {text!r:.80} is not valid text") from None
    if cell.split() != [cell] or text.startswith("\ufeff"):  # a byte order mark would be dropped on reading
        raise BadValueError(f"{owner} cannot be written: the id {text!r:.80} is empty or holds white space")
    return cell
