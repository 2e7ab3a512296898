"""The documentation is executed: Python blocks run, console blocks print what they say, links lead somewhere."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from auepora_eval.cli.main import main
from auepora_eval.core import registry
from auepora_eval.core.registry import metric, metric_infos
from auepora_eval.core.targets import TARGETS
from auepora_eval.core.types import TargetCategory
from helpers.requirements import REPO, need

PAGES = sorted(
    [
        *(REPO / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(REPO / "docs").rglob("*.md"),
    ]
)
BLOCK = re.compile(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# Pages about packages of others run where these are installed.
NEEDED = {
    "docs/adapters/langchain.md": "langchain_core",
    "docs/adapters/llamaindex.md": "llama_index.core",
    "docs/adapters/haystack.md": "haystack",
    "docs/judging/detectors.md": "transformers",
}


def page_id(page: Path) -> str:
    return str(page.relative_to(REPO))


def run_python(code: str, page: Path, names: dict[str, object]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), names)
    # Comments of the form `# -> text` after a print say what it printed.
    expected = [line.partition("# -> ")[2] for line in code.splitlines() if "# -> " in line]
    assert printed.getvalue().splitlines() == expected, page


def run_console(block: str, demo: list[str]) -> None:
    """Run the commands of a block; a page that shows parts of the demo twice runs it once."""
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    for entry in commands:
        command, _, expected = entry.partition("\n")
        program, *arguments = shlex.split(command)
        assert program == "auepora", f"only auepora is run: {command}"
        out = io.StringIO()
        if arguments == ["demo"] and demo:
            out.write(demo[0])
        else:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
                main(arguments)
        shown = out.getvalue()
        if arguments == ["demo"]:
            demo[:] = [shown]
        for line in expected.splitlines():
            assert is_printed(line, shown), f"{line!r} is not what {command} printed:\n{shown}"


def is_printed(line: str, shown: str) -> bool:
    """Whether a line of a page was printed; one that ends with ``...`` may go on, and ``...`` alone is anything."""
    start, ellipsis, end = line.partition("...")
    if ellipsis and not end:
        return any(printed.startswith(start.rstrip()) for printed in shown.splitlines())
    return line in shown.splitlines()


def forget_modules(folder: Path) -> None:
    """Take back what was imported from a page's folder: another page may have a module of the same name."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
            del sys.modules[name]


# Frameworks are slow to import: the worker that tests their adapters runs their pages, too.
MARKS = {page: [pytest.mark.xdist_group("frameworks")] for page in PAGES if page_id(page) in NEEDED}
MARKS[REPO / "docs" / "judging" / "detectors.md"] = [pytest.mark.part("models")]
# These pages call a system or a judge hundreds of times.
MARKS |= {
    REPO / "docs" / f"{name}.md": [pytest.mark.slow]
    for name in (
        "client",
        "diagnosis",
        "getting-started",
        "perturbing",
        "sweep",
        "statistics/choosing-labels",
        "statistics/early-stopping",
        "statistics/partial-grades",
        "statistics/planning",
        "statistics/two-stage",
    )
}


@pytest.mark.timeout(300)  # pages with many commands take most of a minute on a busy machine
@pytest.mark.parametrize("page", [pytest.param(page, id=page_id(page), marks=MARKS.get(page, [])) for page in PAGES])
def test_every_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if page_id(page) in NEEDED:
        need(NEEDED[page_id(page)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    request.addfinalizer(lambda: forget_modules(tmp_path))
    metric_infos()
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))  # what a page registers stays on the page
    # The demo loads a model where one is installed, which takes a while; other tests run it with the model.
    monkeypatch.setattr("auepora_eval.models.loading.find_installed_model", lambda: None)
    # `crosscheck` of all metrics takes seconds; a slow test does it.
    few = {name: metric_infos()[name] for name in ("mrr", "recall", "embedding_context_redundancy")}
    monkeypatch.setattr("auepora_eval.crosscheck.metric_infos", lambda: few)
    monkeypatch.delitem(sys.modules, "my_rag", raising=False)  # that of another test in this process
    names: dict[str, object] = {"__name__": "__docs__"}
    demo: list[str] = []
    for language, name, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if name:  # a file the page speaks of
            Path(name).write_text(code, encoding="utf-8")
        elif language == "python":
            run_python(code, page, names)
        elif language == "console":
            run_console(code, demo)
        else:
            assert language in ("bash", "text", "toml", ""), f"{page}: a block in {language!r} is not executed"


def test_links_lead_somewhere() -> None:
    assert [
        f"{page_id(page)} links to {target}"
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ] == []


def test_docs_map_lists_every_page_once() -> None:
    docs = REPO / "docs"
    listed = LINK.findall((docs / "README.md").read_text(encoding="utf-8").partition("## Tutorials")[2])
    indexed = (docs / "metrics", docs / "decisions")  # listed by their own README.md
    pages = [page for page in docs.rglob("*.md") if page.parent not in indexed or page.name == "README.md"]
    expected = sorted(str(page.relative_to(docs)) for page in pages if page != docs / "README.md")
    assert sorted(listed) == expected


def test_the_readme_has_both_commands_written_out() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test", "python3 -m venv .venv"):
        assert command in text
    for line in text.splitlines():
        assert len(line) <= 400


def test_the_readme_has_every_target_with_a_metric_of_it() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    section = text.partition("## What is evaluated\n")[2].partition("\n## ")[0]
    _, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    listed = []
    for row in rows:
        title, category, compared, spec = (cell.strip().strip("`") for cell in row.strip("|").split("|"))
        built = metric(spec)
        listed.append((title, category))
        assert built.target.name == category, f"{spec} evaluates {built.target.name}"
        assert compared, row
    assert listed == [(TARGETS[category].title, category.name) for category in TargetCategory]


def test_files_named_in_the_security_policy_exist() -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py|/))`", (REPO / "SECURITY.md").read_text())
    assert len(named) > 20
    assert [one for one in named if not any((root / one).exists() for root in (REPO, REPO / "src/auepora_eval"))] == []
