"""The packed data of the query browser: marks, deduplicated texts, column round trips."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.core.scores import Score
from auepora_eval.core.types import UnknownRanking
from auepora_eval.queries.columns import ABSENT, ANSWERED, ANSWERS, FAILED
from auepora_eval.queries.view import GoldMarks, judgement_fields, utf16_ranges, word_support
from auepora_eval.render.blocks import PageFragment
from auepora_eval.report.browser import listing
from auepora_eval.report.browser.listing import build_browser
from auepora_eval.report.browser.pack import (
    MIME,
    BlockWriter,
    ColumnBuffer,
    DocumentTexts,
    compress_block,
    json_bytes,
)
from auepora_eval.store.records import RunRecord
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore
from helpers import browser_runs as runs


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def browser_of(store: RunStore, records: Sequence[RunRecord], **options: Any) -> PageFragment:
    """The browser with its data in memory."""
    fragment = build_browser(store, records, **options)
    return replace(fragment, data=list(fragment.data))


def parts_of(fragment: PageFragment) -> dict[str, Any]:
    return {name: unpacked(text) for name, _, text in fragment.data if name != "qb-columns"}


def column(fragment: PageFragment, description: dict[str, Any]) -> list[Any]:
    """A column as the script reads it."""
    (text,) = (text for name, _, text in fragment.data if name == "qb-columns")
    data = gzip.decompress(base64.b64decode(text))
    values = np.frombuffer(data, f"<{description['type']}", description["count"], description["at"]).tolist()
    if "table" in description:
        return [description["table"][code] if code < len(description["table"]) else None for code in values]
    return [None if value != value else value for value in values]


def output(answer: str, *texts: str) -> SystemOutputs:
    hits = [RetrievedDocument(Document(f"d{at}", text), None, at) for at, text in enumerate(texts, 1)]
    return SystemOutputs(hits, Response(answer))


# --- words without support -------------------------------------------------------------------------------------------

SUPPORT: dict[str, tuple[str, list[str], list[str], tuple[int, int]]] = {
    "words are compared without case and punctuation": ("Paris, France!", ["paris (FRANCE)"], [], (0, 2)),
    "neighbours are one range": ("in Paris near Texas", ["in near"], ["Paris", "Texas"], (2, 4)),
    "punctuation alone neither counts nor parts": ("Paris -- Texas", ["x"], ["Paris -- Texas"], (2, 2)),
    "a part of a word is no word": ("art", ["party"], ["art"], (1, 1)),
    "nothing retrieved supports nothing": ("yes", [], ["yes"], (1, 1)),
    "characters of two units are counted as a browser does": ("😀 known 😀x", ["known"], ["😀", "😀x"], (2, 3)),
    "an empty answer has no words": ("", ["x"], [], (0, 0)),
    "other blanks part words too": ("new\u2003york\x1ccity", ["york"], ["new", "city"], (2, 3)),
}


@pytest.mark.parametrize(("answer", "texts", "without", "counts"), SUPPORT.values(), ids=SUPPORT)
def test_unsupported_words(answer: str, texts: list[str], without: list[str], counts: tuple[int, int]) -> None:
    found = word_support(output(answer, *texts))
    assert found is not None
    units = answer.encode("utf-16-le")
    assert [units[2 * start : 2 * end].decode("utf-16-le") for start, end in found[2]] == without
    assert found[:2] == counts


@pytest.mark.parametrize(
    "given",
    [
        SystemOutputs([], None),
        SystemOutputs([], Response("x"), error="failed"),
        SystemOutputs(UnknownRanking(), Response("x")),
        SystemOutputs([RetrievedDocument(Document("d"), None, 1)], Response("x")),
    ],
    ids=["no answer was asked for", "the system failed", "ranking unknown", "documents have no text"],
)
def test_support_is_none_when_unknown(given: SystemOutputs) -> None:
    assert word_support(given) is None


texts = st.text(st.sampled_from("abAB ,.\u00e9\u03a3\u0130😀\n\u2003\x1c'-"), max_size=30)


@given(texts, st.lists(texts, max_size=3))
def test_unsupported_proportion_equals_support_density(answer: str, documents: list[str]) -> None:
    given = output(answer, *documents)
    (result,) = evaluate([EvaluationSample("1", "?")], [given], ["hallucination_rate"])
    found = word_support(given)
    assert result.scores is not None
    if result.scores[0] is None:
        assert found is None or found[1] == 0
    else:
        assert found is not None
        assert found[0] / found[1] == pytest.approx(result.scores[0], abs=1e-15)


@given(st.text(st.sampled_from("a😀é"), max_size=12))
def test_utf16_ranges(text: str) -> None:
    for at in range(len(text) + 1):
        assert utf16_ranges(text, [(0, at)]) == [(0, len(text[:at].encode("utf-16-le")) // 2)]


# --- gold ------------------------------------------------------------------------------------------------------------


def test_document_marks() -> None:
    gold = GoldMarks(
        EvaluationSample(
            "1",
            "?",
            relevant_docs=[Document("g", parent_id="p"), Document("zero", metadata={"relevance": 0})],
            candidate_docs=[Document("c"), Document("g")],
            metadata={"expected_doc_ids": ["whole"]},
        )
    )
    asked = [
        Document("x"),
        Document("g"),
        Document("g"),
        Document("p2", parent_id="p"),
        Document("zero"),
        Document("c"),
        Document("whole"),
    ]
    assert gold.marks(asked) == ["", "gold", "again", "part", "not", "not", "part"]
    assert GoldMarks(EvaluationSample("1", "?")).marks(asked) == [""] * 7


PASSAGES: dict[str, tuple[Document, list[str]]] = {
    "a chunk that begins within": (Document("c", "fghij", parent_id="p", span=(5, 10)), ["fg", "j"]),
    "the whole document": (Document("p", "abcdefghijkl"), ["cdefg", "jk"]),
    "a chunk that ends before": (Document("c", "ab", parent_id="p", span=(0, 2)), []),
    "all of it is gold": (Document("c", "de", parent_id="p", span=(3, 5)), []),
    "another document": (Document("c", "abcdefghijkl", parent_id="q", span=(0, 12)), []),
    "a text that is not as long as its span": (Document("c", "fghij!", parent_id="p", span=(5, 10)), []),
    "a chunk that does not say where it is": (Document("c", "fghij", parent_id="p"), []),
}


@pytest.mark.parametrize(("document", "found"), PASSAGES.values(), ids=PASSAGES)
def test_gold_passages_in_document(document: Document, found: list[str]) -> None:
    spans = [(2, 5), (4, 7), (9, 11)]
    gold = GoldMarks(
        EvaluationSample(
            "1", "?", relevant_docs=[Document(f"g{at}", parent_id="p", span=span) for at, span in enumerate(spans)]
        )
    )
    assert [document.text[start:end] for start, end in gold.gold_passages(document)] == found


# --- blocks and columns ----------------------------------------------------------------------------------------------


def test_blocks_keep_order_and_deduplicate_texts() -> None:
    put: dict[str, str] = {}
    blocks = BlockWriter("d", put.__setitem__, most=3, most_bytes=40)
    documents = DocumentTexts(blocks)
    numbers = [documents(text) for text in ("a", "b", "a", "", "c", "d", "x" * 50, "e", "b")]
    blocks.flush()
    blocks.flush()
    assert numbers == [0, 1, 0, -1, 2, 3, 4, 5, 1]
    assert blocks.starts == [0, 3, 4, 5]
    assert [unpacked(put[f"d-{at}"]) for at in range(4)] == [["a", "b", "c"], ["d"], ["x" * 50], ["e"]]


def test_compression_is_deterministic() -> None:
    assert compress_block(b"some bytes" * 100) == compress_block(b"some bytes" * 100)


@pytest.mark.parametrize(
    "value",
    [{"a": float("nan")}, {1: "x"}, ["\ud800"], {"s": {1, 2}.__class__}],
    ids=["NaN", "a key that is no text", "half a character", "an object"],
)
def test_any_value_becomes_json(value: Any) -> None:
    json.loads(json_bytes(value), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@given(st.lists(st.one_of(st.floats(allow_infinity=False), st.sampled_from([0.0, 0.5, float("nan")])), max_size=200))
def test_columns_round_trip(values: list[float]) -> None:
    columns = ColumnBuffer()
    columns.put(np.array([7], np.uint8))
    description = columns.put(np.array(values, np.float64))
    fragment = PageFragment("", "", "", [("qb-columns", MIME, compress_block(columns.data()))])  # type: ignore[arg-type]
    assert description["at"] % 8 == 0
    assert column(fragment, description) == [None if value != value else value for value in values]


# --- the whole -------------------------------------------------------------------------------------------------------


def test_packed_data_of_two_runs(tmp_path: Path) -> None:
    samples = [
        EvaluationSample(f"q{at}", "?" * 300, relevant_docs=[Document("g", "gold text")], labels={"tag": ["x", at]})
        for at in range(3)
    ]
    given = output("gold", "gold text", "other")
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        a = runs.put(
            store, "a", samples, [given, given, None], [runs.scored("recall@5", [1.0, Score.fail("not_a_number"), 0.5])]
        )
        b = runs.put(store, "b", samples[:2], [given, given], [runs.scored("recall@5", [1.0, Score.skip("no_gold")])])
        fragment = browser_of(store, [b, a])
    found = parts_of(fragment)
    listed = found["qb-list"]
    assert [run["name"] for run in listed["runs"]] == ["b", "a"]
    assert listed["ids"] == ["q0", "q1", "q2"]
    assert len(listed["starts"][0]) == 200
    assert found["qb-documents-0"] == ["gold text", "other"]
    (metric,) = listed["metrics"]
    assert (metric["name"], metric["higher"], metric["problems"], metric["shown"]) == ("recall@5", True, ["", ""], True)
    assert column(fragment, metric["runs"][0]["values"]) == [1.0, None, None]
    assert column(fragment, metric["runs"][0]["status"]) == [0, 1, ABSENT]
    assert column(fragment, metric["runs"][1]["status"]) == [0, 3, 0]
    assert [ANSWERS[code] for code in column(fragment, listed["runs"][1]["answers"])] == ["answered"] * 2 + ["missing"]
    assert column(fragment, listed["runs"][1]["hits"]) == [3, 3, 0]
    assert listed["labels"][0]["groups"] == [["x", "0"], ["x", "1"], ["x", "2"]]
    query = found["qb-queries-0"][2]
    assert query["runs"] == [None, [0, [], []]]


def test_part_of_many_queries_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_QUERIES", 59)
    monkeypatch.setattr(listing, "SAMPLE_SIZE", 24)
    samples = [
        EvaluationSample(f"q{at:02}", "?", [Document("g", "gold")], labels={"lang": "de" if at in (50, 51) else "en"})
        for at in range(60)
    ]
    answered, failed = output("yes", "gold"), SystemOutputs([], None, error="timeout")
    before, after = [0.5] * 60, [0.5] * 20 + [0.4] * 18 + [0.6] * 2 + [0.5] * 20
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        a = runs.put(store, "a", samples, [answered] * 60, [runs.scored("token_f1", before)])
        b = runs.put(store, "b", samples, [failed] * 3 + [answered] * 57, [runs.scored("token_f1", after)])
        options: dict[str, Any] = {"main": "token_f1", "linked": {"q58", "elsewhere"}}
        part, again = (browser_of(store, [a, b], **options) for _ in range(2))
        every = browser_of(store, [a, b], all_queries=True, **options)
        monkeypatch.setattr(listing, "MAX_QUERIES", 60)
        assert browser_of(store, [a, b], **options) == every, "the limit is not exceeded"
    assert part == again, "the choice is the same every time"
    found = parts_of(part)
    listed = found["qb-list"]["ids"]
    assert len(listed) == 24
    assert listed == sorted(listed), "in the order of the dataset"
    assert {"q00", "q01", "q02"} <= set(listed), "all that failed, since they are few"
    assert {"q38", "q39"} <= set(listed), "both that got better, since those are few"
    assert {"q50", "q51"} <= set(listed), "both with a rare label"
    assert "q58" in listed, "something links to it"
    changed = sum("q20" <= one < "q40" for one in listed)
    assert changed in (10, 11), "changes and others share what failures leave"
    assert (
        f"The list below contains 24 of 60 queries: 3 of 3 with a failure, {changed} of 20 whose token_f1 or first hit "
        f"changed, {21 - changed} of 37 others, drawn evenly" in part.html
    )
    assert [one["samples"][0]["id"] for one in found["qb-queries-0"]] == listed
    (metric,) = found["qb-list"]["metrics"]
    assert column(part, metric["runs"][1]["values"]) == [after[int(one[1:])] for one in listed]
    assert column(part, found["qb-list"]["runs"][1]["answers"]) == [
        FAILED if one < "q03" else ANSWERED for one in listed
    ]
    assert parts_of(every)["qb-list"]["count"] == 60
    assert "The list below" not in every.html


def test_part_of_the_queries_of_runs_with_different_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_QUERIES", 5)
    monkeypatch.setattr(listing, "SAMPLE_SIZE", 5)
    samples = [EvaluationSample(f"q{at}", f"{at}?") for at in range(8)]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        a = runs.put(store, "a", samples[:6], [output("yes")] * 6)
        b = runs.put(store, "b", samples[2:], [output("no")] * 6)
        fragment = browser_of(store, [a, b], linked={"q0", "q7"})
    found = parts_of(fragment)
    assert "5 of 8 queries: 5 of 8 others" in fragment.html, "nothing was scored"
    assert found["qb-search"]["questions"] == [f"{one[1:]}?" for one in found["qb-list"]["ids"]]
    asked = {one["samples"][0]["id"]: [run is not None for run in one["runs"]] for one in found["qb-queries-0"]}
    assert asked == {one: [one < "q6", one > "q1"] for one in found["qb-list"]["ids"]}
    assert asked["q0"] == [True, False]
    assert asked["q7"] == [False, True]


def test_metrics_with_different_signatures_are_not_comparable(tmp_path: Path) -> None:
    samples = [EvaluationSample("q", "?", relevant_docs=[Document("g")])]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        one, other = runs.scored("recall@5", [1.0]), runs.scored("recall@5", [0.5])
        other.signature = "recall@5|otherwise|v2"
        records = [runs.put(store, name, samples, [None], [result]) for name, result in (("a", one), ("b", other))]
        (metric,) = parts_of(build_browser(store, records))["qb-list"]["metrics"]
    assert metric["problems"] == [
        "",
        "'recall@5' was computed differently in the two runs, so they cannot be compared by it",
    ]


def test_data_is_inert_and_small(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        hostile = browser_of(store, [runs.hostile_run(store)])
        small = browser_of(store, runs.many_runs(store, 200, 400, ("a", "b")))
    for name, mime, text in hostile.data:
        assert mime == MIME
        assert base64.b64encode(base64.b64decode(text, validate=True)).decode() == text, name
    assert sum(len(text) for _, _, text in small.data) + len(small.script) + len(small.css) < 2_000_000
    for asset in (hostile.script, hostile.css):
        assert not re.search("</(script|style)|<!--", asset, re.IGNORECASE)
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "http:",
            "https:",
            "url(",
            "@import",
        ):
            assert forbidden not in asset, forbidden


VERDICT_ROWS: list[tuple[Any, Any, Any, str]] = [
    (
        [{"number": 2, "verdict": "met"}, {"number": 1, "verdict": "not met"}],
        {"statements": ["a", "b"]},
        [{"statement": "b", "verdict": "met"}, {"statement": "a", "verdict": "not met"}],
        "statements in place of their numbers",
    ),
    ([{"number": 3}, "x", {"number": [1]}], {"statements": ["a"]}, None, "numbers that are none stay"),
    ([{"number": 1}], {}, None, "unknown statements"),
    ("met", {"statements": ["a"]}, None, "no list"),
]


@pytest.mark.parametrize(("verdicts", "about", "want", "why"), VERDICT_ROWS, ids=[row[-1] for row in VERDICT_ROWS])
def test_verdicts_are_shown_with_their_statements(verdicts: Any, about: Any, want: Any, why: str) -> None:
    body = {"answer": {"verdicts": verdicts}, "about": about}
    shown = json.loads(json_bytes(judgement_fields(StoredJudgement("m", "m|v1", 0, "?", body=body))))
    assert shown["answer"] == {"verdicts": want or verdicts}
