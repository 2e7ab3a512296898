"""Resources of a plan, such as a judge or an embedder, and references to them in options of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .errors import BadValueError, did_you_mean

__all__ = ["Use", "parse_use", "resolve", "use_resources"]

_RESOURCES: ContextVar[Mapping[str, Any] | None] = ContextVar("auepora_resources", default=None)


@dataclass(frozen=True, slots=True)
class Use:
    """A reference to a resource of the plan in an option of a metric; written ``{use: NAME}``.

    A metric can be built, named and compared without the resource, which may need a key or a model; only scoring
    needs it.
    """

    name: str
    thing: Any = field(default=None, repr=False, compare=False)
    """The resource itself, where it was given."""


@contextmanager
def use_resources(resources: Mapping[str, Any]) -> Iterator[None]:
    """Make these resources available to metrics built inside, also to nested ones."""
    token = _RESOURCES.set(dict(resources))
    try:
        yield
    finally:
        _RESOURCES.reset(token)


def parse_use(option: object) -> Any:
    """The option, with ``{use: NAME}`` as a ``Use`` that contains the resource where it is available."""
    if not (isinstance(option, Mapping) and set(option) == {"use"}):
        return option
    name, resources = option["use"], _RESOURCES.get()
    if not isinstance(name, str) or not name:
        raise BadValueError(f"use: takes the name of a resource, not {name!r:.80}")
    if resources is None:
        return Use(name)
    if name not in resources:
        there = f"; the resources are {', '.join(resources)}" if resources else "; the plan has no 'resources'"
        raise BadValueError(f"there is no resource '{name}'{did_you_mean(name, resources, otherwise=there)}")
    return Use(name, resources[name])


def resolve(option: Any, *, what: str) -> Any:
    """The value of an option; raises for a reference to a resource that is not available."""
    if not isinstance(option, Use):
        return option
    if option.thing is None:
        raise BadValueError(f"{what} is the resource '{option.name}' of a plan, which is not available here")
    return option.thing
