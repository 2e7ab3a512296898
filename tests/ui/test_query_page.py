"""The query page: texts with marks, claims and evidence, joined rankings, cut-offs, scores, errors."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.core.conventions import Conventions, Match
from auepora_eval.queries.marked_texts import Mark, split_marks, split_pieces
from auepora_eval.queries.view import ClosestSentence, GoldLine, SentenceIndex, gold_lines, judged_claims
from auepora_eval.report.score_sections import cut_offs, timeline
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord, StoredOutput
from auepora_eval.store.rows import StoredJudgement
from auepora_eval.store.runs import RunStore, sample_at
from helpers.browser_page import chromium
from helpers.browser_runs import HOSTILE, PWN, hostile_run
from helpers.ui_server import UiServer, ui_server, workbench_page

METRICS = ("recall@1", "recall@3", "ndcg@5", "token_f1", "support_density", "mean_latency")
ORION = "Orion was launched in 2014 from Florida. It is a capsule."
APOLLO = "Apollo landed on the Moon in 1969. The crew had three members."
NOISE = "Bread is made of flour and water. It is baked in an oven."
LONG = "A very long answer. " * 60_000


def retrieved(*pairs: tuple[str, str]) -> list[RetrievedDocument]:
    return [RetrievedDocument(Document(name, text), 1 / rank, rank) for rank, (name, text) in enumerate(pairs, 1)]


SAMPLES = [
    EvaluationSample(
        "moon/1",
        "When did Apollo land on the Moon?",
        relevant_docs=[Document("apollo", APOLLO), Document("lost", "Never retrieved.")],
        reference_answer=Response("Apollo landed in 1969."),
        labels={"topic": "space"},
        metadata={"source": "handmade"},
        history=[
            {"role": "user", "content": "Tell me about space."},
            {"role": "assistant", "content": [{"text": "Gladly."}, {"text": "Ask " * 400}]},
        ],
        cluster_id="a & b",
    ),
    EvaluationSample("bread", "How is bread made?", relevant_docs=[Document("noise", NOISE)]),
    EvaluationSample("long", "Say much.", relevant_docs=[]),
]

FIRST = [
    SystemOutputs(
        retrieved(("apollo", APOLLO), ("orion", ORION), ("noise", NOISE)),
        Response(
            "Apollo landed on the Moon in 1969. It carried seventeen penguins.",
            sentences=[{"text": "Apollo landed on the Moon in 1969.", "citations": ["apollo"]}],
        ),
        timings={"end_to_end": 1.5, "search": 0.5, "started": 12.0},
        citations=["apollo", "elsewhere"],
        steps=[
            {"query": "apollo landing", "retrieved": ["apollo", "orion"], "timing": 0.25},
            {"query": "moon year", "retrieved": ["noise"], "timing": 0.25},
        ],
        usage={"tokens": 321},
    ),
    SystemOutputs(retrieved(("noise", NOISE)), Response("In an oven."), timings={"end_to_end": 1.0}),
    SystemOutputs(retrieved(("noise", NOISE)), Response(LONG), timings={"end_to_end": 2.0}),
]
SECOND = [
    SystemOutputs(
        retrieved(("orion", ORION), ("noise", NOISE), ("apollo", APOLLO)),
        Response("I do not know."),
        timings={"end_to_end": 0.5},
    ),
    SystemOutputs([], error="timeout: no answer within 30 s", extra={"attempts": 3}, timings={"end_to_end": 30.0}),
    None,
]
CLAIMS = ["Apollo landed on the Moon in 1969.", "Apollo carried seventeen penguins."]
JUDGEMENTS = [
    StoredJudgement(
        "claim_faithfulness", "s", 0, "r1", critic="judge-a",
        body={"about": {"of": "the answer"}, "answer": {"claims": CLAIMS}},
    ),
    StoredJudgement(
        "claim_faithfulness", "s", 0, "r2", critic="judge-a",
        body={
            "about": {"of": "the documents", "statements": CLAIMS},
            "answer": {
                "verdicts": [
                    {"number": 1, "why": "document 1 has the year", "verdict": "full"},
                    {"number": 2, "why": "nothing about penguins", "verdict": "none"},
                ]
            },
        },
    ),
    StoredJudgement(
        "tone", "s", 0, "r3", critic="judge-b", body={"answer": {"score": 3, "rationale": "friendly enough"}}
    ),
    StoredJudgement(
        "claim_hallucination", "s", 0, "r5", critic="judge-a",
        body={
            "about": {"of": "the documents", "statements": CLAIMS[1:]},
            "answer": {"verdicts": [{"number": 1, "why": "nothing about penguins", "verdict": "none"}]},
        },
    ),
    StoredJudgement("tone", "s", 1, "r4", critic="judge-b", reason="unparseable", body={"message": "no JSON", "raw": "?"}),
]  # fmt: skip


def put_run(store: RunStore, name: str, outputs: Sequence[SystemOutputs | None], *, repeats: int = 1) -> RunRecord:
    record = store.create_run(name, SAMPLES, dataset_name="space", plan={"metrics": list(METRICS)}, repeats=repeats)
    rows = [
        StoredOutput(position, repeat, SAMPLES[position].sample_id, output)
        for repeat in range(repeats)
        for position, output in enumerate(outputs)
        if output is not None
    ]
    store.append(record.run_id, rows)
    store.put_results(record.run_id, list(evaluate(SAMPLES, outputs, METRICS)))
    store.finish(record.run_id)
    return store.get(record.run_id)


def fill_store(store: RunStore) -> list[RunRecord]:
    records = [put_run(store, "first", FIRST, repeats=2), put_run(store, "second", SECOND), hostile_run(store)]
    store.put_judgements(records[0].run_id, JUDGEMENTS)
    return records


# --- parts of the page -----------------------------------------------------------------------------------------------


def test_marks_split_a_text_without_losing_a_character() -> None:
    text = "one two three"
    parts = split_marks(text, 0, 9, [Mark(0, 3, "a"), Mark(2, 5, "b", "note"), Mark(8, 13, "c")])
    assert [(part.text, part.kind) for part in parts] == [
        ("on", "a"), ("e", "a b"), (" t", "b"), ("wo ", ""), ("t", "c"),
    ]  # fmt: skip
    assert [part.note for part in parts] == ["", "note", "note", "", ""]
    assert split_marks("", 0, 0, [Mark(0, 3, "a")]) == []


@pytest.mark.parametrize("text", ["", "x" * 20_000, "word " * 5_000, "line\n" * 3_000, "short"])
def test_pieces_cover_a_text(text: str) -> None:
    pieces = split_pieces(text)
    assert "".join(text[start:end] for start, end in pieces) == text
    assert all(end - start <= 6_000 for start, end in pieces)


def test_closest_sentence_shares_the_rare_words() -> None:
    index = SentenceIndex([ORION, APOLLO])
    found = index.closest("It was in 1969 that Apollo landed.")
    assert found is not None
    assert APOLLO[found.start : found.end] == "Apollo landed on the Moon in 1969."
    assert (found.text, found.shared, found.words) == (1, 4, 7)  # in, 1969, apollo, landed
    assert SentenceIndex([ORION]).closest("zebra") is None
    assert SentenceIndex([]).closest("zebra") is None
    assert SentenceIndex(["Same words. Same words."]).closest("words") == ClosestSentence(0, 0, 11, 1, 1)


def test_claims_are_those_of_the_answer() -> None:
    reference = StoredJudgement(
        "claim_recall",
        "s",
        0,
        "r5",
        body={
            "about": {"of": "the answer", "statements": ["A claim of the reference."]},
            "answer": {"verdicts": [{"number": 1, "verdict": "full"}]},
        },
    )
    claims = judged_claims([*JUDGEMENTS[:3], reference], 0, "whatever")
    assert list(claims) == CLAIMS
    found = [(one.label, one.source) for verdicts in claims.values() for one in verdicts]
    assert found == [("full", "the documents"), ("none", "the documents")]
    assert judged_claims(JUDGEMENTS, 1, "another repeat") == {}


LINES = {
    "gold in both": ({"a": 1}, {"a": 3}, [("kept", "M0 40C24 40 24 200 48 200")]),
    "lost": ({"a": 2}, {}, [("lost", "M0 120H28")]),
    "found": ({}, {"a": 1}, [("found", "M28 40H48")]),
    "a rank that is not shown is at the edge": ({"a": 1}, {"a": 11}, [("kept", "M0 40C24 40 24 800 48 800")]),
    "neither rank is shown": ({"a": 11}, {"a": 12}, []),
    "two": ({"a": 1, "b": 2}, {"b": 1}, [("lost", "M0 40H28"), ("kept", "M0 120C24 120 24 40 48 40")]),
}


@pytest.mark.parametrize("reason", LINES)
def test_lines_join_gold_and_lost_gold_ends_in_a_cross(reason: str) -> None:
    first, second, expected = LINES[reason]
    lines = gold_lines(first, second, 10)
    assert [(line.kind, line.path(10)) for line in lines] == expected
    assert [bool(line.cross(10)) for line in lines] == [kind == "lost" for kind, _ in expected]


def test_a_cross_is_at_the_rank_that_is_lost() -> None:
    assert GoldLine(2, None).cross(10) == "M26 114l12 12m0 -12l-12 12"


def test_cut_offs_are_the_metrics_of_the_library() -> None:
    values = cut_offs(SAMPLES[0], SECOND[0] or FIRST[0], 3, Conventions.of())
    assert [one.recall for one in values] == [0, 0, 1 / 2]  # one of two gold documents, at rank 3
    assert values[2].ndcg == pytest.approx((1 / 2) / (1 + 1 / math.log2(3)))
    assert [one.characters for one in values] == [len(ORION), len(ORION + NOISE), len(ORION + NOISE + APOLLO)]
    assert cut_offs(SAMPLES[2], FIRST[2], 1, Conventions.of())[0].recall is None  # nothing is relevant


def test_timeline_places_steps_one_after_another() -> None:
    rows = [(row.name, row.start, row.length) for row in timeline(FIRST[0])]
    assert rows == [("Step 1", 0, 1 / 6), ("Step 2", 1 / 6, 1 / 6), ("end_to_end", 0, 1), ("search", 0, 1 / 3)]
    odd = SystemOutputs([], timings={"a": math.nan, "b": True}, steps=["not a mapping"])  # type: ignore
    assert [row.name for row in timeline(odd)] == ["Step 1"]


# --- the page on a server --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    path = tmp_path_factory.mktemp("query") / "runs.sqlite"
    with RunStore.open(path) as store:
        fill_store(store)
        with ui_server(store) as server:
            yield server


def run_ids(server: UiServer) -> list[str]:
    return [record.run_id for record in reversed(server.workbench.store.runs())]


def query_address(*runs: str, sample: str = "moon/1", path: str = "/query", **more: object) -> str:
    return f"{path}?{urlencode({'run': runs, 'id': sample, **more}, doseq=True)}"


def text_of(html: str) -> str:
    """The text of a page, without elements."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", html)))


