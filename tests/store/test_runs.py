"""``RunStore`` on each database: round trips, lookups and errors."""

import threading
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from auepora_eval import evaluate
from auepora_eval.core.results import Results
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import BadValueError, StoreError, UnknownMetricError, UnknownRunError
from auepora_eval.io.codec import LineError
from auepora_eval.io.golden import dataset_fingerprint
from auepora_eval.store import RunRecord, RunStatus, RunStore, StoredOutput, rows as output_rows, texts
from auepora_eval.store.records import is_this_process, to_iso, utc_now
from auepora_eval.store.runs import count_all_outputs, heartbeat, lazy_samples
from auepora_eval.store.schema import StoredTable, documents, query_results, samples, scores
from helpers.run_columns import set_run_columns

SAMPLES = [
    EvaluationSample(
        f"q{number}",
        "Why?",
        [Document("a", "text of a"), Document("b")],
        [Document("c", f"candidate {number}", {"source": "wiki"}, "parent", (3, 9))],
        Response("because"),
        {"lang": "de" if number % 2 else "en"},
    )
    for number in range(6)
]


def make_output(number: int = 0, **given: Any) -> SystemOutputs:
    hits = [
        RetrievedDocument(Document("a", "text of a"), 0.5, 1),
        RetrievedDocument(Document("x", f"x {number}"), 0.1, 2),
    ]
    return SystemOutputs(hits, Response("because" if number % 3 else "who knows"), {"end_to_end": 0.25}, **given)


OUTPUTS = [make_output(number) for number in range(6)]


def stored_outputs(outputs: list[SystemOutputs] = OUTPUTS, repeat: int = 0) -> list[StoredOutput]:
    return [StoredOutput(position, repeat, f"q{position}", output) for position, output in enumerate(outputs)]


def create_run(store: RunStore, name: str = "one", **given: Any) -> RunRecord:
    return store.create_run(name, given.pop("samples", SAMPLES), dataset_name="set", plan={"version": 1}, **given)


def count_rows(store: RunStore, table: StoredTable) -> int:
    with store._database.read() as connection:
        return len(connection.rows(f"SELECT * FROM {table.name}"))


# --- runs ------------------------------------------------------------------------------------------------------------


def test_new_run(store: RunStore) -> None:
    plan, config = {"version": 1, "metrics": ["mrr"]}, {"chunker": "v2", "embedding": None}
    made = store.create_run(
        "mine", SAMPLES, dataset_name="dev", plan=plan, config=config, repeats=3, commit="abc123", tags=["x", "y", "x"]
    )
    assert made == store.get(made.run_id) == store.find("mine")
    assert (made.name, made.dataset_name, made.num_samples, made.repeats) == ("mine", "dev", 6, 3)
    assert (made.plan, made.config, made.commit, made.tags) == (plan, config, "abc123", ("x", "y"))
    assert made.status is RunStatus.RUNNING
    assert made.created_at.tzinfo is UTC
    assert (made.finished_at, made.aggregate, made.message) == (None, None, None)
    assert made.fingerprint == dataset_fingerprint(SAMPLES)
    assert ":" in made.process


def test_custom_id_must_be_unique(store: RunStore) -> None:
    assert create_run(store, run_id="run_mine").run_id == "run_mine"
    with pytest.raises(BadValueError, match="there is a run 'run_mine' already"):
        create_run(store, run_id="run_mine")
    assert len(store.runs()) == 1


def test_run_needs_a_name(store: RunStore) -> None:
    with pytest.raises(BadValueError, match="a run needs a name"):
        create_run(store, "")


def test_finish_and_reopen(store: RunStore) -> None:
    run_id = create_run(store).run_id
    store.finish(run_id, RunStatus.STOPPED, message="enough\x00")
    ended = store.get(run_id)
    assert (ended.status, ended.message) == (RunStatus.STOPPED, "enough\N{REPLACEMENT CHARACTER}")
    assert ended.finished_at is not None
    assert ended.finished_at >= ended.created_at
    store.reopen(run_id)
    assert (store.get(run_id).status, store.get(run_id).finished_at) == (RunStatus.RUNNING, None)


