"""What a reader lets pass and somebody should still know: bad levels, variants of nobody, ranks that contradict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.errors import AueporaError
from ...core.types import STARTED, EvaluationSample
from ...features.rankings import level_of
from ...features.refusals import is_unanswerable
from ..problems import shown
from ..reading import Problem, ReadOutput, ReadSample

__all__ = ["output_warnings", "sample_problems", "sample_warnings"]

NAMED = 3
"""So many lines are named of a finding that comes again and again; the rest is counted."""
LABELS = ("answerable", "noise_ratio", "scenario", "variant_of")
METADATA = ("expected_doc_ids", "forbidden", "must_contain", "wrong_answer")
SCENARIOS = ("counterfactual", "false_documents", "paraphrase", "typo", "unanswerable")


class _Findings:
    """Findings by kind: the first of each is told whole, the others by their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, tuple[str, list[int | None]]] = {}

    def add(self, kind: str, line: int | None, message: str) -> None:
        self._found.setdefault(kind, (message, []))[1].append(line)

    def told(self) -> list[Problem]:
        return [
            Problem(self._path, lines[0], f"{message}{_again(lines[1:])}") for message, lines in self._found.values()
        ]


def _again(lines: Sequence[int | None]) -> str:
    if not lines:
        return ""
    numbers = [str(line) for line in lines[:NAMED] if line is not None]
    if not numbers:
        return f" (and {len(lines)} more)"
    more = f" and {len(lines) - len(numbers)} more" if len(lines) > len(numbers) else ""
    return f" (also on line{'s' if len(lines) > 1 else ''} {', '.join(numbers)}{more})"


def sample_problems(path: Path, samples: Iterable[ReadSample]) -> list[Problem]:
    """What scoring would refuse in samples that can be read."""
    found = []
    for line, sample in samples:
        try:
            for document in sample.relevant_docs or ():
                level_of(document.metadata.get("relevance", 1), document.doc_id, sample.sample_id)
        except AueporaError as error:
            found.append(Problem(path, line, str(error)))
        expected = sample.metadata.get("expected_doc_ids")
        if expected is not None and not (isinstance(expected, list) and all(isinstance(one, str) for one in expected)):
            found.append(Problem(path, line, "field 'metadata.expected_doc_ids' must be a list of ids"))
    return found


def sample_warnings(path: Path, samples: Sequence[ReadSample], unread: Iterable[str] = ()) -> list[Problem]:
    """What is odd in samples. ``unread`` are ids that exist although their records have problems."""
    found = _Findings(path)
    parents = {read.sample.sample_id: _parent(read.sample) for read in samples}
    known = {*parents, *unread}
    for line, sample in samples:
        if not sample.query.strip():
            found.add("query", line, f"the query of sample {shown(sample.sample_id)} is empty")
        for doc_id, levels in _levels_of_twins(sample).items():
            twice = f"relevant_docs names {shown(doc_id)} with the levels {' and '.join(map(str, levels))}"
            found.add("twins", line, f"{twice}; the highest counts")
        if is_unanswerable(sample) is None:
            found.add("answerable", line, "labels.answerable is neither true nor false")
        _look_at_variant(found, line, sample, parents, known)
        _look_at_names(found, line, sample)
    return found.told()


def _parent(sample: EvaluationSample) -> str | None:
    named = sample.labels.get("variant_of")
    return None if named is None else str(named)


def _levels_of_twins(sample: EvaluationSample) -> dict[str, list[int]]:
    """Ids that are given more than once with levels that differ."""
    levels: dict[str, list[Any]] = {}
    for document in sample.relevant_docs or ():
        levels.setdefault(document.doc_id, []).append(document.metadata.get("relevance", 1))
    return {doc_id: held for doc_id, held in levels.items() if any(level != held[0] for level in held)}


def _look_at_variant(
    found: _Findings, line: int | None, sample: EvaluationSample, parents: Mapping[str, str | None], known: set[str]
) -> None:
    parent = _parent(sample)
    if parent is None:
        return
    if parent not in known:
        found.add("parent", line, f"labels.variant_of is {shown(parent)}, which is the id of no sample")
    elif _leads_back(sample.sample_id, parents):
        found.add("cycle", line, f"following labels.variant_of leads from {shown(sample.sample_id)} back to itself")
    if sample.labels.get("scenario") is None:
        found.add("scenario", line, "labels.variant_of without labels.scenario: no metric knows what kind of variant")


def _leads_back(start: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at = parents.get(start)
    while at is not None and at != start and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == start


def _look_at_names(found: _Findings, line: int | None, sample: EvaluationSample) -> None:
    """Names that nearly mean something to a metric."""
    for holder, names, held in (("labels", LABELS, sample.labels), ("metadata", METADATA, sample.metadata)):
        for key in held:
            near = _near(key, names)
            if near is not None and near not in held:
                found.add(f"{holder}.{key}", line, f"{holder} has {shown(key)}; did you mean {near!r}?")
    scenario = sample.labels.get("scenario")
    if isinstance(scenario, str) and (near := _near(scenario, SCENARIOS)) is not None:
        found.add(f"scenario {scenario}", line, f"labels.scenario is {shown(scenario)}; did you mean {near!r}?")


@lru_cache(maxsize=4096)  # the same few names come with every sample
def _near(name: str, names: Sequence[str]) -> str | None:
    if name in names or len(name) > 40:
        return None
    plain = name.lower().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, names, n=1, cutoff=0.85)), None)


def output_warnings(path: Path, outputs: Sequence[ReadOutput]) -> list[Problem]:
    """What is odd in outputs."""
    found = _Findings(path)
    some_have_text = any(item.doc.text for read in outputs for item in read.output.retrieved)
    for read in outputs:
        output, line = read.output, read.line
        ranks = [item.rank for item in output.retrieved]
        if ranks != sorted(ranks):
            found.add("rank", line, "'rank' contradicts the order of 'retrieved'; the list order is what counts")
        ids = [item.doc.doc_id for item in output.retrieved]
        if len(set(ids)) < len(ids):
            twice = next(one for position, one in enumerate(ids) if one in ids[:position])
            found.add("twice", line, f"'retrieved' holds {shown(twice)} twice; it counts once, at its first position")
        for key, seconds in output.timings.items():
            if seconds < 0 and key != STARTED:
                found.add(f"timings.{key}", line, f"timings.{key} is negative: {seconds:g}")
        answered = output.error is None and output.response is not None and output.response.text.strip()
        if answered and some_have_text and ids and not any(item.doc.text for item in output.retrieved):
            found.add("text", line, "there is an answer but no text of any document to hold it against")
    return found.told()
