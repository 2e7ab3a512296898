"""Names and sizes: one class per name, plain words, and no module, class or function that is too long to read."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

from helpers.requirements import REPO
from tools.duplicates import MAX_PAIRS, find_duplicates
from tools.size import above_the_limits
from tools.structure import repeated_class_names

pytestmark = pytest.mark.xdist_group("source_tree")

BANNED_WORDS = frozenset((Path(__file__).parent / "banned_words.txt").read_text(encoding="utf-8").split())
# Fields of comparisons and metric cards that are printed as keys and recorded in the golden files.
RECORDED_NAMES = frozenset({"doubt", "doubts"})
CHECKED_FOLDERS = ("src", "tests", "benchmarks", "tools")

# What is larger than the limits of tools/size.py, and why. At most ten.
SIZE_EXCEPTIONS = {
    "store.runs.RunStore": "the facade of the store: one short method per operation, each with its docstring",
}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@cache
def words(identifier: str) -> frozenset[str]:
    """The parts of an identifier, split at underscores and capitals, in lower case."""
    return frozenset(part.lower() for part in _WORD.findall(identifier))


def compiled_names(code: CodeType) -> Iterator[str]:
    """The names in compiled code; among them are strings in tuples, since keywords of calls are stored like this."""
    yield code.co_name
    yield from (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from compiled_names(value)
        elif isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, str))


def banned_identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the identifiers with a banned word that a module defines or uses, its own name included."""
    if words(path.stem) & BANNED_WORDS:
        yield 1, path.stem
    text = path.read_text(encoding="utf-8")
    if not any(words(name) & BANNED_WORDS for name in set(_IDENTIFIER.findall(text))):
        return  # not even in a comment
    if not any(words(name) & BANNED_WORDS for name in compiled_names(compile(text, path, "exec", dont_inherit=True))):
        return  # compiling is three times faster than building a syntax tree
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, field, None)
            if not isinstance(value, str) or value in RECORDED_NAMES:
                continue
            if words(value.rpartition(".")[2]) & BANNED_WORDS:
                yield getattr(node, "lineno", 1), value


def test_words_are_split_at_underscores_and_capitals() -> None:
    assert words("_readHTMLTable_of") == {"read", "html", "table", "of"}


def test_no_identifier_contains_a_banned_word() -> None:
    found = {
        f"{path.relative_to(REPO)}:{line}: {name}"
        for folder in CHECKED_FOLDERS
        for path in (REPO / folder).rglob("*.py")
        for line, name in banned_identifiers(path)
    }
    assert sorted(found) == []


def test_class_names_are_unique() -> None:
    assert repeated_class_names() == {}


def test_nothing_is_too_long() -> None:
    assert above_the_limits() == sorted(SIZE_EXCEPTIONS)
    assert len(SIZE_EXCEPTIONS) <= 10


@pytest.mark.slow
def test_few_blocks_of_code_are_repeated() -> None:
    assert len(find_duplicates()) <= MAX_PAIRS, "see `python -m tools.duplicates`"
