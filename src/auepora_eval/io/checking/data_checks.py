"""Checks beyond the format: invalid levels, variants without a parent, contradicting ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import AueporaError
from ...core.types import STARTED, EvaluationSample
from ...features.rankings import RANK_CONTRADICTION, parse_level
from ...features.refusals import is_unanswerable
from ...judge.nuggets import sample_nuggets
from ..problem_messages import quote_text
from ..reader_types import MISSING_RETRIEVED, DataWarnings, ParsedOutput, ParsedSample, Problem, outputs_missing_ranking

__all__ = ["output_problems", "output_warnings", "sample_problems", "sample_warnings"]

KNOWN_LABELS = ("answerable", "noise_ratio", "scenario", "variant_of")
KNOWN_METADATA = ("expected_doc_ids", "forbidden", "must_contain", "nuggets", "wrong_answer")
KNOWN_SCENARIOS = ("counterfactual", "false_documents", "paraphrase", "typo", "unanswerable")


def sample_problems(path: Path, samples: Iterable[ParsedSample]) -> list[Problem]:
    """Return problems of valid records that scoring would reject."""
    found = []
    for line, sample, record in samples:
        try:
            for document in sample.relevant_docs or ():
                parse_level(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id)
        except AueporaError as error:
            found.append(Problem(path, line, str(error), record))
        expected = sample.metadata.get("expected_doc_ids")
        if expected is not None and not (isinstance(expected, list) and all(isinstance(one, str) for one in expected)):
            found.append(Problem(path, line, "field 'metadata.expected_doc_ids' must be a list of ids", record))
    return found


def sample_warnings(path: Path, samples: Sequence[ParsedSample], unreadable_ids: Iterable[str] = ()) -> list[Problem]:
    """Return warnings about samples. ``unreadable_ids`` are ids of invalid records."""
    found = DataWarnings()
    parents = {read.sample.sample_id: _parent(read.sample) for read in samples}
    known = {*parents, *unreadable_ids}
    for read in samples:
        record_warnings = _RecordWarnings(found, path, read)
        sample = read.sample
        if not sample.query.strip():
            record_warnings.add("query", f"the query of sample {quote_text(sample.sample_id)} is empty")
        for doc_id, levels in _conflicting_levels(sample).items():
            twice = f"relevant_docs names {quote_text(doc_id)} with the levels {' and '.join(map(str, levels))}"
            record_warnings.add("twins", f"{twice}; the highest counts")
        if is_unanswerable(sample) is None:
            record_warnings.add("answerable", "labels.answerable is neither true nor false")
        try:
            sample_nuggets(sample)
        except AueporaError as error:
            record_warnings.add("nuggets", f"metadata.{error}; nugget_recall cannot be measured")
        _check_variant(record_warnings, sample, parents, known)
        _check_names(record_warnings, sample)
    return found.summarize()


class _RecordWarnings:
    """Adds warnings about one record."""

    def __init__(self, found: DataWarnings, path: Path, read: ParsedSample | ParsedOutput) -> None:
        self._found, self._path, self._line, self._record = found, path, read.line, read.record

    def add(self, kind: str, message: str) -> None:
        self._found.add(kind, self._path, self._line, message, record=self._record)


def _parent(sample: EvaluationSample) -> str | None:
    named = sample.labels.get("variant_of")
    return None if named is None else str(named)


def _conflicting_levels(sample: EvaluationSample) -> dict[str, list[int]]:
    """Return ids that occur more than once with different levels."""
    levels: dict[str, list[Any]] = {}
    for document in sample.relevant_docs or ():
        levels.setdefault(document.doc_id, []).append(document.metadata.get("relevance", 1))
    return {doc_id: some for doc_id, some in levels.items() if any(level != some[0] for level in some)}


def _check_variant(
    record_warnings: _RecordWarnings, sample: EvaluationSample, parents: Mapping[str, str | None], known: set[str]
) -> None:
    parent = _parent(sample)
    if parent is None:
        return
    if parent not in known:
        record_warnings.add("parent", f"labels.variant_of is {quote_text(parent)}, which is the id of no sample")
    elif _is_cyclic(sample.sample_id, parents):
        record_warnings.add(
            "cycle", f"following labels.variant_of leads from {quote_text(sample.sample_id)} back to itself"
        )
    if sample.labels.get("scenario") is None:
        record_warnings.add(
            "scenario", "labels.variant_of without labels.scenario: no metric knows what kind of variant"
        )


def _is_cyclic(start: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(start)
    while at is not None and at != start and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == start


def _check_names(record_warnings: _RecordWarnings, sample: EvaluationSample) -> None:
    """Warn about names that are similar to the names that metrics use."""
    for holder, names, values in (
        ("labels", KNOWN_LABELS, sample.labels),
        ("metadata", KNOWN_METADATA, sample.metadata),
    ):
        for key in values:
            near = _close_match(key, names)
            if near is not None and near not in values:
                record_warnings.add(f"{holder}.{key}", f"{holder} has {quote_text(key)}; did you mean {near!r}?")
    scenario = sample.labels.get("scenario")
    if isinstance(scenario, str) and (near := _close_match(scenario, KNOWN_SCENARIOS)) is not None:
        record_warnings.add(
            f"scenario {scenario}", f"labels.scenario is {quote_text(scenario)}; did you mean {near!r}?"
        )


@lru_cache(maxsize=4096)  # few distinct names, repeated in every sample
def _close_match(name: str, names: Sequence[str]) -> str | None:
    if name in names or len(name) > 40:
        return None
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, names, n=1, cutoff=0.85)), None)


def output_problems(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return problems of valid outputs that scoring would reject.

    Without ``repeats``, as under the conventions of TREC, a document that was retrieved twice is a problem.
    """
    found = [Problem(path, read.line, MISSING_RETRIEVED, read.record) for read in outputs_missing_ranking(outputs)]
    for read in () if repeats else outputs:
        twice = (
            None
            if read.output.error is not None
            else _first_duplicate([item.doc.doc_id for item in read.output.retrieved])
        )
        if twice is not None:
            sample = quote_text(read.sample_id)
            message = f"{quote_text(twice)} was returned twice for {sample}, which TREC's conventions forbid"
            found.append(Problem(path, read.line, message, read.record))
    return found


