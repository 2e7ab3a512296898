"""Size of the source tree: statements and lines, and the largest modules, classes and functions with their limits.

A statement is an ``ast.stmt`` node that is not a string expression, so that docstrings do not count.
"""

import argparse
import ast
import json
from collections import defaultdict
from dataclasses import asdict, dataclass

from tools.source_tree import MODULES, ROOT, count_lines, module_name, module_statements, parse, statements

MAX_MODULE_LINES = 900
MAX_CLASS_LINES = 300
MAX_FUNCTION_STATEMENTS = 60
LARGEST = 10
"""How many modules, classes and functions are listed."""


@dataclass(frozen=True, slots=True)
class Part:
    """A module, a class or a function with its size: lines, or statements for a function."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Total:
    """Files, statements and lines of a package or of the whole tree."""

    files: int
    statements: int
    lines: int


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the source tree."""

    total: Total
    packages: dict[str, Total]
    modules: list[Part]
    classes: list[Part]
    functions: list[Part]
    above_the_limits: list[str]


def count_statements(tree: ast.AST) -> int:
    """The number of statements in a syntax tree, string expressions left out."""
    return sum(not _is_string(node) for node in statements(tree))


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def module_sizes() -> list[Part]:
    """Every module with its lines, the largest first."""
    return _sorted([Part(module_name(path) or ROOT, count_lines(path)) for path in MODULES])


def class_sizes() -> list[Part]:
    """Every class with its lines, the largest first."""
    return _sorted(
        [
            Part(f"{module_name(path)}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
            for path in MODULES
            for node in module_statements(path)
            if isinstance(node, ast.ClassDef)
        ]
    )


def function_sizes() -> list[Part]:
    """Every function and method with the statements of its body, the largest first."""
    return _sorted(
        [
            Part(f"{module_name(path)}.{node.name}", count_statements(node))
            for path in MODULES
            for node in module_statements(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    )


def _sorted(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (-part.size, part.name))


def above_the_limits() -> list[str]:
    """The names of the modules, classes and functions that are larger than their limit."""
    return sorted(
        part.name
        for parts, limit in (
            (module_sizes(), MAX_MODULE_LINES),
            (class_sizes(), MAX_CLASS_LINES),
            (function_sizes(), MAX_FUNCTION_STATEMENTS),
        )
        for part in parts
        if part.size > limit
    )


def measure_size() -> Size:
    """Measure the source tree of this checkout."""
    paths = defaultdict(list)
    for path in MODULES:
        paths[module_name(path).partition(".")[0] or ROOT].append(path)
    packages = {
        package: Total(
            files=len(own),
            statements=sum(count_statements(parse(path)) for path in own),
            lines=sum(map(count_lines, own)),
        )
        for package, own in sorted(paths.items())
    }
    return Size(
        total=Total(
            files=len(MODULES),
            statements=sum(package.statements for package in packages.values()),
            lines=sum(package.lines for package in packages.values()),
        ),
        packages=packages,
        modules=module_sizes()[:LARGEST],
        classes=class_sizes()[:LARGEST],
        functions=function_sizes()[:LARGEST],
        above_the_limits=above_the_limits(),
    )


def _print_parts(title: str, parts: list[Part], limit: int) -> None:
    print(f"\n{title} (limit {limit:,})")
    for part in parts:
        print(f"  {part.size:>6,}  {part.name}{'  above the limit' if part.size > limit else ''}")


def print_size(size: Size) -> None:
    """Print the figures as plain text."""
    print(f"{'package':<20} {'files':>6} {'statements':>11} {'lines':>8}")
    for package, total in [*size.packages.items(), ("all", size.total)]:
        print(f"{package:<20} {total.files:>6,} {total.statements:>11,} {total.lines:>8,}")
    _print_parts("largest modules, in lines", size.modules, MAX_MODULE_LINES)
    _print_parts("largest classes, in lines", size.classes, MAX_CLASS_LINES)
    _print_parts("largest functions, in statements", size.functions, MAX_FUNCTION_STATEMENTS)


def main() -> None:
    """Print the size of the source tree, as text or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tools.size", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    size = measure_size()
    if as_json:
        print(json.dumps(asdict(size), indent=2))
    else:
        print_size(size)


if __name__ == "__main__":
    main()
