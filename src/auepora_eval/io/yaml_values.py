"""YAML values of a file with their lines. Repeated keys are errors."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from .problems import TOO_DEEP, join_key, quote_text

# The loaders of PyYAML lose line numbers, accept repeated keys and crash on deep nesting. Here YAML is parsed to a tree
# of nodes, and nodes are converted to JSON types: strings, numbers, booleans, null, lists, objects.

YamlNode = yaml.Node

_TAG = "tag:yaml.org,2002:"
_MAX_EXPANSION = 10  # the maximum number of values per byte of a file, with the repetitions of aliases
_KEY_SEPARATOR = re.compile(r"(?<!\\)\.")


def split_key(key: str) -> list[str]:
    """The parts of a key such as ``system.args.k``; ``\\.`` is a dot within a part."""
    return [part.replace("\\.", ".") for part in _KEY_SEPARATOR.split(key)]


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
    return any("\t" in line[: len(line) - len(line.lstrip())] for line in text)


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
    """Converts the nodes of one document to values, and records where they are."""

    def __init__(self, size: int, *, largest: float = math.inf) -> None:
        """``largest``: the largest integer that is read."""
        self._largest = largest
        self.lines: dict[str, int] = {}
        """The line of each value and key by its path."""
        self.written: dict[str, str] = {}
        """The literals of scalars that are not strings, by path."""
        self._remaining = _MAX_EXPANSION * size + 1000
        self._open: list[YamlNode] = []
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
        if any(outer is node for outer in self._open):
            raise YamlError(node_line(node), f"field {quote_text(path)} contains itself")
        self._open.append(node)
        self.lines.setdefault(path, node_line(node))
        value = self._value(node, path)
        self._open.pop()
        return value

    def _value(self, node: YamlNode, path: str) -> Any:
        self._count_node(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            found = {}
            for key, key_node, item in self.pairs(node):
                inner = join_key(path, key)
                self.lines.setdefault(inner, node_line(key_node))
                found[key] = self.value(item, inner)
            return found
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        raise self._unsupported_tag(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        if node.tag in (f"{_TAG}str", f"{_TAG}timestamp"):
            return node.value
        self.written[path] = scalar_text(node) or "null"
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
        if isinstance(value, int) and abs(value) > self._largest:
            raise YamlError(node_line(node), f"field {quote_text(path)} is too large a number")
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
