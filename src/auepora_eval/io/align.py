"""Brings outputs, known by sample id, into the order of the samples."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["AlignedOutputs", "align_outputs", "require_common_id"]


@dataclass(frozen=True, slots=True)
class AlignedOutputs:
    """One output, or ``None``, for each sample; and what had no partner."""

    outputs: list[SystemOutputs | None]
    missing: list[str]
    """Ids of samples without an output."""
    unknown: list[str]
    """Ids of outputs that no sample has."""


def align_outputs(samples: Iterable[EvaluationSample], outputs_by_id: Mapping[str, SystemOutputs]) -> AlignedOutputs:
    """The outputs in sample order. That no id at all meets is an error, since then the wrong files were paired."""
    ids = [sample.sample_id for sample in samples]
    known = dict.fromkeys(ids)
    require_common_id(known, outputs_by_id, what=("sample", "output"))
    return AlignedOutputs(
        outputs=[outputs_by_id.get(sample_id) for sample_id in ids],
        missing=[sample_id for sample_id in ids if sample_id not in outputs_by_id],
        unknown=[sample_id for sample_id in outputs_by_id if sample_id not in known],
    )


def require_common_id(first: Mapping[str, object], second: Mapping[str, object], *, what: tuple[str, str]) -> None:
    """Raise if both have ids but share none, showing an id of each."""
    if first and second and first.keys().isdisjoint(second):
        raise BadValueError(
            f"no {what[0]} and {what[1]} share an id: the first {what[0]} is {next(iter(first))!r}, "
            f"the first {what[1]} {next(iter(second))!r}; do the two belong together?"
        )