def test_heartbeat_of_its_own_process_only(store: RunStore) -> None:
    run_id = create_run(store).run_id

    def wait_for_heartbeat(after: str) -> str:
        while (process := store.get(run_id).process) == after:
            pass
        return process

    with heartbeat(store, store.get(run_id), interval=0.001):
        process = wait_for_heartbeat(wait_for_heartbeat(store.get(run_id).process))
        assert is_this_process(process)
        taken_over = f"elsewhere:1:2@{to_iso(utc_now())}"
        set_run_columns(store, run_id, {"process": taken_over})
        assert store.get(run_id).status is RunStatus.RUNNING
        store.append(run_id, stored_outputs())
    assert store.get(run_id).process == taken_over
    set_run_columns(store, run_id, {"process": "elsewhere:1:2@2026-01-01T00:00:00.000000+00:00"})
    assert store.get(run_id).status is RunStatus.INTERRUPTED
    assert store.runs(status="running") == []
    assert [one.run_id for one in store.runs(status="interrupted", limit=1)] == [run_id]
    store.finish(run_id)
    store.set_aggregate(run_id, {"mrr": 0.5})
    assert (store.get(run_id).status, store.get(run_id).aggregate) == (RunStatus.FINISHED, {"mrr": 0.5})
    store.set_aggregate(run_id, None)
    assert store.get(run_id).aggregate is None


def test_runs_are_listed_newest_first_and_filtered(store: RunStore) -> None:
    first = create_run(store, "a", tags=["x"]).run_id
    second = store.create_run("b", SAMPLES[:1], dataset_name="other", plan={}, tags=["x", "y"]).run_id
    third = create_run(store, "a").run_id
    store.finish(first)

    def ids(**given: Any) -> list[str]:
        return [record.run_id for record in store.runs(**given)]

    assert ids() == [third, second, first]
    assert ids(name="a") == [third, first]
    assert ids(tag="x") == [second, first]
    assert ids(tag="x", limit=1) == [second]
    assert ids(status=RunStatus.FINISHED) == ids(status="finished") == [first]
    assert ids(dataset="other") == [second]
    assert ids(limit=2) == [third, second]
    assert ids(tag="z") == []
    with pytest.raises(BadValueError, match="unknown status 'done'; choose one of: running, finished"):
        store.runs(status="done")


def test_tag_and_untag(store: RunStore) -> None:
    run_id = create_run(store, tags="one").run_id
    store.tag(run_id, "two", "one", "drei\N{SNOWMAN}")
    assert store.get(run_id).tags == ("one", "two", "drei\N{SNOWMAN}")
    store.untag(run_id, "one", "never there")
    assert store.get(run_id).tags == ("two", "drei\N{SNOWMAN}")


def test_find_run(store: RunStore) -> None:
    old = create_run(store, "base", run_id="run_01AAAB").run_id
    new = create_run(store, "base", run_id="run_01AABC").run_id
    last = create_run(store, "tuned", run_id="run_02XYZ").run_id
    for text, want in (
        (old, old),
        ("run_01AAA", old),
        ("01aab", new),
        ("RUN_02", last),
        ("02", last),
        ("base", new),
        ("tuned", last),
        ("latest", last),
        ("latest~0", last),
        ("latest~2", old),
    ):
        assert store.find(text).run_id == want, text
    for text, message in (
        ("tunde", r"no run is called 'tunde'; did you mean 'tuned'\?"),
        ("zzz", "no run is called 'zzz'; `auepora runs` lists them all"),
        ("", "no run is called ''"),
        ("01A", r"'01A' may be any of 2 runs: run_01AABC \(base\), run_01AAAB \(base\); write more of the id"),
        ("latest~3", "'latest~3' goes back too far: the store holds 3 runs"),
    ):
        with pytest.raises(UnknownRunError, match=message):
            store.find(text)


def test_latest_skips_replays(store: RunStore) -> None:
    first = create_run(store, "base", run_id="run_01").run_id
    last = create_run(store, "tuned", run_id="run_02").run_id
    for number, name in enumerate(("base|tuned-generator", "tuned"), 3):
        store.tag(create_run(store, name, run_id=f"run_0{number}").run_id, "replay")
    cases = (
        ("latest", last),
        ("latest~1", first),
        ("tuned", last),
        ("base|tuned-generator", "run_03"),
        ("04", "run_04"),
    )
    for text, want in cases:
        assert store.find(text).run_id == want, text
    with pytest.raises(
        UnknownRunError, match="the store holds 4 runs, 2 of them replays or perturbed, which do not count"
    ):
        store.find("latest~2")


def test_find_in_an_empty_store(store: RunStore) -> None:
    with pytest.raises(UnknownRunError, match="no run is called 'latest': the store holds no runs yet"):
        store.find("latest")
    assert store.runs() == []


