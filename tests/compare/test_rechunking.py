"""A changed chunk size is found in what is stored, said, and compared by spans or documents, not by ids."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.compare import compare_metrics, compare_queries
from auepora_eval.compare.queries import Cause, explain_changes
from auepora_eval.compare.runs import build_leaderboard
from auepora_eval.errors import BadValueError
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore

DOCUMENTS, LENGTH, QUERIES = 12, 1200, 24
METRICS = ("recall@5", "mrr", "recall_doc@5", "token_f1")
Call = Callable[..., tuple[int, str, str]]


@cache
def text_of(document: str) -> str:
    """Words that are all different, so that no two chunks have the same text."""
    return "".join(f"{document} {n:04} " for n in range(LENGTH))[:LENGTH]


def chunks(document: str, size: int, *, parents: bool = True, spans: bool = True, prefix: str = "") -> list[Document]:
    """A document's chunks of that size, numbered."""
    text = text_of(document)
    return [
        Document(
            f"{prefix}{document}-{n}",
            text[start : start + size],
            parent_id=document if parents else None,
            span=(start, min(start + size, LENGTH)) if spans else None,
        )
        for n, start in enumerate(range(0, LENGTH, size))
    ]


def queries(*, placed: bool = False) -> list[EvaluationSample]:
    """Questions about chunk 2 to 4 of a document cut at 200, by id alone, or with its place."""
    found = []
    for n in range(QUERIES):
        gold = chunks(f"d{n % DOCUMENTS}", 200)[2 + n % 3]
        gold = replace(gold, text="") if placed else Document(gold.doc_id)
        found.append(EvaluationSample(f"q{n:02}", f"what {n}?", relevant_docs=[gold], reference_answer=Response("yes")))
    return found


