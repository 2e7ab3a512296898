"""Aligns outputs, given by sample id, with the order of the samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.conventions import Conventions
from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["AlignedOutputs", "align_outputs", "require_common_id", "unmatched_warnings"]

MAX_NAMED_IDS = 3
"""How many ids a warning names; the others are counted."""


@dataclass(frozen=True, slots=True)
class AlignedOutputs:
    """One output, or ``None``, for each sample; and the unmatched ids."""

    outputs: list[SystemOutputs | None]
    missing: list[str]
    """Ids of samples without an output."""
    unknown: list[str]
    """Ids of outputs that no sample has."""


def align_outputs(samples: Iterable[EvaluationSample], outputs_by_id: Mapping[str, SystemOutputs]) -> AlignedOutputs:
    """Return the outputs in sample order. It is an error if no id matches: then the files do not belong together."""
    ids = [sample.sample_id for sample in samples]
    known = dict.fromkeys(ids)
    require_common_id(known, outputs_by_id)
    return AlignedOutputs(
        outputs=[outputs_by_id.get(sample_id) for sample_id in ids],
        missing=[sample_id for sample_id in ids if sample_id not in outputs_by_id],
        unknown=[sample_id for sample_id in outputs_by_id if sample_id not in known],
    )


def require_common_id(samples: Mapping[str, object], outputs: Mapping[str, object]) -> None:
    """Raise if there are samples and outputs but no common id; the message shows an id of each."""
    if samples and outputs and samples.keys().isdisjoint(outputs):
        raise BadValueError(
            f"no sample and output share an id: the first sample is {next(iter(samples))!r}, "
            f"the first output {next(iter(outputs))!r}; do the two belong together?"
        )


def unmatched_warnings(
    missing: Sequence[str], unknown: Sequence[str], *, total: int, conventions: Conventions
) -> list[str]:
    """Return warnings about samples without an output, with their outcome, and outputs without a sample."""
    warnings = []
    if missing:
        one = len(missing) == 1
        outcome = {
            "fail": "counts as a failure" if one else "count as failures",
            "skip": "is skipped" if one else "are skipped",
            "zero": "counts as nothing returned" if one else "count as nothing returned",
        }[conventions.missing]
        has = "has" if one else "have"
        warnings.append(f"{len(missing)} of {total} samples {has} no output and {outcome}: {_name_ids(missing)}")
    if unknown:
        one = len(unknown) == 1
        what = "1 output belongs to no sample and is" if one else f"{len(unknown)} outputs belong to no sample and are"
        warnings.append(f"{what} left out: {_name_ids(unknown)}")
    return warnings


def _name_ids(ids: Sequence[str]) -> str:
    names = ", ".join(repr(one) for one in ids[:MAX_NAMED_IDS])
    return names if len(ids) <= MAX_NAMED_IDS else f"{names} and {len(ids) - MAX_NAMED_IDS} more"
