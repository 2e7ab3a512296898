"""The page of a run: its numbers, links that filter, derivations, sections, the report, and runs that lack something."""

import re
from collections.abc import Iterator, Sequence
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.types import GOLD_BY
from auepora_eval.queries.columns import RunColumns
from auepora_eval.queries.filters import SampleFilter
from auepora_eval.queries.table import QueryTable
from auepora_eval.report.pages import write_report
from auepora_eval.store.records import RunStatus, StoredOutput
from auepora_eval.store.runs import RunStore, decisions
from auepora_eval.ui.run_tabs import TABS, _band_ends
from helpers.report_pages import HOSTILE, Page, hostile_run
from helpers.run_page_runs import answer, mixed_run, questions
from helpers.stored_runs import run, scored
from helpers.ui_server import UiServer, ui_server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunStore]:
    with RunStore.open(tmp_path_factory.mktemp("store") / "runs.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(store: RunStore) -> Iterator[UiServer]:
    with ui_server(store) as running:
        yield running


@pytest.fixture(scope="module")
def run_id(store: RunStore) -> str:
    return mixed_run(store)


def conditions(html: str) -> dict[str, str]:
    """The text of each link that filters, by its condition."""
    found = re.findall(r'<a [^>]*data-where="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
    return {unescape(where): unescape(re.sub(r"<title>.*?</title>|<[^>]*>", "", text)) for where, text in found}


def count_of(store: RunStore, run_id: str, condition: str) -> int:
    """How many queries the list shows under a condition."""
    return len(SampleFilter.parse(where=[condition]).rows(QueryTable([RunColumns(store, store.get(run_id))])))


def test_every_count_of_the_page_is_the_number_of_queries_that_its_link_shows(
    server: UiServer, store: RunStore, run_id: str
) -> None:
    reply = server.get(f"/runs/{run_id}")
    assert reply.status == 200
    links = conditions(reply.text)
    assert links["recall@2!=skipped"] == "20"  # the failed answer counts
    assert links["mean_latency[end_to_end]=scored"] == "19"
    assert links["token_f1!=scored"] == "3, 2 reasons"
    assert 'title="2 no reference, 1 failed: error"' in reply.text
    assert links["recall@2=failed:error"] == "1 failed: error"
    for where, text in links.items():
        if where.startswith("label."):
            continue  # the name of a group
        expected = int(re.search(r"\d+", text)[0])  # type: ignore[index]
        assert count_of(store, run_id, where) == expected, (text, where)


def test_the_bar_has_the_causes_with_words_and_counts(server: UiServer, run_id: str) -> None:
    html = server.get(f"/runs/{run_id}").text
    causes = {where: text for where, text in conditions(html).items() if where.startswith("cause=")}
    # 18 of 20 questions have a reference; every fifth answer is right, and number 9 failed instead of a wrong answer.
    counts = {"below-cut": 4, "retriever": 3, "refused": 3, "generator": 2, "dropped": 1, "failed": 1}
    assert {where: text.split()[-1] for where, text in causes.items()} == {
        f"cause={word}": str(count) for word, count in counts.items()
    }
    assert causes["cause=below-cut"] == "below the cut 4"
    widths = re.findall(r'<svg x="([\d.]+)%" width="([\d.]+)%"', html)
    assert sum(float(width) for _, width in widths) == pytest.approx(100, abs=0.01)
    assert [float(x) for x, _ in widths] == sorted(float(x) for x, _ in widths)
    assert server.get(f"/runs/{run_id}/sections/head").text.strip() in html


def test_a_number_opens_its_derivation_and_then_its_samples(server: UiServer, run_id: str) -> None:
    page = server.get(f"/runs/{run_id}").text
    drawer = next(unescape(one) for one in re.findall(r'data-drawer="([^"]*)"', page) if "token_f1" in one)
    fragment = server.get(drawer, sec_fetch_dest="empty")
    assert fragment.status == 200
    assert "<html" not in fragment.text
    assert "From scores to the value" in fragment.text
    assert conditions(fragment.text)["token_f1=skipped"] == "2 queries skipped"
    query = next(unescape(one) for one in re.findall(r'href="([^"]*)"', fragment.text) if one.startswith("/query?"))
    assert parse_qs(urlsplit(query).query)["run"] == [run_id]
    one = next(unescape(each) for each in re.findall(r'data-drawer="([^"]*)"', fragment.text) if "sample=" in each)
    derived = server.get(one.replace("&fragment=1", ""))
    assert derived.status == 200
    assert "<html" in derived.text
    assert "computed again, it is equal to the last digit" in derived.text


def test_every_tab_has_an_address_and_charts_have_their_scale(server: UiServer, run_id: str) -> None:
    page = server.get(f"/runs/{run_id}?tab=metrics&where=rank<=2").text
    tabs = dict(re.findall(r'<a href="([^"]*)" data-tab="(\w+)"', page))
    assert list(tabs.values()) == list(TABS)
    assert all("where=rank%3C%3D2" in one for one in tabs)  # a tab keeps the filter
    parts = {name: server.get(f"/runs/{run_id}/sections/{name}?fragment=1").text for name in TABS}
    for address, name in tabs.items():
        whole = server.get(unescape(address).partition("&")[0]).text
        assert f'data-tab="{name}" aria-current="true"' in whole
        if name not in ("queries", "gates"):  # the list of a page waits for all outputs
            assert parts[name].strip()[-500:] in whole, name
    scales = {name: re.findall(r'data-scale="([^"]*)"', part) for name, part in parts.items()}
    assert {name for name, found in scales.items() if found} == {"retrieval", "slices", "distributions", "latency"}
    assert '"field": "seconds"' in unescape(scales["latency"][0])
    assert conditions(parts["slices"])['label.kind=h"=a<rd'] == 'h"=a<rd'
    assert conditions(parts["metrics"])['label.kind=h"=a<rd'] == 'h"=a<rd'
    assert "no gates" in parts["gates"]
    assert "No judge" in parts["judges"]
    ids = [one for part in parts.values() for one in re.findall(r' id="(chart-[^"]*)"', part)]
    assert len(ids) == len(set(ids)) > 10
    assert server.get(f"/runs/{run_id}?tab=scores").status == 400
    assert "2 of 20 queries" in server.get(f"/runs/{run_id}?where=token_f1=skipped").text


def test_another_metric_by_group_is_chosen_by_the_address(server: UiServer, run_id: str) -> None:
    chosen = server.get(f"/runs/{run_id}/sections/metrics?metric=recall@2").text
    assert "recall@2 by kind" in chosen
    assert "token_f1 by kind" in server.get(f"/runs/{run_id}").text


BANDS = {  # the label of a band, the values that it has
    "4–5": (4, 5),
    "> 50": (51, None),
    "not returned": (None, None),
    "0.25": (0.25, 0.25),
    "−2": (-2, -2),
    "1e+7": (1e7, 1e7),
    "0.208333": (0.20833092, 0.20833508),  # rounded to six digits
}


@pytest.mark.parametrize(("label", "ends"), BANDS.items())
def test_the_values_of_a_band(label: str, ends: tuple[float | None, float | None]) -> None:
    assert _band_ends(label) == ends


def test_a_band_that_is_rounded_contains_its_value() -> None:
    low, high = _band_ends("0.333333")
    assert low is not None
    assert high is not None
    assert low < 1 / 3 < high < 0.34


def test_the_report_is_the_file_of_the_command(
    server: UiServer, store: RunStore, run_id: str, tmp_path: object
) -> None:
    reply = server.get(f"/runs/{run_id}/report.html")
    assert reply.headers["content-disposition"] == 'attachment; filename="report-mixed.html"'
    written = write_report(run_id, f"{tmp_path}/report.html", store=store).read_text(encoding="utf-8")
    clock = re.compile(r"made [\d-]+ [\d:]+ UTC")
    assert clock.sub("", reply.text) == clock.sub("", written)


BAD = {  # the rest of the address: status, and a part of the message
    "/sections/scatter": (400, "choose one of: metrics"),
    "/derivation": (400, "needs the parameter &#39;metric&#39;"),
    "/derivation?metric=token_f2": (400, "token_f1"),
    "/derivation?metric=token_f1&sample=q1": (400, "no sample"),
}


@pytest.mark.parametrize(("rest", "expected"), BAD.items())
def test_a_bad_address_is_a_clear_page(server: UiServer, run_id: str, rest: str, expected: tuple[int, str]) -> None:
    reply = server.get(f"/runs/{run_id}{rest}")
    assert reply.status == expected[0]
    assert expected[1] in reply.text


@pytest.mark.parametrize("rest", ["", "/sections/latency", "/derivation?metric=recall@2", "/report.html"])
def test_an_unknown_run_is_not_found(server: UiServer, rest: str) -> None:
    assert server.get(f"/runs/nothing{rest}").status == 404


def test_a_run_without_gold_is_offered_ways_to_get_some(server: UiServer, store: RunStore) -> None:
    without = [EvaluationSample("q00001", "what?"), EvaluationSample("q00002", "who?")]
    found = run(store, "no gold", without, lambda _: ["a"], ["empty_result_rate"])
    page = server.get(f"/runs/{found.run_id}").text
    assert "names no relevant documents" in page
    html = server.get(f"/runs/{found.run_id}?tab=retrieval").text
    commands = [unescape(one) for one in re.findall(r'data-copy="([^"]*)"', html)]
    assert [one.split()[:3] for one in commands] == [
        ["auepora", "pool", found.run_id],
        ["auepora", "judge", "relevance"],
        ["auepora", "rescore", found.run_id],
        ["auepora", "label", found.run_id],
        ["auepora", "judge", "calibrate"],
        ["auepora", "rescore", found.run_id],
    ]
    assert "<figure" not in html
    graded = [
        EvaluationSample(one.sample_id, one.query, [Document("a")], metadata={GOLD_BY: {"human": 1}}) for one in without
    ]
    with_gold = run(store, "graded", graded, lambda _: ["a"], ["recall@1"])
    store.put_results(found.run_id, store.results(with_gold.run_id))  # as `auepora rescore --qrels` does
    for run_id in (found.run_id, with_gold.run_id):
        assert "names no relevant documents" not in server.get(f"/runs/{run_id}").text


def rule_run(store: RunStore, name: str, texts: Sequence[str], rule: float) -> str:
    """A run whose wrong answers are those below a threshold; every second question has gold in the context."""
    asked = [
        EvaluationSample(
            f"q{number}", "what?", relevant_docs=[Document("gold")], reference_answer=Response("b c d e f g h i j k")
        )
        for number in range(len(texts))
    ]

    def answer_of(number: int) -> SystemOutputs:
        found = [RetrievedDocument(Document("other" if number % 2 else "gold"), 1.0, 1)]
        return SystemOutputs(found, Response(texts[number]))

    metric = {"failure_attribution@5": {"correct": "token_f1", "correct_from": rule}}
    return run(store, name, asked, answer_of, ["token_f1", metric]).run_id


SENTENCES = {  # the answers in turn, with gold in the context and without; the threshold; the end of the sentence
    "steady": (["x", "b c d e f", "x"], 0.3, "the generator is the first thing to work on, by any threshold from"),
    # token_f1 of three words of ten is 0.46, of one 0.18; answers with three words have no gold in the context.
    "another cause": (
        ["b", "b c d", "b", "b c d", "x", "b c d", "x", "b c d", "x", "b c d", "b c d e f g", "b c d"],
        0.4,
        "the generator is the first thing to work on; with a threshold of 0.5 it would be the retriever.",
    ),
    "zero or one": (["x", "b c d e f g h i j k"], 0.3, "the generator is the first thing to work on."),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_sentence_has_the_threshold_and_what_another_would_change(
    server: UiServer, store: RunStore, name: str
) -> None:
    texts, rule, end = SENTENCES[name]
    html = server.get(f"/runs/{rule_run(store, name, texts, rule)}").text
    sentence = re.sub(r"<[^>]*>", "", re.search(r'<p class="run-sentence.*?</p>', html, re.DOTALL)[0])  # type: ignore[index]
    assert f"wrong (token_f1 below {rule:g})" in sentence
    assert end in sentence


def test_tiles_are_primaries_then_guardrails_then_latency(server: UiServer, store: RunStore) -> None:
    names = [
        "token_f1",
        "recall@1",
        "hallucination_rate",
        "exact_match",
        "mean_latency[end_to_end]",
        "mrr",
        "hit_rate@1",
    ]
    plan = {"primary": ["recall@1", "exact_match"], "guardrails": {"mrr": 0.02}}
    record = scored(store, "tiles", questions(), {name: [0.5] * 20 for name in names}, plan=plan)
    tiles = re.findall(r'<span class="tile-name"><bdi>([^<]*)', server.get(f"/runs/{record.run_id}").text)
    assert tiles == ["recall@1", "exact_match", "mrr", "mean_latency[end_to_end]"]
    plan = {"primary": names[:4], "guardrails": dict.fromkeys(names[5:], 0.02)}
    record = scored(store, "many tiles", questions(), {name: [0.5] * 20 for name in names}, plan=plan)
    tiles = re.findall(r'<span class="tile-name"><bdi>([^<]*)', server.get(f"/runs/{record.run_id}").text)
    assert tiles == [*names[:4], "mrr", "mean_latency[end_to_end]"]


@pytest.mark.slow
def test_a_run_without_causes_has_no_bar(server: UiServer, store: RunStore) -> None:
    texts = {"token_f1": "-m failure_attribution@5</code>", "failure_attribution@5": "No answer is wrong by failure"}
    for place, text in enumerate(texts.values(), 1):
        run_id = run(store, "right", questions(), lambda _: "yes", list(texts)[:place]).run_id
        page = server.get(f"/runs/{run_id}").text
        assert text in page
        assert "cause-bar" not in page


def test_the_page_of_an_unfinished_run_shows_how_to_continue(server: UiServer, store: RunStore) -> None:
    record = store.create_run("half", questions(), dataset_name="made", plan={})
    store.append(record.run_id, [StoredOutput(0, 0, "q00000", answer(0))])
    running = server.get(f"/runs/{record.run_id}").text
    assert "in progress: 1 of 20 answers are stored." in running
    assert 'href="/live"' in running
    store.finish(record.run_id, RunStatus.STOPPED, message="<b>too many</b> failures")
    stopped = server.get(f"/runs/{record.run_id}").text
    assert "stopped early (&lt;b&gt;too many&lt;/b&gt; failures)" in stopped
    assert f"--resume --run {record.run_id}" in stopped


@pytest.mark.slow
def test_hostile_texts_stay_texts(server: UiServer, store: RunStore) -> None:
    record = hostile_run(store, '<img src=x onerror="alert(1)">')
    base = f"/runs/{quote(record.run_id, safe='')}"
    page = server.get(base)
    metric = quote(HOSTILE[1], safe="")
    parts = [page, server.get(f"{base}/derivation?metric={metric}")]
    parts += [server.get(f"{base}/sections/{name}") for name in (*TABS, "head")]
    for part in parts:
        assert part.status == 200
        taken = Page(part.text)
        assert taken.tags.count("script") <= 4
        assert not [one for one in taken.attributes if one[1].startswith("on") or one[1] == "style"]
        assert "<img" not in part.text


def test_gates_are_recorded_by_a_post(server: UiServer, store: RunStore) -> None:
    plan = {"gates": ["not worse(token_f1)"]}
    before, after = (
        scored(store, "gated", questions(), {"token_f1": [value] * 20}, plan=plan) for value in (0.5, 0.75)
    )
    html = server.get(f"/runs/{after.run_id}/sections/gates").text
    assert "token_f1" in html
    assert server.get(f"/runs/{after.run_id}").status == 200
    assert decisions(store, run_id=after.run_id) == []
    (address,) = re.findall(r'data-record="([^"]*)"', html)
    assert server.post(unescape(address)).json() == {"recorded": True}
    assert [(one.kind, one.runs) for one in decisions(store, run_id=after.run_id)] == [
        ("gate", (before.run_id, after.run_id))
    ]
