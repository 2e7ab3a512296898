"""The page on what is tested names tests, benchmarks and make targets that exist."""

import ast
import re

from helpers.requirements import REPO
from tools.source_tree import parse

PAGE = (REPO / "docs" / "trust.md").read_text(encoding="utf-8")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_BENCHMARK = re.compile(r"`python -m benchmarks\.(\w+)`")
_TARGET = re.compile(r"`make (\w+)`")
_CLAIM = re.compile(r"^\| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
MIN_CLAIMS = 20


def test_named_tests_exist() -> None:
    named = _TEST.findall(PAGE)
    absent = []
    for path, test in named:
        file = REPO / path
        if not file.is_file():
            absent.append(path)
            continue
        functions = {node.name for node in ast.walk(parse(file)) if isinstance(node, ast.FunctionDef)}
        if test and test not in functions:
            absent.append(f"{path}::{test}")
    assert absent == []


def test_named_commands_exist() -> None:
    makefile = (REPO / "Makefile").read_text(encoding="utf-8")
    absent = [f"make {name}" for name in _TARGET.findall(PAGE) if f"\n{name}:" not in makefile]
    absent += [name for name in _BENCHMARK.findall(PAGE) if not (REPO / "benchmarks" / f"{name}.py").is_file()]
    assert absent == []


def test_every_claim_names_what_checks_it() -> None:
    _, _, *claims = _CLAIM.findall(PAGE)
    assert len(claims) >= MIN_CLAIMS
    checks = (_TEST, _BENCHMARK, _TARGET)
    assert [claim for claim, checked_by, _ in claims if not any(check.search(checked_by) for check in checks)] == []
