"""Rename local variables by scope: list every binding of a name, propose a name for each, apply the proposals.

``python -m tools.rename list one src/auepora_eval/runs`` prints one line for each variable: its key, its scope and its
line of source. ``python -m tools.rename apply one FILE`` reads lines ``key new_name`` from a file and renames. A new
name that occurs where the old one is visible is refused, and so is a change of the syntax tree beyond names.

A loop over ``one`` is a variable of its own, as is each comprehension; other bindings in a function are one variable.
"""

import argparse
import ast
import builtins
import keyword
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = ast.Module | ast.ClassDef | Function | Comprehension
Loop = ast.For | ast.AsyncFor


@dataclass(eq=False)
class Variable:
    """A variable with the region of source where its name has this meaning."""

    region: ast.AST
    scope: Scope
    places: list[ast.Name | ast.arg] = field(default_factory=list)
    is_parameter: bool = False

    @property
    def line(self) -> int:
        """The line of the first binding."""
        return min(node.lineno for node in self.places if _binds(node))

    @property
    def column(self) -> int:
        """The column of the first binding."""
        first = min((node.lineno, node.col_offset) for node in self.places if _binds(node))
        return first[1]


def _binds(node: ast.Name | ast.arg) -> bool:
    return isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store | ast.Del)


@dataclass
class Occurrence:
    """One occurrence of a name: the scopes and the loops around it, outermost first."""

    node: ast.Name | ast.arg
    scopes: tuple[Scope, ...]
    loops: tuple[Loop, ...]


class _Collector:
    """Collects all occurrences of names with the scopes they are evaluated in."""

    def __init__(self) -> None:
        self.occurrences: list[Occurrence] = []

    def visit(self, node: ast.AST, scopes: tuple[Scope, ...], loops: tuple[Loop, ...]) -> None:
        if isinstance(node, ast.Name | ast.arg):
            self.occurrences.append(Occurrence(node, scopes, loops))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._visit_function(node, scopes, loops)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self._visit_comprehension(node, scopes, loops)
        elif isinstance(node, ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                inner = (*scopes, node) if child in node.body else scopes
                self.visit(child, inner, ())
        elif isinstance(node, ast.For | ast.AsyncFor):
            self.visit(node.iter, scopes, loops)
            for child in (node.target, *node.body, *node.orelse):
                self.visit(child, scopes, (*loops, node))
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child, scopes, loops)

    def _visit_function(self, node: Function, scopes: tuple[Scope, ...], loops: tuple[Loop, ...]) -> None:
        arguments = node.args
        parameters = {*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs}
        parameters |= {argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None}
        for parameter in parameters:
            self.occurrences.append(Occurrence(parameter, (*scopes, node), ()))
            if parameter.annotation is not None:
                self.visit(parameter.annotation, scopes, loops)
        for default in (*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)):
            self.visit(default, scopes, loops)
        if isinstance(node, ast.Lambda):
            self.visit(node.body, (*scopes, node), ())
            return
        for outside in (*node.decorator_list, *([node.returns] if node.returns else [])):
            self.visit(outside, scopes, loops)
        for statement in node.body:
            self.visit(statement, (*scopes, node), ())

    def _visit_comprehension(self, node: Comprehension, scopes: tuple[Scope, ...], loops: tuple[Loop, ...]) -> None:
        first = node.generators[0]
        self.visit(first.iter, scopes, loops)
        inner = (*scopes, node)
        for generator in node.generators:
            self.visit(generator.target, inner, loops)
            if generator is not first:
                self.visit(generator.iter, inner, loops)
            for condition in generator.ifs:
                self.visit(condition, inner, loops)
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for element in elements:
            self.visit(element, inner, loops)


def collect(tree: ast.Module) -> list[Occurrence]:
    """All occurrences of names in a module."""
    collector = _Collector()
    collector.visit(tree, (tree,), ())
    return collector.occurrences


def _binding_scope(occurrence: Occurrence, binding: set[tuple[int, str]]) -> Scope | None:
    """The scope whose variable an occurrence is, or None for a name bound elsewhere."""
    node = occurrence.node
    name = _name(node)
    scopes = occurrence.scopes
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and (id(node), "walrus") in binding:
        outside = [scope for scope in scopes if not isinstance(scope, Comprehension)]
        return outside[-1]
    for scope in reversed(scopes):
        is_hidden_class = isinstance(scope, ast.ClassDef) and scope is not scopes[-1]
        if not is_hidden_class and (id(scope), name) in binding:
            return scope
    return None


def _name(node: ast.Name | ast.arg) -> str:
    return node.arg if isinstance(node, ast.arg) else node.id


def _bindings(tree: ast.Module, occurrences: list[Occurrence]) -> set[tuple[int, str]]:
    walrus = {id(node.target) for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)}
    binding = {(target, "walrus") for target in walrus}
    for occurrence in occurrences:
        node = occurrence.node
        if not _binds(node):
            continue
        scopes = occurrence.scopes
        if id(node) in walrus:
            scopes = tuple(scope for scope in scopes if not isinstance(scope, Comprehension))
        binding.add((id(scopes[-1]), _name(node)))
    return binding


def find_variables(tree: ast.Module, name: str) -> list[Variable]:
    """The variables with a name, in the order of their first binding."""
    occurrences = collect(tree)
    binding = _bindings(tree, occurrences)
    by_scope: dict[int, list[tuple[Occurrence, Scope]]] = defaultdict(list)
    for occurrence in occurrences:
        if _name(occurrence.node) == name:
            scope = _binding_scope(occurrence, binding)
            if scope is not None:
                by_scope[id(scope)].append((occurrence, scope))
    variables = []
    for found in by_scope.values():
        variables += _divide(found, name)
    return sorted(variables, key=lambda variable: (variable.line, variable.column))


