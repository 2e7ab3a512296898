"""Imports point to lower packages only, there are no import cycles, and heavy packages are imported where they are used."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from helpers.source_tree import MODULES, module_name, parse

pytestmark = pytest.mark.xdist_group("source_tree")

LAYERS = (
    "_version", "errors", "runtime", "text", "stats", "net", "core", "render", "features", "models", "judge", "metrics",
    "engine", "io", "systems", "perturb", "store", "plan", "compare", "gates", "report", "runs", "annotate", "client",
    "loggers", "scale", "crosscheck", "examples", "cli", "pytest_plugin", "__main__",
)  # fmt: skip
"""Packages and top-level modules, lowest first. A module imports from its own package or from a lower one."""

RE_EXPORTS = (
    "core.errors", "core.runner", "metrics.additional", "metrics.generation_metrics", "metrics.generation_overlap",
    "metrics.generation_semantic", "metrics.generation_text", "metrics.retrieval_basic", "metrics.retrieval_eval",
    "metrics.retrieval_metrics", "metrics.retrieval_ranking", "reporting", "reporting.plots", "reporting.tables",
)  # fmt: skip
"""Modules at the paths of the seeds: a docstring, imports and ``__all__``. Nothing in the package imports them."""

BY_NAME = {
    ("core.registry", "metrics"): "the package of the built-in metrics, and the group of entry points",
    ("core.registry", "metrics._index"): "built-in metrics are found through their index",
    ("core.results", "render.html"): "results render themselves in notebooks",
    ("compare.types", "compare.rendering"): "comparisons render themselves in notebooks",
    ("engine.executors", "scale.ray_executor"): "executors are selected by name",
}
"""Modules that are imported by a constant with their name, and why."""

HEAVY = {
    "scipy", "pandas", "torch", "transformers", "sentence_transformers", "pyarrow", "openai", "ray", "altair", "vl_convert",
    "jinja2", "rich", "sqlalchemy", "nltk", "bm25s", "langchain_core", "llama_index", "haystack", "polars", "mlflow", "wandb",
}  # fmt: skip
ALLOWED = {"store": {"sqlalchemy"}}
"""The store is itself imported only where a run is stored or read."""

ROOT = "auepora_eval"
NAMES = {module_name(path) for path in MODULES}
IMPORTERS = {module_name(path): path for path in MODULES if module_name(path) and module_name(path) not in RE_EXPORTS}
"""The package itself exports lazily and is not a layer."""
_DOTTED = re.compile(rf"{ROOT}((?:\.\w+)+)(?::\w+)?")


@cache
def imports(path: Path, *, top_level_only: bool = False) -> tuple[str, ...]:
    """The absolute names of imported modules, those in functions and under ``TYPE_CHECKING`` included."""
    return tuple(_imports(path, top_level_only=top_level_only))


def _imports(path: Path, *, top_level_only: bool) -> Iterator[str]:
    tree = parse(path)
    package = [ROOT, *filter(None, module_name(path).split("."))]
    if path.name != "__init__.py":
        package = package[:-1]
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{source}.{alias.name}" if f"{source}.{alias.name}".removeprefix(f"{ROOT}.") in NAMES else source


def own_imports(module: str) -> set[str]:
    """The modules of this package that a module imports, by import statements."""
    found = {name.removeprefix(f"{ROOT}.") for name in imports(IMPORTERS[module]) if name.startswith(f"{ROOT}.")}
    return found - {module}


def named_modules(module: str) -> set[str]:
    """The modules of this package that a module names in string constants outside docstrings."""
    tree = parse(IMPORTERS[module])
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    )
    found = {match[1][1:] for text in texts if (match := _DOTTED.fullmatch(text))}
    return {name for name in found if name in NAMES and name.partition(".")[0] != module.partition(".")[0]} | {
        name for name in found if (module, name) in BY_NAME
    }


def layer(module: str) -> int:
    return LAYERS.index(module.partition(".")[0])


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components with more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            place = stack.index(node)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def test_every_module_is_in_a_layer() -> None:
    assert {name.partition(".")[0] for name in IMPORTERS} == set(LAYERS)


def test_imports_point_down() -> None:
    assert [
        f"{own} imports {name}"
        for own in IMPORTERS
        for name in sorted(own_imports(own) | named_modules(own))
        if name in NAMES and (own, name) not in BY_NAME and (name in RE_EXPORTS or layer(name) > layer(own))
    ] == []


def test_there_are_no_cycles() -> None:
    assert cycles({own: own_imports(own) for own in IMPORTERS}) == []


def test_a_cycle_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


@pytest.mark.parametrize("names", BY_NAME, ids="-".join)
def test_imports_by_name_are_used(names: tuple[str, str]) -> None:
    assert names[1] in named_modules(names[0])


def test_stats_and_text_import_only_errors() -> None:
    allowed = ("stats", "text", "errors")
    assert [
        f"{own} imports {name}"
        for own in IMPORTERS
        if own.partition(".")[0] in ("stats", "text")
        for name in own_imports(own)
        if name.partition(".")[0] not in allowed
    ] == []


def test_re_exports_contain_no_code() -> None:
    for path in MODULES:
        if module_name(path) in RE_EXPORTS:
            body = parse(path).body[1:]
            assert all(isinstance(node, ast.ImportFrom | ast.Import | ast.Assign) for node in body), path


def test_nobody_imports_a_metric_by_name() -> None:
    """Metrics are reached through the registry alone, so that adding one touches one file."""
    assert [
        f"{own} imports {name}"
        for own in IMPORTERS
        if own.partition(".")[0] not in ("metrics", "scale", "examples")
        for name in own_imports(own)
        if name.startswith("metrics") and name != "metrics.k_policy"  # cut-offs, not a metric
    ] == []


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    assert [
        f"{own} imports {name}"
        for own, path in IMPORTERS.items()
        for name in imports(path, top_level_only=True)
        if name.partition(".")[0] in HEAVY - ALLOWED.get(own.partition(".")[0], set())
    ] == []


def test_every_module_has_a_docstring() -> None:
    assert [module_name(path) for path in MODULES if not ast.get_docstring(parse(path))] == []
