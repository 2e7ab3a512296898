"""Repeated code: pairs of blocks of functions that are equal but for names, strings and numbers.

A block is a run of tokens in the functions of one module. Names become one token, and so do strings and numbers;
comments, docstrings, imports and line breaks are left out.
"""

import argparse
import ast
import io
import json
import keyword
import tokenize
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from tools.source_tree import MODULES, module_name, module_statements

MIN_TOKENS = 60
"""Length of the shortest block that counts."""
MAX_PAIRS = 19
"""The largest number of pairs allowed in the source tree."""
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines of a file."""

    path: Path
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two equal blocks."""

    tokens: int
    one: Block
    other: Block


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The normalised tokens of the functions of a module, one character each, with their lines."""

    path: Path
    text: str
    lines: list[int]


def find_duplicates(modules: list[Path] = MODULES, *, min_tokens: int = MIN_TOKENS) -> list[Pair]:
    """The pairs of equal blocks, the longest first. A block that cannot be extended on either side is listed once."""
    alphabet: dict[str, str] = {}
    streams = [_read(path, alphabet) for path in modules]
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, stream in enumerate(streams):
        for start in range(len(stream.text) - min_tokens + 1):
            places[stream.text[start : start + min_tokens]].append((number, start))
    pairs = [
        pair
        for found in places.values()
        for one, other in combinations(found, 2)
        if (pair := _longest(streams, one, other, min_tokens)) is not None
    ]
    return sorted(pairs, key=lambda pair: (-pair.tokens, pair.one.path, pair.one.first_line))


def _longest(streams: list[_Tokens], one: tuple[int, int], other: tuple[int, int], min_tokens: int) -> Pair | None:
    """The pair that starts at these places; ``None`` if it starts earlier or overlaps itself."""
    (first, a), (second, b) = one, other
    left, right = streams[first].text, streams[second].text
    if a and b and left[a - 1] == right[b - 1]:
        return None
    longest = min(len(left) - a, len(right) - b, b - a if first == second else len(left))
    length = next((n for n in range(longest) if left[a + n] != right[b + n]), longest)
    if length < min_tokens:
        return None
    return Pair(length, _block(streams[first], a, length), _block(streams[second], b, length))


def _block(stream: _Tokens, start: int, length: int) -> Block:
    return Block(stream.path, stream.lines[start], stream.lines[start + length - 1])


def _read(path: Path, alphabet: dict[str, str]) -> _Tokens:
    lines: set[int] = set()
    left_out: set[int] = set()
    for node in module_statements(path):
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(span)
        elif isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            left_out.update(span)
    lines -= left_out
    text, numbers = [], []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type not in _LAYOUT and token.start[0] in lines:
            text.append(alphabet.setdefault(_normalise(token), chr(len(alphabet))))
            numbers.append(token.start[0])
    return _Tokens(path, "".join(text), numbers)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _normalise(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
        return "name"
    if token.type in (tokenize.STRING, tokenize.NUMBER):
        return tokenize.tok_name[token.type]
    return token.string


def main() -> None:
    """Print the pairs of equal blocks, as text or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tools.duplicates", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    pairs = find_duplicates()
    if as_json:
        print(json.dumps([asdict(pair) for pair in pairs], indent=2, default=str))
        return
    print(f"{len(pairs)} pairs of equal blocks of {MIN_TOKENS} or more tokens (limit {MAX_PAIRS})")
    for pair in pairs:
        one, other = (
            f"{module_name(block.path)}:{block.first_line}-{block.last_line}" for block in (pair.one, pair.other)
        )
        print(f"  {pair.tokens:>4}  {one}  {other}")


if __name__ == "__main__":
    main()