def test_two_runs_side_by_side(server: UiServer) -> None:
    first, second, _ = run_ids(server)
    reply = server.get(query_address(first, second))
    assert reply.status == 200
    text = text_of(reply.text)
    for expected in (
        "When did Apollo land on the Moon?", "Tell me about space.", "Apollo landed in 1969.", "topic: space",
        "A rank 1", "B rank 3", "A ✕ not in 3", "rank 1 in A", "Declined: I do not know.", "✕ not retrieved",
        "✓ supported by the documents", "✕ not supported by the documents", "judge-a against the documents",
        "Gladly. Ask", "belongs to a & b", "claim_faithfulness, claim_hallucination by judge-a nothing about penguins", "A: Scores are means over 2 answers.", "nothing about penguins", "friendly enough",
        "3 of 11 words in none of the retrieved documents", "1 of 3", "recall@1 0.50 → 0.00",
        "Why B is worse hereA answered and B declined to by token_f1", "The answers share too few words for a word diff.",
    ):  # fmt: skip
        assert expected in text, expected
    assert "7 of 7 words in common: Apollo landed on the Moon in 1969." in text
    assert text.count("It carried seventeen penguins.") == 1  # the answer is there once
    assert text.count("I do not know.") == 1
    assert reply.text.count("<details open") == 0
    assert 'aria-label="1 gold in both rankings"' in reply.text
    data = re.search(r'id="depth-data">(.*?)</script>', reply.text)
    assert data is not None
    first_run, second_run = json.loads(data[1])
    assert [recall for recall, _, _ in first_run] == [1 / 2, 1 / 2, 1 / 2]  # one of two gold documents, at rank 1
    assert [recall for recall, _, _ in second_run] == [0, 0, 1 / 2]
    assert [size for _, _, size in first_run] == [len(APOLLO), len(APOLLO + ORION), len(APOLLO + ORION + NOISE)]
    assert f"/query?run={second}&amp;run={first}&amp;id=moon%2F1" in reply.text  # swap
    filters: dict[str, Any] = {"where": "token_f1=worse", "sort": "token_f1", "repeat": [1, 0]}
    swapped = urlencode({"repeat": [0, 1], "where": "token_f1=better", "sort": "A.token_f1"}, doseq=True)
    assert swapped in unescape(server.get(query_address(first, second, **filters)).text)
    assert f"/runs/{first}/derivation?metric=recall%401&amp;sample=moon%2F1&amp;fragment=1" in reply.text
    assert (
        f'name="run" value="{second}"><input type="hidden" name="sample" value="moon/1"><button' in reply.text
    )  # label


