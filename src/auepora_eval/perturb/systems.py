"""A system whose retriever is perturbed, each output saying what was done to its documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..calling.retrieve_generate import GenerationFailedError
from ..calling.system_parts import RETRIEVER_NOT_CALLED, split_system
from ..calling.systems import System, as_system
from ..core.errors import BadTypeError
from ..core.types import EvaluationSample, SystemOutputs
from .kinds import Perturbation
from .perturber import PerturbationRecord, Perturber
from .retriever import SampleRetriever

__all__ = ["PERTURBATION", "perturbed_system", "require_retriever"]

PERTURBATION = "perturbation"
"""The key in an output's ``extra`` under which stands what was done."""
_NEEDS_RETRIEVER = (
    "to perturb what is retrieved, the retriever must be in reach: give a pair (retriever, generator), an object with "
    "retrieve() and generate(), or one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem"
)


def require_retriever(system: object) -> None:
    """Raise where the system cannot be taken apart; it is not called."""
    _split_system(system)


def _split_system(system: object) -> Any:
    parts = split_system(system, _NEEDS_RETRIEVER)
    if parts.retriever is None:
        raise BadTypeError(f"{_NEEDS_RETRIEVER}; {type(system).__name__} has generate() and no retriever")
    as_system(parts.build(parts.retriever))
    return parts


def perturbed_system(system: object, perturber: Perturber) -> System:
    """The system, its retriever perturbed for each sample by what is relevant to that; nothing else is changed."""
    parts = _split_system(system)
    nobody = EvaluationSample("", "")
    probe = as_system(parts.build(SampleRetriever(parts.retriever, perturber, nobody)))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[SampleRetriever, Any]:
        retriever = SampleRetriever(parts.retriever, perturber, sample)
        return retriever, as_system(parts.build(retriever)).call

    def call(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = begin(sample, top_k)
        try:
            return _attach_record(retriever, perturber.perturbation, ask(sample, top_k))
        except GenerationFailedError as error:
            error.found = _attach_record(retriever, perturber.perturbation, error.found)
            raise

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = begin(sample, top_k)
        try:
            return _attach_record(retriever, perturber.perturbation, await ask(sample, top_k))
        except GenerationFailedError as error:
            error.found = _attach_record(retriever, perturber.perturbation, error.found)
            raise

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _attach_record(retriever: SampleRetriever, perturbation: Perturbation, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # whoever called says what is wrong with it
    asked = retriever.records()
    extra = {**output.extra, PERTURBATION: {**_settings(perturbation), **_merge_records(asked)}}
    return replace(output, extra=extra if asked else {**extra, RETRIEVER_NOT_CALLED: True})


def _settings(perturbation: Perturbation) -> dict[str, Any]:
    return {"rates": perturbation.rates, "seed": perturbation.seed}


def _merge_records(several: list[PerturbationRecord]) -> PerturbationRecord:
    """What was done to all lists of one answer; usually there is one."""
    joined: PerturbationRecord = {}
    for done in several:
        for name, value in done.items():
            joined[name] = joined[name] + value if name in joined else value
    return joined