def test_unknown_run(store: RunStore) -> None:
    calls: list[Any] = [
        lambda: store.get("run_x"),
        lambda: store.outputs("run_x"),
        lambda: store.samples("run_x"),
        lambda: store.sample_ids("run_x"),
        lambda: store.done("run_x"),
        lambda: store.failed("run_x"),
        lambda: store.counts("run_x"),
        lambda: store.results("run_x"),
        lambda: store.result("run_x", "mrr"),
        lambda: store.append("run_x", stored_outputs()),
        lambda: store.put_results("run_x", Results()),
        lambda: store.finish("run_x"),
        lambda: store.reopen("run_x"),
        lambda: store.tag("run_x", "t"),
        lambda: store.delete(["run_x"]),
    ]
    for call in calls:
        with pytest.raises(UnknownRunError, match="no run is called 'run_x'"):
            call()
    assert count_rows(store, documents) == 0


# --- samples and outputs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a\0b", "\0", "half \ud800"], ids=["a null", "nothing else", "half a character"])
def test_names_that_are_invalid_in_columns(store: RunStore, name: str) -> None:
    made = create_run(store, name)
    assert [one.run_id for one in store.runs(name=name)] == [made.run_id]
    assert store.runs(name=f"{name}!") == store.runs(dataset=name) == store.runs(tag=name) == []
    for call in (store.get, store.samples, store.outputs, store.done, store.delete, store.reopen):
        with pytest.raises(UnknownRunError):
            call(name)
    with pytest.raises(UnknownRunError):
        store.append(name, stored_outputs())
    with pytest.raises(BadValueError, match="cannot be the id of a run"):
        create_run(store, run_id=name)


def test_samples_are_stored_once(store: RunStore) -> None:
    first, second = create_run(store), create_run(store)
    assert store.samples(first.run_id) == store.samples(second.run_id) == SAMPLES
    assert store.sample_ids(first.run_id) == [sample.sample_id for sample in SAMPLES]
    assert count_rows(store, samples) == len(SAMPLES)
    assert count_rows(store, documents) == 1 + len(SAMPLES)  # one text shared by all, one of each sample's own


def test_no_samples(store: RunStore) -> None:
    run_id = create_run(store, samples=[]).run_id
    assert (store.samples(run_id), store.sample_ids(run_id), list(store.outputs(run_id))) == ([], [], [])
    assert store.results(run_id) == []


def test_outputs_in_order(store: RunStore) -> None:
    run_id = create_run(store).run_id
    given = [*stored_outputs(), *stored_outputs(repeat=1)]
    for part in (given[7:], given[:3], given[3:7]):
        store.append(run_id, part)
    store.append(run_id, [])
    assert list(store.outputs(run_id)) == given
    assert list(store.outputs(run_id, repeat=1)) == given[6:]
    assert list(store.outputs(run_id, repeat=2)) == []
    assert store.done(run_id) == {(position, repeat) for position in range(6) for repeat in (0, 1)}
    bare = [hit.doc for one in store.outputs(run_id, texts=False) for hit in one.output.retrieved]
    assert {(doc.doc_id, doc.text) for doc in bare} == {("a", ""), ("x", "")}


def test_more_than_one_chunk_of_outputs(store: RunStore) -> None:
    run_id = create_run(store).run_id
    given = [
        StoredOutput(position, repeat, "q", make_output(position)) for repeat in (0, 1) for position in range(1250)
    ]
    store.append(run_id, given)
    assert list(store.outputs(run_id)) == given
    reading = store.outputs(run_id)
    next(reading)
    store.finish(run_id)  # an iterator that is not exhausted does not block


def test_small_text_caches(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MAX_KEYS", "_MAX_WRITTEN", "_MAX_CHARACTERS", "_CHUNK_SIZE"):
        monkeypatch.setattr(texts, name, 2)
    monkeypatch.setattr(output_rows, "CHUNK", 4)
    with RunStore.open(url) as store:
        run_id = create_run(store).run_id
        for one in stored_outputs():
            store.append(run_id, [one])
        assert list(store.outputs(run_id)) == stored_outputs()
        assert store.samples(run_id) == SAMPLES
        assert store.sample_ids(run_id) == [sample.sample_id for sample in SAMPLES]
        assert list(lazy_samples(store, run_id)) == SAMPLES


def test_many_samples_are_written_in_chunks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_rows, "CHUNK", 2)
    with RunStore.open(url) as store:
        with pytest.raises(LineError):
            store.create_run("bad", [*SAMPLES, EvaluationSample("x", cast(str, b"x"))], dataset_name="d", plan={})
        record = create_run(store)
        assert store.samples(record.run_id) == SAMPLES
        with pytest.raises(BadValueError, match="there is a run"):
            store.create_run("same id", changed(SAMPLES), dataset_name="d", plan={}, run_id=record.run_id)
        # What was rolled back is written again.
        again = store.create_run("again", changed(SAMPLES), dataset_name="d", plan={})
        assert store.samples(again.run_id) == changed(SAMPLES)


