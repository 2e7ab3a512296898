"""Metric names as experiment trackers take them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..core.errors import BadValueError

__all__ = ["legal_name", "legal_names", "require_prefix"]

_ILLEGAL_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_PREFIX = re.compile(r"[A-Za-z0-9_./-]*")


def legal_name(name: str) -> str:
    """A name of letters, digits and underscores alone, which every tracker takes.

    ``@`` becomes ``_at_``; brackets, commas and all else become ``_``, of which none is left at either end.

    >>> legal_name("recall@5"), legal_name("quantile_latency[end_to_end,0.95]")
    ('recall_at_5', 'quantile_latency_end_to_end_0_95')
    """
    made = _ILLEGAL_CHARACTERS.sub("_", name.replace("@", "_at_")).strip("_")
    if not made:
        raise BadValueError(
            f"the metric name {name!r} has no letter of a to z and no digit; give it another one (`as:`)"
        )
    return f"_{made}" if made[0].isdigit() else made


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Per metric its legal name; two that would have the same are refused, since one would hide the other."""
    taken: dict[str, str] = {}
    for name in names:
        made = legal_name(name)
        if made in taken:
            which = f"'{taken[made]}' and '{name}'" if taken[made] != name else f"two metrics called '{name}'"
            raise BadValueError(f"{which} would both be logged as '{made}'; give one of them another name (`as:`)")
        taken[made] = name
    return {name: made for made, name in taken.items()}


def require_prefix(prefix: str) -> None:
    """Refuse a prefix that no tracker takes."""
    if not _PREFIX.fullmatch(prefix):
        raise BadValueError(f"the prefix {prefix!r} may hold letters, digits and any of _ . / - alone, such as 'dev/'")
