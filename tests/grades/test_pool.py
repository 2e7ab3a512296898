"""Pools checked by hand: documents, ranks, known grades and order."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from auepora_eval import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.grades.pool import Pool, PooledDocument, gold_grades, pool_outputs, read_pool, write_pool
from auepora_eval.io.grades import Grade


def output(ids: Sequence[str], *, error: str | None = None, **texts: str) -> SystemOutputs:
    found = [
        RetrievedDocument(Document(one, texts.get(one, f"text of {one}")), None, n) for n, one in enumerate(ids, 1)
    ]
    return SystemOutputs(found, error=error)


SAMPLES = [
    EvaluationSample("q1", "one?", history=[{"role": "user", "content": "hello"}]),
    EvaluationSample("q2", "two?", [Document("b", metadata={"relevance": 2})], [Document("c"), Document("b")]),
    EvaluationSample("q3", "three?"),
]
RUNS = {
    "bm25": [("q1", output("abc")), ("q2", output("bd")), ("q3", output("x", error="timeout"))],
    "dense": [("q1", output("dab")), ("q2", output("cb"))],
}


def returned(pool: Pool) -> dict[tuple[str, str], dict[str, int]]:
    return {one.key: dict(one.returned) for one in pool.documents}


def test_the_union_of_the_first_documents_with_their_ranks() -> None:
    pool = pool_outputs(SAMPLES, RUNS, depth=2)
    assert returned(pool) == {
        ("q1", "a"): {"bm25": 1, "dense": 2},
        ("q1", "b"): {"bm25": 2},
        ("q1", "d"): {"dense": 1},
        ("q2", "b"): {"bm25": 1, "dense": 2},
        ("q2", "d"): {"bm25": 2},
        ("q2", "c"): {"dense": 1},
    }
    assert pool.num_queries == 2  # what a failed output holds is not looked at
    shares = {name: (one.queries, one.failed, one.documents, one.alone) for name, one in pool.runs.items()}
    assert shares == {"bm25": (2, 1, 4, 2), "dense": (2, 0, 4, 2)}
    first = next(one for one in pool.documents if one.sample_id == "q1")
    assert (first.query, list(first.history)) == ("one?", [{"role": "user", "content": "hello"}])


def test_queries_keep_their_order_and_documents_are_shuffled() -> None:
    ids = [f"d{n}" for n in range(40)]
    forward = pool_outputs(SAMPLES, {"a": [("q1", output(ids))], "b": [("q2", output(ids))]}, depth=40)
    chance = random.Random(1)
    shuffled = chance.sample(ids, 40)
    other = pool_outputs(SAMPLES, {"b": [("q2", output(shuffled))], "a": [("q1", output(shuffled))]}, depth=40)
    orders = {query: [one.doc_id for one in forward.documents if one.sample_id == query] for query in ("q1", "q2")}
    assert [one.key for one in forward.documents] == [one.key for one in other.documents]  # whoever returned what where
    assert [one.sample_id for one in forward.documents] == ["q1"] * 40 + ["q2"] * 40
    assert orders["q1"] not in (ids, sorted(ids), orders["q2"])
    again = pool_outputs(SAMPLES, {"a": [("q1", output(ids))]}, depth=40, seed=1)
    assert [one.doc_id for one in again.documents] != orders["q1"]


def test_repeats_are_pooled_with_the_best_rank() -> None:
    pool = pool_outputs(SAMPLES, {"a": [("q1", output("xya")), ("q1", output("aax"))]}, depth=3)
    assert returned(pool) == {("q1", "x"): {"a": 1}, ("q1", "y"): {"a": 2}, ("q1", "a"): {"a": 1}}
    assert pool.runs["a"].queries == 1


def test_texts_come_from_any_run() -> None:
    runs = {
        "a": [("q1", output("xyz", x="", y="first"))],
        "b": [("q1", output("xyb", x="from b", y="second", b=""))],
        "c": [("q2", output("b", b=""))],
    }
    samples = [SAMPLES[0], EvaluationSample("q2", "two?", [Document("b", "from the gold")])]
    pool = pool_outputs(samples, runs)
    texts = {one.key: one.text for one in pool.documents}
    assert texts == {
        ("q1", "x"): "from b",
        ("q1", "y"): "first",
        ("q1", "z"): "text of z",
        ("q1", "b"): "",
        ("q2", "b"): "from the gold",
    }
    assert (pool.num_without_text, pool.num_other_text) == (1, 1)


def test_judged_documents_are_marked_or_left_out() -> None:
    known = gold_grades(SAMPLES)
    assert {key: grade.grade for key, grade in known.items()} == {("q2", "b"): 2, ("q2", "c"): 0}
    pool = pool_outputs(SAMPLES, RUNS, judged=known)
    assert {one.key: one.judged.grade for one in pool.documents if one.judged} == {("q2", "b"): 2, ("q2", "c"): 0}
    fresh = pool_outputs(SAMPLES, RUNS, judged=known, new_only=True)
    assert {one.key for one in pool.documents} - {one.key for one in fresh.documents} == {("q2", "b"), ("q2", "c")}
    assert (fresh.num_left_out, fresh.num_judged) == (2, 0)
    assert fresh.runs == pool.runs  # what a run brought does not depend on what is judged


def test_unknown_queries_are_listed_and_invalid_depths_rejected() -> None:
    assert pool_outputs(SAMPLES, {"a": [("q9", output("a"))]}).unknown == ["q9"]
    for depth in (0, -1, True, 1.5):
        with pytest.raises(BadValueError, match="depth must be an integer"):
            pool_outputs(SAMPLES, RUNS, depth=depth)  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match="at least one run"):
        pool_outputs(SAMPLES, {})


def test_a_pool_file_round_trips(tmp_path: Path) -> None:
    pool = pool_outputs(SAMPLES, RUNS, judged=gold_grades(SAMPLES))
    write_pool(tmp_path / "pool.jsonl", pool.documents)
    assert read_pool(tmp_path / "pool.jsonl") == pool.documents
    bare = {"sample_id": "q", "doc_id": "d"}
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare) + "\n")
    assert read_pool(tmp_path / "bare.jsonl") == [PooledDocument("q", "d", history=[])]
    with pytest.raises(BadValueError, match="half of a surrogate pair"):
        write_pool(tmp_path / "odd.jsonl", [PooledDocument("q", "d", text="\ud800")])


BAD = {
    "not an object": ("[1]", "one JSON object"),
    "no document": ('{"sample_id": "q"}', "'doc_id' is missing"),
    "an id that is a number": ('{"sample_id": 1, "doc_id": "d"}', "'sample_id' must be an id, not 1"),
    "a misspelt field": ('{"sample_id": "q", "doc_id": "d", "txt": ""}', "did you mean"),
    "ranks that are none": (
        '{"sample_id": "q", "doc_id": "d", "returned": ["a"]}',
        "'returned' must be a mapping of runs to ranks",
    ),
    "turns that are none": (
        '{"sample_id": "q", "doc_id": "d", "history": ["a"]}',
        "'history' at position 1 must be a mapping",
    ),
    "a grade below 0": ('{"sample_id": "q", "doc_id": "d", "judged": {"grade": -1}}', "'judged' must be"),
    "a giver nobody knows": (
        '{"sample_id": "q", "doc_id": "d", "judged": {"grade": 1, "by": "x"}}',
        "'judged' must be",
    ),
    "twice": ('{"sample_id": "q", "doc_id": "d"}\n{"sample_id": "q", "doc_id": "d"}', "already on line 1"),
    "nothing": ("", "the pool is empty"),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
def test_invalid_pool_files(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "pool.jsonl"
    path.write_text(text)
    with pytest.raises(DataFileError, match=problem):
        read_pool(path)


def test_grades_keep_their_provenance(tmp_path: Path) -> None:
    marked = PooledDocument("q", "d", history=[], judged=Grade("q", "d", 2, "model"))
    write_pool(tmp_path / "pool.jsonl", [marked])
    assert read_pool(tmp_path / "pool.jsonl") == [marked]