def changed(samples: list[EvaluationSample]) -> list[EvaluationSample]:
    return [replace(sample, relevant_docs=[Document("d", f"text {sample.sample_id}")]) for sample in samples]


def test_existing_output_is_kept_or_replaced(store: RunStore) -> None:
    run_id = create_run(store).run_id
    failed = SystemOutputs([], error="timeout: after 2 s")
    store.append(run_id, [StoredOutput(0, 0, "q0", failed), StoredOutput(1, 0, "q1", OUTPUTS[1])])
    assert (store.failed(run_id), store.counts(run_id)) == ({(0, 0)}, (2, 1))
    store.append(run_id, stored_outputs()[:1])
    assert next(store.outputs(run_id)).output == failed
    store.append(run_id, stored_outputs()[:1], replace=True)
    assert next(store.outputs(run_id)).output == OUTPUTS[0]
    assert (store.failed(run_id), store.counts(run_id)) == (set(), (2, 0))


def test_counts_of_several_runs(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_rows, "_CHUNK_SIZE", 2)
    ids = [create_run(store).run_id for _ in range(3)]
    store.append(ids[0], stored_outputs())
    store.append(ids[2], [StoredOutput(0, 0, "q0", SystemOutputs([], error="timeout: after 2 s"))])
    assert count_all_outputs(store, ids) == {ids[0]: (len(stored_outputs()), 0), ids[1]: (0, 0), ids[2]: (1, 1)}
    assert count_all_outputs(store, []) == {}


def test_error_column_is_shortened(store: RunStore) -> None:
    run_id = create_run(store).run_id
    error = "bad_output: " + "x\x00" * 1000
    store.append(run_id, [StoredOutput(0, 0, "q\x00", SystemOutputs([], error=error))])
    (back,) = store.outputs(run_id)
    assert (back.sample_id, back.output.error) == ("q\x00", error)
    with store._database.read() as connection:
        [(column,)] = connection.rows("SELECT error FROM eval_query_results")
    assert len(column) == 500


def test_values_that_are_not_json_are_rejected(store: RunStore) -> None:
    run_id = create_run(store).run_id
    invalid = StoredOutput(1, 0, "q1", make_output(1, extra={"when": object()}))
    with pytest.raises(
        LineError, match=r"the output of sample 'q1': field 'extra.when' holds a value of type 'object'"
    ):
        store.append(run_id, [stored_outputs()[0], invalid])
    assert store.done(run_id) == set()
    with pytest.raises(LineError, match=r"sample 'q': field 'metadata.x' is NaN"):
        create_run(store, samples=[EvaluationSample("q", "?", metadata={"x": float("nan")})])
    assert len(store.runs()) == 1


# --- results ---------------------------------------------------------------------------------------------------------

METRICS = ["recall@2", "mrr", "exact_match", "bleu", "quantile_latency[end_to_end,0.9]", "distinct_n", "bpref"]


def assert_equal_results(got: Results, want: Results) -> None:
    want.run_id = got.run_id
    assert got.to_dict(per_query=True) == want.to_dict(per_query=True)
    for one, other in zip(got, want, strict=True):
        assert one == other


def test_result_round_trip(store: RunStore) -> None:
    run_id = create_run(store).run_id
    outputs = [*OUTPUTS[:4], SystemOutputs([], error="timeout"), OUTPUTS[5]]
    given = evaluate(SAMPLES, outputs, METRICS, slices=["labels.lang"])
    store.put_results(run_id, given, reducers={"mrr": "mean"})
    assert_equal_results(store.results(run_id), given)
    assert store.results(run_id).run_id == run_id
    part = store.result(run_id, "mrr").slices["labels.lang"]["de"]
    assert isinstance(part, MetricResult)
    assert part.value == given.by_name["mrr"].slices["labels.lang"]["de"].value
    with store._database.read() as connection:
        reducers = dict(connection.rows("SELECT name, reducer FROM eval_scores"))
    assert (reducers["mrr"], reducers["bleu"]) == ("mean", "")