@pytest.mark.slow
def test_runs_over_different_datasets(server: UiServer) -> None:
    first, _, other = run_ids(server)
    for runs in ((first, other), (other, first)):
        text = text_of(server.get(query_address(*runs)).text)
        assert "This query is not in the dataset of the run." in text
        assert "Apollo landed on the Moon in 1969." in text
        assert f" of {len(SAMPLES) + len(HOSTILE) - 1}: list" in text  # the queries of both; "long" is in both


def test_values_that_conventions_refuse_are_left_out(tmp_path: Path) -> None:
    doubled = SystemOutputs(retrieved(("apollo", APOLLO), ("apollo", APOLLO)), Response("1969"))
    with RunStore.open(tmp_path / "runs.sqlite") as store, ui_server(store) as server:
        plan = {"conventions": {"name": "auepora", "duplicates": "error"}}
        record = store.create_run("doubled", SAMPLES[:1], dataset_name="space", plan=plan)
        store.append(record.run_id, [StoredOutput(0, 0, "moon/1", doubled)])
        reply = server.get(query_address(record.run_id))
        assert (reply.status, "gold again" in reply.text, "depth-data" in reply.text) == (200, True, False)
        assert "No metric has scores per query." in reply.text
        store.delete(record.run_id)
        assert server.get(query_address(record.run_id)).status == 404


