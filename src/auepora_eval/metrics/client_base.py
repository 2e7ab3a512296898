"""The base class of the classes at the paths of the evaluation client: ``client`` conventions by default."""

from __future__ import annotations

from typing import Any

from ..core.conventions import PRESETS
from ..core.registry import ConfiguredMetric


class ClientMetric(ConfiguredMetric):
    """A registered metric with the ``client`` conventions where none are given."""

    registered_as: str

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith(__package__):  # a subclass of a user is a metric of its own
            cls.registered_as = cls.registered_as

    def __post_init__(self) -> None:
        if self.conventions is None:
            object.__setattr__(self, "conventions", PRESETS["client"])
        super().__post_init__()
