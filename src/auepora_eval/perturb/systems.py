"""A system whose retriever is perturbed, each output saying what was done to its documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..calling.parts import NOT_ASKED, parts_of
from ..calling.split import PartWayError
from ..calling.systems import System, as_system
from ..core.errors import BadTypeError
from ..core.types import EvaluationSample, SystemOutputs
from .kinds import Perturbation
from .lists import Done, Perturber
from .retrieval import SampleRetriever

__all__ = ["PERTURBATION", "perturbed_system", "require_retriever"]

PERTURBATION = "perturbation"
"""The key in an output's ``extra`` under which stands what was done."""
_WANTED = (
    "to perturb what is retrieved, the retriever must be in reach: give a pair (retriever, generator), an object with "
    "retrieve() and generate(), or one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem"
)


def require_retriever(system: object) -> None:
    """Raise where the system cannot be taken apart; it is not called."""
    _taken_apart(system)


def _taken_apart(system: object) -> Any:
    parts = parts_of(system, _WANTED)
    if parts.retriever is None:
        raise BadTypeError(f"{_WANTED}; {type(system).__name__} has generate() and no retriever")
    as_system(parts.build(parts.retriever))
    return parts


def perturbed_system(system: object, perturber: Perturber) -> System:
    """The system, its retriever perturbed for each sample by what is relevant to that; nothing else is changed."""
    parts = _taken_apart(system)
    nobody = EvaluationSample("", "")
    probe = as_system(parts.build(SampleRetriever(parts.retriever, perturber, nobody)))

    def begin(sample: EvaluationSample, top_k: int) -> tuple[SampleRetriever, Any]:
        retriever = SampleRetriever(parts.retriever, perturber, sample)
        return retriever, as_system(parts.build(retriever)).call

    def call(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = begin(sample, top_k)
        try:
            return _finished(retriever, perturber.perturbation, ask(sample, top_k))
        except PartWayError as error:
            error.found = _finished(retriever, perturber.perturbation, error.found)
            raise

    async def acall(sample: EvaluationSample, top_k: int) -> Any:
        retriever, ask = begin(sample, top_k)
        try:
            return _finished(retriever, perturber.perturbation, await ask(sample, top_k))
        except PartWayError as error:
            error.found = _finished(retriever, perturber.perturbation, error.found)
            raise

    return System(probe.called, probe.is_async, acall if probe.is_async else call)


def _finished(retriever: SampleRetriever, perturbation: Perturbation, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # whoever called says what is wrong with it
    asked = retriever.what_was_done()
    extra = {**output.extra, PERTURBATION: {**_said(perturbation), **_joined(asked)}}
    return replace(output, extra=extra if asked else {**extra, NOT_ASKED: True})


def _said(perturbation: Perturbation) -> dict[str, Any]:
    return {"rates": perturbation.rates, "seed": perturbation.seed}


def _joined(several: list[Done]) -> Done:
    """What was done to all lists of one answer; usually there is one."""
    joined: Done = {}
    for done in several:
        for name, value in done.items():
            joined[name] = joined[name] + value if name in joined else value
    return joined
