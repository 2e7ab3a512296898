"""JSON and YAML values of a file with their lines, and detection of repeated keys."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from ..runtime.files import read_bytes, read_lines
from .codec import LineError
from .problems import TOO_DEEP, Problems, RowSchema, decoding_problem, first_invalid_value, quote_text, walk_json

# --- YAML with line numbers ------------------------------------------------------------------------------------------
# The loaders of PyYAML lose line numbers, accept repeated keys and crash on deep nesting. Here YAML is parsed to a tree
# of nodes, and nodes are converted to JSON types: strings, numbers, booleans, null, lists, objects.

YamlNode = yaml.Node

_TAG = "tag:yaml.org,2002:"
_MAX_EXPANSION = 10  # the maximum number of values per byte of a file, with the repetitions of aliases


class YamlError(Exception):
    """An error in YAML, with its line."""

    def __init__(self, line: int | None, message: str) -> None:
        self.line, self.message = line, message
        super().__init__(message)


def _loader(data: bytes) -> Any:
    """Return a loader that builds nodes of YAML and no objects."""
    if not yaml.__with_libyaml__:
        return yaml.SafeLoader(data)
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class Loader(Composer, CParser, Resolver):  # Composer first: that of the C parser crashes on deep nesting
        def __init__(self) -> None:
            CParser.__init__(self, data)
            Composer.__init__(self)
            Resolver.__init__(self)

    return Loader()


def parse_yaml(data: bytes) -> YamlNode | None:
    """Parse a document to a tree of nodes; ``None`` if it is empty."""
    try:
        loader = _loader(data)
        try:
            root: YamlNode | None = loader.get_single_node()
            return root
        finally:
            loader.dispose()
    except RecursionError as error:
        raise YamlError(None, TOO_DEEP) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = ", ".join(filter(None, (error.context, error.problem)))
        if line is not None and _is_indented_with_tab(data, line):
            problem = f"line {line} is indented with a tab; use spaces"
        raise YamlError(line, f"not valid YAML: {problem}") from error
    except yaml.reader.ReaderError as error:
        raise YamlError(_line_at(data, error.position), f"not valid YAML: {error.reason}") from error
    except yaml.YAMLError as error:
        raise YamlError(None, f"not valid YAML: {error}") from error


def _is_indented_with_tab(data: bytes, line: int) -> bool:
    text = data.decode(errors="replace").splitlines()[line - 1 : line]
    return any("\t" in one[: len(one) - len(one.lstrip())] for one in text)


def _line_at(data: bytes, position: object) -> int | None:
    if not isinstance(position, int):
        return None
    # The C parser counts bytes, the Python parser characters.
    return (data[:position] if yaml.__with_libyaml__ else data.decode()[:position].encode()).count(b"\n") + 1


def node_line(node: YamlNode) -> int:
    """Return the first line of a node."""
    line: int = node.start_mark.line + 1
    return line


def scalar_text(node: YamlNode) -> str | None:
    """Return a scalar as it is written, so that ``no``, ``007`` and ``2024-05-01`` are kept; otherwise ``None``."""
    if isinstance(node, yaml.ScalarNode) and node.tag != f"{_TAG}null":
        text: str = node.value
        return text
    return None


class YamlValues:
    """Converts the nodes of one document to values."""

    def __init__(self, size: int) -> None:
        self._remaining = _MAX_EXPANSION * size + 1000
        self._scalars = SafeConstructor()

    def pairs(self, node: YamlNode) -> list[tuple[str, YamlNode, YamlNode]]:
        """Return key, key node and value node of each entry; a repeated key is an error. ``<<`` is resolved."""
        found: dict[str, tuple[YamlNode, YamlNode]] = {}
        merged: list[tuple[str, YamlNode, YamlNode]] = []
        for key_node, value_node in node.value:
            self._count_node(key_node)
            if key_node.tag == f"{_TAG}merge":
                sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                for source in sources:
                    if not isinstance(source, yaml.MappingNode):
                        raise YamlError(node_line(key_node), "'<<' must name an object, or a list of them")
                    merged += self.pairs(source)
                continue
            key = scalar_text(key_node)
            if key is None:
                raise YamlError(node_line(key_node), "a key must be a string")
            if key in found:
                first = node_line(found[key][0])
                raise YamlError(
                    node_line(key_node), f"key {quote_text(key)} is already on line {first}; each may come once"
                )
            found[key] = (key_node, value_node)
        for key, key_node, value_node in merged:
            found.setdefault(key, (key_node, value_node))
        return [(key, *nodes) for key, nodes in found.items()]

    def value(self, node: YamlNode, path: str) -> Any:
        """Return the value of a node. ``path`` names it in messages."""
        self._count_node(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return {key: self.value(item, f"{path}.{key}") for key, _, item in self.pairs(node)}
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        raise self._unsupported_tag(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        if node.tag in (f"{_TAG}str", f"{_TAG}timestamp"):
            return node.value
        kind = node.tag.removeprefix(_TAG)
        if kind == "null":
            return None
        construct = {
            "bool": self._scalars.construct_yaml_bool,
            "int": self._scalars.construct_yaml_int,
            "float": self._scalars.construct_yaml_float,
        }.get(kind)
        if construct is None:
            raise self._unsupported_tag(node, path)
        try:
            value = construct(node)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            raise YamlError(
                node_line(node), f"field {quote_text(path)}: {quote_text(node.value)} is not a number"
            ) from error
        if isinstance(value, float) and not math.isfinite(value):
            raise YamlError(node_line(node), f"field {quote_text(path)} is {node.value}; numbers must be finite")
        return value

    def _unsupported_tag(self, node: YamlNode, path: str) -> YamlError:
        tag = node.tag.replace(_TAG, "!!")
        return YamlError(node_line(node), f"field {quote_text(path)} has the tag {quote_text(tag)}, which is not read")

    def _count_node(self, node: YamlNode) -> None:
        self._remaining -= 1
        if self._remaining < 0:
            raise YamlError(node_line(node), "aliases repeat too much")


def dump_yaml(value: Any) -> str:
    """Return a value as YAML, in the order of its keys and without the last newline."""
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1 << 30)
    return text.rstrip("\n")


# --- repeated keys of a JSON object: the last one counts, which is usually a mistake ---------------------------------


class _ObjectWithRepeats(dict[str, Any]):
    """An object with repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def repeated_keys(data: bytes | str) -> list[str]:
    """Return the paths of all repeated keys; none if the data is not JSON."""
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found = True
        return _ObjectWithRepeats(pairs)

    try:
        value = json.loads(data, object_pairs_hook=build)
    except (ValueError, RecursionError):
        return []
    paths: list[str] = []
    for path, item, _, _ in walk_json(value) if found else ():
        if isinstance(item, _ObjectWithRepeats):
            paths += [f"{path}.{key}" if path else key for key in item.repeated]
    return paths