def _first_duplicate(ids: Sequence[str]) -> str | None:
    """Return the first repeated id."""
    if len(set(ids)) == len(ids):
        return None
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return None


def output_warnings(path: Path, outputs: Sequence[ParsedOutput], *, repeats: bool = True) -> list[Problem]:
    """Return warnings about outputs; with ``repeats``, also about repeated documents."""
    found = DataWarnings()
    some_have_text = any(item.doc.text for read in outputs for item in read.output.retrieved)
    for read in outputs:
        output, record_warnings = read.output, _RecordWarnings(found, path, read)
        ranks = [item.rank for item in output.retrieved]
        if ranks != sorted(ranks):
            record_warnings.add("rank", RANK_CONTRADICTION)
        elif ranks and ranks[0] < 1:
            record_warnings.add("rank", f"'rank' is {ranks[0]}; ranks count from 1, and the list order is what counts")
        ids = [item.doc.doc_id for item in output.retrieved]
        if repeats and (twice := _first_duplicate(ids)) is not None:
            record_warnings.add(
                "twice", f"'retrieved' holds {quote_text(twice)} twice; it counts once, at its first position"
            )
        for key, seconds in output.timings.items():
            if seconds < 0 and key != STARTED:
                record_warnings.add(f"timings.{key}", f"timings.{key} is negative: {seconds:g}")
        answered = output.error is None and output.response is not None and output.response.text.strip()
        if answered and some_have_text and ids and not any(item.doc.text for item in output.retrieved):
            record_warnings.add("text", "there is an answer but no text of any document to compare it with")
    return found.summarize()
