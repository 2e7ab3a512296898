"""The tools that measure the source tree print text and JSON."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import duplicates, package, size, structure
from tools.source_tree import MODULES, module_name, statements

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


@pytest.mark.slow
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
    assert f"{module_name(MODULES[-1])}:3-9" in run(duplicates.main, monkeypatch=monkeypatch, capsys=capsys)
    (pair,) = json.loads(run(duplicates.main, "--json", monkeypatch=monkeypatch, capsys=capsys))
    assert (pair["tokens"], pair["other"]["last_line"]) == (61, 9)


TRACKED = ["src/auepora_eval/a.py", "src/auepora_eval/py.typed", "tests/test_a.py", *package.TOP_LEVEL]
CONTENTS = [  # problems of a wheel or an sdist, names to leave out, names to add, expected problems, why
    (package.wheel_problems, [], [], [], "the package and its metadata"),
    (package.wheel_problems, ["auepora_eval/py.typed"], [], ["wheel: auepora_eval/py.typed is missing"], "no types"),
    (package.wheel_problems, [], ["tests/test_a.py"], ["wheel: tests/test_a.py does not belong there"], "a test"),
    (package.wheel_problems, [], ["auepora_eval/x.sqlite"], ["wheel: auepora_eval/x.sqlite does not belong there"], "a store"),
    (package.sdist_problems, [], [], [], "the source and the top-level files"),
    (package.sdist_problems, ["a-1/SECURITY.md"], [], ["sdist: SECURITY.md is missing"], "no policy"),
    (package.sdist_problems, [], ["a-1/.env"], ["sdist: .env does not belong there"], "not under version control"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "without", "more", "problems", "why"), CONTENTS, ids=[row[-1] for row in CONTENTS])
def test_package_contents(
    check: Callable[..., list[str]], without: list[str], more: list[str], problems: list[str], why: str
) -> None:
    wheel = ["auepora_eval/a.py", "auepora_eval/py.typed", *(f"a-1.dist-info/{name}" for name in package.DIST_INFO)]
    names = wheel if check is package.wheel_problems else [f"a-1/{name}" for name in (*TRACKED, "PKG-INFO")]
    assert check([one for one in names if one not in without] + more, TRACKED) == problems


METADATA = b"Metadata-Version: 2.4\nName: a\nVersion: 1\nDescription-Content-Type: text/markdown\n\n# Text\n"
INVALID_METADATA = [  # the metadata, part of the problem, why
    (METADATA.replace(b"# Text", b""), "no long description", "an empty description"),
    (METADATA.replace(b"markdown", b"plain"), "no long description in Markdown", "another type"),
    (METADATA.replace(b"Version: 1\n", b"Version: one\n"), "version", "not a version"),
    (
        METADATA.replace(b"Name: a\n", b"Name: a\nSummary: x\nRequires-Python: three\n"),
        "requires-python",
        "no specifier",
    ),
]


def test_package_metadata() -> None:
    assert package.metadata_problems(METADATA) == []
    for data, expected, why in INVALID_METADATA:
        (problem,) = package.metadata_problems(data)
        assert expected in problem, why
