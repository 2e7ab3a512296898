"""Evaluation of TREC files on a fast path, without building samples and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..core.conventions import Conventions
from ..core.engine import Metrics
from ..core.errors import DuplicateIdError
from ..core.evaluate_ids import evaluate_hits, evaluate_rankings
from ..core.gc_pause import gc_paused
from ..core.results import Results
from .files import read_bytes
from .trec import (
    Reader,
    load_qrels,
    load_run,
    queries_without_judgements,
    require_common_query,
    trec_rankings,
    use_arrow,
    without_comments,
)
from .trec_format import duplicate_run_lines
from .trec_parts.arrow_reader import run_lines
from .trec_parts.gold_matching import find_gold, read_qrels

__all__ = ["TrecRankings", "evaluate_trec", "read_trec"]

_THREADS = 2
"""The number of independent parts of the work; NumPy and Arrow release the GIL."""


@dataclass(frozen=True, slots=True)
class TrecRankings:
    """The judgements and the run of two TREC files, ready to be scored."""

    ids: list[str]
    """The queries of the qrels."""
    missing: list[str]
    """Queries of the qrels that the run lacks."""
    unjudged: list[str]
    """Queries that only the run has. They cannot be scored and are omitted."""
    _run: Path
    _evaluate: Callable[..., Results]

    def evaluate(
        self, metrics: Metrics, *, conventions: str | Conventions = "trec", keep_scores: bool = True
    ) -> Results:
        """Score the rankings."""
        try:
            return self._evaluate(metrics=metrics, conventions=conventions, keep_scores=keep_scores)
        except DuplicateIdError:
            judged = set(self.ids)
            for line, query, doc, first in duplicate_run_lines(self._run):
                if query in judged:
                    raise DuplicateIdError(
                        f"{self._run}:{line}: '{doc}' was returned for query '{query}' on line {first} already, which "
                        'the conventions forbid; remove the line, or count its first position: duplicates "first" '
                        "(--duplicates first)"
                    ) from None
            raise


def evaluate_trec(
    qrels: str | Path,
    run: str | Path,
    metrics: Metrics,
    *,
    conventions: str | Conventions = "trec",
    reader: Reader = "auto",
    keep_scores: bool = True,
) -> Results:
    """Score a TREC run against TREC qrels, as ``evaluate_rankings`` would.

    If Arrow reads both files (extra ``parquet``), documents are compared as columns without creating Python strings.
    """
    return read_trec(qrels, run, reader=reader).evaluate(metrics, conventions=conventions, keep_scores=keep_scores)


def read_trec(qrels: str | Path, run: str | Path, *, reader: Reader = "auto") -> TrecRankings:
    """Read the two files, and find the queries that only one of them has."""
    qrels, run = Path(qrels), Path(run)
    if use_arrow(reader, qrels, run) and (columns := _read_with_arrow(qrels, run)) is not None:
        return columns
    levels, rankings = load_qrels(qrels, reader=reader), load_run(run, reader=reader)
    ids, gold, ranked = trec_rankings(levels, rankings)
    return _build_trec_rankings(levels, rankings, run, partial(evaluate_rankings, gold, ranked, ids=ids))


def _read_with_arrow(qrels: Path, run: Path) -> TrecRankings | None:
    """Read the two files as columns of Arrow; ``None`` if they have to be read as strings."""
    with gc_paused(), ThreadPoolExecutor(_THREADS) as pool:
        run_data = pool.submit(read_bytes, run)
        judged = read_qrels(without_comments(read_bytes(qrels)), pool)
        lines = None if judged is None else run_lines(run_data.result())
        if judged is None or lines is None:
            return None
        levels, returned = dict.fromkeys(judged.lines.queries), dict.fromkeys(lines.queries)
        require_common_query(levels, returned)
        found = find_gold(judged, lines, pool)
        return None if found is None else _build_trec_rankings(levels, returned, run, partial(evaluate_hits, found))


def _build_trec_rankings(
    judged: Mapping[str, object], returned: Mapping[str, object], run: Path, evaluate: Callable[..., Results]
) -> TrecRankings:
    return TrecRankings(
        list(judged),
        [query for query in judged if query not in returned],
        queries_without_judgements(judged, returned),
        run,
        evaluate,
    )
