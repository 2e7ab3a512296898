"""The source tree as the project tests read it."""

import ast
import gc
from functools import cache
from pathlib import Path

from helpers.requirements import REPO

SOURCE = REPO / "src" / "auepora_eval"
MODULES = sorted(SOURCE.rglob("*.py"))


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a module. Tests of one worker share it: they are in the xdist group ``source_tree``."""
    gc.disable()  # nothing of a tree is garbage, and looking for it takes twice as long as parsing
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


def module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
