"""Imports point down the layers, and what is heavy or optional is never imported at the top of a module."""

import ast
from functools import cache
from pathlib import Path

import pytest

from helpers.source_tree import MODULES, module_name, parse

pytestmark = pytest.mark.xdist_group("source_tree")

# Lower number = lower layer. A module may import from its own layer or a lower one; the longest matching prefix counts.
LAYERS = {
    "_version": 0,
    "text": 0,
    "core.types": 0,
    "core.errors": 0,
    "core.secrets": 0,
    "core.targets": 0,
    "core.daemon_threads": 0,
    "core.retry": 0,
    "core.sqlite_files": 0,
    "core.exact": 0,
    "core.allocator": 0,
    "core.shm_transfer": 0,
    "core.worker_processes": 0,
    "core.gc_pause": 0,
    "core.judgement_format": 0,
    "core.derivation": 0,  # how a score came about, as plain data
    "core.conventions": 1,
    "core.signature": 1,
    "core.scores": 1,
    "core.reduce": 1,
    "core.results": 1,
    "core.result_columns": 1,
    "core.frames": 1,
    "core.dataset": 1,
    "core.rag_interface": 1,
    "core.batch": 2,
    "features": 2,
    "semantic": 3,  # models that turn texts into numbers; the metrics that use them are above
    "core.aliases": 0,
    "core.resources": 1,
    "judge": 3,  # asks critics; the metrics that do so are above it
    "judge.critic": 1,
    "judge.policy": 1,
    "core.judged_metric": 3,
    "stats": 0,
    "core.metrics_base": 3,
    "core.metric_options": 3,
    "core.general_derivation": 3,
    "core.family": 3,
    "core.scoring": 3,
    "core.slices": 3,
    "core.sources": 3,
    "core.accumulators": 3,
    "core.executors": 3,
    "core.transport": 1,
    "core.registry": 3,
    "core.suggest": 3,
    "core.mass_failures": 3,
    "core.data_checks": 3,
    "metrics": 4,
    "metrics.retrieval_eval": 6,  # functions over the engine, for those who come with rows
    "core.plan": 5,
    "core.engine": 5,
    "core.evaluate_ids": 5,
    "core.repeat_aggregation": 3,
    "core.repeats": 5,
    "core.runner": 5,
    "adapters": 5,  # objects of other frameworks, none of which it imports at the top
    "calling": 5,  # asks a system: threads, coroutines, timeouts, retries
    "perturb": 5,  # what a system is given, made worse on purpose
    "io": 6,
    "store": 6,
    "systems.addresses": 0,  # judges are at addresses too
    "systems": 6,  # systems that are not Python objects: endpoints, commands
    "crosscheck": 6,
    "reporting": 6,
    "reporting.plots": 8,  # charts of stored runs and of comparisons; the charts themselves know neither
    "reporting.html": 8,  # the page that shows stored runs, alone or held against each other
    "explaining": 8,  # how a stored number came about, step by step
    "calibrating": 8,  # a judge held against people
    "scale": 8,  # the same evaluation on many machines
    "pooling": 8,  # what several runs returned, to be graded
    "labelling": 7,  # people's judgements of stored answers: drawn, asked for, settled
    "planfile": 7,
    "client": 7,
    "gates": 7,  # results and comparisons held against what a run must reach
    "loggers": 7,  # results written to experiment trackers
    "compare": 7,  # reads stored runs; metrics only through the registry
    "running": 8,  # a plan carried out: asked, stored, scored, resumed
    "cli": 9,
    "examples": 9,
    "pytest_plugin": 9,
    "": 10,  # the package itself, which exports lazily
}
# Metrics are reached through the registry alone, so that adding one touches one file.
ONLY_THROUGH_THE_REGISTRY = (
    "core",
    "features",
    "io",
    "reporting",
    "cli",
    "text",
    "stats",
    "crosscheck",
    "client",
    "adapters",
    "calling",
    "perturb",
    "store",
    "systems",
    "planfile",
    "running",
    "compare",
    "gates",
    "judge",
    "semantic",
    "explaining",
    "calibrating",
    "pooling",
    "labelling",
    "pytest_plugin",
)
HEAVY = {
    "scipy",
    "pandas",
    "torch",
    "transformers",
    "sentence_transformers",
    "pyarrow",
    "openai",
    "ray",
    "altair",
    "vl_convert",
    "jinja2",
    "rich",
    "sqlalchemy",
    "nltk",
    "bm25s",
    "langchain_core",
    "llama_index",
    "haystack",
    "polars",
    "mlflow",
    "wandb",
}
# The store is itself imported only where a run is stored or read.
ALLOWED = {"store": {"sqlalchemy"}}


@cache
def imports(path: Path, *, top_level_only: bool = False) -> list[str]:
    """Absolute names of what a module imports; ours without the package's name."""
    tree = parse(path)
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: list[str] = []
    checking = {id(n) for block in ast.walk(tree) if _is_type_checking(block) for n in ast.walk(block)}
    for node in tree.body if top_level_only else ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            found += [f"auepora_eval.{target}" if target else f"auepora_eval.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def layer(module: str) -> int:
    name = module.removeprefix("auepora_eval").strip(".")
    while name and name not in LAYERS:
        name = name.rpartition(".")[0]
    return LAYERS[name]


# Packages whose __init__ is a table of contents and may import from anywhere below them.
CONTENTS = {
    "", "core", "cli", "io", "reporting", "features", "examples", "crosscheck", "stats", "text", "metrics", "adapters",
    "calling", "perturb", "store", "systems", "planfile", "running", "compare", "gates", "judge", "semantic",
}  # fmt: skip


def test_imports_point_down() -> None:
    assert [
        f"{own} (layer {layer(own)}) imports {name} (layer {layer(name)})"
        for path in MODULES
        if (own := module_name(path)) not in CONTENTS
        for name in imports(path)
        if name.startswith("auepora_eval") and layer(name) > layer(own)
    ] == []


def test_nobody_imports_a_metric_by_name() -> None:
    assert [
        f"{own} imports {name}"
        for path in MODULES
        if (own := module_name(path)).split(".")[0] in ONLY_THROUGH_THE_REGISTRY
        for name in imports(path)
        if name.startswith("auepora_eval.metrics")
    ] == []


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    assert [
        f"{own} imports {name}"
        for path in MODULES
        for name in imports(path, top_level_only=True)
        if name.partition(".")[0] in HEAVY - ALLOWED.get((own := module_name(path)).partition(".")[0], set())
    ] == []


def test_every_module_has_a_docstring() -> None:
    assert [module_name(path) for path in MODULES if not ast.get_docstring(parse(path))] == []
