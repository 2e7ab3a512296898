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
from ..judge.nuggets import NUGGETS_KEY, NuggetTopic, parse_nuggets
from .codec import LineError
from .files import write_lines
from .reader_types import Problems
from .record_files import read_records

__all__ = [
    "NuggetTopic",
    "NuggetsById",
    "collect_nugget_topics",
    "iter_nuggets",
    "read_nuggets",
    "with_nuggets",
    "write_nuggets",
]

_TOPIC_KEYS = ("qid", "query", "nuggets")
_MAX_NAMED = 3  # so many unknown ids are named; the rest is counted


def iter_nuggets(path: str | Path, problems: Problems | None = None) -> Iterator[NuggetTopic]:
    """The questions of a file, one after the other."""
    path, found = Path(path), problems or Problems()
    for record in read_records(path, found):
        try:
            yield _parse_topic(record.values)
        except LineError as error:
            found.add_all(path, record.line, error.messages, record=record.record)


def read_nuggets(path: str | Path) -> list[NuggetTopic]:
    """The questions of a file; the same question of the same run must not come twice."""
    topics: list[NuggetTopic] = []
    seen: set[tuple[str, str]] = set()
    for topic in iter_nuggets(path):
        key = topic.qid, str([topic.extra.get(name) for name in ("run_id", "docid")])
        if key in seen:
            message = f"{path}: qid {topic.qid!r} comes twice; each question may come once"
            raise DuplicateIdError(message, path=path)
        seen.add(key)
        topics.append(topic)
    if not topics:
        raise DataFileError(Path(path), None, "there are no nuggets in it")
    return topics


def _parse_topic(values: dict[str, Any]) -> NuggetTopic:
    qid, query = values.get("qid"), values.get("query", "")
    if isinstance(qid, bool) or not isinstance(qid, (str, int)) or qid == "":
        raise LineError("field 'qid' is missing" if qid is None else f"field 'qid' is {qid!r:.40}, not an id")
    if not isinstance(query, str):
        raise LineError(f"field 'query' is {query!r:.40}, not a text")
    if "nuggets" not in values:
        raise LineError("field 'nuggets' is missing")
    try:
        nuggets = parse_nuggets(values["nuggets"])
    except AueporaError as error:
        raise LineError(str(error)) from error
    return NuggetTopic(
        str(qid), tuple(nuggets), query, {key: one for key, one in values.items() if key not in _TOPIC_KEYS}
    )


def write_nuggets(topics: Iterable[NuggetTopic], path: str | Path) -> None:
    """Write a question per line, with the assignments where there are any."""
    write_lines(Path(path), (msgspec.json.encode(topic.to_dict()) for topic in topics))


def collect_nugget_topics(samples: Iterable[EvaluationSample]) -> list[NuggetTopic]:
    """The nuggets in the samples' metadata, as they would be written; samples without any are left out."""
    found = []
    for sample in samples:
        held = sample.metadata.get(NUGGETS_KEY)
        if held:
            found.append(NuggetTopic(sample.sample_id, tuple(parse_nuggets(held)), sample.query))
    return found


class NuggetsById:
    """The nuggets of a file or a list by the ids of samples; ``unused`` says which ones no sample asked for."""

    def __init__(self, nuggets: str | Path | Iterable[NuggetTopic]) -> None:
        self._where = nuggets if isinstance(nuggets, (str, Path)) else "the nuggets"
        topics = read_nuggets(nuggets) if isinstance(nuggets, (str, Path)) else nuggets
        self._by_id: dict[str, list[dict[str, str]]] = {}
        for topic in topics:
            if topic.qid in self._by_id:
                raise DuplicateIdError(f"{self._where}: qid {topic.qid!r} comes twice; each question may come once")
            self._by_id[topic.qid] = [replace(one, assignment=None).to_dict() for one in topic.nuggets]
        self._left = dict.fromkeys(self._by_id)

    def sample(self, sample: EvaluationSample) -> EvaluationSample:
        """The sample with the nuggets of its id, in place of those it had; as it is where none are known."""
        held = self._by_id.get(sample.sample_id)
        self._left.pop(sample.sample_id, None)
        return sample if held is None else replace(sample, metadata={**sample.metadata, NUGGETS_KEY: held})

    def unused(self) -> tuple[str, bool]:
        """Which nuggets belong to no sample, in words, and whether that is so of all of them."""
        if not self._left:
            return "", False
        more = len(self._left) - _MAX_NAMED
        named = ", ".join(map(repr, list(self._left)[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
        if len(self._left) == len(self._by_id):
            return f"no qid is the id of a sample; there are {named}", True
        return f"no sample has the qid {named}", False

    def report(self) -> None:
        """Warn of nuggets that belong to no sample, once all samples have passed; an error if none do."""
        told, all_of_them = self.unused()
        if all_of_them:
            raise BadValueError(f"{self._where}: {told}")
        if told:
            warnings.warn(f"{self._where}: {told}", AueporaWarning, stacklevel=2)


def with_nuggets(
    samples: Iterable[EvaluationSample], nuggets: str | Path | Iterable[NuggetTopic]
) -> Iterator[EvaluationSample]:
    """The samples, each with the nuggets of its id, in place of those it had; a sample of which none are known stays.

    What an answer was found to have (``assignment``) is no part of a question and left behind. It is an error if no
    nuggets belong to any sample, and a warning if some do not.
    """
    known = NuggetsById(nuggets)
    yield from map(known.sample, samples)
    known.report()
