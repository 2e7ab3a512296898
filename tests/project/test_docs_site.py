"""The documentation site: every page is in its menu once, and a build has no broken link and loads nothing from elsewhere."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from helpers.browser_page import Watched
from helpers.requirements import REPO, need
from tools.api_reference import PAGE, api_page
from tools.docs_pages import (
    SITE_PAGES,
    copied_files,
    index_children,
    map_sections,
    navigation,
    site_markdown,
    site_path,
)


def nav_paths(entries: list[dict[str, Any]]) -> list[str]:
    """The pages of a navigation, in its order."""
    paths: list[str] = []
    for entry in entries:
        for child in entry.values():
            paths += [child] if isinstance(child, str) else nav_paths(child)
    return paths


def test_every_page_is_in_the_menu_once() -> None:
    pages = [str(page.relative_to(REPO)) for page in (REPO / "docs").rglob("*.md")]
    expected = {site_path(page) for page in [*pages, *SITE_PAGES]}
    assert sorted(nav_paths(navigation())) == sorted(expected)


def test_the_menu_has_the_sections_of_the_map() -> None:
    text = "intro\n\n## A\n\n* [One](one.md): x\n\n**Group**\n\n* [Two](two.md)\n  * [Three](in/three.md): y\n* [Four](four.md)\n"
    (section,) = map_sections(text)
    assert section.as_nav() == {
        "A": [
            {"One": "one.md"},
            {"Group": [{"Two": [{"Overview": "two.md"}, {"Three": "in/three.md"}]}, {"Four": "four.md"}]},
        ]
    }


def test_pages_of_an_index_are_found_in_tables_and_lists() -> None:
    text = "# Index\n\n1. [First](0001-first.md)\n* [Other](../other.md)\n\n## T\n\n| [`a[@k]`](a.md) | text |\n\n## Empty\n"
    first, section = index_children(text, "folder")
    assert first == ("First", "folder/0001-first.md")
    assert not isinstance(section, tuple)
    assert section.as_nav() == {"T": [{"a[@k]": "folder/a.md"}]}


CONVERSIONS = [  # the page, a line of it, the line on the site, why
    ("README.md", "[a](docs/plans.md#keys)", "[a](plans.md#keys)", "docs/ is the root of the site"),
    ("README.md", "![a](docs/images/a.png)", "![a](images/a.png)", "pictures too"),
    ("docs/judging/panels.md", "[a](../README.md)", "[a](../all-pages.md)", "the map has another name"),
    ("docs/sweep.md", "[a](../benchmarks/b.py)", "[a](source/benchmarks/b.py.txt)", "sources are copied"),
    ("SECURITY.md", "[a](docs/cli.md), [b](CHANGELOG.md)", "[a](../cli.md), [b](changelog.md)", "two links of a page in project/"),
    ("docs/a.md", "[a](#here) [b](https://x.org/y)", "[a](#here) [b](https://x.org/y)", "not to a file"),
    ("docs/a.md", "  * deeper", "    * deeper", "a nested list"),
    ("docs/a.md", r"| `a\|b` | c |", "| `a|b` | c |", "a bar in code of a table"),
    ("docs/a.md", "```jsonl data.jsonl\n[a](b.md)\n```", '```json title="data.jsonl"\n[a](b.md)\n```', "a block with a name"),
]  # fmt: skip


@pytest.mark.parametrize(("page", "text", "expected", "why"), CONVERSIONS, ids=[row[-1] for row in CONVERSIONS])
def test_markdown_of_the_site(page: str, text: str, expected: str, why: str) -> None:
    assert site_markdown(text, page) == f"{expected}\n"


def test_copied_files_exist() -> None:
    assert "CITATION.cff" in copied_files()
    assert [path for path in copied_files() if not (REPO / path).is_file()] == []


def test_the_page_of_python_names_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == api_page(), "run `make docs`"


class Links(HTMLParser):
    """The ids of a page, and what it links to or loads."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for name, value in attrs if name in ("id", "name") and value}
        address = values.get("href") or values.get("src")
        if address is None:
            return
        self.links.append(address)
        if tag != "a":
            self.loaded.append(address)


def read_links(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built so that a warning is an error."""
    need("mkdocs")
    need("material")
    need("latex2mathml")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {page: read_links(page) for page in site.rglob("*.html")}


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere(site: Path, pages: dict[Path, Links]) -> None:
    assert len(pages) > 150
    broken = []
    for page, found in pages.items():
        for address in found.links:
            target = urlsplit(urljoin(page.as_uri(), address))
            if target.scheme != "file":
                continue
            # The page for addresses that do not exist has addresses from the root of the server.
            file = site / address.lstrip("/") if address.startswith("/") else Path(unquote(target.path))
            if file.is_dir():
                file /= "index.html"
            is_broken = not file.is_file()
            if file in pages and target.fragment:
                is_broken = unquote(target.fragment) not in pages[file].ids
            if is_broken and target.fragment != "__skip":
                broken.append(f"{page.relative_to(site)}: {address}")
    assert broken == []


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Links]) -> None:
    loaded = {address for found in pages.values() for address in found.loaded}
    assert {address for address in loaded if urlsplit(address).scheme or address.startswith("//")} == set()


@pytest.mark.slow
def test_formulas_are_mathml(site: Path) -> None:
    formulas = 0
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        formulas += text.count("<math")
        assert 'class="arithmatex"' not in text, page
    assert formulas > 150


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


SHOWN = ("index.html", "getting-started.html", "metrics/ndcg.html", "api.html", "cli-reference.html", "bench.html")


@pytest.mark.part("chromium")
@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_pages_fit_their_window(address: str, browser: Any, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark")
    watched = Watched(context.new_page())
    for name in SHOWN:
        watched.page.goto(address + name)
        assert watched.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
    scheme = watched.page.evaluate("document.body.getAttribute('data-md-color-scheme')")
    assert scheme == "slate", "the colours follow the system"
    assert watched.complaints == []
    assert [url for url in watched.requests if not url.startswith((address, "data:"))] == []
    context.close()


@pytest.mark.part("chromium")
def test_search_finds_a_page(address: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(context.new_page())
    watched.page.goto(address + "index.html")
    watched.page.keyboard.press("/")
    watched.page.keyboard.type("negative_rejection_rate")
    watched.page.locator(".md-search-result__link[href*='metrics/negative_rejection_rate.html']").first.wait_for()
    assert [url for url in watched.requests if not url.startswith((address, "data:", "blob:"))] == []
    context.close()
