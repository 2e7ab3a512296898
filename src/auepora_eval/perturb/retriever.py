"""Retrievers and systems whose rankings are perturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError
from ..systems.adapters import display_class_name
from ..systems.interfaces import (
    RETRIEVER_NOT_CALLED,
    GenerationFailedError,
    System,
    SystemParts,
    adapt,
    as_system,
    is_async,
    run_without_waiting,
    split_system,
)
from .documents import CorpusLike, DocumentEdit, NoisePool, Perturbation, PerturbationRecord, Perturber


class _PerturbingRetriever:
    """Calls a sync or async retriever and perturbs its ranking."""

    retrieve: Callable[..., Any]
    """Sync or async, like that of the wrapped retriever."""

    def __init__(
        self,
        retriever: object,
        perturber: Perturber,
        sample_of: Callable[[str], EvaluationSample],
        keep_record: Callable[[str, PerturbationRecord], None],
    ) -> None:
        """``sample_of`` gives the sample of a query; the record of each perturbed ranking goes to ``keep_record``."""
        inner = getattr(retriever, "retrieve", None)
        async_retrieve = getattr(retriever, "aretrieve", None)
        if isinstance(retriever, type) or not (callable(inner) or callable(async_retrieve)):
            type_text = "a class" if isinstance(retriever, type) else f"a {display_class_name(retriever)}"
            raise BadTypeError(f"a retriever is an object with a method retrieve(query, *, top_k), not {type_text}")
        self._retriever, self._perturber = retriever, perturber
        self._sample_of, self._keep_record = sample_of, keep_record
        if callable(inner):
            self.retrieve = self._wrap_async(inner) if is_async(inner) else self._wrap_sync(inner)
        if callable(async_retrieve):
            self.aretrieve = self._wrap_async(async_retrieve)

    def __getattr__(self, name: str) -> Any:
        # Other attributes of the retriever; private names are looked up before it is set.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._retriever, name)

    def _wrap_sync(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def retrieve(query: str, *args: Any, **options: Any) -> Any:
            return self._perturb(query, inner(query, *args, **options))

        return retrieve

    def _wrap_async(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        async def retrieve(query: str, *args: Any, **options: Any) -> Any:
            return self._perturb(query, await inner(query, *args, **options))

        return retrieve

    def _perturb(self, query: str, retrieved: Any) -> Any:
        documents, record = self._perturber.apply(self._sample_of(query), retrieved)
        self._keep_record(query, record)
        return documents


class PerturbedRetriever(_PerturbingRetriever):
    """A retriever that adds noise, drops relevant documents or perturbs its rankings otherwise, at given rates.

    The perturbation of a sample depends on the seed, its id and the kind only, not on the order of calls or their
    concurrency. A change at one rate also occurs at every higher one. A rate of 0 changes nothing.

    The retriever has ``retrieve(query, *, top_k)``, or is one of LangChain, LlamaIndex or Haystack. ``samples``
    give the gold of each query; any other query has no gold. Noise is drawn from the ``corpus`` (documents, or an
    ``io.corpus.Corpus``), else from the samples' documents that have a text. ``edit`` makes a counterfactual
    document; without it, ``metadata["wrong_answer"]`` replaces the right answer. ``arm`` sets the rates: ``none`` for
    no documents, ``original`` for the retrieved ones, ``edited`` for counterfactual ones.
    """

    def __init__(
        self,
        retriever: object,
        *,
        noise: float = 0.0,
        drop: float = 0.0,
        counterfactual: float = 0.0,
        empty: float = 0.0,
        shuffle: float = 0.0,
        duplicate: float = 0.0,
        arm: str | None = None,
        samples: Iterable[EvaluationSample] = (),
        corpus: CorpusLike | Iterable[Document] | None = None,
        edit: DocumentEdit | None = None,
        seed: int = 0,
    ) -> None:
        perturbation = Perturbation(noise, drop, counterfactual, empty, shuffle, duplicate, seed)
        if arm is not None:
            if perturbation.rates:
                raise BadValueError(f"give an arm or rates, not both: the arm '{arm}' sets the rates")
            perturbation = Perturbation.from_arm(arm, seed)
        sample_list = list(samples)
        pool = NoisePool.from_samples(sample_list) if corpus is None else NoisePool.from_documents(corpus)
        super().__init__(adapt(retriever), Perturber(perturbation, pool, edit), self._find_sample, self._record)
        self._by_query: dict[str, EvaluationSample] = {}
        for sample in sample_list:
            self._by_query.setdefault(sample.query, sample)
        self.done: dict[str, PerturbationRecord] = {}
        """The latest record by sample id, or by query where no sample has it."""

    @property
    def perturbation(self) -> Perturbation:
        """The rates and the seed."""
        return self._perturber.perturbation

    def _find_sample(self, query: str) -> EvaluationSample:
        return self._by_query.get(query) or EvaluationSample(query, query)

    def _record(self, query: str, record: PerturbationRecord) -> None:
        self.done[self._find_sample(query).sample_id] = record


# --- systems with a perturbed retriever; each output records the changes of its documents ----------------------------

PERTURBATION = "perturbation"
"""The key of the record in an output's ``extra``."""
_NEEDS_RETRIEVER = (
    "to perturb documents, the retriever must be accessible: give a pair (retriever, generator), an object with "
    "retrieve() and generate(), or one whose run() uses its attribute 'retriever', such as a SimpleRAGSystem"
)


def require_retriever(system: object) -> SystemParts:
    """The parts of a system; raises where it has no accessible retriever. It is not called."""
    parts = split_system(system, _NEEDS_RETRIEVER)
    if parts.retriever is None:
        raise BadTypeError(f"{_NEEDS_RETRIEVER}; {type(system).__name__} has generate() and no retriever")
    as_system(parts.build(parts.retriever))
    return parts


def perturbed_system(system: object, perturber: Perturber) -> System:
    """The system with its retriever perturbed for each sample; nothing else is changed."""
    parts = require_retriever(system)

    def build(sample: EvaluationSample, records: list[PerturbationRecord]) -> System:
        def keep_record(_: str, record: PerturbationRecord) -> None:
            records.append(record)

        return as_system(parts.build(_PerturbingRetriever(parts.retriever, perturber, lambda _: sample, keep_record)))

    async def call(sample: EvaluationSample, top_k: int) -> Any:
        records: list[PerturbationRecord] = []
        try:
            output = build(sample, records).call(sample, top_k)
            return _attach_records(records, perturber.perturbation, await output if probe.is_async else output)
        except GenerationFailedError as error:
            error.output = _attach_records(records, perturber.perturbation, error.output)
            raise

    probe = build(EvaluationSample("", ""), [])
    if probe.is_async:
        return System(probe.called, True, call)
    return System(probe.called, False, lambda sample, top_k: run_without_waiting(call(sample, top_k)))


def _attach_records(records: list[PerturbationRecord], perturbation: Perturbation, output: Any) -> Any:
    if not isinstance(output, SystemOutputs):
        return output  # the caller reports the error
    settings = {"rates": perturbation.rates, "seed": perturbation.seed}
    extra = {**output.extra, PERTURBATION: {**settings, **_merge_records(records)}}
    return replace(output, extra=extra if records else {**extra, RETRIEVER_NOT_CALLED: True})


def _merge_records(records: list[PerturbationRecord]) -> PerturbationRecord:
    """The merged record of all rankings of one answer; usually there is one."""
    merged: PerturbationRecord = {}
    for record in records:
        for name, value in record.items():
            merged[name] = merged[name] + value if name in merged else value
    return merged
