"""Systems with a perturbed retriever; each output records the changes of its documents."""

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
"""The key of the record in an output's ``extra``."""
_NEEDS_RETRIEVER = (
    "to perturb documents, the retriever must be accessible: give a pair (retriever, generator), an object with "
    "retrieve() and generate(), or one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem"
)


def require_retriever(system: object) -> None:
    """Raise where the system has no accessible retriever; it is not called."""
    _split_system(system)


def _split_system(system: object) -> Any:
    parts = split_system(system, _NEEDS_RETRIEVER)
    if parts.retriever is None:
        raise BadTypeError(f"{_NEEDS_RETRIEVER}; {type(system).__name__} has generate() and no retriever")
    as_system(parts.build(parts.retriever))
    return parts


def perturbed_system(system: object, perturber: Perturber) -> System:
    """The system with its retriever perturbed for each sample; nothing else is changed."""
    parts = _split_system(system)
    empty_sample = EvaluationSample("", "")
    probe = as_system(parts.build(SampleRetriever(parts.retriever, perturber, empty_sample)))

    def prepare(sample: EvaluationSample, top_k: int) -> tuple[SampleRetriever, Any]:
        retriever = SampleRetriever(parts.retriever, perturber, sample)
        return retriever, as_system(parts.build(retriever)).call

    def call(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = prepare(sample, top_k)
        try:
            return _attach_record(retriever, perturber.perturbation, ask(sample, top_k))
        except GenerationFailedError as error:
            error.output = _attach_record(retriever, perturber.perturbation, error.output)
            raise

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = prepare(sample, top_k)
        try:
            return _attach_record(retriever, perturber.perturbation, await ask(sample, top_k))
        except GenerationFailedError as error:
            error.output = _attach_record(retriever, perturber.perturbation, error.output)
            raise

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _attach_record(retriever: SampleRetriever, perturbation: Perturbation, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # the caller reports the error
    records = retriever.records()
    extra = {**output.extra, PERTURBATION: {**_settings(perturbation), **_merge_records(records)}}
    return replace(output, extra=extra if records else {**extra, RETRIEVER_NOT_CALLED: True})


def _settings(perturbation: Perturbation) -> dict[str, Any]:
    return {"rates": perturbation.rates, "seed": perturbation.seed}


def _merge_records(records: list[PerturbationRecord]) -> PerturbationRecord:
    """The merged record of all rankings of one answer; usually there is one."""
    merged: PerturbationRecord = {}
    for record in records:
        for name, value in record.items():
            merged[name] = merged[name] + value if name in merged else value
    return merged
