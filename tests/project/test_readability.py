"""What makes statements slow to read is counted as defined, and there is no more of it than the limits allow."""

import ast
import json

import pytest

from tools import size
from tools.readability import FIGURES, Figure, count_figures, find_places
from tools.source_tree import MODULES, REPO, module_name, parse

pytestmark = pytest.mark.xdist_group("source_tree")

ROWS = [  # code, figure, how many places, why
    ("x = 1 if a else 2", "conditional", 0, "the whole right side of an assignment"),
    ("x: int = 1 if a else 2", "conditional", 0, "the whole right side of an annotated assignment"),
    ("x += 1 if a else 2", "conditional", 0, "the whole right side of an augmented assignment"),
    ("def f(): return 1 if a else 2", "conditional", 0, "the whole value of a return"),
    ("f(1 if a else 2)", "conditional", 1, "an argument"),
    ("x = 1 + (1 if a else 2)", "conditional", 1, "part of the right side"),
    ("x = 1 if a else 2 if b else 3", "conditional", 1, "the outer one is the right side, the inner one is not"),
    ("f = lambda: 1 if a else 2", "conditional", 1, "the body of a lambda is no return"),
    ("x = [1 if a else 2 for a in b]", "conditional_in_comprehension", 1, "the element"),
    ("x = [a for a in (b if c else d)]", "conditional_in_comprehension", 1, "what is iterated"),
    ("x = {f(1 if a else 2): 3 for a in b}", "conditional_in_comprehension", 1, "inside a call inside it"),
    ("x = 1 if [a for a in b] else 2", "conditional_in_comprehension", 0, "the comprehension is the inner one"),
    ("x = [[a for a in b] for b in c]", "nested_comprehension", 1, "the element is a comprehension"),
    ("x = [f(a for a in b) for b in c if {d for d in b}]", "nested_comprehension", 1, "two inside: the outer one counts once"),
    ("x = [[[a for a in b] for b in c] for c in d]", "nested_comprehension", 2, "the innermost contains none"),
    ("x = [a for a in b] + [a for a in c]", "nested_comprehension", 0, "one after the other"),
    ("x = [a for b in c for a in b]", "several_clauses", 1, "two loops"),
    ("x = [a for a in b if a if c]", "several_clauses", 1, "two conditions"),
    ("x = [a for a in b if a and c]", "several_clauses", 0, "one loop and one condition"),
    ("x = [\n    a\n    for a in b\n]", "long_comprehension", 1, "four lines"),
    ("x = [a\n    for a in b\n]", "long_comprehension", 0, "three lines"),
    ("one = 1", "vague_name", 1, "an assignment"),
    ("for one, other in a: print(one)", "vague_name", 1, "a loop; its use does not count"),
    ("x = [one for one in a]", "vague_name", 1, "the loop of a comprehension"),
    ("f(one=1); a.one = 2", "vague_name", 0, "a keyword or an attribute"),
    ("def f(one, *, other): pass", "vague_parameter", 1, "a parameter"),
    ("f = lambda one: one", "vague_parameter", 1, "a parameter of a lambda"),
    ("def f(a, b, c, d, /, e, f, *, g, h): pass", "many_parameters", 1, "eight"),
    ("def f(self, a, b, c, d, e, f): pass", "many_parameters", 0, "seven"),
    ("async def f(self, a, b, c, d, e, f, g): pass", "many_parameters", 1, "eight with self"),
    ("own(1, 2, 3, 4, 5, 6)", "own_positional_call", 1, "six arguments of a function of ours"),
    ("a.b().own(1, 2, 3, 4, 5, 6)", "own_positional_call", 1, "a method of ours"),
    ("cls(1, 2, 3, 4, 5, 6)", "own_positional_call", 1, "the class of a class method is ours"),
    ("own(1, 2, 3, 4, 5, a=6)", "own_positional_call", 0, "five, and a keyword"),
    ("other(1, 2, 3, 4, 5, 6)", "own_positional_call", 0, "a function of others"),
    ("other(1, 2, 3, 4, 5, 6)", "positional_call", 1, "a function of others"),
    ("x = sorted(a, key=lambda b: lambda: b)", "lambda", 2, "two lambdas"),
    ("map(f, a); filter(f, a); pool.map(f, a)", "map_filter", 2, "only the built-in functions"),
    ("def f(**options): pass", "keyword_parameters", 1, "any keyword, whatever its name"),
    ("f(**options)", "keyword_parameters", 0, "a call"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "key", "expected", "why"), ROWS, ids=[f"{row[1]}: {row[3]}" for row in ROWS])
def test_places(code: str, key: str, expected: int, why: str) -> None:
    places = find_places(ast.parse(code), own_names={"own"})
    assert len(places[key]) == expected, why


def test_places_have_their_lines() -> None:
    places = find_places(ast.parse("one = 1\n\n\ndef f(one):\n    one = 2\n"), own_names=())
    assert (places["vague_name"], places["vague_parameter"]) == ([1, 5], [4])


def describe_excess(figure: Figure, count: int) -> str:
    """How far a figure is above its limit, and where to look."""
    counts = {package: count_figures(paths)[figure.key] for package, paths in size.package_paths().items()}
    most = sorted(counts, key=counts.__getitem__, reverse=True)[:5]
    where = ", ".join(f"{package} {counts[package]:,}" for package in most)
    return (
        f"{count:,} {figure.definition}; the limit is {figure.limit:,}. Most are in {where}. "
        f"Rewrite the new ones: `python -m tools.size --places {figure.key}` lists file and line of all."
    )


def test_figures_are_within_their_limits() -> None:
    counts = count_figures(MODULES)
    excesses = []
    for figure in FIGURES:
        count = counts[figure.key]
        if count > figure.limit:
            excesses.append(describe_excess(figure, count))
        elif count < figure.limit:
            print(f"lower the limit of {figure.key} in tools/readability.py to {count}")
    assert excesses == []


def test_an_excess_names_packages_and_the_command() -> None:
    (figure,) = [figure for figure in FIGURES if figure.key == "lambda"]
    message = describe_excess(figure, 9_999)
    assert message.startswith(f"9,999 lambdas; the limit is {figure.limit:,}. Most are in ")
    assert "`python -m tools.size --places lambda`" in message


def test_statements_are_within_the_budget() -> None:
    count = sum(size.count_statements(parse(path)) for path in MODULES)
    assert count <= size.MAX_STATEMENTS, (
        "an issue names its budget of new statements; MAX_STATEMENTS in tools/size.py moves by that much"
    )


def test_figures_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = [path for path in MODULES if module_name(path).startswith("stats.")]
    monkeypatch.setattr(size, "MODULES", few)
    counts = count_figures(few)

    monkeypatch.setattr("sys.argv", ["size", "--json"])
    size.main()
    printed = json.loads(capsys.readouterr().out)
    assert printed["total"]["readability"] == printed["packages"]["stats"]["readability"] == counts

    monkeypatch.setattr("sys.argv", ["size"])
    size.main()
    text = capsys.readouterr().out
    (limit,) = [figure.limit for figure in FIGURES if figure.key == "lambda"]
    rows = [line.split() for line in text.splitlines() if line.startswith("stats ")]
    assert rows[1] == ["stats", *(f"{count:,}" for count in counts.values())]
    assert f"lower the limit of lambda from {limit:,} to {counts['lambda']}" in text

    monkeypatch.setattr("sys.argv", ["size", "--places", "lambda"])
    size.main()
    places = capsys.readouterr().out.splitlines()
    assert len(places) == counts["lambda"]
    path, _, line = places[0].rpartition(":")
    assert "lambda" in (REPO / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
