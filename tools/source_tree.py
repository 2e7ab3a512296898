"""The modules of the source tree, as paths and as syntax trees."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = "auepora_eval"
REPO = Path(__file__).resolve().parents[1]
SOURCE = REPO / "src" / ROOT
MODULES = sorted(SOURCE.rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a module. Tests of one worker share it: they are in the xdist group ``source_tree``."""
    gc.disable()  # nothing of a tree is garbage, and looking for it takes twice as long as parsing
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.freeze()
        gc.enable()


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside a module or a statement, at any depth. Expressions contain none and are not visited."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, field, None)
        for one in inside if isinstance(inside, list) else ():
            if isinstance(one, ast.stmt):
                yield one
            yield from statements(one)


@cache
def module_statements(path: Path) -> tuple[ast.stmt, ...]:
    """All statements of a module."""
    return tuple(statements(parse(path)))


def count_lines(path: Path) -> int:
    """The number of lines of a module."""
    return len(path.read_text(encoding="utf-8").splitlines())


def module_name(path: Path) -> str:
    """The dotted name of a module inside the package; the package itself is the empty string."""
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
