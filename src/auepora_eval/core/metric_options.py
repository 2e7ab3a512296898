"""The parts of a signature that every metric has: changed options, and conventions that are not the defaults."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from .conventions import CONVENTION_NAMES, Conventions

if TYPE_CHECKING:
    from .metrics_base import BatchMetric

__all__ = ["changed_conventions", "common_options", "non_default_options"]


def common_options(metric: BatchMetric) -> dict[str, str]:
    """Conventions about failures, shown only where they differ from the default and change the number."""
    conventions = metric.active_conventions
    options: dict[str, str] = {}
    if not metric.counts_system_failures:
        return options
    if conventions.missing != "fail":
        options["missing"] = conventions.missing
    if conventions.on_system_failure != "worst" and not metric.always_counts_failures:
        options["failed"] = conventions.on_system_failure
    return options


def non_default_options(metric: BatchMetric) -> dict[str, str]:
    """The constructor's options that differ from their defaults, as far as they are attributes."""
    options = {}
    for name, parameter in inspect.signature(type(metric)).parameters.items():
        value = getattr(metric, name, parameter.default)
        if name not in ("conventions", "overrides", "name") and value != parameter.default:
            options[name] = re.sub(r"[|:\s]+", "_", value if isinstance(value, str) else repr(value))
    return options


def changed_conventions(metric: BatchMetric) -> dict[str, str]:
    """Conventions that differ from the default and may have changed the number."""
    apart = {"missing", "on_system_failure", "k_values"}  # shown elsewhere, or irrelevant
    default, conventions = Conventions.of(), metric.active_conventions
    return {
        key: str(getattr(conventions, key))
        for key in CONVENTION_NAMES
        if key not in apart and getattr(conventions, key) != getattr(default, key)
    }
