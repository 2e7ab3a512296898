"""The section that splits a difference into retrieval and generation, where a replay is stored."""

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
"""The number of metrics drawn; the table has all."""


def split_section(a: StoredRun, b: StoredRun) -> ReportSection | None:
    """The two parts of the differences, or the command that produces them."""
    replay = find_replay(a, b)
    splits = [] if replay is None else stored_splits(a, b, replay)
    title = "Retrieval or generation?"
    if replay is None or not splits:
        message = (
            "A replay tells them apart: B's generator answers from A's documents. This stores one, PLAN being the plan "
            "that B was made by; a report made afterwards shows the two parts here."
        )
        command = f"auepora replay {a.record.run_id} {b.record.run_id} PLAN"
        return ReportSection("split", title, [Prose(message, tone="muted"), Code(command)])
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
    # The whole difference of a retrieval metric comes from retrieval, so it is not drawn.
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
    """The latest finished replay of these two runs."""
    for record in a.store.runs(tag=REPLAY_TAG, status="finished"):
        replay_plan = (
            (record.plan.get("system") or {}).get("replay") if isinstance(record.plan.get("system"), Mapping) else None
        )
        if (
            isinstance(replay_plan, Mapping)
            and replay_plan.get("contexts") == a.record.run_id
            and replay_plan.get("generator") == b.record.run_id
        ):
            return record
    return None


def stored_splits(a: StoredRun, b: StoredRun, replay: RunRecord) -> list[MetricSplit]:
    """The splits of the metrics that all three runs have with the same signature."""
    if not a.record.fingerprint == b.record.fingerprint == replay.fingerprint:
        return []
    replayed = StoredRun(a.store, replay)
    scores_by_run = [_scores(run) for run in (a, replayed, b)]
    rules, facts = plan_conventions(replay), run_info(replay)
    splits = []
    for spec in replay.plan.get("metrics") or [one.name for one in replayed.results]:
        try:
            (metric,) = resolve_metrics([spec], rules)
        except AueporaError:  # it needs a judge, or is not registered here
            continue
        result = replayed.find_result(metric.name)
        keys = (metric.name, None if result is None else result.signature)
        if isinstance(metric, BatchMetric) and all(keys in one for one in scores_by_run):
            first, middle, last = (one[keys] for one in scores_by_run)
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
