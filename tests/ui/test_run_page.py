"""The page of a run: its numbers, links that filter, derivations, sections, the report, and runs that lack something."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from auepora_eval import Document, EvaluationSample
from auepora_eval.compare.columns import RunColumns
from auepora_eval.compare.filters import SampleFilter
from auepora_eval.compare.query_table import QueryTable
from auepora_eval.core.types import GOLD_BY
from auepora_eval.report.pages import write_report
from auepora_eval.store.records import RunStatus, StoredOutput
from auepora_eval.store.runs import RunStore, decisions
from auepora_eval.ui.run_page import SECTIONS, _band_ends
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
    assert links["token_f1=scored"] == "17 of 20"
    assert links["token_f1=skipped:no_reference"] == "2 skipped: no_reference"
    assert links["recall@2=failed:error"] == "1 failed: error"
    for where, text in links.items():
        expected = int(re.search(r"\d+", text)[0])  # type: ignore[index]
        assert count_of(store, run_id, where) == expected, (text, where)


def test_the_bar_has_the_causes_with_words_and_counts(server: UiServer, run_id: str) -> None:
    html = server.get(f"/runs/{run_id}").text
    causes = {where: text for where, text in conditions(html).items() if where.startswith("cause=")}
    # 18 of 20 questions have a reference; every fifth answer is right, and number 9 failed instead of a wrong answer.
    assert set(causes) == {
        f"cause={one}" for one in ("retriever", "dropped", "below-cut", "refused", "generator", "failed")
    }
    assert causes["cause=retriever"].startswith("retriever: 3 (")
    assert causes["cause=dropped"].startswith("dropped: 1 (")
    assert causes["cause=below-cut"].startswith("below the cut: 4 (")
    widths = re.findall(r'<svg x="([\d.]+)%" width="([\d.]+)%"', html)
    assert sum(float(width) for _, width in widths) == pytest.approx(100, abs=0.01)
    assert [float(x) for x, _ in widths] == sorted(float(x) for x, _ in widths)
    assert server.get(f"/runs/{run_id}/sections/causes").text.strip() in html


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


def test_every_section_is_there_and_charts_have_their_scale(server: UiServer, run_id: str) -> None:
    page = server.get(f"/runs/{run_id}").text
    names = re.findall(rf'data-fragment="/runs/{run_id}/sections/([^"]*)"', page)
    assert names == ["curves", "quality", "slices", "distributions", "latency", "failures", "cards", "provenance"]
    parts = {name: server.get(f"/runs/{run_id}/sections/{name}").text for name in names}
    assert all("<" in part for part in parts.values())
    scales = {name: re.findall(r'data-scale="([^"]*)"', part) for name, part in parts.items()}
    assert {name for name, found in scales.items() if found} == {"quality", "slices", "distributions", "latency"}
    assert '"field": "seconds"' in unescape(scales["latency"][0])
    assert conditions(parts["slices"])['label.kind=h"=a<rd'] == 'h"=a<rd'
    ids = [one for part in parts.values() for one in re.findall(r' id="(chart-[^"]*)"', part)]
    assert len(ids) == len(set(ids)) > 10


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
    "/sections/scatter": (400, "choose one of: gates"),
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
    html = server.get(f"/runs/{found.run_id}").text
    commands = [unescape(one) for one in re.findall(r'data-copy="([^"]*)"', html)]
    assert [one.split()[:3] for one in commands] == [
        ["auepora", "pool", found.run_id],
        ["auepora", "judge", "relevance"],
        ["auepora", "rescore", found.run_id],
        ["auepora", "label", found.run_id],
        ["auepora", "judge", "calibrate"],
        ["auepora", "rescore", found.run_id],
    ]
    assert "/sections/latency" in html
    assert "/sections/curves" not in html
    graded = [
        EvaluationSample(one.sample_id, one.query, [Document("a")], metadata={GOLD_BY: {"human": 1}}) for one in without
    ]
    with_gold = run(store, "graded", graded, lambda _: ["a"], ["recall@1"])
    store.put_results(found.run_id, store.results(with_gold.run_id))  # as `auepora rescore --qrels` does
    for run_id in (found.run_id, with_gold.run_id):
        assert "No gold documents" not in server.get(f"/runs/{run_id}").text


@pytest.mark.slow
def test_a_run_without_causes_has_no_bar(server: UiServer, store: RunStore) -> None:
    texts = {"token_f1": "-m failure_attribution@5</code>", "failure_attribution@5": "No answer is wrong by failure"}
    for place, text in enumerate(texts.values(), 1):
        run_id = run(store, "right", questions(), lambda _: "yes", list(texts)[:place]).run_id
        page = server.get(f"/runs/{run_id}").text
        assert text in page
        assert "cause-bar" not in page
        assert server.get(f"/runs/{run_id}/sections/causes").status == 400


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
    parts += [server.get(f"{base}/sections/{name}") for name in SECTIONS]
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
