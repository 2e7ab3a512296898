"""What plans name under ``resources``, a judge or an embedder, and how an option of a metric refers to it."""

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
    """Stands in a metric's option for a resource of the plan; written ``{use: NAME}``.

    A metric can be built, named and compared without the thing itself, which may need a key or a model; only scoring
    asks for it.
    """

    name: str
    thing: Any = field(default=None, repr=False, compare=False)
    """The resource itself, where it was given."""


@contextmanager
def use_resources(resources: Mapping[str, Any]) -> Iterator[None]:
    """Metrics built inside find these resources, however deep in another metric they stand."""
    token = _RESOURCES.set(dict(resources))
    try:
        yield
    finally:
        _RESOURCES.reset(token)


def parse_use(option: object) -> Any:
    """An option as a metric keeps it: ``{use: NAME}`` as a ``Use``, with the resource where one is given."""
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
    """The thing an option stands for; an error where it is a reference to a resource that was not given."""
    if not isinstance(option, Use):
        return option
    if option.thing is None:
        raise BadValueError(f"{what} is the resource '{option.name}' of a plan, which is not at hand here")
    return option.thing