def warn_repeated_keys(
    path: Path, line: int | None, data: bytes | str, problems: Problems, *, record: int | None = None
) -> None:
    """Warn about repeated keys if problems are collected; plain reading does not check for them."""
    if not problems.collect_all:
        return
    for key in repeated_keys(data):
        message = f"field {quote_text(key)} comes twice in its object; the last one counts"
        problems.warnings.add(f"repeated {key}", path, line, message, record=record)


# --- JSON values: one per line, written over several lines, or the items of one array --------------------------------

TOO_LONG = "an integer has too many digits"
_NO_SCHEMA = RowSchema("values", {}, "", ())
_SPACE = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,\[\]]*")
_UNEXPECTED_END = "not valid JSON: the file ends"

Piece = tuple[int, bytes | LineError]
"""The line on which a value begins, and its bytes or the error."""


class _SeparatorError(LineError):
    """An error between two values; it belongs to neither."""


class JsonValue(NamedTuple):
    """One value of a file, with its position."""

    number: int
    """Counted from 1 over all values, including those that cannot be read."""
    line: int
    """The line on which it begins."""
    record: int | None
    """The number again if other values begin on the same line, which is then ambiguous."""
    value: Any


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# Python writes NaN and Infinity, which JSON does not have: they are read as null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite)


def parse_json(data: bytes) -> Any:
    """Parse the one value in ``data``; NaN and Infinity are read as null."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = _DECODER.decode(data.decode())
        except (ValueError, RecursionError):
            raise LineError(decoding_problem(data, error, _NO_SCHEMA)) from error
    if problem := first_invalid_value(value):
        raise LineError(problem)
    return value


def read_values(
    path: Path, problems: Problems, decode: Callable[[bytes], Any] = parse_json, *, loose: bool = False
) -> Iterator[JsonValue]:
    """Yield the values of a file; invalid ones are added to the problems.

    ``decode`` converts bytes to a value, or raises ``LineError``. A ``loose`` file may contain several arrays, and
    commas and the end may be missing, as in the log of a running program.
    """
    return _decode_pieces(path, problems, _pieces(path, loose=loose), decode)


def read_array(
    path: Path, problems: Problems, array: bytes, first_line: int, decode: Callable[[bytes], Any] = parse_json
) -> Iterator[JsonValue]:
    """Yield the items of a JSON array that begins on ``first_line`` of a file."""
    pieces = ((line + first_line - 1, data) for line, data in _split_values(array, loose=False))
    return _decode_pieces(path, problems, _mark_shared_lines(pieces), decode)


def _decode_pieces(
    path: Path,
    problems: Problems,
    pieces: Iterator[tuple[int, bytes | LineError, bool]],
    decode: Callable[[bytes], Any],
) -> Iterator[JsonValue]:
    number = 0
    for line, data, shared in pieces:
        number += not isinstance(data, _SeparatorError)
        record = number if shared else None
        try:
            if isinstance(data, LineError):
                raise data
            value = decode(data)
        except LineError as error:
            problems.add_all(path, line, error.messages, record=record)
            continue
        warn_repeated_keys(path, line, data, problems, record=record)
        yield JsonValue(number, line, record, value)


def syntax_problem(path: Path) -> tuple[int, str] | None:
    """Return the first line of a file that is not JSON, with the reason; ``None`` if all of it is JSON."""
    for line, data, _ in _pieces(path, loose=False):
        try:
            if isinstance(data, LineError):
                raise data
            parse_json(data)
        except LineError as error:
            return line, str(error)
    return None


# --- pieces of a file: one JSON value each ---------------------------------------------------------------------------


def _pieces(path: Path, *, loose: bool) -> Iterator[tuple[int, bytes | LineError, bool]]:
    """Yield the pieces of a file, each with whether another begins on the same line."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    start = first[1].strip()
    if start == b"{" or (start.startswith(b"[") and not (loose and _is_complete(start))):
        lines.close()  # type: ignore[attr-defined]  # it is a generator
        yield from _mark_shared_lines(_split_values(read_bytes(path, is_document=True), loose=loose))
        return
    for number, line in itertools.chain([first], lines):
        yield number, line, False


