"""Judgements of a run: replacement, partial reads, redaction of secrets, deletion."""

from datetime import timedelta
from typing import Any

import pytest

from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import UnknownRunError
from auepora_eval.store import RunStore, StoredJudgement
from auepora_eval.store.records import RunRecord, StoredOutput, sum_nested, utc_now
from auepora_eval.store.runs import active_runs, failure_counts, rescoring

SAMPLES = [EvaluationSample(str(number), f"question {number}?") for number in range(3)]


@pytest.fixture
def record(store: RunStore) -> RunRecord:
    return store.create_run("judged", SAMPLES, dataset_name="set", plan={"version": 1})


def make_judgement(position: int, request: str = "r", **given: Any) -> StoredJudgement:
    return StoredJudgement("faith", "faith|v1", position, request, critic="c", prompt_id="p/1/ab", **given)


def test_round_trip_in_order(store: RunStore, record: RunRecord) -> None:
    body = {"answer": {"score": 4, "rationale": "Gründe \x00 und mehr"}, "raw": "", "usage": [3, 4], "mass": 0.5}
    rows = [
        make_judgement(2, body=body),
        make_judgement(0, repeat=1),
        make_judgement(0, judge_repeat=1),
        make_judgement(0, "other"),
        make_judgement(0),
    ]
    store.put_judgements(record.run_id, rows)
    found = list(store.judgements(record.run_id))
    assert found == [rows[3], rows[4], rows[2], rows[0], rows[1]]
    assert list(store.judgements(record.run_id, position=2)) == [rows[0]]
    assert store.judgement_counts(record.run_id) == (5, 0)


def test_same_request_replaces_the_judgement(store: RunStore, record: RunRecord) -> None:
    store.put_judgements(
        record.run_id, [make_judgement(1, reason="timeout", body={"message": "late"}), make_judgement(2)]
    )
    assert [row.position for row in store.judgements(record.run_id, failed=True)] == [1]
    store.put_judgements(record.run_id, [make_judgement(1, body={"answer": {"score": 1}})])
    assert list(store.judgements(record.run_id, failed=True)) == []
    assert store.judgement_counts(record.run_id) == (2, 0)


def test_clear_judgements_of_one_metric(store: RunStore, record: RunRecord) -> None:
    other = StoredJudgement("quality", "quality|v1", 0, "r")
    store.put_judgements(record.run_id, [make_judgement(0), other])
    store.clear_judgements(record.run_id, [("faith", "faith|v2"), ("quality", "quality|v1")])
    assert [row.metric for row in store.judgements(record.run_id)] == ["faith"]


def test_more_than_one_chunk(store: RunStore, record: RunRecord) -> None:
    rows = [make_judgement(position % 3, f"{position:05}") for position in range(2500)]
    store.put_judgements(record.run_id, rows)
    found = list(store.judgements(record.run_id))
    assert sorted(row.request for row in found) == [row.request for row in rows]
    assert [row.position for row in found] == sorted(row.position for row in found)


def test_lone_surrogate_is_stored(store: RunStore, record: RunRecord) -> None:
    store.put_judgements(record.run_id, [make_judgement(0, body={"raw": "\ud83d half", "answer": {"score": 2}})])
    (row,) = store.judgements(record.run_id)
    assert row.body == {"raw": "? half", "answer": {"score": 2}}


def test_secrets_are_redacted(store: RunStore, record: RunRecord) -> None:
    store.hide(["geheim-1"])
    store.hide(["geheim-2"])
    body = {"answer": {"rationale": "geheim-1"}, "raw": ["geheim-2"], "message": "sk geheim-1!"}
    store.put_judgements(record.run_id, [make_judgement(0, body=body)])
    (row,) = store.judgements(record.run_id)
    assert row.body == {"answer": {"rationale": "***"}, "raw": ["***"], "message": "sk ***!"}


def test_deleted_with_their_run(store: RunStore, record: RunRecord) -> None:
    store.put_judgements(record.run_id, [make_judgement(0)])
    store.delete(record.run_id)
    with pytest.raises(UnknownRunError):
        store.judgements(record.run_id)
    with pytest.raises(UnknownRunError):
        store.put_judgements(record.run_id, [make_judgement(0)])
    with store._database.read() as connection:
        assert connection.first("SELECT count(*) FROM eval_judgements") == (0,)


def test_usage_is_summed(store: RunStore, record: RunRecord) -> None:
    assert store.get(record.run_id).usage is None
    for cost in (None, 0.25, 0.5):
        store.add_usage(record.run_id, {"total": {"calls": 2, "cost": cost, "failed": {"timeout": 1}}})
    assert store.get(record.run_id).usage == {"total": {"calls": 6, "cost": 0.75, "failed": {"timeout": 3}}}


def test_judging_in_progress_is_apart_from_the_usage(store: RunStore, record: RunRecord) -> None:
    since = utc_now() - timedelta(hours=1)
    store.add_usage(record.run_id, {"total": {"calls": 2}})
    store.put_judging(record.run_id, {"process": record.process, "total": {"calls": 1}})
    (found,) = active_runs(store, since=since)
    assert (found.usage, found.is_rescored) == ({"total": {"calls": 2}}, False)
    store.finish(record.run_id)
    assert (active_runs(store, since=since), store.get(record.run_id).judging) == ([], None)
    with rescoring(store, store.get(record.run_id)):
        (found,) = active_runs(store, since=since)
        assert (found.status, found.is_rescored) == ("finished", True)
    assert active_runs(store, since=since) == []


def test_failures_are_counted_by_reason(store: RunStore, record: RunRecord) -> None:
    errors = ("timeout: 30 s", "timeout: 31 s", "Boom!")
    rows = [StoredOutput(at, 0, str(at), SystemOutputs([], error=error)) for at, error in enumerate(errors)]
    store.append(record.run_id, rows)
    assert failure_counts(store, record.run_id) == {"timeout": 2, "error": 1}


ROWS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    ({}, {"a": 1}, {"a": 1}, "nothing before"),
    ({"a": 1}, {"a": 2, "b": 1.5}, {"a": 3, "b": 1.5}, "by name"),
    ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 2, "y": 2}}, "however deep"),
    ({"a": 1}, {"a": None}, {"a": 1}, "nothing added"),
    ({"a": None}, {"a": 1}, {"a": 1}, "no value before"),
    ({"a": "x"}, {"a": "y"}, {"a": "y"}, "a text"),
]


@pytest.mark.parametrize(("first", "second", "want", "why"), ROWS, ids=[row[3] for row in ROWS])
def test_sum_nested(first: dict[str, Any], second: dict[str, Any], want: dict[str, Any], why: str) -> None:
    assert sum_nested(first, second) == want
