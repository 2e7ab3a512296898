"""A retriever whose lists are perturbed before anybody sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..adapters.auto_adapt import adapt
from ..adapters.systems import display_class_name
from ..calling.systems import is_async
from ..core.errors import BadTypeError, BadValueError
from ..core.types import Document, EvaluationSample
from .counterfactual import DocumentEdit
from .kinds import Perturbation
from .noise import CorpusLike, NoisePool
from .perturber import PerturbationRecord, Perturber

__all__ = ["PerturbedRetriever", "SampleRetriever"]


class _PerturbingRetriever:
    """A retriever asked, and its answer perturbed; for plain and asynchronous ones alike."""

    retrieve: Callable[..., Any]
    """As that of the retriever inside: plain, or to be awaited."""

    def __init__(self, retriever: object, perturber: Perturber) -> None:
        inner = getattr(retriever, "retrieve", None)
        later = getattr(retriever, "aretrieve", None)
        if isinstance(retriever, type) or not (callable(inner) or callable(later)):
            given = "a class" if isinstance(retriever, type) else f"a {display_class_name(retriever)}"
            raise BadTypeError(f"a retriever is an object with a method retrieve(query, *, top_k), not {given}")
        self._retriever, self._perturber = retriever, perturber
        if callable(inner):
            self.retrieve = self._wrap_async(inner) if is_async(inner) else self._wrap_sync(inner)
        if callable(later):
            self.aretrieve = self._wrap_async(later)

    def __getattr__(self, name: str) -> Any:
        # Whatever else a system wants of its retriever. Not what is looked up before there is one.
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
        made, done = self._perturber.apply(self._sample(query), retrieved)
        self._record(query, done)
        return made

    def _sample(self, query: str) -> EvaluationSample:
        raise NotImplementedError

    def _record(self, query: str, done: PerturbationRecord) -> None:
        raise NotImplementedError


class SampleRetriever(_PerturbingRetriever):
    """The retriever as one sample sees it, whatever its system asks; made anew for every call."""

    def __init__(self, retriever: object, perturber: Perturber, sample: EvaluationSample) -> None:
        super().__init__(retriever, perturber)
        self._own, self._done = sample, list[PerturbationRecord]()

    def _sample(self, query: str) -> EvaluationSample:
        return self._own

    def _record(self, query: str, done: PerturbationRecord) -> None:
        self._done.append(done)

    def records(self) -> list[PerturbationRecord]:
        """What was done to each list the system asked for; empty where it asked for none."""
        return self._done


class PerturbedRetriever(_PerturbingRetriever):
    """A retriever that returns noise, drops what is relevant, or does worse, at given rates and always alike.

    What happens to a sample depends on the seed, its id and the kind alone: not on the order of calls nor on how many
    are in flight. What happens at one rate happens at every higher one. A rate of 0 changes nothing.

    The retriever has ``retrieve(query, *, top_k)``, or is one of LangChain, LlamaIndex or Haystack. ``samples`` say
    what is relevant to a query; a query that is none of theirs has nothing relevant. Noise is drawn from the ``corpus``
    (documents, or an ``io.corpus.Corpus``), else from the samples' documents that have a text. ``edit`` makes a
    relevant document false; without it, ``metadata["wrong_answer"]`` takes the place of the right one. ``arm`` stands
    for rates: ``none`` for no documents, ``original`` for those found, ``edited`` for false ones.
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
                raise BadValueError(f"give an arm or rates, not both: the arm '{arm}' stands for rates of its own")
            perturbation = Perturbation.from_arm(arm, seed)
        held = list(samples)
        pool = NoisePool.from_samples(held) if corpus is None else NoisePool.of(corpus)
        super().__init__(adapt(retriever), Perturber(perturbation, pool, edit))
        self._by_query: dict[str, EvaluationSample] = {}
        for sample in held:
            self._by_query.setdefault(sample.query, sample)
        self.done: dict[str, PerturbationRecord] = {}
        """What was done last, by the id of the sample, or by the query where no sample asks it."""

    @property
    def perturbation(self) -> Perturbation:
        """The rates and the seed."""
        return self._perturber.perturbation

    def _sample(self, query: str) -> EvaluationSample:
        return self._by_query.get(query) or EvaluationSample(query, query)

    def _record(self, query: str, done: PerturbationRecord) -> None:
        self.done[self._sample(query).sample_id] = done