def test_scores_of_repeats_round_trip(store: RunStore) -> None:
    run_id = create_run(store).run_id
    failing = [*OUTPUTS[:4], SystemOutputs([], error="timeout"), OUTPUTS[5]]
    given = evaluate_repeats(SAMPLES, [lambda: OUTPUTS, lambda: failing], METRICS)
    store.put_results(run_id, given)
    kept = {one.name: isinstance(one.scores, Scores) and one.scores.repeats is not None for one in given}
    assert (kept["bleu"], kept["mrr"]) == (True, False)  # a mean is made of the samples' means: they suffice
    assert_equal_results(store.results(run_id), given)


def test_result_by_name_and_by_signature(store: RunStore) -> None:
    run_id = create_run(store).run_id
    usual, trec = (evaluate(SAMPLES, OUTPUTS, ["map", "mrr"], conventions=name) for name in ("auepora", "trec"))
    store.put_results(run_id, usual)
    store.put_results(run_id, trec[:1])
    assert [result.name for result in store.results(run_id)] == ["map", "mrr"]
    assert store.result(run_id, "map").signature == trec[0].signature  # the latest
    assert store.result(run_id, str(usual[0].signature)) == usual[0]  # the old one stays
    assert store.results(run_id)[0].signature == trec[0].signature
    every = store.results(run_id, every_signature=True)
    assert [result.signature for result in every] == [usual[0].signature, trec[0].signature, usual[1].signature]
    with pytest.raises(UnknownMetricError, match="unknown metric 'mapp'; did you mean 'map'"):
        store.result(run_id, "mapp")
    store.put_results(run_id, usual)  # computed again: the latest now
    assert store.result(run_id, "map").signature == usual[0].signature
    assert count_rows(store, scores) == 3


def test_signature_of_any_length(store: RunStore) -> None:
    """Of a text that repeats itself a server keeps a short form; of this one it cannot."""
    run_id = create_run(store).run_id
    long = "recall@5|" + "".join(f"{number * 7919 % 1_000_003:x}" for number in range(8000))
    assert len(long) > 30_000
    for value in (0.25, 0.5):
        given = MetricResult("recall@5", TargetCategory.RETRIEVAL_RELEVANCE, value, signature=long)
        store.put_result(run_id, given)
    other = MetricResult("recall@5", TargetCategory.RETRIEVAL_RELEVANCE, 0.75, signature=f"{long}|v2")
    store.put_result(run_id, other)
    assert [one.value for one in store.results(run_id, every_signature=True)] == [0.5, 0.75]
    assert store.result(run_id, long).value == 0.5


def test_positions_of_results(store: RunStore) -> None:
    run_id = create_run(store).run_id
    for name in ("b", "a"):
        store.put_result(run_id, MetricResult(name, TargetCategory.LATENCY, 1.0))
    store.put_result(run_id, MetricResult("c", TargetCategory.LATENCY, 1.0), position=0)
    store.put_result(run_id, MetricResult("b", TargetCategory.LATENCY, 2.0, signature="b|v2"))
    assert [(one.name, one.value) for one in store.results(run_id)] == [("b", 2.0), ("c", 1.0), ("a", 1.0)]


LATENCY = TargetCategory.LATENCY
ODD_RESULTS: list[tuple[MetricResult, str]] = [  # result, why
    (MetricResult("m", LATENCY, 0.0, defined=False), "nothing in the mean, no scores, no signature"),
    (MetricResult("m", LATENCY, 1.0, scores=[1.0, None, 0.1]), "scores as a list, no outcomes"),
    (MetricResult("m", LATENCY, 1.0, scores=[1.0, None], outcomes=["scored", "skipped:mine"]), "outcomes of one's own"),
    (MetricResult("m", LATENCY, 1.0, {"n": np.int64(3), "x": {1, 2}, "nan": float("nan")}), "details of any kind"),
    (MetricResult("m", LATENCY, 1.0, interval=(0.0, 1e300)), "an interval"),
    (MetricResult("m", LATENCY, 1.0, slices={"by": {"a": {"n": 1}, "b": 0.5}}), "slices without results"),
    (MetricResult("m", LATENCY, 0.1 + 0.2, signature="m|\N{SNOWMAN}|v1"), "every digit"),
    (MetricResult("m", LATENCY, 1.0, scores=Scores.from_list([])), "no samples"),
]


