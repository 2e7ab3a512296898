"""The tools that measure the source tree print text and JSON."""

import ast
import json
from collections.abc import Callable

import pytest

from tools import size, structure
from tools.source_tree import MODULES, statements

pytestmark = pytest.mark.xdist_group("source_tree")


def run(
    main: Callable[[], None], *arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr("sys.argv", ["tool", *arguments])
    main()
    return capsys.readouterr().out


def test_structure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    figures = json.loads(run(structure.main, "--json", monkeypatch=monkeypatch, capsys=capsys))
    assert figures["files"] == len(MODULES)
    by_package = figures["loaded_by_package"].values()
    assert sum(package["modules"] for package in by_package) == figures["loaded"]["modules"] < len(MODULES)
    assert set(figures["loaded_by_package"]) >= {"core", "metrics", "engine", "io", "cli"}


def test_structure_as_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(structure, "loaded_modules", lambda: MODULES[:2])
    monkeypatch.setattr(structure, "import_cycles", lambda: [["a", "b"]])
    printed = run(structure.main, monkeypatch=monkeypatch, capsys=capsys)
    assert "import cycles                              1\n  a, b\n" in printed
    assert printed.splitlines()[-1].split()[:2] == ["all", "2"]


def test_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    figures = json.loads(run(size.main, "--json", monkeypatch=monkeypatch, capsys=capsys))
    assert figures["total"]["files"] == len(MODULES)
    assert figures["total"]["statements"] < figures["total"]["lines"]
    printed = run(size.main, monkeypatch=monkeypatch, capsys=capsys)
    assert f"{figures['modules'][0]['size']:>6,}  {figures['modules'][0]['name']}" in printed


def test_statements_are_found_at_any_depth() -> None:
    code = """
class A:
    def method(self):
        for x in []:
            while x: pass
            else: a = 1
        with x:
            try: c = 3
            except E: d = 4
            else: e = 5
            finally: f = 6
        if x: i = 9
        elif y: j = lambda: (10 if x else 11)
        else:
            match x:
                case 1: k = 12
                case _:
                    async def inner():
                        async for z in y: pass
"""
    tree = ast.parse(code)
    expected = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    assert sorted(map(ast.dump, statements(tree))) == sorted(map(ast.dump, expected))


def test_docstrings_are_not_statements() -> None:
    tree = ast.parse('"""Text."""\ndef f() -> int:\n    """Text."""\n    "text"\n    return 1\n')
    assert size.count_statements(tree) == 2
