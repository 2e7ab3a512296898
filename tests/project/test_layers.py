"""Imports point to lower packages only, there are no import cycles, and heavy packages are imported where they are used."""

import ast

import pytest

from tools.source_tree import MODULES, module_name, parse
from tools.structure import (
    BY_NAME,
    IMPORTERS,
    LAYERS,
    RE_EXPORTS,
    import_cycles,
    imports,
    named_modules,
    own_imports,
    strong_components,
    upward_imports,
)

pytestmark = pytest.mark.xdist_group("source_tree")

HEAVY = {
    "scipy", "pandas", "torch", "transformers", "sentence_transformers", "pyarrow", "openpyxl", "aiohttp", "ray", "altair", "vl_convert",
    "jinja2", "rich", "nltk", "bm25s", "langchain_core", "llama_index", "haystack", "polars", "mlflow", "wandb",
    "starlette", "uvicorn",
}  # fmt: skip
ALLOWED = {"ui": {"starlette", "uvicorn"}}
"""The store and the pages are themselves imported only where they are used."""


def test_every_module_is_in_a_layer() -> None:
    assert {name.partition(".")[0] for name in IMPORTERS} == set(LAYERS)


def test_imports_point_down() -> None:
    assert upward_imports() == []


def test_there_are_no_cycles() -> None:
    assert import_cycles() == []


def test_a_cycle_is_found() -> None:
    assert strong_components({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


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
        if name.startswith("metrics")
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