@pytest.mark.parametrize(("given", "why"), ODD_RESULTS, ids=[row[-1] for row in ODD_RESULTS])
def test_unusual_results(store: RunStore, given: MetricResult, why: str) -> None:
    run_id = create_run(store, samples=SAMPLES[: len(given.scores or ())]).run_id
    store.put_result(run_id, given)
    want = Results([given], sample_ids=store.sample_ids(run_id), run_id=run_id)
    assert store.results(run_id).to_dict(per_query=True) == want.to_dict(per_query=True), why


def test_value_that_is_not_a_number(store: RunStore) -> None:
    run_id = create_run(store).run_id
    store.put_result(run_id, MetricResult("m", LATENCY, float("nan"), interval=(float("-inf"), float("inf"))))
    back = store.result(run_id, "m")
    assert np.isnan(back.value)
    assert back.interval == (float("-inf"), float("inf"))


# --- deleting --------------------------------------------------------------------------------------------------------


def test_deletion_removes_unreferenced_rows(store: RunStore) -> None:
    other = [EvaluationSample("o", "?", [Document("o", "other text"), Document("a", "text of a")])]
    first, second, third = create_run(store).run_id, create_run(store).run_id, create_run(store, samples=other).run_id
    for run_id in (first, second):
        store.append(run_id, stored_outputs([make_output(int(run_id == second))]))
        store.put_result(run_id, MetricResult("m", LATENCY, 1.0))
    assert count_rows(store, documents) == 1 + 6 + 1 + 2
    store.delete(first)
    assert {record.run_id for record in store.runs()} == {second, third}
    assert (count_rows(store, samples), count_rows(store, scores), count_rows(store, query_results)) == (7, 1, 1)
    assert count_rows(store, documents) == 1 + 6 + 1 + 1  # "x 0" was its alone
    store.delete([second, second])
    assert store.samples(third) == other
    assert (count_rows(store, samples), count_rows(store, documents)) == (1, 2)
    store.delete([third])
    assert [count_rows(store, table) for table in (samples, documents, scores, query_results)] == [0, 0, 0, 0]


def test_text_deleted_by_another_process_is_written_again(store: RunStore, url: str) -> None:
    first = create_run(store, samples=[]).run_id
    store.append(first, stored_outputs()[:1])
    with RunStore.open(url) as elsewhere:
        elsewhere.delete(first)
    second = create_run(store, samples=[]).run_id
    store.append(second, stored_outputs()[:1])
    assert [one.output for one in store.outputs(second)] == OUTPUTS[:1]


@pytest.mark.slow
def test_concurrent_writing_and_deletion(store: RunStore, url: str) -> None:
    """Runs that share their texts come and go while another is written: no text of it is ever missing."""
    kept = create_run(store, samples=[]).run_id
    stop = threading.Event()

    def come_and_go() -> None:
        with RunStore.open(url) as elsewhere:
            while not stop.is_set():
                run_id = create_run(elsewhere, samples=[]).run_id
                elsewhere.append(run_id, stored_outputs())
                elsewhere.delete(run_id)

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for number in range(16):
            output = make_output(number % 6)
            store.append(kept, [StoredOutput(number, 0, "q", output)])
    finally:
        stop.set()
        other.join()
    assert [one.output for one in store.outputs(kept)] == [make_output(number % 6) for number in range(16)]


def test_threads_share_a_store(store: RunStore) -> None:
    run_id = create_run(store, samples=[]).run_id
    problems: list[BaseException] = []

    def write(start: int) -> None:
        try:
            for position in range(start, start + 20):
                store.append(run_id, [StoredOutput(position, 0, f"q{position}", make_output(position))])
                assert len(list(store.outputs(run_id))) <= 80
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(start,)) for start in range(0, 80, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [one.output for one in store.outputs(run_id)] == [make_output(position) for position in range(80)]


def test_scores_with_every_outcome(store: RunStore) -> None:
    run_id = create_run(store).run_id
    given = Scores.from_list(
        [Score(0.5), Score.skip("no_gold"), Score.fail("broken"), Score(-1e-320), Score(1e308), Score(0)]
    )
    store.put_result(run_id, MetricResult("m", LATENCY, 1.0, scores=given, outcomes=given.outcomes))
    back = store.result(run_id, "m").scores
    assert back == given
    assert isinstance(back, Scores)
    back.values[0] = 1.0  # a copy of one's own


def test_an_empty_file_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    with pytest.raises(StoreError, match="is an empty file and holds no runs"):
        RunStore.open(path, create=False)
    assert [(found.name, found.stat().st_size) for found in tmp_path.iterdir()] == [("empty.sqlite", 0)]
    with RunStore.open(path) as store:
        assert store.runs() == []
