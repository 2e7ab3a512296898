"""Names and sizes: one class per name, plain words, and no module, class or function that is too long to read."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from helpers.requirements import REPO
from helpers.source_tree import MODULES, module_name, parse

pytestmark = pytest.mark.xdist_group("source_tree")

BANNED_WORDS = frozenset((Path(__file__).parent / "banned_words.txt").read_text(encoding="utf-8").split())
# Fields of comparisons and metric cards that are printed as keys and recorded in the golden files.
RECORDED_NAMES = frozenset({"doubt", "doubts"})
CHECKED_FOLDERS = ("src", "tests", "benchmarks")

MAX_MODULE_LINES = 900
MAX_CLASS_LINES = 300
MAX_FUNCTION_STATEMENTS = 60
# What is longer, and why. At most ten.
SIZE_EXCEPTIONS = {
    "store.runs.RunStore": "the facade of the store: one short method per operation, each with its docstring",
    "cli.score.command": "one statement per command-line option that is passed on",
}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_COMMENT_OR_STRING = re.compile(
    r"""#[^\n]*|(?P<prefix>[rbuf]{0,2})(?P<quote>\"{3}|'{3}|"|')(?:[^"'\\]+|\\.|(?!(?P=quote)).)*(?P=quote)""",
    re.DOTALL | re.IGNORECASE,
)


@cache
def words(identifier: str) -> frozenset[str]:
    """The parts of an identifier, split at underscores and capitals, in lower case."""
    return frozenset(part.lower() for part in _WORD.findall(identifier))


def identifiers(code: str) -> set[str]:
    """All that may be an identifier: words outside comments and strings, other than f-strings."""

    def kept(found: re.Match[str]) -> str:
        return found[0] if "f" in (found["prefix"] or "").lower() else " "

    return set(_IDENTIFIER.findall(_COMMENT_OR_STRING.sub(kept, code)))


def banned_identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the identifiers with a banned word that a module defines or uses, its own name included."""
    if words(path.stem) & BANNED_WORDS:
        yield 1, path.stem
    text = path.read_text(encoding="utf-8")
    banned = {name for name in identifiers(text) if words(name) & BANNED_WORDS} - RECORDED_NAMES
    if not banned:
        return  # no need to parse it
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str) and value.rpartition(".")[2] in banned:
                yield getattr(node, "lineno", 1), value


def test_words_are_split_at_underscores_and_capitals() -> None:
    assert words("_readHTMLTable_of") == {"read", "html", "table", "of"}


def test_identifiers_are_found_between_comments_and_strings() -> None:
    code = """a = 'no # "no"'; b = "it's \\\\" + c  # no 'no
d = r'\\\'' f'{e!r:>{g}} {h["i"]}' + F"{j}" + b'''no "no"
'no' ''' + k
"""
    compile(code, "code", "exec")
    assert identifiers(code) - {"f", "F"} == {"a", "b", "c", "d", "e", "r", "g", "h", "i", "j", "k"}


def test_no_identifier_contains_a_banned_word() -> None:
    found = {
        f"{path.relative_to(REPO)}:{line}: {name}"
        for folder in CHECKED_FOLDERS
        for path in (REPO / folder).rglob("*.py")
        for line, name in banned_identifiers(path)
    }
    assert sorted(found) == []


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside a module or statement, at any depth. Expressions have none, so they are not visited."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, field, None)
        for one in inside if isinstance(inside, list) else ():
            if isinstance(one, ast.stmt):
                yield one
            yield from statements(one)


def test_statements_are_found_at_any_depth() -> None:
    code = """
class A:
    def method(self):
        for x in []:
            while x: pass
            else: a = 1
        else:
            b = 2
        with x:
            try: c = 3
            except E: d = 4
            else: e = 5
            finally: f = 6
        try: g = 7
        except* E: h = 8
        if x: i = 9
        elif y: j = lambda: (10 if x else 11)
        else:
            match x:
                case 1: k = 12
                case _:
                    async def inner():
                        async for z in y: pass
                        async with x: pass
"""
    tree = ast.parse(code)
    expected = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    assert len(expected) == 27
    assert sorted(map(ast.dump, statements(tree))) == sorted(map(ast.dump, expected))


def test_class_names_are_unique() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in statements(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module_name(path))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def long_parts() -> Iterator[str]:
    """Modules, classes and functions above the limits."""
    for path in MODULES:
        module = module_name(path)
        if len(path.read_text(encoding="utf-8").splitlines()) > MAX_MODULE_LINES:
            yield module
        for node in statements(parse(path)):
            if isinstance(node, ast.ClassDef):
                if (node.end_lineno or 0) - node.lineno >= MAX_CLASS_LINES:
                    yield f"{module}.{node.name}"
            elif (
                isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                and sum(1 for _ in statements(node)) > MAX_FUNCTION_STATEMENTS
            ):
                yield f"{module}.{node.name}"


def test_nothing_is_too_long() -> None:
    assert sorted(long_parts()) == sorted(SIZE_EXCEPTIONS)
    assert len(SIZE_EXCEPTIONS) <= 10
