"""The pages on architecture and decisions, and the docstrings of packages, name modules and symbols that exist."""

import ast
import re
from pathlib import Path

import pytest

from helpers.requirements import REPO
from tools.source_tree import MODULES, SOURCE, module_name, parse
from tools.structure import LAYERS

pytestmark = pytest.mark.xdist_group("source_tree")

PAGE = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
DECISIONS = REPO / "docs" / "decisions"
INDEXED = [layer for layer in LAYERS if layer != "__main__"]
"""What the index covers. ``__main__`` defines nothing."""
MIN_ROWS = 25
_SOURCE_PATH = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")
_SYMBOL_WITH_PATH = re.compile(r"`(\w+)` (?:in |\()`((?:[a-z_]+/)*[a-z_]+\.py)`")
_LISTED_DECISIONS = re.compile(r"^(\d+)\. \[(.+)\]\((\S+)\)$", re.MULTILINE)
_LISTED_MODULES = re.compile(r"^\* (``\S+``(?:, ``\S+``)*): ", re.MULTILINE)


def section(heading: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def table_rows(heading: str) -> list[list[str]]:
    """The cells of the first table of a section, without its header."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def defined_names(path: Path) -> set[str]:
    """The names that a module defines at its top level; imported ones are not among them."""
    names = set()
    for node in parse(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def missing_symbols(places: list[tuple[str, str]]) -> list[str]:
    """The pairs of path and symbol whose path does not exist or does not define the symbol."""
    return [
        f"{path}: {symbol}"
        for path, symbol in places
        if not (SOURCE / path).is_file() or symbol not in defined_names(SOURCE / path)
    ]


def test_the_tree_describes_every_package_in_order() -> None:
    rows = table_rows("The tree")
    assert [name for name, *_ in rows] == list(LAYERS)
    assert [row for row in rows if len(row) != 3 or not all(row)] == []


def test_the_index_is_complete() -> None:
    rows = table_rows("I want to change ...")
    assert len(rows) >= MIN_ROWS
    assert {path.removesuffix(".py").partition("/")[0] for _, path, _ in rows} == set(INDEXED)


def test_the_index_names_what_exists() -> None:
    assert missing_symbols([(path, symbol) for _, path, symbol in table_rows("I want to change ...")]) == []


def test_the_pages_name_what_exists() -> None:
    known = {str(path.relative_to(SOURCE)) for path in MODULES}
    for text in (PAGE, *(page.read_text(encoding="utf-8") for page in sorted(DECISIONS.glob("*.md")))):
        paths = _SOURCE_PATH.findall(text)
        outside = [path for path in paths if path.startswith(("tools/", "tests/"))]
        assert [path for path in outside if not (REPO / path).is_file()] == []
        assert [path for path in paths if path not in known and path not in outside] == []
        places = [(path, symbol) for symbol, path in _SYMBOL_WITH_PATH.findall(text) if path not in outside]
        assert missing_symbols(places) == []


def test_the_list_of_decisions_has_the_title_of_each_page() -> None:
    listed = _LISTED_DECISIONS.findall((DECISIONS / "README.md").read_text(encoding="utf-8"))
    pages = sorted(page for page in DECISIONS.glob("*.md") if page.name != "README.md")
    titles = [page.read_text(encoding="utf-8").partition("\n")[0] for page in pages]
    assert [(f"# {number}. {title}", name) for number, title, name in listed] == [
        (title, page.name) for title, page in zip(titles, pages, strict=True)
    ]
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]


def test_package_docstrings_list_modules_that_exist() -> None:
    listed = [
        (module_name(path), path.parent / name)
        for path in MODULES
        if path.name == "__init__.py"
        for names in _LISTED_MODULES.findall(ast.get_docstring(parse(path)) or "")
        for name in re.findall(r"``(\S+?)``", names)
    ]
    assert listed
    assert [
        f"{package} lists {path.name}"
        for package, path in listed
        if not path.with_suffix(".py").is_file() and not any(path.parent.glob(path.name))
    ] == []
