"""The base install: how many distributions it has, and that the documentation gives this number."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import installs

REPO = Path(__file__).parents[2]
MOST = installs.MOST_DISTRIBUTIONS


def base_install() -> set[str]:
    """The distributions that an installation without extras has, our own included."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = {canonicalize_name(project["name"])}
    todo = list(project["dependencies"])
    while todo:
        one = Requirement(todo.pop())
        name = canonicalize_name(one.name)
        if name in found or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        todo += requires(name) or []
    return found


def test_the_base_install_is_small() -> None:
    found = base_install()
    assert {"numpy", "starlette", "uvicorn", "h11"} <= found
    assert len(found) <= MOST
    page = (REPO / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert re.search(r"(\d+) distributions with our own", page)[1] == str(len(found))  # type: ignore[index]
    assert f"the limits are {MOST} and" in page