def test_repeats_are_selectable(server: UiServer) -> None:
    first, second, _ = run_ids(server)
    page = server.get(query_address(first, second, repeat=[1, 0])).text
    assert re.search(r'aria-current="true">Answer 2<', page)
    assert "judge-a" not in page  # the judgements are of the first repeat
    reply = server.get(query_address(first, repeat=2))
    assert (reply.status, "has 2 repeats" in reply.text) == (400, True)


def test_failed_query_shows_error_attempts_and_other_runs(server: UiServer) -> None:
    second = run_ids(server)[1]
    text = text_of(server.get(query_address(second, sample="bread")).text)
    assert "timeout: no answer within 30 s" in text
    assert "3 attempts" in text
    assert "system failed: timeout, counted as 0.00" in text
    others = text_of(server.get(query_address(second, sample="bread", path="/query/others", shown=second)).text)
    assert "first" in others
    assert "✓ answered" in others
    assert "In an oven." in others
    missing = text_of(server.get(query_address(second, sample="long")).text)
    assert "The run has no output for this query." in missing


@pytest.mark.slow
def test_long_texts_are_cut(server: UiServer) -> None:
    first = run_ids(server)[0]
    page = server.get(query_address(first, sample="long"))
    assert len(page.text) < 100_000
    assert "Show all 1,200,000 characters" in page.text
    assert "among the first 100,000 characters" in page.text
    whole = server.get(query_address(first, sample="long", path="/query/text", part="answer", fragment=1))
    assert text_of(whole.text).count("A very") == 60_000
    assert "<html" not in whole.text
    assert "Back to the query" in server.get(query_address(first, path="/query/text", part="document-1")).text


