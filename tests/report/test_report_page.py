"""The report file of one, two and more runs, also with hostile or missing data."""

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

import auepora_eval
from auepora_eval import EvaluationSample, write_report
from auepora_eval.core.results import Results
from auepora_eval.core.types import MetricResult, SystemOutputs, TargetCategory
from auepora_eval.errors import BadValueError, UnknownRunError
from auepora_eval.render.blocks import PageFragment, Report, ReportVerdict
from auepora_eval.render.html import render_overview, render_page
from auepora_eval.report.browser import listing
from auepora_eval.store.records import RunRecord, RunStatus
from auepora_eval.store.runs import RunStore
from helpers.golden_runs import chunk, found, golden, put_run
from helpers.report_pages import HOSTILE, Page, hostile_run
from helpers.stored_runs import run, samples

pytestmark = pytest.mark.usefixtures("few_comparison_draws")

Auepora = Callable[..., tuple[int, str, str]]
METRICS = ["recall@5", "mrr", "ndcg@5", "token_f1", "exact_match", "failure_attribution@5", "mean_latency[end_to_end]"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def made(store: RunStore, *runs: str | RunRecord, tmp_path: Path, **options: Any) -> Page:
    path = write_report(list(runs), tmp_path / "report.html", store=store, **options)
    page = Page(path.read_text(encoding="utf-8"))
    page.require_sound()
    return page


def answers(shift: int) -> Callable[[int], str | list[str] | Exception]:
    """Right answers, wrong ones, documents at several ranks, and failures."""

    def answer(number: int) -> str | list[str] | Exception:
        place = (number + shift) % 10
        if place == 9:
            return TimeoutError("no answer within 3 s")
        if place < 5:
            return ["other-1"] * (place > 0) + [f"other-{n}" for n in range(2, place)] + ["gold"]
        return "yes" if place < 5 + shift else "no"

    return answer


def run_of(store: RunStore, name: str, shift: int = 0, n: int = 40, **options: object) -> RunRecord:
    return run(store, name, samples(n), answers(shift), METRICS, **options)


def by_name(store: RunStore, record: RunRecord) -> dict[str, MetricResult]:
    return {one.name: one for one in store.results(record.run_id)}


# --- content -------------------------------------------------------------------------------------------------------


LICENCES = [
    ("code MIT, data CC-BY-NC-4.0; for non-commercial use only", True, "restricted, so the verdict says it"),
    ("code MIT, data CC0", False, "free"),
]


@pytest.mark.parametrize(("licence", "noted", "why"), LICENCES, ids=[row[-1] for row in LICENCES])
def test_the_licence_of_a_benchmark_is_noted(
    store: RunStore, tmp_path: Path, licence: str, noted: bool, why: str
) -> None:
    records = [run_of(store, name, config={"benchmark": {"licence": licence}}) for name in ("first", "second")]
    for runs in (records[:1], records):
        page = made(store, *runs, tmp_path=tmp_path)
        assert page.text.count(f"Licence of the benchmark: {licence}.") == noted


def test_report_of_one_run(store: RunStore, tmp_path: Path) -> None:
    record = run_of(store, "nightly")
    page = made(store, record, tmp_path=tmp_path)
    results = by_name(store, record)
    token_f1 = results["token_f1"]
    assert token_f1.interval is not None
    low, high = token_f1.interval
    assert (
        f"token_f1 is {token_f1.value:.4f} (95 % interval {low:.4f} – {high:.4f}); 4 of 40 answers failed" in page.text
    )
    for result in results.values():
        assert f"{result.value:.4f}" in page.text
        assert result.signature is not None
        assert result.signature in page.text
    titles = [text.strip(" #") for level, text in page.headings if level == 2]
    assert titles == [
        "Scores",
        "Distributions",
        "Latency",
        "Retrieval over k",
        "Answers by retrieval rank",
        "Failures by cause",
        "What the numbers are",
        "Provenance",
    ]
    assert "4 failed by the system, counted at the worst value (raised)" in page.text
    assert f"{token_f1.details['value_completed']:.4f} over the queries that were answered" in page.text
    assert record.fingerprint in page.text


def test_comparison_of_two_runs(store: RunStore, tmp_path: Path) -> None:
    first, second = run_of(store, "before", n=80), run_of(store, "after", 3, n=80)
    page = made(store, first, second, tmp_path=tmp_path)
    values = [by_name(store, one)["exact_match"].value for one in (first, second)]
    assert values[0] < values[1]
    titles = [text.strip(" #") for level, text in page.headings if level == 2]
    assert titles[:4] == ["Differences", "Wins and losses", "What changed, query by query", "Retrieval or generation?"]
    assert "B (after) against A (before) is better on" in page.text
    # The verdict is next to the name, visible on every screen.
    assert "▲ better 0.0000 0.3000 +0.3000" in page.text
    assert "#q/q00004" in page.links
    assert "Distributions" in titles
    assert re.search(r"token_f1: A \d+, B \d+ queries\.", page.text)
    assert re.search(r"A: before: \d+ samples, mean", page.text)


@pytest.mark.slow
def test_page_with_part_of_the_queries(store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = run_of(store, "before"), run_of(store, "after", 3)
    monkeypatch.setattr(listing, "MAX_QUERIES", 39)
    monkeypatch.setattr(listing, "SAMPLE_SIZE", 10)
    pages = [
        write_report([first, second], tmp_path / name, store=store, all_queries=every).read_text(encoding="utf-8")
        for name, every in (("part.html", False), ("all.html", True))
    ]
    overviews = [text[text.index("<main") : text.index("</main>")] for text in pages]
    assert overviews[0] == overviews[1], "numbers are over all queries"
    lists = [
        json.loads(gzip.decompress(base64.b64decode(re.search('id="qb-list">([^<]*)<', text)[1])))  # type: ignore[index]
        for text in pages
    ]
    page = Page(pages[0])
    page.require_sound()
    linked = {link.removeprefix("#q/") for link in page.links if link.startswith("#q/")}
    assert 10 < len(linked) < 40
    assert linked == set(lists[0]["ids"]), "all that something links to, also above the size of a sample"
    assert f"The list below contains {len(linked)} of 40 queries: " in page.text
    assert lists[1]["count"] == 40


def test_baseline_comes_first(store: RunStore, tmp_path: Path) -> None:
    run_of(store, "one")
    run_of(store, "two")
    page = made(store, "one", tmp_path=tmp_path, baseline="two")
    assert page.headings[0] == (1, "one against two")


def test_three_runs_make_a_leaderboard(store: RunStore, tmp_path: Path) -> None:
    records = [run_of(store, name, shift, n=60) for name, shift in (("one", 0), ("two", 2), ("three", 4))]
    page = made(store, *records, tmp_path=tmp_path)
    assert page.headings[0] == (1, "3 runs against each other")
    assert "C (three) is first with" in page.text
    assert "Over the 60 queries that all runs have." in page.text
    assert "s/distributions" in page.ids


def test_constant_scores_are_listed_not_drawn(store: RunStore, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(store, name, samples(6), lambda number: ["gold"], ["recall@5", "mrr"])
    page = made(store, "one", "two", tmp_path=tmp_path)
    assert "The same on every query: recall@5 (1), mrr (1)." in page.text
    assert "recall@5: A" not in page.text


def test_runs_with_different_chunkers_are_matched_by_span(store: RunStore, tmp_path: Path) -> None:
    queries = [golden("q1", chunk("old-1", "doc", (0, 100)))]
    before = put_run(store, "old", queries, [found(chunk("old-1", "doc", (0, 100)))], config={"chunker_version": "c1"})
    after = put_run(store, "new", queries, [found(chunk("new-7", "doc", (10, 90)))], config={"chunker_version": "c2"})
    page = made(store, before, after, tmp_path=tmp_path)
    assert "have different chunks, so chunks are matched by where they lie" in page.text
    assert "Of 1 golden query: 0 wins, 0 losses, 1 draw, 0 regressions." in page.text


def test_plan_gates_are_checked(store: RunStore, tmp_path: Path) -> None:
    record = run_of(store, "nightly")
    gated = put_run(store, "gated", samples(2), [found("gold"), found("gold")], plan={"gates": ["recall@5 >= 0.99"]})
    store.put_results(gated.run_id, list(store.results(record.run_id)))
    page = made(store, gated, tmp_path=tmp_path)
    assert "Gates: 2 gates: 2 failed." in page.text
    assert "✗ failed" in page.text


def test_unreadable_gates_are_reported(store: RunStore, tmp_path: Path) -> None:
    plan = {"gates": ["recall@5 is splendid"]}
    for name in ("a", "b"):
        record = put_run(store, name, samples(2), [found("gold"), found("gold")], plan=plan)
        store.put_results(record.run_id, auepora_eval.evaluate(samples(2), [found("gold")] * 2, ["recall@5"]))
    one, two = made(store, "a", tmp_path=tmp_path), made(store, "a", "b", tmp_path=tmp_path)
    assert "The gates could not be checked: " in one.text
    assert "The gates of B could not be checked: " in two.text
    for page in (one, two):
        assert "The plan has gates that could not be checked: " in page.text
        assert "splendid" in page.text
        assert "s/gates" in page.ids


def test_judge_usage_is_shown(store: RunStore, tmp_path: Path) -> None:
    record = run_of(store, "judged")
    used = {
        "judgements": 1200,
        "calls": 900,
        "cached": 300,
        "failed": {"not_json": 7},
        "prompt_tokens": 5,
        "cost": 1.25,
    }
    store.add_usage(record.run_id, {"total": used, "metrics": {"quality": used}, "critics": {"gpt": used}})
    page = made(store, store.get(record.run_id), tmp_path=tmp_path)
    assert "1,200 900 300 7 5 0 1.25" in page.text
    assert "not_json 7" in page.text


# --- whatever the runs hold ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_hostile_run_names_are_escaped(store: RunStore, tmp_path: Path, count: int) -> None:
    records = [hostile_run(store, f"run{number}", shift=number) for number in range(count)]
    page = made(store, *records, tmp_path=tmp_path, title=HOSTILE[1])
    assert "window.pwned" not in "".join(page.code)
    assert HOSTILE[0] in page.text
    assert "turned \\u202eright to left\\u2066" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "w" * 1600 not in page.text
    assert page.elements["title"] == [HOSTILE[1]]


def broken(store: RunStore, kind: str) -> RunRecord:
    """A run about which there is little to say."""
    if kind == "no queries":
        return put_run(store, kind, [], [])
    if kind == "no results":
        return put_run(store, kind, samples(2), [found("gold"), found("gold")], status=RunStatus.STOPPED)
    if kind == "no outputs":
        return put_run(store, kind, samples(2), [None, None], status=RunStatus.FAILED)
    if kind == "all failed":
        return run(store, kind, samples(3), lambda _: ValueError("broken"), METRICS)
    record = put_run(store, kind, samples(2), [SystemOutputs([]), SystemOutputs([])])
    undefined = MetricResult("odd", TargetCategory.DIVERSITY, 0.0, {}, defined=False)
    bare = MetricResult("bare", TargetCategory.LATENCY, float("inf"), {})
    store.put_results(record.run_id, Results([undefined, bare]))
    return record


BROKEN = {
    "no queries": "no queries has no queries, so there is nothing to tell.",
    "no results": "no results has no results yet: 2 answers stored, no answer failed.",
    "no outputs": "The run is failed, with 0 of 2 answers stored",
    "all failed": "3 of 3 answers failed",
    "results without scores": "bare is",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_incomplete_runs_are_shown(store: RunStore, tmp_path: Path, kind: str) -> None:
    record = broken(store, kind)
    assert BROKEN[kind] in made(store, record, tmp_path=tmp_path).text
    assert BROKEN[kind].split()[0] in write_report(record, tmp_path / "r.md", store=store).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunStore, RunRecord, RunRecord]]:
    """Two good runs to compare broken ones with, in a store that tests share."""
    with RunStore.open(tmp_path_factory.mktemp("shared") / "runs.sqlite") as opened:
        yield opened, run_of(opened, "good", n=12), run_of(opened, "other", 2, n=12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_incomplete_runs_are_compared(
    two_runs: tuple[RunStore, RunRecord, RunRecord], tmp_path: Path, kind: str
) -> None:
    store, good, other = two_runs
    bad = broken(store, kind)
    for pair in ([good, bad], [bad, good], [good, bad, other]):
        assert made(store, *pair, tmp_path=tmp_path).text


def test_runs_without_common_query(store: RunStore, tmp_path: Path) -> None:
    other = [EvaluationSample("elsewhere", "what?", relevant_docs=[])]
    first, second = run_of(store, "one"), put_run(store, "two", other, [found("gold")])
    page = made(store, first, second, tmp_path=tmp_path)
    assert "These runs cannot be compared" in page.text


@pytest.mark.parametrize(("css", "script"), [("</style>", ""), ("", "a = '</SCRIPT >'")], ids=["style", "script"])
def test_fragment_that_closes_its_element_is_rejected(css: str, script: str) -> None:
    with pytest.raises(BadValueError, match="contains its own closing tag"):
        render_page(Report("t", "s", ReportVerdict("v")), Markup(""), PageFragment(Markup(""), css, script, []))


def test_data_cannot_close_its_script_element() -> None:
    data = [("d", "application/json", '["</script><script>alert(1)</script>"]')]
    report = Report("t", "s", ReportVerdict("v"))
    page = Page("".join(render_page(report, render_overview(report), PageFragment(Markup(""), "", "", data))))
    assert len(page.code) == 1
    (element,) = [one for one in page.elements["script"] if one.startswith("data ")]
    assert json.loads(element.removeprefix("data application/json")) == ["</script><script>alert(1)</script>"]


# --- as a file, on the command line, in plans --------------------------------------------------------------------------


def test_markdown_report(store: RunStore, tmp_path: Path) -> None:
    first, second = run_of(store, "before", n=80), run_of(store, "after", 3, n=80)
    text = write_report([first, second], tmp_path / "report.md", store=store).read_text(encoding="utf-8")
    value = by_name(store, second)["token_f1"].value
    assert text.startswith("# after against before\n")
    assert f"| {value:.4f} |" in text
    assert "### Regressions: found in A, not in B" in text
    assert "| Retrieval relevance | recall@5 |" in text


@pytest.mark.slow
def test_report_of_200_queries_is_small(store: RunStore, tmp_path: Path) -> None:
    records = [run_of(store, name, shift, n=200) for name, shift in (("one", 0), ("two", 3))]
    path = write_report(records, tmp_path / "report.html", store=store)
    assert path.stat().st_size < 2_000_000


def test_report_command_writes_latest_run(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Auepora
) -> None:
    run_of(store, "older")
    run_of(store, "newer")
    monkeypatch.chdir(tmp_path)
    assert auepora("report") == (0, "", "wrote report.html\n")
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).headings[0] == (1, "newer")
    assert auepora("report", "newer", "--baseline", "older", "-o", "r.md", "--title", "Mine")[0] == 0
    assert (tmp_path / "r.md").read_text(encoding="utf-8").startswith("# Mine\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nonsense"], "nonsense", id="a run that is not there"),
        pytest.param(["one", "one"], "is listed twice", id="the same run twice"),
        pytest.param(["one", "-o", "runs.sqlite"], "runs.sqlite", id="over the store"),
        pytest.param(["one", "-o", "no/such/folder.html"], "no/such", id="into a folder that is not there"),
    ],
)
def test_report_command_errors(
    store: RunStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    auepora: Auepora,
    arguments: list[str],
    message: str,
) -> None:
    run_of(store, "one")
    monkeypatch.chdir(tmp_path)
    code, _, err = auepora("report", *arguments)
    assert code == 2
    assert message in err
    assert not (tmp_path / "report.html").exists()


def test_write_report_errors(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="name a run"):
        auepora_eval.write_report([], tmp_path / "r.html", store=store)
    with pytest.raises(UnknownRunError):
        auepora_eval.write_report("nonsense", tmp_path / "r.html", store=store)