def _divide(found: list[tuple[Occurrence, Scope]], name: str) -> list[Variable]:
    """The variables of one scope: loops over the name are variables of their own unless it is used after them."""
    scope = found[0][1]
    whole = Variable(scope, scope, is_parameter=any(isinstance(occurrence.node, ast.arg) for occurrence, _ in found))
    by_loop: dict[int, Variable] = {}
    for occurrence, _ in found:
        loops = [loop for loop in occurrence.loops if _targets(loop, name)]
        variable = by_loop.setdefault(id(loops[0]), Variable(loops[0], scope)) if loops else whole
        variable.places.append(occurrence.node)
    if whole.places and not any(_binds(node) for node in whole.places):
        for variable in by_loop.values():
            whole.places += variable.places
        return [whole]
    return [variable for variable in (whole, *by_loop.values()) if variable.places]


def _targets(loop: Loop, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target))


def _conflict(tree: ast.Module, variable: Variable, new_name: str) -> str | None:
    """Why a variable cannot get a name, or None."""
    if not new_name.isidentifier() or keyword.iskeyword(new_name):
        return "is not a name"
    if hasattr(builtins, new_name):
        return "is a built-in name"
    if any(isinstance(node, ast.Name | ast.arg) and _name(node) == new_name for node in ast.walk(variable.region)):
        return "is already used there"
    if isinstance(variable.region, ast.For | ast.AsyncFor):
        loops = [
            node
            for node in ast.walk(variable.scope)
            if isinstance(node, ast.For | ast.AsyncFor) and _targets(node, new_name)
        ]
        inside = {id(node) for loop in loops for node in ast.walk(loop)}
        for occurrence in collect(tree):
            if _name(occurrence.node) != new_name or variable.scope not in occurrence.scopes:
                continue
            is_own = any(
                isinstance(scope, Comprehension) and _binds_inside(scope, new_name) for scope in occurrence.scopes
            )
            if not is_own and id(occurrence.node) not in inside:
                return "is another variable of the function"
        if any(variable.region in ast.walk(loop) for loop in loops):
            return "is the variable of a loop around it"
    return None


def _binds_inside(scope: Comprehension, name: str) -> bool:
    targets = [generator.target for generator in scope.generators]
    return any(isinstance(node, ast.Name) and node.id == name for target in targets for node in ast.walk(target))


def erase_names(tree: ast.Module) -> str:
    """The syntax tree as text without the names of variables and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = "_"
        elif isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg is not None):
            node.arg = "_"
    return ast.dump(tree)


def _modules(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def print_variables(name: str, paths: list[str]) -> None:
    """Print the key, scope and source of every variable with a name."""
    for path in _modules(paths):
        text = path.read_text()
        lines = text.splitlines()
        for variable in find_variables(ast.parse(text), name):
            kind = "parameter" if variable.is_parameter else type(variable.region).__name__
            scope = getattr(variable.scope, "name", "")
            region = variable.region
            source = lines[variable.line - 1].strip()
            if isinstance(region, Comprehension):
                source = " ".join(line.strip() for line in lines[region.lineno - 1 : region.end_lineno])
            print(f"{path}:{variable.line}:{variable.column}\t{kind} {scope}\t{source}")


def apply_proposals(name: str, proposals: dict[str, str]) -> list[str]:
    """Rename variables by their keys and return why others could not be renamed."""
    problems = []
    by_path: dict[str, dict[str, str]] = defaultdict(dict)
    for key, new_name in proposals.items():
        by_path[key.split(":")[0]][key] = new_name
    for path, of_path in by_path.items():
        text = Path(path).read_text()
        tree = ast.parse(text)
        before = erase_names(ast.parse(text))
        edits = []
        known = {f"{path}:{variable.line}:{variable.column}": variable for variable in find_variables(tree, name)}
        problems += [f"{key}: no variable {name} is bound there" for key in of_path if key not in known]
        for key, variable in known.items():
            if key not in of_path:
                continue
            new_name = of_path[key]
            conflict = _conflict(tree, variable, new_name)
            if conflict is not None:
                problems.append(f"{key}: {new_name} {conflict}")
                continue
            for node in variable.places:
                edits.append((node.lineno, node.col_offset, new_name))
                if isinstance(node, ast.arg):
                    node.arg = new_name
                else:
                    node.id = new_name
            print(f"{key}: {name} -> {new_name}")
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        old = name.encode()
        for number, column, new_name in sorted(set(edits), reverse=True):
            line = lines[number - 1]
            if line[column : column + len(old)] != old:
                raise SystemExit(f"{path}:{number}:{column}: expected {name}")
            lines[number - 1] = line[:column] + new_name.encode() + line[column + len(old) :]
        changed = b"".join(lines).decode()
        if erase_names(ast.parse(changed)) != before:
            raise SystemExit(f"{path}: the syntax tree would change beyond names")
        Path(path).write_text(changed)
    return problems


def main() -> None:
    """List variables or apply proposals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "apply"])
    parser.add_argument("name")
    parser.add_argument("paths", nargs="+", help="modules or folders to list; the file of proposals to apply")
    arguments = parser.parse_args()
    if arguments.action == "list":
        print_variables(arguments.name, arguments.paths)
        return
    rows = [line.split() for path in arguments.paths for line in Path(path).read_text().splitlines() if line.strip()]
    problems = apply_proposals(arguments.name, {row[0]: row[1] for row in rows})
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
