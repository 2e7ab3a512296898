"""Base class of built-in metrics: options are dataclass fields, names follow from the registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .conventions import Conventions
from .metrics_base import BatchMetric
from .registry import metric_name


def signature_number(value: float) -> str:
    """A number as written in a signature: the shortest exact form."""
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class ConfiguredMetric(BatchMetric):
    """A metric whose options are its dataclass fields and whose name follows from them."""

    conventions: Conventions | None = field(default=None, kw_only=True)
    overrides: tuple[tuple[str, Any], ...] = field(default=(), kw_only=True)
    if TYPE_CHECKING:
        # Not a field: ``register`` adds the option to every constructor, and a subclass may set ``self.name``.
        name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.conventions is not None and not isinstance(self.conventions, Conventions):
            object.__setattr__(self, "conventions", Conventions.of(self.conventions))
        super().__post_init__()
        name = metric_name(type(self), vars(self))
        if name is not None:
            object.__setattr__(self, "name", name)