def _is_complete(data: bytes) -> bool:
    try:
        parse_json(data)
    except LineError:
        return False
    return True


def _mark_shared_lines(pieces: Iterator[Piece]) -> Iterator[tuple[int, bytes | LineError, bool]]:
    before = 0
    piece = next(pieces, None)
    while piece is not None:
        after = next(pieces, None)
        line, data = piece
        if isinstance(data, _SeparatorError):
            yield line, data, False
        else:
            together = after is not None and after[0] == line and not isinstance(after[1], _SeparatorError)
            yield line, data, together or line == before
            before = line
        piece = after


def _split_values(data: bytes, *, loose: bool) -> Iterator[Piece]:
    """Split values over several lines, or the items of an array."""
    try:
        pieces = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (ValueError, RecursionError):
        yield from _JsonScanner(data.decode(), loose=loose).pieces()
        return
    line, end = 1, 0
    for piece in pieces:
        raw = bytes(piece)
        start = data.index(raw, end)  # only commas and white space lie between: the first match is the right one
        line += data.count(b"\n", end, start)
        yield line, raw
        end = start + len(raw)
        line += raw.count(b"\n")


class _JsonScanner:
    """Scans a text value by value and skips invalid parts: consecutive values, or one array."""

    def __init__(self, text: str, *, loose: bool) -> None:
        self._text = text
        self._loose = loose
        self._line, self._counted_to = 1, 0

    def pieces(self) -> Iterator[Piece]:
        text = self._text
        position = _match_end(_SPACE, text, 0)
        in_array = text.startswith("[", position)
        position = self._skip(position + 1 if in_array else position)
        while position < len(text):
            if in_array and text.startswith("]", position):
                rest = _match_end(_SPACE, text, position + 1)
                if rest < len(text):
                    yield self._separator_error(rest, "not valid JSON: there is more after the end of the list")
                return
            piece, position = self._piece(position)
            yield piece
            position = self._skip(position)
            if not in_array or self._loose:
                continue
            if position == len(text):
                if not isinstance(piece[1], LineError):  # otherwise the invalid value consumed the end
                    yield self._separator_error(position, f"{_UNEXPECTED_END} before the list does")
                return
            if text.startswith(",", position):
                position = self._skip(position + 1)
            elif not text.startswith("]", position) and not isinstance(piece[1], LineError):
                yield self._separator_error(position, "not valid JSON: a comma is missing")
        if in_array and not self._loose:
            yield self._separator_error(position, f"{_UNEXPECTED_END} where a record should be")

    def _skip(self, position: int) -> int:
        return _match_end(_SEPARATORS if self._loose else _SPACE, self._text, position)

    def _piece(self, position: int) -> tuple[Piece, int]:
        """Return the value that begins here, or its error; and the position to continue at."""
        try:
            _, end = _DECODER.raw_decode(self._text, position)
        except json.JSONDecodeError as error:
            reason = f"{error.msg[:1].lower()}{error.msg[1:]} near column {error.colno}"
            if error.pos >= len(self._text.rstrip()):
                reason = "the file ends too early"
            return (error.lineno, LineError(f"not valid JSON: {reason}")), self._next_start(position)
        except (ValueError, RecursionError) as error:
            message = TOO_DEEP if isinstance(error, RecursionError) else TOO_LONG
            return (self._line_at(position), LineError(message)), self._next_start(position)
        return (self._line_at(position), self._text[position:end].encode()), end

    def _separator_error(self, position: int, message: str) -> Piece:
        return self._line_at(position), _SeparatorError(message)

    def _line_at(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted_to, position)
        self._counted_to = position
        return self._line

    def _next_start(self, position: int) -> int:
        """Return the next position where a value may begin: a line with a brace at the same indentation."""
        indent = self._text[self._text.rfind("\n", 0, position) + 1 : position]
        column = f"[ \\t]{{{len(indent)}}}" if not indent.strip(" \t") else "[ \\t]*"
        found = re.compile(rf"\n{column}(?=\{{)").search(self._text, position)
        return found.end() if found else len(self._text)


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
