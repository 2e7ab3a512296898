"""How much of a difference comes from retrieval, and how much from generation, where a replay is stored."""

from __future__ import annotations

from collections.abc import Mapping

from ...compare.split import DifferencePart, MetricSplit, split_difference
from ...core.engine import resolve_metrics
from ...core.errors import AueporaError
from ...core.metrics_base import BatchMetric
from ...core.scores import Scores
from ...store.records import RunRecord
from ...store.run_rows import REPLAY_TAG
from ...store.stored_plan import plan_conventions, run_info
from .blocks import Block, Cell, Code, Prose, ReportSection, Row, TableColumn, simple_table
from .comparison_section import signed_text
from .figures import split_figure
from .formatting import value_text
from .stored_run import StoredRun

__all__ = ["find_replay", "split_section", "stored_splits"]

MAX_DRAWN = 8
"""So many metrics are drawn; the table has all."""


def split_section(a: StoredRun, b: StoredRun) -> ReportSection | None:
    """The differences in two parts; where nothing is stored, how to get them."""
    replay = find_replay(a, b)
    splits = [] if replay is None else stored_splits(a, b, replay)
    title = "Retrieval or generation?"
    if replay is None or not splits:
        told = (
            "A replay tells them apart: B's generator answers from A's documents. This stores one, PLAN being the plan "
            "that B was made by; a report made afterwards shows the two parts here."
        )
        command = f"auepora replay {a.record.run_id} {b.record.run_id} PLAN"
        return ReportSection("split", title, [Prose(told, tone="muted"), Code(command)])
    rows: list[Row] = [
        [
            Cell(one.name),
            value_text(one.a),
            value_text(one.b),
            *map(_part_cell, (one.delta, one.retrieval, one.generation)),
            f"{one.n:,}",
        ]
        for one in splits
    ]
    columns = [
        TableColumn("metric"),
        TableColumn("A", number=True),
        TableColumn("B", number=True),
        TableColumn("B − A", number=True),
        TableColumn("from retrieval", number=True),
        TableColumn("from generation", number=True),
        TableColumn("n", number=True),
    ]
    blocks: list[Block] = []
    # Of a metric that looks at documents alone, all is retrieval: there is nothing to see.
    of_answers = [one for one in splits if not one.target.startswith("RETRIEVAL")]
    drawn = split_figure((of_answers or splits)[:MAX_DRAWN])
    if drawn is not None:
        blocks.append(drawn)
    blocks.append(simple_table(columns, rows))
    lead = (
        f"In {replay.run_id} B's generator answered from A's documents. B − A is exactly the sum of the two parts, "
        "over the queries that have a score in all three runs."
    )
    return ReportSection("split", title, blocks, lead)


def find_replay(a: StoredRun, b: StoredRun) -> RunRecord | None:
    """The latest replay of these two runs that came to its end."""
    for record in a.store.runs(tag=REPLAY_TAG, status="finished"):
        told = (
            (record.plan.get("system") or {}).get("replay") if isinstance(record.plan.get("system"), Mapping) else None
        )
        if (
            isinstance(told, Mapping)
            and told.get("contexts") == a.record.run_id
            and told.get("generator") == b.record.run_id
        ):
            return record
    return None


def stored_splits(a: StoredRun, b: StoredRun, replay: RunRecord) -> list[MetricSplit]:
    """The splits that follow from what is stored: metrics that all three runs have by the same rules."""
    if not a.record.fingerprint == b.record.fingerprint == replay.fingerprint:
        return []
    replayed = StoredRun(a.store, replay)
    held = [_scores(run) for run in (a, replayed, b)]
    rules, facts = plan_conventions(replay), run_info(replay)
    splits = []
    for spec in replay.plan.get("metrics") or [one.name for one in replayed.results]:
        try:
            (metric,) = resolve_metrics([spec], rules)
        except AueporaError:  # it needs a judge, or is not known in this process
            continue
        result = replayed.find_result(metric.name)
        keys = (metric.name, None if result is None else result.signature)
        if isinstance(metric, BatchMetric) and all(keys in one for one in held):
            first, middle, last = (one[keys] for one in held)
            bound = metric.for_run(facts)
            assert isinstance(bound, BatchMetric)
            splits.append(split_difference(bound, b.results.sample_ids, first, middle, last, b.clusters))
    return splits


def _scores(run: StoredRun) -> dict[tuple[str, str | None], Scores]:
    found = run.store.results(run.record.run_id, every_signature=True)
    return {(one.name, one.signature): one.scores for one in found if isinstance(one.scores, Scores)}


def _part_cell(part: DifferencePart) -> Cell:
    ends = "" if part.interval is None else f"{signed_text(part.interval[0])} to {signed_text(part.interval[1])}"
    return Cell(signed_text(part.value), note=ends)
