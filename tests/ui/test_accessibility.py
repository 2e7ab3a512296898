"""Every page in a real browser: names, headings, focus, contrast and width; and hostile texts, which execute nothing."""

import re
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.labels.batch_plans import BatchOptions, create_batch
from auepora_eval.labels.queue import LabelQueue
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.runs import RunStore
from auepora_eval.ui.batch_planners import plan_batch
from helpers import browser_runs, report_pages, stored_runs
from helpers.accessibility import (
    PHONE_WIDTH,
    SCRIPT,
    axe_problems,
    axe_script,
    covered_on_a_phone,
    find_problems,
    load_all,
    tab_problems,
    target_problems,
)
from helpers.requirements import REPO, need
from helpers.ui_server import UiServer, ui_server, workbench_page

METRICS = ["recall@5", "mrr", "token_f1", "failure_attribution", "mean_latency[end_to_end]"]
PLAN = "version: 1\ndataset: data.jsonl\nsystem: {outputs: outputs.jsonl}\nmetrics: [recall@5]\n"
TABBED_PAGES = ("runs", "comparison", "query in two runs", "label")
AXE_PAGES = (
    "runs",
    "run",
    "run, queries",
    "run, slices",
    "run, retrieval",
    "run, failures",
    "run, provenance",
    "comparison",
    "leaderboard",
    "queries",
    "query",
    "query in two runs",
    "query with open documents",
    "failed query",
    "review",
    "derivation",
    "batches",
    "form of a batch",
    "batch",
    "closed batch",
    "items",
    "start of labelling",
    "label",
    "gold",
    "proposal",
    "live",
    "plans",
    "plan",
    "failure groups",
)
PHONE = {"width": PHONE_WIDTH, "height": 800}
# What a text would add to the page if it were not escaped: elements, handlers, and links that run a script.
FOREIGN_ELEMENTS = """
[...document.querySelectorAll("main script:not([type='application/json']), main img, main iframe, main style, b, [onload], [onerror], [onmouseover]")]
  .concat([...document.querySelectorAll("a, form")].filter((one) => /^(javascript|data):/i.test(one.href || one.action || "")))
  .map((one) => one.outerHTML.slice(0, 200)).concat(window.pwned === undefined ? [] : ["executed"])
"""
# Options of commands in the text of a page, outside of commands to copy, plans and signatures.
OPTIONS = """() => {
  const text = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(".command, pre, .source, bdi")) text.push(walker.currentNode.data);
  return text.filter((one) => /(^|[^\\w-])--[a-z]/.test(one)).map((one) => `option in a text: ${one.trim().slice(0, 200)}`);
}"""
HOSTILE_NAME = "<img src=x onerror=alert(1)>.yaml"


def samples() -> list[EvaluationSample]:
    return [
        EvaluationSample(
            f"q{number:05}",
            f"Which rule applies to case {number}?",
            relevant_docs=[Document(f"rule-{number}", f"Rule {number} applies to case {number}.")],
            reference_answer=Response(f"Rule {number}"),
            labels={"topic": ("billing", "travel")[number % 2]},
            history=[{"role": "user", "content": "I have a question."}] if number == 0 else [],
        )
        for number in range(12)
    ]


