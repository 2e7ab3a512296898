"""Seeded mutants of the metric kernels: one small wrong turn each, in a copy of the package."""

import ast
import copy
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.requirements import REPO

KERNELS: dict[str, set[str]] = {
    "metrics/ranking.py": set(),
    "metrics/retrieval.py": set(),
    "metrics/retrieval_judged.py": set(),
    "metrics/retrieval_spans.py": set(),
    "features/hits.py": {
        "GoldPositions", "Hits", "IdealRanking", "gold_positions", "gold_positions_key", "hits", "early_hits",
        "hits_within", "ideal_ranking", "view_key", "_filter_relevant", "capped_gold",
        "sum_by_query", "has_judgement", "reject_duplicates",
        "_find_positions", "_lookup_ids", "_resize_set", "_ints", "_raise_non_string_id", "_levels", "_log_table",
        "log_discounts",
    },
    "stats/calibration.py": {
        "ThresholdCounts", "threshold_counts", "auroc", "average_precision", "tpr_at_fpr", "_column",
        "_score_column", "_label_column",
    },
}  # fmt: skip
"""The files with kernels, and the functions and classes that are; none named: all of them."""
# Not formulas: names, options and their messages. Tests of their own look at those.
# Nor are the sizes of look-up tables, which may be larger than needed.
NOT_KERNELS = {
    "log_discounts",
    "_log_table",
    "_powers",
    "_power_table",
    "__post_init__",
    "signature_options",
    "run_signature_options",
    "required_fields",
    "check_k",
    "explain",
    "RankingMetric",
    "definition_options",
}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
NAMES = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "ones_like": "zeros_like"}


@dataclass(frozen=True)
class Mutant:
    """One mutation: the file, the place, what was done, and the whole mutated source."""

    path: str
    line: int
    what: str
    source: str


def all_mutants() -> Iterator[Mutant]:
    """Every mutation of every kernel."""
    for path, kernels in KERNELS.items():
        source = (REPO / "src" / "auepora_eval" / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        sites = [node for function in _functions(tree, kernels) for node in _body(function)]
        for index, node in enumerate(sites):
            for number, what in enumerate(_mutations(node)):
                again = copy.deepcopy(tree)
                twin = [n for function in _functions(again, kernels) for n in _body(function)][index]
                _apply(twin, number)
                yield Mutant(path, getattr(node, "lineno", 0), what, ast.unparse(again))


def _functions(tree: ast.Module, kernels: set[str]) -> list[ast.FunctionDef]:
    places = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and _is_kernel(node.name)]
    chosen = [node for node in places if not kernels or node.name in kernels]
    found = [
        node
        for place in chosen
        for node in ast.walk(place)
        if isinstance(node, ast.FunctionDef) and _is_kernel(node.name)
    ]
    nested = {id(inner) for outer in found for inner in ast.walk(outer) if inner is not outer}
    return [node for node in found if id(node) not in nested]


def _is_kernel(name: str) -> bool:
    """Whether a function computes; derivations are compared with the scores by tests of their own."""
    return name not in NOT_KERNELS and not name.endswith("_steps") and not name.startswith("_add_")


def _body(function: ast.FunctionDef) -> list[ast.AST]:
    """Every node of the body but what is raised: a message is no formula."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.Raise, ast.Assert)):
            continue
        found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found


def _mutations(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        return [f"{type(node.ops[0]).__name__} -> {COMPARISONS[type(node.ops[0])].__name__}"]
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in ARITHMETIC
        and not isinstance(node.left, ast.Name | ast.Subscript)
    ):
        return [f"{type(node.op).__name__} -> {ARITHMETIC[type(node.op)].__name__}"]
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return [f"{type(node.op).__name__} -> {ARITHMETIC[type(node.op)].__name__}"]
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return [f"{node.value} -> {node.value + 1}"]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        return [f"{node.attr} -> {NAMES[node.attr]}"]
    if isinstance(node, ast.Name) and node.id in NAMES:
        return [f"{node.id} -> {NAMES[node.id]}"]
    if isinstance(node, ast.BoolOp):
        return ["and <-> or"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        return [f"{type(node.op).__name__} dropped"]
    return []


def _apply(node: ast.AST, number: int) -> None:
    assert number == 0
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Constant):
        assert isinstance(node.value, (int, float))
        node.value = node.value + 1
    elif isinstance(node, ast.Attribute):
        node.attr = NAMES[node.attr]
    elif isinstance(node, ast.Name):
        node.id = NAMES[node.id]
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.Invert) else ast.Not()
        node.operand = ast.UnaryOp(ast.Not(), node.operand) if isinstance(node.op, ast.Not) else node.operand


def seeded_mutants(count: int, *, seed: int) -> list[Mutant]:
    """Some of all mutants, the same ones for the same seed and source."""
    return random.Random(seed).sample(list(all_mutants()), count)


CROSSCHECK = "from auepora_eval.cli.main import main; main(['crosscheck', '--no-peers', '--cases', '14', '--json'])"
WAITING = "waiting"
# Those of the kernels alone, the quick ones first: all tests of metrics take minutes, and would notice more, not less.
TESTS = [
    *(f"tests/metrics/test_{name}.py" for name in ("k_policy", "golden_rankings", "trec_eval", "ranking_rows")),
    *(f"tests/metrics/test_{name}.py" for name in ("client_metrics", "classification", "spans", "retrieval_eval")),
    "tests/metrics/test_fast_equals_plain.py",
    "tests/stats/test_roc.py",
    "tests/core/test_batch.py",
    "tests/core/test_exact.py",
    "tests/engine/test_engine.py",
    "tests/test_publication_gate.py",
]


CHECKS = {
    "cross-check": [sys.executable, "-c", CROSSCHECK],
    "tests": [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS],
}


def honest(folder: Path) -> float:
    """Put a copy of the package into ``folder``; how long its checks take, which it must pass as it is."""
    shutil.copytree(
        REPO / "src" / "auepora_eval", folder / "auepora_eval", ignore=shutil.ignore_patterns("__pycache__")
    )
    begun = time.monotonic()
    for name, command in CHECKS.items():
        done = _run(command, folder, limit=None)
        assert done.returncode == 0, f"without any mutation: {name}\n{done.stdout.decode()[-2000:]}"
    return time.monotonic() - begun


def noticed_by(mutant: Mutant, folder: Path, *, limit: float) -> str | None:
    """What notices the mutant in the copy that is in ``folder``: the cross-check, the tests, or who waits in vain."""
    target = folder / "auepora_eval" / mutant.path
    before = target.read_text(encoding="utf-8")
    target.write_text(mutant.source, encoding="utf-8")
    try:
        for name, command in CHECKS.items():
            if _run(command, folder, limit=limit).returncode != 0:
                return name
        return None
    except subprocess.TimeoutExpired:
        return WAITING  # a loop that no longer ends is noticed by anyone who waits
    finally:
        target.write_text(before, encoding="utf-8")


def _run(command: list[str], folder: Path, *, limit: float | None) -> subprocess.CompletedProcess[bytes]:
    environment = {
        "PYTHONPATH": str(folder),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AUEPORA_HYPOTHESIS": "thorough",
    }
    return subprocess.run(command, cwd=REPO, env=environment, capture_output=True, timeout=limit, check=False)
