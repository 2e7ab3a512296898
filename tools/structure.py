"""Structure of the source tree: its layers, its imports, and the modules that a short command loads.

``LAYERS``, ``RE_EXPORTS`` and ``BY_NAME`` are the rules; ``tests/project/test_layers.py`` checks them.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tools.source_tree import MODULES, ROOT, SOURCE, count_lines, module_name, module_statements, parse

LAYERS = (
    "_version", "errors", "options", "runtime", "text", "stats", "net", "core", "render", "features", "models", "judge",
    "metrics", "engine", "io", "systems", "perturb", "store", "plan", "compare", "queries", "gates", "report", "runs",
    "sweep", "labels", "grades", "calibration", "bench", "client", "loggers", "scale", "crosscheck", "examples", "ui",
    "cli", "pytest_plugin", "__main__",
)  # fmt: skip
"""Packages and top-level modules, lowest first. A module imports from its own package or from a lower one."""

RE_EXPORTS = (
    "annotate", "annotate.agreement", "annotate.bias", "annotate.calibration", "annotate.corrections", "annotate.draws",
    "annotate.relevance", "core.errors", "core.runner", "metrics.additional", "metrics.generation_overlap",
    "metrics.generation_semantic", "metrics.generation_text", "metrics.k_policy", "metrics.retrieval_basic",
    "metrics.retrieval_eval", "metrics.retrieval_ranking", "reporting", "reporting.plots", "reporting.tables",
)  # fmt: skip
"""Modules at the paths of the seeds or of earlier versions: a docstring, imports and ``__all__``.

Nothing in the package imports them.
"""

BY_NAME = {
    ("core.registry", "metrics"): "the package of the built-in metrics, and the group of entry points",
    ("core.registry", "metrics._index"): "built-in metrics are found through their index",
    ("core.metrics_base", "core.general_derivation"): "metrics that record no steps explain themselves by it",
    ("core.plan", "engine.targets"): "plans choose the metrics of targets",
    ("core.results", "render.html"): "results render themselves in notebooks",
    ("compare.types", "compare.rendering"): "comparisons render themselves in notebooks",
    ("compare.types", "compare.short"): "comparisons print themselves",
    ("gates", "report.gate_table"): "gate reports render themselves",
    ("engine.executors", "scale.ray_executor"): "executors are selected by name",
}
"""Modules that are imported by a constant with their name, and why."""

NAMES = {module_name(path) for path in MODULES}
IMPORTERS = {module_name(path): path for path in MODULES if module_name(path) and module_name(path) not in RE_EXPORTS}
"""The package itself exports lazily and is not a layer."""

MEASURED_COMMAND = ("score", "samples.jsonl", "outputs.jsonl", "-m", "recall@5")
_SAMPLES = """\
{"sample_id": "q1", "query": "one", "relevant_docs": ["a"]}
{"sample_id": "q2", "query": "two", "relevant_docs": ["b"]}
"""
_OUTPUTS = """\
{"sample_id": "q1", "retrieved": ["a"]}
{"sample_id": "q2", "retrieved": ["a"]}
"""
_LIST_MODULES = f"""\
import sys
from {ROOT}.cli.main import main
try:
    main(sys.argv[2:])
finally:
    names = [name for name in sys.modules if name.partition(".")[0] == {ROOT!r}]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\\n".join(names))
"""
_DOTTED = re.compile(rf"{ROOT}((?:\.\w+)+)(?::\w+)?")


# --- imports ---------------------------------------------------------------------------------------------------------


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
    if f'"{ROOT}.' not in IMPORTERS[module].read_text(encoding="utf-8"):
        return set()
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
    """The position of a module's package in the order of layers."""
    return LAYERS.index(module.partition(".")[0])


def upward_imports() -> list[str]:
    """Imports of a higher layer or of a re-export module, by statement or by name, that are not in ``BY_NAME``."""
    return [
        f"{own} imports {name}"
        for own in IMPORTERS
        for name in sorted(own_imports(own) | named_modules(own))
        if name in NAMES and (own, name) not in BY_NAME and (name in RE_EXPORTS or layer(name) > layer(own))
    ]


def import_cycles() -> list[list[str]]:
    """The groups of modules that import each other."""
    return strong_components({own: own_imports(own) for own in IMPORTERS})


