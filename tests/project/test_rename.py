"""The tool that renames local variables changes one variable at a time, and nothing but names."""

import ast
from pathlib import Path

import pytest

from tools.rename import apply_proposals, find_variables

ROWS = [  # source, key of the variable, source after it is renamed to "run", why
    ("a = [one.x for one in b]\n", "1:15", "a = [run.x for run in b]\n", "a comprehension"),
    ("def f(one):\n    return one + 1\n", "1:6", "def f(run):\n    return run + 1\n", "a parameter"),
    (
        "def f(a):\n    for one in a:\n        g(one)\n    return [one for one in a]\n",
        "2:8",
        "def f(a):\n    for run in a:\n        g(run)\n    return [one for one in a]\n",
        "a loop, not the comprehension after it",
    ),
    (
        "def f(a):\n    for one in a:\n        g(one)\n    return one\n",
        "2:8",
        "def f(a):\n    for run in a:\n        g(run)\n    return run\n",
        "a loop whose variable is used after it",
    ),
    (
        "def f(one):\n    return lambda: [one for one in g(one)]\n",
        "1:6",
        "def f(run):\n    return lambda: [one for one in g(run)]\n",
        "the first iterable of a comprehension is evaluated outside it",
    ),
]


@pytest.mark.parametrize(("source", "place", "expected", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_rename(source: str, place: str, expected: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert apply_proposals("one", {f"{path}:{place}": "run"}) == []
    assert path.read_text() == expected, why


REFUSED = [  # source, key of the variable, new name, why
    ("a = [one + run for one in b]\n", "1:19", "run", "run is already used there"),
    ("a = [one for one in b]\n", "1:13", "list", "list is a built-in name"),
    ("a = [one for one in b]\n", "1:13", "for", "for is not a name"),
    ("def f(run):\n    for one in run.a:\n        g(one)\n", "2:8", "run", "run is already used there"),
    (
        "def f(run):\n    for one in a:\n        g(one)\n    return run\n",
        "2:8",
        "run",
        "run is another variable of the function",
    ),
]


@pytest.mark.parametrize(("source", "place", "name", "why"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_refused(source: str, place: str, name: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert apply_proposals("one", {f"{path}:{place}": name}) == [f"{path}:{place}: {why}"]
    assert path.read_text() == source


def test_a_place_without_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("a = 1\n")
    assert apply_proposals("one", {f"{path}:1:0": "run"}) == [f"{path}:1:0: no variable one is bound there"]


def test_assignments_in_a_function_are_one_variable() -> None:
    tree = ast.parse("def f():\n    one = 1\n    one = one + 1\n    return one\n")
    assert [len(variable.places) for variable in find_variables(tree, "one")] == [4]