@pytest.mark.parametrize("sample", HOSTILE)
def test_hostile_texts_are_escaped(server: UiServer, sample: str) -> None:
    run = run_ids(server)[2]
    for path, part in (("/query", ""), ("/query/text", "answer"), ("/query/others", "")):
        reply = server.get(query_address(run, sample=sample, path=path, part=part))
        assert reply.status == 200
        for harmful in (f"<script>{PWN}", "<img src=x", 'href="javascript:', "\u202e", "\x00", "<style>*"):
            assert harmful not in reply.text


def test_order_of_the_list_decides_the_neighbours(server: UiServer) -> None:
    first = run_ids(server)[0]
    page = server.get(query_address(first, sample="bread")).text
    assert re.search(r'href="/query\?run=[^"]*&amp;id=moon%2F1" data-key="k"', page)
    assert re.search(r'href="/query\?run=[^"]*&amp;id=long" data-key="j"', page)
    filters: dict[str, Any] = {"where": ["token_f1>=0", "id!=bread"], "sort": "-id"}
    page = server.get(query_address(first, sample="moon/1", **filters)).text
    assert "1 of 1, filtered" in text_of(page)
    assert 'data-key="j"' not in page
    page = server.get(query_address(first, sample="bread", q="moon")).text
    assert "not in the filter (1 are), filtered" in text_of(page)
    assert re.search(r'id=moon%2F1&amp;q=moon" data-key="j"', page)
    reply = server.get(query_address(first, sample="bread", where="recall@1=~3"))
    assert reply.status == 400


ERRORS = [  # path, status, message
    ("/query?id=bread", 400, "run: 0 runs are given"),
    ("/query?run=A&run=B&run=C&id=bread", 400, "run: 3 runs are given"),
    ("/query?run=A", 400, "id: give the id of a sample"),
    ("/query?run=A&id=bread&repeat=x", 400, "repeat:"),
    ("/query?run=A&id=nowhere", 404, "nowhere"),
    ("/query?run=run_00000000000000000000000000&id=bread", 404, "no run"),
    ("/query/text?run=A&id=bread&part=document-9", 404, "part:"),
    ("/query/text?run=A&id=bread&part=%00", 404, "part:"),
    ("/query/text?run=A&id=nowhere&part=answer", 404, "no such sample"),
    ("/query/others?run=A&id=nowhere", 404, "no such sample"),
]


@pytest.mark.parametrize(("path", "status", "message"), ERRORS)
def test_errors(server: UiServer, path: str, status: int, message: str) -> None:
    reply = server.get(path.replace("=A", f"={run_ids(server)[0]}"))
    assert (reply.status, message in text_of(reply.text)) == (status, True), text_of(reply.text)


def test_one_sample_and_its_judgements_are_read_alone(server: UiServer) -> None:
    store = server.workbench.store
    record = store.get(run_ids(server)[0])
    assert sample_at(store, record, 1) == SAMPLES[1]
    assert [one.request for one in store.judgements(record.run_id, position=0)] == ["r1", "r2", "r3", "r5"]
    assert [one.request for one in store.judgements(record.run_id, position=1, failed=True)] == ["r4"]
    assert list(store.judgements(record.run_id, position=2)) == []


# --- the page in a browser -------------------------------------------------------------------------------------------


