"""Nuggets in files: a question per line with its nuggets, as the nuggetizer of the TREC RAG track writes them.

``{"qid": "q1", "query": "...", "nuggets": [{"text": "...", "importance": "vital"}]}``. Where an answer was held against
them each nugget has an ``assignment`` too, and the line says whose answer it is (``run_id``, ``answer_text``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import AueporaError, AueporaWarning, BadValueError, DataFileError, DuplicateIdError
from ..core.types import EvaluationSample
from ..judge.nuggets import NUGGETS, NuggetTopic, as_nuggets
from .codec import LineError
from .files import write_lines
from .reading import Problems
from .rows import read_records

__all__ = ["NuggetTopic", "iter_nuggets", "read_nuggets", "topics_of", "with_nuggets", "write_nuggets"]

_OWN = ("qid", "query", "nuggets")
_NAMED = 3  # so many unknown ids are named; the rest is counted


def iter_nuggets(path: str | Path, problems: Problems | None = None) -> Iterator[NuggetTopic]:
    """The questions of a file, one after the other."""
    path, found = Path(path), problems or Problems()
    for record in read_records(path, found):
        try:
            yield _topic(record.values)
        except LineError as error:
            found.add_all(path, record.line, error.messages, record=record.record)


def read_nuggets(path: str | Path) -> list[NuggetTopic]:
    """The questions of a file; the same question of the same run must not come twice."""
    topics: list[NuggetTopic] = []
    seen: set[tuple[str, str]] = set()
    for topic in iter_nuggets(path):
        key = topic.qid, str([topic.more.get(name) for name in ("run_id", "docid")])
        if key in seen:
            raise DuplicateIdError(f"{path}: qid {topic.qid!r} comes twice; each question may come once")
        seen.add(key)
        topics.append(topic)
    if not topics:
        raise DataFileError(Path(path), None, "there are no nuggets in it")
    return topics


def _topic(values: dict[str, Any]) -> NuggetTopic:
    qid, query = values.get("qid"), values.get("query", "")
    if isinstance(qid, bool) or not isinstance(qid, (str, int)) or qid == "":
        raise LineError("field 'qid' is missing" if qid is None else f"field 'qid' is {qid!r:.40}, not an id")
    if not isinstance(query, str):
        raise LineError(f"field 'query' is {query!r:.40}, not a text")
    if "nuggets" not in values:
        raise LineError("field 'nuggets' is missing")
    try:
        nuggets = as_nuggets(values["nuggets"])
    except AueporaError as error:
        raise LineError(str(error)) from error
    return NuggetTopic(str(qid), tuple(nuggets), query, {key: one for key, one in values.items() if key not in _OWN})


def write_nuggets(topics: Iterable[NuggetTopic], path: str | Path) -> None:
    """Write a question per line, with the assignments where there are any."""
    write_lines(Path(path), (msgspec.json.encode(topic.to_dict()) for topic in topics))


def topics_of(samples: Iterable[EvaluationSample]) -> list[NuggetTopic]:
    """The nuggets in the samples' metadata, as they would be written; samples without any are left out."""
    found = []
    for sample in samples:
        held = sample.metadata.get(NUGGETS)
        if held:
            found.append(NuggetTopic(sample.sample_id, tuple(as_nuggets(held)), sample.query))
    return found


def with_nuggets(
    samples: Iterable[EvaluationSample], nuggets: str | Path | Iterable[NuggetTopic]
) -> Iterator[EvaluationSample]:
    """The samples, each with the nuggets of its id, in place of those it had; a sample of which none are known stays.

    What an answer was found to have (``assignment``) is no part of a question and left behind. It is an error if no
    nuggets belong to any sample, and a warning if some do not.
    """
    where = nuggets if isinstance(nuggets, (str, Path)) else "the nuggets"
    topics = read_nuggets(nuggets) if isinstance(nuggets, (str, Path)) else nuggets
    by_id: dict[str, list[dict[str, str]]] = {}
    for topic in topics:
        if topic.qid in by_id:
            raise DuplicateIdError(f"{where}: qid {topic.qid!r} comes twice; each question may come once")
        by_id[topic.qid] = [replace(one, assignment=None).to_dict() for one in topic.nuggets]
    left = dict.fromkeys(by_id)
    for sample in samples:
        if sample.sample_id not in by_id:
            yield sample
            continue
        left.pop(sample.sample_id, None)
        yield replace(sample, metadata={**sample.metadata, NUGGETS: by_id[sample.sample_id]})
    if left:
        more = len(left) - _NAMED
        named = ", ".join(map(repr, list(left)[:_NAMED])) + (f" and {more} more" if more > 0 else "")
        if len(left) == len(by_id):
            raise BadValueError(f"{where}: no qid is the id of a sample; there are {named}")
        warnings.warn(f"{where}: no sample has the qid {named}", AueporaWarning, stacklevel=2)
