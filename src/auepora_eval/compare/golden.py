"""Golden queries, from a file or a list, and which of them a run contains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ..core.errors import BadValueError
from ..core.runner import require_distinct_ids
from ..core.types import EvaluationSample
from ..features.rankings import parse_level

__all__ = ["Golden", "expected_ids", "format_ids", "golden_queries", "known_queries"]

Golden = str | Path | Iterable[EvaluationSample]
"""The path of a file of samples (golden YAML or any other supported format), or the samples."""

MAX_IDS_SHOWN = 10
"""How many ids a message names; the rest is counted."""


def golden_queries(golden: Golden) -> list[EvaluationSample]:
    """The golden queries, in their order."""
    if isinstance(golden, (str, Path)):
        from ..io.load import load_dataset

        return list(load_dataset(golden))
    queries = list(golden)
    if not queries:
        raise BadValueError("there is no golden query; give at least one, or leave golden out to use those of the run")
    require_distinct_ids(queries)
    return queries


def known_queries(
    queries: Sequence[EvaluationSample], known: Collection[str], *, where: str
) -> tuple[list[EvaluationSample], list[str]]:
    """The golden queries whose ids are ``known``, and warnings about the others; an error if none is known.

    ``where`` names the run in messages.
    """
    known_ids = set(known)
    found = [query for query in queries if query.sample_id in known_ids]
    unknown = [query.sample_id for query in queries if query.sample_id not in known_ids]
    if not found:
        raise BadValueError(
            f"no golden query is known to {where}: the golden queries are {format_ids(unknown)}, "
            f"what was asked {format_ids(sorted(known_ids))}; do the two belong together?"
        )
    messages = []
    if unknown:
        messages.append(f"{_queries(unknown, 'golden ')} unknown to {where}, left out: {format_ids(unknown)}")
    golden_ids = {query.sample_id for query in queries}
    rest = sorted(known_ids - golden_ids)
    if rest:
        messages.append(f"{_queries(rest)} in {where} and not among the golden ones, left out: {format_ids(rest)}")
    return found, messages


def expected_ids(sample: EvaluationSample) -> list[str]:
    """The ids of the chunks that a query expects, each once: those judged relevant."""
    levels: dict[str, int] = {}
    for doc in sample.relevant_docs or ():
        level = parse_level((doc.metadata or {}).get("relevance", 1), doc.doc_id, sample.sample_id)
        levels[doc.doc_id] = max(level, levels.get(doc.doc_id, level))
    return [doc_id for doc_id, level in levels.items() if level >= 1]


def format_ids(ids: Sequence[str]) -> str:
    """The first ids, and how many more there are."""
    shown = ", ".join(repr(one) for one in ids[:MAX_IDS_SHOWN]) or "none"
    return shown if len(ids) <= MAX_IDS_SHOWN else f"{shown} and {len(ids) - MAX_IDS_SHOWN} more"


def _queries(ids: Sequence[str], kind: str = "") -> str:
    return f"1 {kind}query is" if len(ids) == 1 else f"{len(ids)} {kind}queries are"
