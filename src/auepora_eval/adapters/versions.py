"""The frameworks that can be adapted, their packages, and the versions that were tested."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from ..core.errors import MissingDependencyError

__all__ = ["FRAMEWORKS", "HAYSTACK", "LANGCHAIN", "LLAMAINDEX", "Framework", "major_version", "require_tested"]


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework whose objects can be asked."""

    name: str
    package: str
    """What is installed."""
    module: str
    """Where its classes live; a class that inherits from one of these is the framework's."""
    function: str
    """The adapter, as messages name it."""
    tested: tuple[str, ...]
    """Major versions that pass our tests, the latest last; below 1.0 the second number counts as one."""


LANGCHAIN = Framework("LangChain", "langchain-core", "langchain_core", "from_langchain", ("0.3", "1"))
LLAMAINDEX = Framework("LlamaIndex", "llama-index-core", "llama_index", "from_llamaindex", ("0.13", "0.14"))
HAYSTACK = Framework("Haystack", "haystack-ai", "haystack", "from_haystack", ("2", "3"))
FRAMEWORKS = (LANGCHAIN, LLAMAINDEX, HAYSTACK)


def require_tested(framework: Framework, *, any_version: bool = False) -> str:
    """The installed version; ``MissingDependencyError`` where there is none, or one that nobody has tested.

    Another major version may answer in another shape, and numbers from misread answers are worse than none.
    """
    latest = f"'{framework.package}=={framework.tested[-1]}.*'"
    try:
        version = importlib.metadata.version(framework.package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependencyError(
            framework.package, purpose=f"{framework.function}()", install=framework.package
        ) from None
    if any_version or major_version(version) in framework.tested:
        return version
    tested = " and ".join(framework.tested)
    purpose = (
        f"{framework.function}() was tested with {framework.package} {tested}, and {version} is installed "
        "(any_version=True tries it all the same); it"
    )
    raise MissingDependencyError(framework.package, purpose=purpose, install=latest)


def major_version(version: str) -> str:
    """The part of a version that changes when something breaks: ``"1"`` of 1.7.2, ``"0.14"`` of 0.14.25."""
    first, _, rest = version.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "0" else first