@pytest.mark.part("chromium")
def test_page_with_the_keyboard_alone(server: UiServer) -> None:
    first, second, hostile = run_ids(server)
    with chromium() as browser, workbench_page(browser, server, query_address(first, second)) as page:
        assert page.locator("#lines path.kept").count() == 1
        page.locator(".sentence").first.focus()
        assert page.locator("#document-A1.has-evidence").count() == 1
        page.locator(".sentence").nth(1).press("Enter")
        assert "nothing about penguins" in page.locator(".claims li.active").inner_text()
        assert page.locator(".sentence.active").inner_text() == "It carried seventeen penguins.✕"
        slider, figures = page.locator("#depth"), page.locator("#depth-figures")
        slider.focus()
        page.keyboard.press("End")
        assert figures.inner_text().split()[:8] == ["recall@3", "0.50", "→", "0.50", "nDCG@3", "0.61", "→", "0.31"]
        assert page.locator(".document.below").count() == 0
        page.keyboard.press("Home")
        assert figures.inner_text().split()[:8] == ["recall@1", "0.50", "→", "0.00", "nDCG@1", "1.00", "→", "0.00"]
        assert page.locator(".document.below").count() == 4
        assert page.url.endswith("&k=1")
        summary = page.locator("#document-B1 summary")
        summary.focus()
        before = page.locator("#lines path").get_attribute("d")
        page.keyboard.press("Enter")
        assert page.get_by_text("rank 2 in A").is_visible()
        page.wait_for_function(
            "(before) => document.querySelector('#lines path').getAttribute('d') !== before", arg=before
        )
        page.keyboard.press("e")
        assert page.locator(".document details[open]").count() == 6
        page.keyboard.press("e")
        assert page.locator(".document details[open]").count() == 0
        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.set_viewport_size({"width": 1280, "height": 900})
        page.keyboard.press("x")
        page.wait_for_url(f"**run={second}&run={first}*k=1")
        page.keyboard.press("j")
        page.wait_for_url("**id=bread*k=1")
        assert page.locator("#others[open]").count() == 1  # the run failed
        page.get_by_text("No other run of this dataset is stored.").wait_for()
        page.keyboard.press("j")
        page.wait_for_url("**id=long*")
        page.get_by_text("Show all 1,200,000 characters").press("Enter")
        page.locator(".text.whole .piece").first.wait_for()
        page.keyboard.press("k")
        page.wait_for_url("**id=bread*")
        page.goto(server.address + query_address(hostile, sample="image"))
        assert page.evaluate("window.pwned") is None


# --- gold that is not matched by id ----------------------------------------------------------------------------------

WAYS: dict[str, tuple[Match, Document, int | None, list[str]]] = {
    "by document, every chunk is gold": (
        "parent",
        Document("guide"),
        2,
        ["◆ guide", "rank 2, by document", "Rank 2: guide#0 ◆ gold", "gold by document"],
    ),
    "by text, the chunk that contains it is": (
        "text",
        Document("gold", ORION),
        3,
        ["◆ gold", "rank 3, by text", "Rank 2: guide#0 Apollo", "Rank 3: guide#1 ◆ gold", "gold by text"],
    ),
    "gold that is not found is named": ("text", Document("gold", LONG[:300]), None, ["✕ not in 3"]),
}


@pytest.mark.parametrize(("match", "gold", "rank", "shown"), WAYS.values(), ids=WAYS)
def test_gold_is_shown_as_the_run_matches_it(
    match: Match, gold: Document, rank: int | None, shown: list[str], tmp_path: Path
) -> None:
    documents = [("noise", NOISE, None), ("guide#0", APOLLO, "guide"), ("guide#1", ORION, "guide")]
    hits = [
        RetrievedDocument(Document(name, text, parent_id=parent), None, at)
        for at, (name, text, parent) in enumerate(documents, 1)
    ]
    sample = EvaluationSample("q", "How?", relevant_docs=[gold])
    rules = Conventions.of("auepora", match=match)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        runs = [
            run_system(
                lambda *_, top_k: SystemOutputs(hits), [sample], ["mrr"], store=store, name=name, conventions=rules
            ).record.run_id
            for name in ("a", "b")
        ]
        with ui_server(store) as server:
            page = server.get(query_address(runs[0], sample="q")).text
            two = text_of(server.get(query_address(*runs, sample="q")).text)
            others = server.get(query_address(runs[0], sample="q", path="/query/others")).text
            run_page = server.get(f"/runs/{runs[0]}").text
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))
    assert [one for one in shown if one not in text] == [], text
    assert (f"B rank {rank}, by" if rank else "B ✕ not in 3") in two
    assert (f"gold at rank {rank}" if rank else "no gold") in others
    assert "Gold is matched by" in run_page
