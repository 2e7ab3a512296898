"""The public names: those promised are there, those exported exist, and importing them costs next to nothing."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import auepora_eval
from helpers.requirements import REPO
from tools.source_tree import MODULES, module_name


def export_problems(path: Path) -> Iterator[str]:
    name = ".".join(["auepora_eval", *filter(None, [module_name(path)])])
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    if len(exported) != len(set(exported)):
        yield f"{name}.__all__ has a name twice"
    yield from (f"{name}.__all__ names {attribute}" for attribute in exported if not hasattr(module, attribute))


def test_exported_names_exist() -> None:
    modules = [path for path in MODULES if path.stem != "__main__"]
    assert [problem for path in modules for problem in export_problems(path)] == []


def test_the_packages_names_are_all_reachable_and_typed() -> None:
    for name in auepora_eval.__all__:
        assert getattr(auepora_eval, name) is not None
    assert set(dir(auepora_eval)) == set(auepora_eval.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = auepora_eval.nonsense
    declared = {
        alias.asname
        for node in ast.walk(ast.parse((REPO / "src" / "auepora_eval" / "__init__.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert declared == set(auepora_eval.__all__) - {"__version__"}
