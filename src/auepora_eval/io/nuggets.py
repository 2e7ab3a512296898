"""Nugget files: a query per line with its nuggets, as the nuggetizer of the TREC RAG track writes them.

``{"qid": "q1", "query": "...", "nuggets": [{"text": "...", "importance": "vital"}]}``. If an answer was
compared with them, each nugget has an ``assignment``, and the line names the answer (``run_id``, ``answer_text``).
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
_MAX_NAMED = 3  # how many unknown ids a message names


def iter_nuggets(path: str | Path, problems: Problems | None = None) -> Iterator[NuggetTopic]:
    """Yield the topics of a file."""
    path, found = Path(path), problems or Problems()
    for record in read_records(path, found):
        try:
            yield _parse_topic(record.values)
        except LineError as error:
            found.add_all(path, record.line, error.messages, record=record.record)


def read_nuggets(path: str | Path) -> list[NuggetTopic]:
    """Read the topics of a file; each combination of query and run must be unique."""
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
        raise LineError(f"field 'query' is {query!r:.40}, not a string")
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
    """Write a topic per line, with the assignments if there are any."""
    write_lines(Path(path), (msgspec.json.encode(topic.to_dict()) for topic in topics))


def collect_nugget_topics(samples: Iterable[EvaluationSample]) -> list[NuggetTopic]:
    """Return the nuggets in the samples' metadata as topics; samples without nuggets are omitted."""
    found = []
    for sample in samples:
        nuggets = sample.metadata.get(NUGGETS_KEY)
        if nuggets:
            found.append(NuggetTopic(sample.sample_id, tuple(parse_nuggets(nuggets)), sample.query))
    return found


class NuggetsById:
    """The nuggets of a file or a list by sample id; ``unused`` reports the ids without a sample."""

    def __init__(self, nuggets: str | Path | Iterable[NuggetTopic]) -> None:
        self._where = nuggets if isinstance(nuggets, (str, Path)) else "the nuggets"
        topics = read_nuggets(nuggets) if isinstance(nuggets, (str, Path)) else nuggets
        self._by_id: dict[str, list[dict[str, str]]] = {}
        for topic in topics:
            if topic.qid in self._by_id:
                raise DuplicateIdError(f"{self._where}: qid {topic.qid!r} comes twice; each question may come once")
            self._by_id[topic.qid] = [replace(one, assignment=None).to_dict() for one in topic.nuggets]
        self._unused = dict.fromkeys(self._by_id)

    def attach(self, sample: EvaluationSample) -> EvaluationSample:
        """Return the sample with the nuggets of its id instead of its own; unchanged if there are none."""
        nuggets = self._by_id.get(sample.sample_id)
        self._unused.pop(sample.sample_id, None)
        return sample if nuggets is None else replace(sample, metadata={**sample.metadata, NUGGETS_KEY: nuggets})

    def unused(self) -> tuple[str, bool]:
        """Return a message about nuggets that belong to no sample, and whether none belongs to one."""
        if not self._unused:
            return "", False
        more = len(self._unused) - _MAX_NAMED
        named = ", ".join(map(repr, list(self._unused)[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
        if len(self._unused) == len(self._by_id):
            return f"no qid is the id of a sample; there are {named}", True
        return f"no sample has the qid {named}", False

    def report(self) -> None:
        """Warn about nuggets that belong to no sample, after all samples; an error if none belongs to one."""
        message, all_unused = self.unused()
        if all_unused:
            raise BadValueError(f"{self._where}: {message}")
        if message:
            warnings.warn(f"{self._where}: {message}", AueporaWarning, stacklevel=2)


def with_nuggets(
    samples: Iterable[EvaluationSample], nuggets: str | Path | Iterable[NuggetTopic]
) -> Iterator[EvaluationSample]:
    """Yield the samples with the nuggets of their ids instead of their own; other samples are unchanged.

    ``assignment`` belongs to an answer, not to the query, and is dropped. It is an error if no nuggets belong to a
    sample, and a warning if some do not.
    """
    known = NuggetsById(nuggets)
    yield from map(known.attach, samples)
    known.report()
