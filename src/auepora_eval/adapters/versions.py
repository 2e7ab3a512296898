"""The supported frameworks, their packages, and the tested versions."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

from ..core.errors import MissingDependencyError

__all__ = ["FRAMEWORKS", "HAYSTACK", "LANGCHAIN", "LLAMAINDEX", "Framework", "major_version", "require_tested"]


@dataclass(frozen=True, slots=True)
class Framework:
    """A supported framework."""

    name: str
    package: str
    """The installed distribution."""
    module: str
    """Root module of its classes; subclasses belong to the framework."""
    function: str
    """Name of the adapter function, for messages."""
    tested: tuple[str, ...]
    """Tested major versions, the latest last; below 1.0 the minor version counts."""


LANGCHAIN = Framework("LangChain", "langchain-core", "langchain_core", "from_langchain", ("0.3", "1"))
LLAMAINDEX = Framework("LlamaIndex", "llama-index-core", "llama_index", "from_llamaindex", ("0.13", "0.14"))
HAYSTACK = Framework("Haystack", "haystack-ai", "haystack", "from_haystack", ("2", "3"))
FRAMEWORKS = (LANGCHAIN, LLAMAINDEX, HAYSTACK)


def require_tested(framework: Framework, *, any_version: bool = False) -> str:
    """The installed version; ``MissingDependencyError`` if there is none, or an untested one.

    Another major version may return another format, and scores of misread replies are worse than none.
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
        "(any_version=True tries it anyway); it"
    )
    raise MissingDependencyError(framework.package, purpose=purpose, install=latest)


def major_version(version: str) -> str:
    """The compatibility-relevant part of a version: ``"1"`` of 1.7.2, ``"0.14"`` of 0.14.25."""
    first, _, rest = version.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "0" else first
