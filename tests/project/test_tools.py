"""The tools that measure the source tree print text and JSON."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import duplicates, size, structure
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


LOOP = """
def {name}({values}):
    # {name}
    total = {start}
    for {value} in {values}:
        if {value} > {start}:
            total += {value} * {value}
        elif {value} < {start}:
            total -= {value} * {value}
        else:
            total = {start}
    print({text!r}, total)
    return total
"""


def test_functions_that_differ_in_names_and_values_are_duplicates(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text(LOOP.format(name="f", values="values", value="value", start=0, text="f"))
    other.write_text("import os\n\n\n" + LOOP.format(name="g", values="rows", value="row", start=1.5, text="g"))
    (pair,) = duplicates.find_duplicates([one, other], min_tokens=40)
    assert (pair.one, pair.other) == (duplicates.Block(one, 2, 13), duplicates.Block(other, 5, 16))
    assert duplicates.find_duplicates([one, other], min_tokens=pair.tokens + 1) == []
    different = tmp_path / "different.py"
    different.write_text(other.read_text().replace("elif", "if"))
    assert duplicates.find_duplicates([one, different], min_tokens=40) == []


def test_duplicates_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    block = duplicates.Block(MODULES[-1], 3, 9)
    monkeypatch.setattr(duplicates, "find_duplicates", lambda: [duplicates.Pair(61, block, block)])
    assert "text.vocabulary:3-9" in run(duplicates.main, monkeypatch=monkeypatch, capsys=capsys)
    (pair,) = json.loads(run(duplicates.main, "--json", monkeypatch=monkeypatch, capsys=capsys))
    assert (pair["tokens"], pair["other"]["last_line"]) == (61, 9)
