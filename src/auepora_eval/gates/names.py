"""Lookup of the metrics and slices that gates name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ..core.errors import AueporaError, BadValueError, did_you_mean
from .kinds import Gate, ValueGate

__all__ = ["canonical_name", "require_known_names", "resolve_names"]


def canonical_name(name: str, known: Collection[str]) -> str | None:
    """The metric in ``known`` that a name or an alias of it (``nDCG@10``) stands for; ``None`` if there is none."""
    if name in known:
        return name
    from ..core.registry import metric

    try:
        ours = metric(name).name
    except AueporaError:
        return None
    return ours if ours in known else None


def resolve_names(gates: Iterable[Gate], known: Collection[str]) -> list[Gate]:
    """The gates with canonical metric names; a name that is not in ``known`` stays unchanged."""
    resolved: list[Gate] = []
    for gate in gates:
        found = None if gate.metric is None else canonical_name(gate.metric, known)
        resolved.append(gate if found is None else replace(gate, metric=found))
    return resolved


def require_known_names(
    gates: Iterable[Gate], known: Collection[str], *, slices: Collection[str] | None = None, otherwise: str = ""
) -> list[Gate]:
    """The gates with canonical metric names; a name that is not in ``known`` is a ``BadValueError``.

    ``otherwise`` ends the error where no name is similar. Where ``slices`` are given, gates may name only these.
    """
    resolved: list[Gate] = []
    for one in gates:
        gate = one
        if gate.metric is not None:
            found = canonical_name(gate.metric, known)
            if found is None:
                listing = f"; there are {', '.join(known)}{otherwise}" if known else otherwise
                raise BadValueError(
                    f"the gate {gate.text!r} names '{gate.metric}', which is not among the metrics"
                    f"{did_you_mean(gate.metric, known, otherwise=listing)}"
                )
            gate = replace(gate, metric=found)
        if isinstance(gate, ValueGate) and gate.where is not None and slices is not None:
            _require_slice(gate, gate.where.slice, slices)
        resolved.append(gate)
    return resolved


def _require_slice(gate: ValueGate, name: str, slices: Collection[str]) -> None:
    if name not in slices:
        listing = f"; there are {', '.join(slices)}" if slices else "; there is none"
        raise BadValueError(
            f"the gate {gate.text!r} names the slice '{name}', which is not among the slices"
            f"{did_you_mean(name, slices, otherwise=listing)}"
        )
