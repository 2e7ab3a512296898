"""Names and sizes: one class per name, plain words, and no module, class or function that is too long to read."""

import ast
import re
from collections.abc import Iterable, Iterator
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
# A class of paragraphs in reports, which the golden files record.
RECORDED_CLASSES = frozenset({"say"})
CHECKED_FOLDERS = ("src", "tests", "benchmarks", "tools")
CHECKED_ASSETS = ("src", "tests/helpers", "tests/js")

# What is larger than the limits of tools/size.py, and why. At most ten.
SIZE_EXCEPTIONS: dict[str, str] = {}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_HYPHENATED = re.compile(r"[A-Za-z_$-][\w$-]*")
_COMMENT_OR_STRING = re.compile(r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)

# Tokens of JavaScript. A slash begins a regular expression unless a value precedes it.
_SCRIPT_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<number>\d[\w.]*)
    |(?P<slash>/)
    |(?P<sign>\S)""",
    re.DOTALL | re.VERBOSE,
)
_SCRIPT_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*")
_TEMPLATE_TEXT = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(?P<end>`|\$\{|$)", re.DOTALL)

# Parts of a template of jinja2, and tags of HTML.
_TEMPLATE_COMMENT = re.compile(r"\{#.*?#\}|<!--.*?-->", re.DOTALL)
_TEMPLATE_CODE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_TAG = re.compile(r"""<[A-Za-z](?:"[^"]*"|'[^']*'|[^'"<>])*>""")
_ATTRIBUTE = re.compile(
    r"""\s(?P<name>[A-Za-z][\w:-]*)(?:=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+)))?"""
)
_NAMING_ATTRIBUTES = frozenset({"id", "class", "name", "for"})


@cache
def words(identifier: str) -> frozenset[str]:
    """The parts of an identifier, split at underscores and capitals, in lower case."""
    return frozenset(part.lower() for part in _WORD.findall(identifier))


def files_in(folders: Iterable[str], *suffixes: str) -> Iterator[Path]:
    """The files of a kind below some folders, without installed packages of JavaScript."""
    for folder in folders:
        for path in (REPO / folder).rglob("*"):
            if path.suffix in suffixes and "node_modules" not in path.parts:
                yield path


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


def blank(found: re.Match[str]) -> str:
    """Blanks in place of a text, on as many lines."""
    return re.sub(r"[^\n]", " ", found[0])


def script_names(text: str) -> Iterator[tuple[int, str]]:
    """Position and text of the identifiers of JavaScript, and of strings that are a single word, such as keys and ids.

    Comments, other strings and regular expressions are prose or patterns. Expressions inside template strings are code.
    """
    position = 0
    braces = [0]  # open braces of the code, then of the expression in each template string around the position
    after_value = False
    while found := _SCRIPT_TOKEN.search(text, position):
        position = found.end()
        kind, token = found.lastgroup, found[0]
        if kind == "comment":
            continue
        if kind == "slash" and not after_value and (pattern := _SCRIPT_REGEX.match(text, found.start())):
            position = pattern.end()
            after_value = True
            continue
        if kind == "name":
            yield found.start(), token
        if kind == "string" and _HYPHENATED.fullmatch(token[1:-1]):
            yield found.start(), token[1:-1]
        if token == "{":
            braces[-1] += 1
        ends_expression = token == "}" and braces[-1] == 0 and len(braces) > 1
        if token == "}" and not ends_expression:
            braces[-1] -= 1
        if ends_expression:
            braces.pop()
        if token == "`" or ends_expression:
            inside = _TEMPLATE_TEXT.match(text, position)
            assert inside is not None
            position = inside.end()
            if inside["end"] == "${":
                braces.append(0)
        after_value = token in (")", "]", "`") or kind in ("string", "number")
        after_value = after_value or (kind == "name" and token not in ("return", "typeof", "case", "in", "of"))


def style_names(text: str) -> Iterator[tuple[int, str]]:
    """Position and text of the names in a style sheet: selectors, properties and custom properties."""
    for found in _HYPHENATED.finditer(_COMMENT_OR_STRING.sub(blank, text)):
        yield found.start(), found[0]


def template_names(text: str) -> Iterator[tuple[int, str]]:
    """Position and text of the names in a template: identifiers in its expressions, attributes, ids, classes and fields."""
    text = _TEMPLATE_COMMENT.sub(blank, text)
    for code in _TEMPLATE_CODE.finditer(text):
        for found in _IDENTIFIER.finditer(_COMMENT_OR_STRING.sub(blank, code[0])):
            yield code.start() + found.start(), found[0]
    for tag in _TAG.finditer(_TEMPLATE_CODE.sub(blank, text)):
        for found in _ATTRIBUTE.finditer(tag[0]):
            position = tag.start() + found.start()
            value = found["double"] or found["single"] or found["bare"] or ""
            yield position, found["name"]
            if found["name"] in _NAMING_ATTRIBUTES:
                for name in value.split():
                    yield position, name
            elif found["name"].startswith("data-") and _HYPHENATED.fullmatch(value):
                yield position, value


READ_NAMES = {".js": script_names, ".css": style_names, ".html": template_names}


def banned_asset_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the names with a banned word in a script, a style sheet or a template, its own name included."""
    if words(path.stem) & BANNED_WORDS:
        yield 1, path.stem
    text = path.read_text(encoding="utf-8")
    for position, name in READ_NAMES[path.suffix](text):
        if words(name) & BANNED_WORDS and name not in RECORDED_NAMES | RECORDED_CLASSES:
            yield text.count("\n", 0, position) + 1, name


