"""Base class of built-in metrics: options are dataclass fields, names follow from the registry; option checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import BadTypeError, BadValueError
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
        name = metric_name(type(self), vars(self))
        if name is not None:
            object.__setattr__(self, "name", name)


# --- checks of options ----------------------------------------------------------------------------------------------


def require_bool(name: str, value: object) -> None:
    """Raise unless an option is true or false."""
    if not isinstance(value, bool):
        raise BadTypeError(f"{name} must be true or false, not {value!r}")


def require_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless an option is one of the allowed values."""
    if value not in choices:
        raise BadValueError(f"{name} must be one of {', '.join(choices)}; not {value!r}")


def require_count(name: str, value: object, *, least: int = 1) -> None:
    """Raise unless an option is an integer >= ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadValueError(f"{name} must be an integer >= {least}, not {value!r}")