def answer(number: int, *, shift: int) -> SystemOutputs | Exception:
    """The output of a system whose errors depend on the number of the question."""
    if number == 11:
        return TimeoutError("no answer after 3 s")
    first = number + (shift if number % 3 == 0 else 0)
    ranked = [
        RetrievedDocument(Document(f"rule-{one}", f"Rule {one} applies to case {one}."), 1 / rank, rank)
        for rank, one in enumerate((first, first + 1, number), 1)
    ]
    text = f"Rule {first} applies to case {number}, version {shift}."
    return SystemOutputs(
        ranked,
        Response(text, sentences=[{"text": text, "citations": [f"rule-{first}"]}]),
        {"end_to_end": 0.1 * (number + 1)},
        citations=[f"rule-{first}"],
        steps=[{"query": f"case {number}", "retrieved": [f"rule-{first}"]}],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of ordinary and hostile runs, and plans of both kinds."""
    folder = tmp_path_factory.mktemp("workbench")
    (folder / "plan.yaml").write_text(PLAN)
    (folder / HOSTILE_NAME).write_text(f"{PLAN}gates: ['<script>alert(1)</script> > 2']\n")
    return folder


@pytest.fixture(scope="module")
def run_ids(folder: Path) -> dict[str, str]:
    with RunStore.open(folder / "runs.sqlite") as store:
        dataset = samples()
        ids = {
            name: stored_runs.run(store, name, dataset, partial(answer, shift=shift), METRICS, tags=["nightly"]).run_id
            for name, shift in (("before", 4), ("after", 0), ("other", 1))
        }
        running = store.create_run("running", dataset, dataset_name="rules", plan={"metrics": ["recall@5"]})
        rows = [StoredOutput(0, 0, "q00000", SystemOutputs([], error="TimeoutError: <b>late</b>"))]
        store.append(running.run_id, rows)
        ids["running"] = running.run_id
        ids["hostile texts"] = browser_runs.hostile_run(store).run_id
        for shift in (0, 1):
            ids[f"hostile names {shift}"] = report_pages.hostile_run(
                store, f"<img src=x onerror=alert({shift})> {'n' * 300}", shift=shift
            ).run_id
    return ids


@pytest.fixture(scope="module")
def batch_ids(folder: Path, run_ids: dict[str, str]) -> dict[str, str]:
    """Batches of ordinary and of hostile runs: open, closed, and with labels that differ."""
    hostile = report_pages.HOSTILE[0]
    ordinary: dict[str, Any] = {
        "metric": "token_f1",
        "annotators": 2,
        "title": "Release",
        "instructions": "Compare with the rule.",
    }
    texts: dict[str, Any] = {"annotators": 2, "title": hostile, "instructions": hostile, "created_by": hostile}
    options = {
        "open": BatchOptions("compare", (run_ids["before"], run_ids["after"]), n=10, **ordinary),
        "closed": BatchOptions("calibrate", (run_ids["before"],), n=10, **ordinary),
        "hostile": BatchOptions("calibrate", (run_ids["hostile texts"],), shown=("documents", "reference"), **texts),
        "hostile closed": BatchOptions("calibrate", (run_ids["hostile texts"],), **texts),
    }
    ids = {}
    with RunStore.open(folder / "runs.sqlite") as store:
        for name, one in options.items():
            batch = create_batch(folder / "labels", plan_batch(store, one))
            queue, ids[name] = LabelQueue(batch, store), batch.id
            people = (hostile, f"{hostile} 2") if name.startswith("hostile") else ("ann", "bob")
            for number in range(1, len(batch.items)):
                for place, who in enumerate(people):
                    value = batch.choices[place if number % 3 == 0 else 0].name
                    queue.submit(who, number, [value], comment=hostile * (number % 2), submission=f"{who} {number}")
            queue.skip(people[0], len(batch.items), hostile, submission="skip")
            if name.endswith("closed"):
                queue.close(hostile)
    return ids


def address(path: str, /, **parameters: Any) -> str:
    return f"{quote(path)}?{urlencode(parameters, doseq=True)}"


def ordinary_pages(run: dict[str, str], batch: dict[str, str]) -> dict[str, str]:
    a, b, other = run["before"], run["after"], run["other"]
    return {
        "batches": "/batches",
        "new batch": "/batches/new",
        "form of a batch": address("/batches/new", purpose="compare", run=[a, b], metric="token_f1"),
        "batch": f"/batches/{batch['open']}",
        "closed batch": f"/batches/{batch['closed']}",
        "items": f"/batches/{batch['closed']}/items",
        "start of labelling": f"/label/{batch['open']}",
        "label": address(f"/label/{batch['open']}/item", **{"as": "eve"}),
        "adjudication": address(f"/label/{batch['open']}/item", adjudicate=1, **{"as": "eve"}),
        "end of labelling": address(f"/label/{batch['closed']}/item", **{"as": "ann"}),
        "gold": "/gold",
        "proposal": address("/gold/propose", run=a, id="q00000"),
        "review": address("/review", run=a),
        "runs": "/runs",
        "run": f"/runs/{a}",
        "run, queries": f"/runs/{a}?tab=queries",
        "run, slices": f"/runs/{a}?tab=slices",
        "run, retrieval": f"/runs/{a}?tab=retrieval",
        "run, failures": f"/runs/{a}?tab=failures",
        "run, provenance": f"/runs/{a}?tab=provenance",
        "derivation": address(f"/runs/{a}/derivation", metric="recall@5"),
        "comparison": address("/compare", run=[a, b]),
        "leaderboard": address("/compare", run=[a, b, other]),
        "queries": address("/queries", run=[a, b], where="recall@5>=0"),
        "failure groups": address("/queries/groups", run=[a, b]),
        "query": address("/query", run=a, id="q00000"),
        "query in two runs": address("/query", run=[a, b], id="q00003"),
        "query with open documents": address("/query", run=[a, b], id="q00003", open="all", k=1),
        "failed query": address("/query", run=[a, b], id="q00011"),
        "whole text": address("/query/text", run=a, id="q00000", part="document-1"),
        "live": "/live",
        "plans": "/plans",
        "plan": address("/plans/view", path="plan.yaml"),
        "stored plan": address("/plans/view", run=a),
        "error": "/runs/unknown",
    }


def hostile_pages(run: dict[str, str], batch: dict[str, str]) -> dict[str, str]:
    texts, a, b = run["hostile texts"], run["hostile names 0"], run["hostile names 1"]
    name = report_pages.HOSTILE[0]
    item = f"/label/{batch['hostile']}/item"
    return {
        "batches": "/batches",
        "form of a batch": address("/batches/new", purpose="compare", run=[a, b], metric=report_pages.HOSTILE[1]),
        "batch": f"/batches/{batch['hostile']}",
        "closed batch": f"/batches/{batch['hostile closed']}",
        "items": f"/batches/{batch['hostile closed']}/items",
        "start of labelling": address(f"/label/{batch['hostile']}", **{"as": name}),
        **{f"item {number}": address(item, item=number, **{"as": name}) for number in (1, 4, 7, 10)},
        "adjudication": address(item, adjudicate=1, **{"as": name}),
        "gold": "/gold",
        "proposal": address("/gold/propose", run=texts, id="image"),
        "review": address("/review", run=texts),
        "runs": address("/runs", q="<script>", where=f"tag={report_pages.HOSTILE[0]}", metric=report_pages.HOSTILE[1]),
        "run": f"/runs/{texts}",
        "run with hostile metrics": address(f"/runs/{a}"),
        "derivation": address(f"/runs/{a}/derivation", metric=report_pages.HOSTILE[1]),
        "comparison": address("/compare", run=[a, b]),
        "queries": address("/queries", run=texts, q='<img "'),
        "queries with a condition": address("/queries", run=[a, b], where=f'label.kind="{report_pages.HOSTILE[4]}"'),
        "failure groups": address("/queries/groups", run=[a, b], correct=name),
        **{f"query {key}": address("/query", run=texts, id=key) for key in ("image", "long", "hash/?#%&'\"")},
        "plans": "/plans",
        "plan": address("/plans/view", path=HOSTILE_NAME),
        "stored plan": address("/plans/view", run=a),
        "error": address("/query", run=texts, id="<script>alert(1)</script>"),
    }


@pytest.fixture(scope="module")
def server(folder: Path, run_ids: dict[str, str], batch_ids: dict[str, str]) -> Iterator[UiServer]:
    with RunStore.open(folder / "runs.sqlite") as store, ui_server(store, plans=folder) as running:
        name = report_pages.HOSTILE[0]
        for run, sample in ((run_ids["before"], "q00000"), (run_ids["hostile texts"], "image")):
            fields = {"kind": "references", "reference": name, "why": name, "by": name}
            assert running.post(address("/gold/propose", run=run, id=sample), fields).status == 303
        yield running


def test_every_page_is_accessible(
    browser: Any, server: UiServer, run_ids: dict[str, str], batch_ids: dict[str, str]
) -> None:
    problems = {}
    with workbench_page(browser, server, expected=("status of 404",)) as page:
        for name, path in ordinary_pages(run_ids, batch_ids).items():
            status = page.goto(server.address + path).status
            load_all(page, unfold=True)
            problems[name] = find_problems(page) + (
                [f"status {status}"] if (status != 200) is not (name == "error") else []
            )
            problems[name] += page.evaluate(OPTIONS)
            if name in TABBED_PAGES:
                problems[name] += tab_problems(page)
            problems[name] += target_problems(page)
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.slow
def test_no_bar_covers_the_focus_on_a_phone(
    browser: Any, server: UiServer, run_ids: dict[str, str], batch_ids: dict[str, str]
) -> None:
    problems = {}
    with workbench_page(browser, server, expected=("status of 404",), reduced_motion="reduce") as page:
        for name, path in ordinary_pages(run_ids, batch_ids).items():
            page.goto(server.address + path.replace("as=eve", "as=phone"))  # a name belongs to one browser
            load_all(page, unfold=True)
            problems[name] = covered_on_a_phone(page)
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.slow
def test_axe_finds_no_violation(
    browser: Any, server: UiServer, run_ids: dict[str, str], batch_ids: dict[str, str]
) -> None:
    script = axe_script()
    problems = {}
    with workbench_page(browser, server, expected=("status of 404",), reduced_motion="reduce") as page:
        pages = ordinary_pages(run_ids, batch_ids)
        for name in AXE_PAGES:
            page.goto(server.address + pages[name].replace("as=eve", "as=axe"))  # a name belongs to one browser
            load_all(page)
            problems[name] = axe_problems(page, script)
    assert {name: found for name, found in problems.items() if found} == {}


def test_templates_have_no_options_outside_of_commands() -> None:
    found = {}
    for path in sorted((REPO / "src/auepora_eval/ui/templates").glob("*.html")):
        text = re.sub(
            r"\{#.*?#\}|\{\{ command\(.*?\) \}\}|for start in \[.*?\]", "", path.read_text("utf-8"), flags=re.DOTALL
        )
        if options := re.findall(r"[\s>`(]--[a-z][\w-]*", text):
            found[path.name] = options
    assert found == {}


def test_hostile_texts_execute_nothing(
    browser: Any, server: UiServer, run_ids: dict[str, str], batch_ids: dict[str, str]
) -> None:
    problems: dict[str, Any] = {}
    with workbench_page(browser, server, expected=("status of 40",), viewport=PHONE) as page:
        for name, path in hostile_pages(run_ids, batch_ids).items():
            response = page.goto(server.address + path)
            load_all(page, unfold=True)
            page.evaluate(SCRIPT)
            found = [f"status {response.status}"] if response.status >= 500 else []
            problems[name] = found + page.evaluate(FOREIGN_ELEMENTS) + page.evaluate("window.accessibility.width()")
    assert {name: found for name, found in problems.items() if found} == {}


def test_panels_shortcuts_and_theme_by_keyboard(browser: Any, server: UiServer, run_ids: dict[str, str]) -> None:
    expect = need("playwright.sync_api").expect
    permissions = ["clipboard-read", "clipboard-write"]
    path = f"/runs/{run_ids['before']}"
    with workbench_page(browser, server, path, permissions=permissions, expected=("status of 404",)) as page:
        # A number opens its derivation; Escape closes it, and the focus returns.
        link = page.locator("main a[data-drawer]").first
        link.focus()
        page.keyboard.press("Enter")
        panel = page.get_by_role("dialog")
        expect(panel.locator(".dialog-body[data-filled]")).to_be_attached()
        expect(panel.get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("Escape")
        expect(panel).to_have_count(0)
        expect(link).to_be_focused()
        # The list of shortcuts names those of the page, and switches them off.
        page.keyboard.press("?")
        expect(panel).to_contain_text("Show the queries of the run")
        panel.get_by_label("Use shortcuts").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Escape")
        page.keyboard.press("q")
        page.keyboard.press("?")
        expect(panel).to_have_count(0)
        assert page.url.endswith(path)
        # The theme stays after the page is loaded again.
        page.locator("#theme").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("#theme")).to_have_text("Theme: dark")
        # A part that cannot be loaded gives the reason, and can be loaded again.
        page.evaluate(
            """import("/assets/shell.js").then((shell) => shell.replaceFragment(document.querySelector("#tab"), "/runs/unknown"))"""
        )
        alert = page.locator("main [role=alert]")
        expect(alert).to_contain_text("unknown")
        alert.get_by_role("button", name="Try again").focus()
        page.keyboard.press("Enter")
        expect(alert).to_contain_text("unknown")
        # A command is copied, and a screen reader announces it.
        page.goto(server.address + address("/queries", run=run_ids["before"], where="rank<=5"))
        page.locator("[data-copy]").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#announcements")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()").startswith("auepora queries ")


def test_a_filter_by_keyboard_keeps_focus_and_filters(browser: Any, server: UiServer, run_ids: dict[str, str]) -> None:
    expect = need("playwright.sync_api").expect
    path = address(f"/runs/{run_ids['before']}", where="rank<=5")
    with workbench_page(browser, server, f"{path}&tab=metrics", expected=("status of 400",)) as page:
        # A count in a panel closes it and leads to its queries, and not to those of the address of the page.
        page.locator("#tab a[data-drawer]").first.focus()
        page.keyboard.press("Enter")
        page.locator("dialog a[data-where]").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator(".query-tokens bdi")).to_have_text(["recall@5=scored"])
        expect(page.locator("#tab")).to_be_focused()
        page.goto(f"{server.address}{path}&tab=metrics")
        page.keyboard.press("/")  # opens the list, with the filter of the address
        expect(page.locator("#query-search")).to_be_focused()
        # A header sorts, and again the other way round.
        header = page.get_by_role("link", name="Gold in the ranking")
        header.focus()
        for order in ("ascending", "descending"):
            page.keyboard.press("Enter")
            expect(page.locator(f"th[aria-sort={order}]")).to_have_text("Gold in the ranking")
            expect(header).to_be_focused()
        # A value that cannot be used is explained, and the filters before it stay.
        page.locator(".query-menu summary").focus()
        for key in ("Enter", "Tab", "Tab", "Tab", "a", "Enter"):
            page.keyboard.press(key)
        alert = page.locator(".query-results [role=alert]")
        expect(alert).to_contain_text("'a' should be a number")
        expect(page.locator("#query-value")).to_be_focused()
        page.keyboard.press("Backspace")
        for key in ("1", "Enter"):
            page.keyboard.press(key)
        expect(alert).to_have_count(0)
        expect(page.locator(".query-tokens bdi")).to_have_text(["rank<=5", "recall@5=1"])


def test_the_documentation_names_every_shortcut() -> None:
    parts = [one for folder in ("templates", "assets") for one in (files("auepora_eval.ui") / folder).iterdir()]
    found = set(re.findall(r"""(?:data-key|onKey\()=?"([^"{]+)",?""", "".join(one.read_text("utf-8") for one in parts)))
    found |= {"r", "w", "y", "n", "0", "3", "9"}  # labels and grades
    found.add("Space")  # in the list of runs, where it is a key of its rows alone
    rows = (REPO / "docs" / "workbench.md").read_text("utf-8").partition("| key |")[2].partition("\n\n")[0]
    assert found | {"?", "Esc"} == set(re.findall(r"`([^`]+)`", rows))