def strong_components(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components with more than one node (Tarjan)."""
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


# --- names -----------------------------------------------------------------------------------------------------------


SAME_NAMES = ("metrics.retrieval_metrics", "metrics.generation_metrics")
"""Modules at the paths of a seed whose classes are subclasses of others with the same name."""


def repeated_class_names() -> dict[str, list[str]]:
    """Class names that are defined more than once, with the modules that define them."""
    places = defaultdict(list)
    for path in MODULES:
        if module_name(path) in SAME_NAMES:
            continue
        for node in module_statements(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module_name(path))
    return {name: modules for name, modules in sorted(places.items()) if len(modules) > 1}


# --- loaded modules --------------------------------------------------------------------------------------------------


def loaded_modules() -> list[Path]:
    """The modules of this checkout that a fresh interpreter loads to score two samples by ``recall@5``."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "samples.jsonl").write_text(_SAMPLES, encoding="utf-8")
        Path(folder, "outputs.jsonl").write_text(_OUTPUTS, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", _LIST_MODULES, "modules.txt", *MEASURED_COMMAND],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(SOURCE.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"auepora {' '.join(MEASURED_COMMAND)} failed:\n{done.stderr}")
        names = Path(folder, "modules.txt").read_text(encoding="utf-8").split()
    paths = {".".join(filter(None, [ROOT, module_name(path)])): path for path in MODULES}
    return [paths[name] for name in sorted(names)]


# --- the report ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded:
    """Modules and lines that a command loads, from one package or from all."""

    modules: int
    lines: int


@dataclass(frozen=True, slots=True)
class Structure:
    """The figures of the source tree."""

    files: int
    packages: int
    sub_packages: int
    import_cycles: list[list[str]]
    upward_imports: list[str]
    imports_by_name: list[str]
    repeated_class_names: dict[str, list[str]]
    loaded: Loaded
    loaded_by_package: dict[str, Loaded]


def measure_structure() -> Structure:
    """Measure the source tree of this checkout."""
    packages = [module_name(path) for path in MODULES if path.name == "__init__.py" and path.parent != SOURCE]
    modules: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in loaded_modules():
        package = module_name(path).partition(".")[0] or ROOT
        modules[package] += 1
        lines[package] += count_lines(path)
    order = [package for package in (ROOT, *LAYERS, "reporting") if package in modules]
    return Structure(
        files=len(MODULES),
        packages=sum("." not in name for name in packages),
        sub_packages=sum("." in name for name in packages),
        import_cycles=import_cycles(),
        upward_imports=upward_imports(),
        imports_by_name=[f"{own} imports {name}: {reason}" for (own, name), reason in BY_NAME.items()],
        repeated_class_names=repeated_class_names(),
        loaded=Loaded(modules.total(), lines.total()),
        loaded_by_package={package: Loaded(modules[package], lines[package]) for package in order},
    )


def _print_list(title: str, entries: list[str]) -> None:
    print(f"{title:<36} {len(entries):>7,}")
    for entry in entries:
        print(f"  {entry}")


def print_structure(structure: Structure) -> None:
    """Print the figures as plain text."""
    print(f"{'files':<36} {structure.files:>7,}")
    print(f"{'packages':<36} {structure.packages:>7,}")
    print(f"{'sub-packages':<36} {structure.sub_packages:>7,}")
    _print_list("import cycles", [", ".join(modules) for modules in structure.import_cycles])
    _print_list("upward imports", structure.upward_imports)
    _print_list("imports by name", structure.imports_by_name)
    _print_list(
        "class names defined more than once",
        [f"{name}: {', '.join(modules)}" for name, modules in structure.repeated_class_names.items()],
    )
    print(f"\nloaded by auepora {' '.join(MEASURED_COMMAND)}")
    print(f"  {'package':<20} {'modules':>8} {'lines':>8}")
    for package, loaded in structure.loaded_by_package.items():
        print(f"  {package:<20} {loaded.modules:>8,} {loaded.lines:>8,}")
    print(f"  {'all':<20} {structure.loaded.modules:>8,} {structure.loaded.lines:>8,}")


def main() -> None:
    """Print the structure of the source tree, as text or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tools.structure", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    structure = measure_structure()
    if as_json:
        print(json.dumps(asdict(structure), indent=2))
    else:
        print_structure(structure)


if __name__ == "__main__":
    main()
