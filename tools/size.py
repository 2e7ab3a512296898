"""Size of the source tree: statements, lines, and the largest modules, classes and functions with their limits.

A statement is an ``ast.stmt`` node that is not a string expression, so that docstrings do not count. What makes
statements slow to read is counted by ``tools/readability.py``; its figures are printed here, too.
"""

import argparse
import ast
import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.readability import FIGURES, count_figures, module_places
from tools.source_tree import MODULES, REPO, ROOT, count_lines, module_name, module_statements, parse, statements

MAX_STATEMENTS = 70_864
"""Of the source tree. It moves by the budget of new statements that an issue names, and by nothing else.

1,105 of it are above these budgets (sweeps, benchmarks, short output, reading tables, and the imports of the smaller
modules of labels, grades and calibration): what is removed next lowers it first.
150 of it are of the budget of the release: platforms, and what the red team found in gates and `verify`.
"""
MAX_MODULE_LINES = 800
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
    """Files, statements, lines and the figures of ``tools/readability.py`` of a package or of the whole tree."""

    files: int
    statements: int
    lines: int
    readability: dict[str, int]


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
    names = [module.name for module in module_sizes() if module.size > MAX_MODULE_LINES]
    names += [part.name for part in class_sizes() if part.size > MAX_CLASS_LINES]
    names += [part.name for part in function_sizes() if part.size > MAX_FUNCTION_STATEMENTS]
    return sorted(names)


def package_paths() -> dict[str, list[Path]]:
    """The modules of each package; a module at the top level is a package of its own."""
    paths = defaultdict(list)
    for path in MODULES:
        package = module_name(path).partition(".")[0] or ROOT
        paths[package].append(path)
    return dict(sorted(paths.items()))


def _measure(paths: list[Path]) -> Total:
    return Total(
        files=len(paths),
        statements=sum(count_statements(parse(path)) for path in paths),
        lines=sum(count_lines(path) for path in paths),
        readability=count_figures(paths),
    )


def measure_size() -> Size:
    """Measure the source tree of this checkout."""
    return Size(
        total=_measure(MODULES),
        packages={package: _measure(paths) for package, paths in package_paths().items()},
        modules=module_sizes()[:LARGEST],
        classes=class_sizes()[:LARGEST],
        functions=function_sizes()[:LARGEST],
        above_the_limits=above_the_limits(),
    )


def _print_parts(title: str, parts: list[Part], above: list[str]) -> None:
    print(f"\n{title}")
    for part in parts:
        mark = "  above the limit" if part.name in above else ""
        print(f"  {part.size:>6,}  {part.name}{mark}")


def _print_readability(size: Size) -> None:
    """Print a table of the figures by package, then the definition and the limit of each."""
    print("\nwhat is slow to read")
    headings = " ".join(f"{figure.heading:>9}" for figure in FIGURES)
    print(f"{'package':<20} {headings}")
    for package, total in [*size.packages.items(), ("all", size.total)]:
        counts = " ".join(f"{total.readability[figure.key]:>9,}" for figure in FIGURES)
        print(f"{package:<20} {counts}")
    limits = " ".join(f"{figure.limit:>9,}" for figure in FIGURES)
    print(f"{'limit':<20} {limits}")
    for figure in FIGURES:
        print(f"  {figure.heading:<9} {figure.definition} ({figure.key})")
    for figure in FIGURES:
        count = size.total.readability[figure.key]
        if count < figure.limit:
            print(f"lower the limit of {figure.key} from {figure.limit:,} to {count:,}")
        elif count > figure.limit:
            print(f"above the limit: {figure.key} is {count:,}, at most {figure.limit:,}")


def print_size(size: Size) -> None:
    """Print the figures as plain text."""
    print(f"{'package':<20} {'files':>6} {'statements':>11} {'lines':>8}")
    for package, total in [*size.packages.items(), ("all", size.total)]:
        print(f"{package:<20} {total.files:>6,} {total.statements:>11,} {total.lines:>8,}")
    print(f"{'limit':<20} {'':>6} {MAX_STATEMENTS:>11,}")
    above = size.above_the_limits
    modules = f"largest modules, in lines (limit {MAX_MODULE_LINES:,})"
    _print_parts(modules, size.modules, above)
    _print_parts(f"largest classes, in lines (limit {MAX_CLASS_LINES:,})", size.classes, above)
    _print_parts(f"largest functions, in statements (limit {MAX_FUNCTION_STATEMENTS:,})", size.functions, above)
    _print_readability(size)


def print_places(key: str) -> None:
    """Print file and line of every place that a figure counts."""
    for path in MODULES:
        for line in module_places(path)[key]:
            print(f"{path.relative_to(REPO)}:{line}")


def main() -> None:
    """Print the size of the source tree, as text or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tools.size", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    keys = [figure.key for figure in FIGURES]
    parser.add_argument("--places", choices=keys, help="print file and line of what a figure counts, and nothing else")
    arguments = parser.parse_args()
    if arguments.places is not None:
        print_places(arguments.places)
        return
    size = measure_size()
    if arguments.json:
        print(json.dumps(asdict(size), indent=2))
    else:
        print_size(size)


if __name__ == "__main__":
    main()
