"""The source tree as the project tests read it."""

from pathlib import Path

from helpers.requirements import REPO

SOURCE = REPO / "src" / "auepora_eval"
MODULES = sorted(SOURCE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
