"""Metric names that experiment trackers accept."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..core.errors import BadValueError

__all__ = ["legal_name", "legal_names", "require_prefix"]

_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_PREFIX = re.compile(r"[A-Za-z0-9_./-]*")


def legal_name(name: str) -> str:
    """A name of letters, digits and underscores only, which every tracker accepts.

    ``@`` becomes ``_at_``; brackets, commas and all other characters become ``_``, stripped at both ends.

    >>> legal_name("recall@5"), legal_name("quantile_latency[end_to_end,0.95]")
    ('recall_at_5', 'quantile_latency_end_to_end_0_95')
    """
    legal = _ILLEGAL_CHARACTERS.sub("_", name.replace("@", "_at_")).strip("_")
    if not legal:
        raise BadValueError(f"the metric name {name!r} has no letter a to z and no digit; rename it (`as:`)")
    return f"_{legal}" if legal[0].isdigit() else legal


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """The legal name of each metric; two metrics with the same one are an error."""
    taken: dict[str, str] = {}
    for name in names:
        legal = legal_name(name)
        if legal in taken:
            which = f"'{taken[legal]}' and '{name}'" if taken[legal] != name else f"two metrics called '{name}'"
            raise BadValueError(f"{which} would both be logged as '{legal}'; give one of them another name (`as:`)")
        taken[legal] = name
    return {name: legal for legal, name in taken.items()}


def require_prefix(prefix: str) -> None:
    """Raise for a prefix that trackers do not accept."""
    if not _PREFIX.fullmatch(prefix):
        raise BadValueError(f"the prefix {prefix!r} may contain only letters, digits and _ . / -, such as 'dev/'")
