"""The rows of a list of queries: question, answer, rank of gold and scores in each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..compare.metrics import headline_order, planned_primary
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..io.codec import DocumentRow, SampleRow
from ..store.runs import packed_queries
from ..store.texts import PackedOutput
from .columns import ANSWERS, MISSING, RunColumns, ScoreColumn, first_rank, output_state
from .filters import Condition, parse_name
from .table import QueryTable

_SHOWN_METRICS = 3
_T = TargetCategory
_SHOWN_TARGETS = (_T.RETRIEVAL_RELEVANCE, _T.GENERATION_CORRECTNESS, _T.GENERATION_FAITHFULNESS)


StoredQuery = tuple[SampleRow[DocumentRow], PackedOutput | None]
"""A sample and the output of a run for it, as stored; ``None`` without an output."""


@dataclass(frozen=True, slots=True)
class QuerySide:
    """A query in one run."""

    answer: str
    """One of ``ANSWERS``, without refusals; empty if the query is not in the dataset of the run."""
    rank: int | None
    """The rank of the first gold document; 0 if none was returned, ``None`` if none is annotated."""
    scores: dict[str, float | None]
    """By metric; ``None`` where there is no score."""
    outcomes: dict[str, str]
    """By metric, such as ``scored`` or ``skipped:no_gold``; empty if the run does not have the metric."""


@dataclass(slots=True)
class QueryRow:
    """A query in the list."""

    sample_id: str
    question: str
    sides: list[QuerySide]
    """One for each run."""
    changes: dict[str, str]
    """By metric ``better``, ``worse`` or ``same`` from the first run to the last; empty if unknown."""
    stored: list[StoredQuery | None]
    """Sample and output in each run; ``None`` where the query is not in the dataset of the run."""


def shown_metrics(table: QueryTable, conditions: Iterable[Condition] = (), sort: str = "") -> list[str]:
    """The metrics of a list: those of conditions and sort key, and the primary ones or one per target."""
    used = [condition.name for condition in conditions if condition.field == "metric"]
    key = parse_name(sort.removeprefix("-"))
    used += [key[1]] if key[0] == "metric" else []
    results = table.results
    primary = planned_primary(run.record for run in reversed(table.runs))
    ordered = sorted(results.values(), key=lambda result: headline_order(result.name, result.target.name))
    by_target = {result.target: result.name for result in reversed(ordered)}
    default = [name for name in primary if name in results]
    default = default or [by_target[target] for target in _SHOWN_TARGETS if target in by_target]
    default = default or [result.name for result in ordered]
    names = [name for name in dict.fromkeys([*used, *default]) if name in results]
    has_scores = (name for name in names if table.last_scores(name) is not None)
    return list(islice(has_scores, max(_SHOWN_METRICS, len(set(used)))))


def list_rows(table: QueryTable, rows: Sequence[int], metrics: Sequence[str]) -> list[QueryRow]:
    """Some queries with their scores; only these are read from the store."""
    listed = [QueryRow(table.ids[row], "", [], {}, []) for row in rows]
    for number, run in enumerate(table.runs):
        positions = [table.position(number, row) for row in rows]
        found = packed_queries(run.store, run.record, [position for position in positions if position is not None])
        columns = {name: table.scores(name, number) for name in metrics}
        for query, position in zip(listed, positions, strict=True):
            stored = None if position is None else found[position]
            query.stored.append(stored)
            query.sides.append(_query_side(table, run, position, stored, columns))
            query.question = query.question or ("" if stored is None else stored[0].query)
    for name in metrics:
        for query, word in zip(listed, _change_words(table, name, rows), strict=True):
            query.changes[name] = word
    return listed


def _query_side(
    table: QueryTable,
    run: RunColumns,
    position: int | None,
    stored: StoredQuery | None,
    columns: Mapping[str, ScoreColumn | None],
) -> QuerySide:
    """A query in one run, given what is stored there and the scores of the run."""
    if position is None or stored is None:
        return QuerySide("", None, dict.fromkeys(columns), dict.fromkeys(columns, ""))
    sample, output = stored
    scores: dict[str, float | None] = dict.fromkeys(columns)
    outcomes = dict.fromkeys(columns, "")
    for name, column in columns.items():
        if column is not None:
            scores[name], outcomes[name] = column.score_at(position)
    if run.record.repeats > 1 or table.match != "id":  # as in conditions: the first output that did not fail
        rank, state = int(run.first_ranks(table.match)[position]), int(run.outputs.states[position])
    else:
        rank = first_rank(sample.relevant_docs or (), output) if output and output.error is None else 0
        state = MISSING if output is None else output_state(output)
    return QuerySide(ANSWERS[state], rank if run.samples.has_gold[position] else None, scores, outcomes)


def _change_words(table: QueryTable, name: str, rows: Sequence[int]) -> list[str]:
    """From the first run to the last; empty where there is one run, or where scores are not comparable."""
    words = {1: "better", -1: "worse", 0: "same", 2: ""}
    try:
        return [words[code] for code in table.change(name)[np.array(rows, np.intp)].tolist()]
    except BadValueError:
        return [""] * len(rows)
