"""Counts of what makes a statement slow to read, with their upper limits.

Every count is a number of places in the source tree; ``FIGURES`` defines them. A limit is the figure of the day it was
written: an issue that lowers a figure lowers its limit, and none raises one.
"""

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.source_tree import MODULES, module_statements, parse

VAGUE_NAME = "one"
MANY_PARAMETERS = 8
MANY_POSITIONAL_ARGUMENTS = 6
LONG_COMPREHENSION_LINES = 4

Places = dict[str, list[int]]
"""The lines of every place that a figure counts, by the key of the figure."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Figure:
    """What is counted, the heading of its column, and the most that the source tree may have of it."""

    key: str
    heading: str
    definition: str
    limit: int


FIGURES = (
    Figure(
        "conditional",
        "cond",
        "conditional expressions that are not the whole right side of an assignment (plain, annotated or augmented) "
        "or of a return",
        1_353,
    ),
    Figure(
        "conditional_in_comprehension",
        "cond/comp",
        "conditional expressions inside a comprehension, at any depth",
        133,
    ),
    Figure("nested_comprehension", "nested", "comprehensions that contain another one, at any depth", 62),
    Figure("several_clauses", "several", "comprehensions with more than one `for` or more than one `if`", 47),
    Figure("long_comprehension", "long", "comprehensions over four or more lines", 255),
    Figure("vague_name", "one", "places that bind the name `one`: assignments, loops, `with` and `:=`", 0),
    Figure("vague_parameter", "one()", "parameters with the name `one`, those of lambdas included", 0),
    Figure("many_parameters", "params", "functions with 8 or more parameters, `self` included", 89),
    Figure("positional_call", "args", "calls with more than 5 positional arguments, whatever is called", 9),
    Figure(
        "own_positional_call",
        "own args",
        "those of them that call a function or class of the source tree, by its name or as `cls`",
        2,
    ),
    Figure("lambda", "lambda", "lambdas", 348),
    Figure("map_filter", "map", "calls of the built-in functions `map` and `filter`", 355),
    Figure("keyword_parameters", "**kw", "functions and lambdas with a parameter for any keyword (`**kwargs`)", 53),
)


class _PlaceFinder(ast.NodeVisitor):
    """Finds the places of all figures in one walk over a syntax tree."""

    def __init__(self, own_names: Collection[str]) -> None:
        self.places: Places = {figure.key: [] for figure in FIGURES}
        self._own_names = own_names
        self._whole_values: set[ast.expr] = set()
        self._enclosing: list[Comprehension] = []
        self._nesting: set[Comprehension] = set()

    def _add(self, key: str, node: ast.expr | ast.stmt | ast.arg) -> None:
        self.places[key].append(node.lineno)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Nothing is inside; half of the time would be spent on constants and contexts."""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id == VAGUE_NAME and isinstance(node.ctx, ast.Store):
            self._add("vague_name", node)

    def visit_arg(self, node: ast.arg) -> None:
        if node.arg == VAGUE_NAME:
            self._add("vague_parameter", node)
        self.generic_visit(node)

    # --- conditional expressions ---

    def _visit_value(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return) -> None:
        if node.value is not None:
            self._whole_values.add(node.value)
        self.generic_visit(node)

    visit_Assign = visit_AnnAssign = visit_AugAssign = visit_Return = _visit_value  # noqa: N815 - names of ast.NodeVisitor

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if node not in self._whole_values:
            self._add("conditional", node)
        if self._enclosing:
            self._add("conditional_in_comprehension", node)
        self.generic_visit(node)

    # --- comprehensions ---

    def _visit_comprehension(self, node: Comprehension) -> None:
        if self._enclosing:
            outer = self._enclosing[-1]
            if outer not in self._nesting:
                self._nesting.add(outer)
                self._add("nested_comprehension", outer)
        conditions = sum(len(generator.ifs) for generator in node.generators)
        if len(node.generators) > 1 or conditions > 1:
            self._add("several_clauses", node)
        last_line = node.end_lineno or node.lineno
        if last_line - node.lineno + 1 >= LONG_COMPREHENSION_LINES:
            self._add("long_comprehension", node)
        self._enclosing.append(node)
        self.generic_visit(node)
        self._enclosing.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815 - names of ast.NodeVisitor

    # --- functions and calls ---

    def _visit_function(self, node: Function) -> None:
        named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if len(named) >= MANY_PARAMETERS:
            self._add("many_parameters", node)
        if node.args.kwarg is not None:
            self._add("keyword_parameters", node)
        self.generic_visit(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function  # noqa: N815 - names of ast.NodeVisitor

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._add("lambda", node)
        if node.args.kwarg is not None:
            self._add("keyword_parameters", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("map", "filter"):
            self._add("map_filter", node)
        if len(node.args) >= MANY_POSITIONAL_ARGUMENTS:
            self._add("positional_call", node)
            called = _called_name(node)
            if called == "cls" or called in self._own_names:
                self._add("own_positional_call", node)
        self.generic_visit(node)


def _called_name(call: ast.Call) -> str | None:
    """The last part of the name that is called, ``c`` of ``a.b.c()``; None for the result of an expression."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return None


def find_places(tree: ast.AST, own_names: Collection[str]) -> Places:
    """The places of every figure in a syntax tree; ``own_names`` are the functions and classes of the source tree."""
    finder = _PlaceFinder(own_names)
    finder.visit(tree)
    return finder.places


@cache
def defined_names() -> frozenset[str]:
    """The names of all functions, methods and classes of the source tree."""
    names = set()
    for path in MODULES:
        for statement in module_statements(path):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(statement.name)
    return frozenset(names)


@cache
def module_places(path: Path) -> Places:
    """The places of every figure in a module."""
    return find_places(parse(path), defined_names())


def count_figures(paths: Collection[Path]) -> dict[str, int]:
    """Every figure of some modules together."""
    counts = {figure.key: 0 for figure in FIGURES}
    for path in paths:
        for key, lines in module_places(path).items():
            counts[key] += len(lines)
    return counts