def system(size: int, **cut: object) -> Callable[..., SystemOutputs]:
    """A retriever that returns a chunk of the next document, and then the chunks around the passage asked for."""

    def answer(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        n = int(sample.sample_id[1:])
        start = 200 * (2 + n % 3)
        own = chunks(f"d{n % DOCUMENTS}", size, **cut)  # type: ignore[arg-type]
        other = chunks(f"d{(n + 1) % DOCUMENTS}", size, **cut)[0]  # type: ignore[arg-type]
        docs = [other, *(own[place] for place in range(start // size, -(-(start + 200) // size)))]
        hits = [RetrievedDocument(doc, 1.0 / rank, rank) for rank, doc in enumerate(docs, 1)]
        return SystemOutputs(hits[:top_k], Response("yes"))

    return answer


def put(store: RunStore, name: str, asked: Sequence[EvaluationSample], size: int, **cut: object) -> RunRecord:
    return run_system(system(size, **cut), asked, list(METRICS), store=store, name=name).record


def test_the_same_ids_for_other_chunks_get_no_verdict_by_id(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    put(store, "small", queries(), 200)
    put(store, "large", queries(), 300)
    code, out, _ = auepora("compare", "small", "large", "--store", str(tmp_path / "runs.sqlite"), "--json")
    document = json.loads(out)
    deltas = document["deltas"]
    assert code == 0
    assert set(deltas["metrics"]) == {"token_f1"}
    assert "ids that both runs retrieved name another text or span in each" in document["refused"]["recall@5"]
    assert "the gold does not name the documents" in document["refused"]["recall_doc@5"]
    assert deltas["chunker_version_match"] == "fallback_doc_span"
    assert deltas["chunks_changed"] in document["refused"]["mrr"]
    # Half of every gold passage lies in the chunks that the large run returns for it.
    assert {one["b_hit_rank"] for one in document["per_query"]} <= {2, 3}
    assert document["aggregate_b"]["hit_at_k"]["5"] == 1.0
    assert document["aggregate_a"]["recall_at_k_doc"]["5"] == document["aggregate_b"]["recall_at_k_doc"]["5"] == 1.0
    code, out, _ = auepora("compare", "small", "large", "--all", "--store", str(tmp_path / "runs.sqlite"))
    assert "the chunks changed between the runs" in out
    assert "Metrics of golden queries (MRR 0.5000 → 0.5000)" in out


def test_strict_refuses_with_exit_2(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    put(store, "small", queries(), 200)
    put(store, "large", queries(), 300)
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, _, err = auepora("compare", "small", "large", "--strict-chunker-version", *where)
    assert code == 2
    assert "the runs have different chunks" in err
    assert auepora("compare", "small", "small", *where)[0] == 2  # one run twice
    put(store, "again", queries(), 200)
    assert auepora("compare", "small", "again", "--strict-chunker-version", *where)[0] == 0


CUTS: list[tuple[dict[str, object], bool, str, str | None, str]] = [
    # how the second run's chunks are stored, whether gold has its place, the reason, how metrics match gold then, why;
    # a gold passage whose place only a hit shows would be compared where one of the runs found it
    ({}, False, "ids that both runs retrieved name another text or span", None, "texts and spans"),
    ({"spans": False}, False, "ids that both runs retrieved name another text or span", None, "texts alone"),
    ({"prefix": "new-"}, True, "run B never returns a gold id, and its chunks cover gold spans", "span", "gold spans"),
    (
        {"prefix": "new-"},
        False,
        "run B never returns a gold id, and its chunks cover gold spans",
        None,
        "spans of hits",
    ),
    (
        {"prefix": "new-", "spans": False},
        True,
        "run B never returns a gold id, and the two runs have no id in common, but documents",
        "parent",
        "parents alone",
    ),
]


@pytest.mark.parametrize(("cut", "placed", "reason", "match", "why"), CUTS, ids=[row[4] for row in CUTS])
def test_stored_outputs_show_different_chunks(
    store: RunStore, cut: dict[str, object], placed: bool, reason: str, match: str | None, why: str
) -> None:
    a, b = put(store, "a", queries(placed=placed), 200), put(store, "b", queries(placed=placed), 300, **cut)
    compared = compare_queries(store, a, b)
    assert compared.chunker_version_match == "fallback_doc_span"
    assert reason in str(compared.chunks_changed)
    assert reason in compared.notes[0]
    assert compared.ranks_b.hit_at_k[5] == 1.0
    found = compare_metrics(store, a, b)
    if match is None:
        assert set(found.refused) >= {"recall@5", "mrr"}
    else:
        assert {found.by_name[name].match for name in ("recall@5", "mrr")} == {match}
    with pytest.raises(BadValueError, match="different chunks"):
        compare_queries(store, a, b, strict_chunker_version=True)


def test_gold_with_places_is_compared_by_spans_and_documents(store: RunStore) -> None:
    a, b = put(store, "a", queries(placed=True), 200), put(store, "b", queries(placed=True), 300)
    found = compare_metrics(store, a, b)
    assert {one.name: (one.a, one.b, one.match) for one in found.metrics} == {
        "recall@5": (1.0, 1.0, "span"),
        "mrr": (0.5, 0.5, "span"),
        "recall_doc@5": (1.0, 1.0, None),
        "token_f1": (1.0, 1.0, None),
    }
    board = build_leaderboard(store, [a, b, put(store, "c", queries(placed=True), 200)])
    assert board.refused == {}
    assert "gold is matched by span in all runs" in board.notes[0]


def test_unknown_locations_are_not_compared_by_id(store: RunStore, tmp_path: Path, auepora: Call) -> None:
    put(store, "a", queries(), 200, parents=False, spans=False)
    put(store, "b", queries(), 300, parents=False, spans=False)
    code, out, _ = auepora("compare", "a", "b", "--store", str(tmp_path / "runs.sqlite"), "--json")
    document = json.loads(out)
    assert code == 0
    assert document["per_query"] == []
    assert document["deltas"]["without_known_place"] == QUERIES
    assert document["aggregate_b"]["hit_at_k"]["5"] is None
    assert document["aggregate_b"]["recall_at_k_doc"]["5"] is None
    assert any("let the system return parent_id and span" in note for note in document["notes"])


SAME: list[tuple[dict[str, object], str]] = [
    ({}, "the same chunks"),
    ({"parents": False, "spans": False}, "one run without places"),
]


@pytest.mark.parametrize(("cut", "why"), SAME, ids=[row[1] for row in SAME])
def test_the_same_chunks_are_compared_by_id(store: RunStore, cut: dict[str, object], why: str) -> None:
    a, b = put(store, "a", queries(), 200), put(store, "b", queries(), 200, **cut)
    compared = compare_queries(store, a, b)
    assert (compared.chunker_version_match, compared.chunks_changed) == ("exact", None)
    assert compare_metrics(store, a, b).refused == {}


def test_a_few_edited_documents_are_no_new_chunks(store: RunStore) -> None:
    def edited(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        output = system(200, spans=False)(sample, top_k=top_k)
        for item in output.retrieved:
            if item.doc.doc_id == "d5-0":
                item.doc.text += " (edited)"
        return output

    a = put(store, "a", queries(), 200, spans=False)
    b = run_system(edited, queries(), list(METRICS), store=store, name="b").record
    compared = compare_queries(store, a, b)
    assert compared.chunker_version_match == "exact"
    assert compared.notes == [
        "1 of 24 ids that both runs retrieved name another text or span in each; chunks are matched by id"
    ]


def test_snippets_that_vary_by_query_are_no_new_chunks(store: RunStore) -> None:
    def snippets(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        output = system(200, spans=False)(sample, top_k=top_k)
        for item in output.retrieved:
            item.doc.text = f"{sample.sample_id}: {item.doc.text}"
        return output

    a = put(store, "a", queries(), 200, spans=False)
    b = run_system(snippets, queries(), list(METRICS), store=store, name="b").record
    compared = compare_queries(store, a, b)
    assert compared.chunks_changed is None
    assert any("24 ids that both runs retrieved have several texts in one run" in note for note in compared.notes)


def renamed(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    """The first chunk has the id of the gold."""
    output = system(200)(sample, top_k=top_k)
    assert sample.relevant_docs is not None
    output.retrieved[0].doc.doc_id = sample.relevant_docs[0].doc_id
    return output


def renamed_without_places(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    """The first chunk has the id of the gold, and only texts are known."""
    output = system(200, spans=False, parents=False)(sample, top_k=top_k)
    assert sample.relevant_docs is not None
    output.retrieved[0].doc.doc_id = sample.relevant_docs[0].doc_id
    return output


def test_a_gold_id_with_the_text_of_another_id_is_no_snippet(store: RunStore) -> None:
    """In either order."""
    a = put(store, "a", queries(), 200, spans=False, parents=False)
    b = run_system(renamed_without_places, queries(), list(METRICS), store=store, name="b").record
    for pair in ((a, b), (b, a)):
        reason = compare_queries(store, *pair).chunks_changed
        assert reason is not None
        assert "gold ids that both runs retrieved name another text or span in each" in reason
        assert "of them several in one run" in reason


def whole_documents(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    """Each chunk has the id of its document."""
    output = system(200)(sample, top_k=top_k)
    for item in output.retrieved:
        item.doc.doc_id = str(item.doc.parent_id)
    return output


def test_an_id_of_several_passages_in_one_run_is_no_id_of_a_chunk(store: RunStore) -> None:
    """In either order, and not if the ids of both runs name several passages each."""
    plain, changed = put(store, "plain", queries(), 200), []
    for name, answer in (("renamed", renamed), ("documents", whole_documents), ("again", whole_documents)):
        changed.append(run_system(answer, queries(), list(METRICS), store=store, name=name).record)
    for pair in ((plain, changed[0]), (changed[0], plain)):
        reason = compare_queries(store, *pair).chunks_changed
        assert reason is not None
        assert "of them several in one run" in reason
        assert "several in one run" in compare_metrics(store, *pair).refused["recall@5"]
    assert compare_queries(store, changed[1], changed[2]).chunks_changed is None
    assert compare_metrics(store, changed[1], changed[2]).refused == {}


def test_causes_match_by_location(store: RunStore) -> None:
    asked = queries(placed=True)

    def worse(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        output = system(300)(sample, top_k=top_k)
        if sample.sample_id in ("q00", "q01"):
            output.response = Response("no")
        if sample.sample_id == "q00":
            output.retrieved = output.retrieved[:1]
        return output

    a = put(store, "a", asked, 200)
    b = run_system(worse, asked, list(METRICS), store=store, name="b").record
    causes = {one.sample_id: one.cause for one in explain_changes(store, a, b, metric="token_f1")}
    assert causes == {"q00": Cause.LOST, "q01": Cause.IGNORED}