def test_words_are_split_at_underscores_and_capitals() -> None:
    assert words("_readHTMLTable_of") == {"read", "html", "table", "of"}


def test_no_identifier_contains_a_banned_word() -> None:
    found = {
        f"{path.relative_to(REPO)}:{line}: {name}"
        for path in files_in(CHECKED_FOLDERS, ".py")
        for line, name in banned_identifiers(path)
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.js", "const told = 1;", [(1, "told")]),
        ("a.js", "list.map((isHeld) => 1);", [(1, "isHeld")]),
        ("a.js", "// told\n/* held\n held */ const run = 1;", []),
        ("a.js", 'announce("it says so"); const text = \'she told me\';', []),
        ("a.js", 'make("p", {\n "qb-told": 1 });', [(2, "qb-told")]),
        ("a.js", "const text = `it says ${{ told: `${said} told` }} held`;", [(1, "told"), (1, "said")]),
        ("a.js", "const text = `\\`said ${run} said`; told();", [(1, "told")]),
        ("a.js", "return /said[/]said/.test(text) / held / 2;", [(1, "held")]),
        ("a.js", "const ratio = run.held / 2; // said / said", [(1, "held")]),
        ("told.js", "", [(1, "told")]),
        ("a.css", "/* says */ .qb-told { --held-width: 1px }", [(1, "qb-told"), (1, "--held-width")]),
        ("a.css", '.note::before { content: "said" }', []),
        ("a.css", ".say.open { margin: 0 }", []),
        ("a.html", '<p id="told" class="wide held">He said</p>', [(1, "told"), (1, "held")]),
        ("a.html", '<p data-held="1" data-key="told" data-title="what he said">', [(1, "data-held"), (1, "told")]),
        ("a.html", '{# told #}<!-- told -->\n{% if run.told %}{{ "said"|cut }}{% endif %}', [(2, "told")]),
        ("a.html", '<a title="{{ a > held }}" aria-label="Says">', [(1, "held")]),
        ("a.html", '{{ card.doubts }}<p class="say {{ tone }}">', []),
    ],
)  # fmt: skip
def test_banned_words_are_found_in_assets(
    name: str, text: str, expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert list(banned_asset_names(path)) == expected


def test_no_asset_contains_a_banned_word() -> None:
    paths = list(files_in(CHECKED_ASSETS, *READ_NAMES))
    assert len(paths) > 50
    found = {f"{path.relative_to(REPO)}:{line}: {name}" for path in paths for line, name in banned_asset_names(path)}
    assert sorted(found) == []


def test_class_names_are_unique() -> None:
    assert repeated_class_names() == {}


def test_nothing_is_too_long() -> None:
    assert above_the_limits() == sorted(SIZE_EXCEPTIONS)
    assert len(SIZE_EXCEPTIONS) <= 10


@pytest.mark.slow
def test_few_blocks_of_code_are_repeated() -> None:
    assert len(find_duplicates()) <= MAX_PAIRS, "see `python -m tools.duplicates`"
