"""What is done to one list of retrieved documents, and a record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..core.errors import BadValueError
from ..core.types import Document, EvaluationSample, RetrievedDocument
from .counterfactual import DocumentEdit, counterfactual_document
from .gold import gold_key, gold_keys
from .kinds import Perturbation
from .noise import NoisePool
from .seeded_random import count_for_rate, hash_uniform, seeded_permutation

__all__ = ["PerturbationRecord", "Perturber", "is_emptied", "removes_all_relevant"]

PerturbationRecord = dict[str, Any]
"""What was done to a list, as an output's ``extra["perturbation"]`` holds it."""


def is_emptied(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether nothing at all is returned for this sample."""
    return hash_uniform(perturbation.seed, sample.sample_id, "empty") < perturbation.empty


def removes_all_relevant(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether, whatever a retriever finds, nothing that the sample names as relevant can be left of it."""
    if perturbation.noise == 1 or is_emptied(sample, perturbation):
        return True
    keys = gold_keys(sample)
    return bool(keys) and all(_is_selected(sample, "drop", key, perturbation) for key in keys)


def _is_selected(sample: EvaluationSample, kind: str, item: str, perturbation: Perturbation) -> bool:
    rate: float = getattr(perturbation, kind)
    return rate > 0 and hash_uniform(perturbation.seed, sample.sample_id, kind, item) < rate


@dataclass(frozen=True, slots=True)
class Perturber:
    """Perturbs lists of documents. Holds nothing that changes, so that any thread may ask it."""

    perturbation: Perturbation
    pool: NoisePool | None = None
    """Where noise is drawn from."""
    edit: DocumentEdit | None = None
    """Makes documents false; without it the wrong answer is put in place of the right one."""

    def __post_init__(self) -> None:
        if self.perturbation.noise > 0 and not self.pool:
            raise BadValueError(
                "noise must come from somewhere, and there is nothing to draw it from: give a corpus, or samples whose "
                "documents have texts"
            )

    def apply(self, sample: EvaluationSample, retrieved: Any) -> tuple[Any, PerturbationRecord]:
        """What becomes of a list, and what was done to it; what is no list of documents stays as it is.

        Places keep their scores, whichever document stands there now. A list to which nothing is done stays itself.
        """
        if not isinstance(retrieved, (list, tuple)) or not all(isinstance(one, RetrievedDocument) for one in retrieved):
            return retrieved, {}  # whoever called says what is wrong with it
        if is_emptied(sample, self.perturbation):
            return [], {"dropped": _ids([one.doc for one in retrieved])} if retrieved else {}
        done: PerturbationRecord = {}
        items = self._drop_relevant(sample, retrieved, done)
        documents = [one.doc for one in items]
        documents = self._edit_relevant(sample, documents, done)
        documents = self._inject_noise(sample, documents, {one.doc.doc_id for one in retrieved}, done)
        documents = self._duplicate(sample, documents, done)
        documents = self._shuffle(sample, documents, done)
        if not done or not any(name in done for name in ("dropped", "edited", "injected", "duplicated", "shuffled")):
            return retrieved, done
        return [
            replace(item, doc=document, rank=rank)
            for rank, (item, document) in enumerate(zip(items, documents, strict=True), 1)
        ], done

    def _drop_relevant(
        self, sample: EvaluationSample, items: Sequence[RetrievedDocument], done: PerturbationRecord
    ) -> Sequence[RetrievedDocument]:
        if not self.perturbation.drop:
            return items
        keys = gold_keys(sample)
        hit = [
            (key := gold_key(one.doc, keys)) is not None and _is_selected(sample, "drop", key, self.perturbation)
            for one in items
        ]
        _record_ids(done, "dropped", [one.doc for one, gone in zip(items, hit, strict=True) if gone])
        return [one for one, gone in zip(items, hit, strict=True) if not gone]

    def _edit_relevant(
        self, sample: EvaluationSample, documents: list[Document], done: PerturbationRecord
    ) -> list[Document]:
        if not self.perturbation.counterfactual:
            return documents
        keys = gold_keys(sample)
        made: list[Document] = []
        edited: list[Document] = []
        unedited: list[Document] = []
        for document in documents:
            key = gold_key(document, keys)
            if key is None or not _is_selected(sample, "counterfactual", key, self.perturbation):
                made.append(document)
                continue
            false = counterfactual_document(sample, document, self.edit)
            (unedited if false is None else edited).append(document)
            made.append(false or document)
        _record_ids(done, "edited", edited)
        _record_ids(done, "unedited", unedited)
        return made

    def _inject_noise(
        self, sample: EvaluationSample, documents: list[Document], besides: set[str], done: PerturbationRecord
    ) -> list[Document]:
        n = len(documents)
        wanted = count_for_rate(self.perturbation.noise, n)
        if not wanted:
            return documents
        assert self.pool is not None
        seed = self.perturbation.seed
        noise = list(islice(self.pool.draw(sample, seed, besides), wanted))
        if len(noise) < wanted:
            done["too_few"] = wanted - len(noise)
        # The places follow one order too, so that a document injected at a low rate stands in its place at a high one.
        places = dict(zip(seeded_permutation(n, seed, sample.sample_id, "places"), noise, strict=False))
        kept = iter(documents)
        made = [places[place] if place in places else next(kept) for place in range(n)]
        _record_ids(done, "injected", noise)
        _record_ids(done, "displaced", list(kept))
        return made

    def _duplicate(
        self, sample: EvaluationSample, documents: list[Document], done: PerturbationRecord
    ) -> list[Document]:
        if not self.perturbation.duplicate:
            return documents
        n = len(documents)
        copies = [2 if _is_selected(sample, "duplicate", one.doc_id, self.perturbation) else 1 for one in documents]
        places = [place for place in range(n) for _ in range(copies[place])][:n]
        left = Counter(places)
        _record_ids(done, "duplicated", [one for place, one in enumerate(documents) if left[place] > 1])
        _record_ids(done, "displaced", [one for place, one in enumerate(documents) if not left[place]])
        return [documents[place] for place in places]

    def _shuffle(self, sample: EvaluationSample, documents: list[Document], done: PerturbationRecord) -> list[Document]:
        places = [
            place
            for place, one in enumerate(documents)
            if _is_selected(sample, "shuffle", one.doc_id, self.perturbation)
        ]
        seed = self.perturbation.seed
        order = sorted(places, key=lambda place: hash_uniform(seed, sample.sample_id, "order", documents[place].doc_id))
        made = list(documents)
        for place, source in zip(places, order, strict=True):
            made[place] = documents[source]
        if order != places:
            _record_ids(done, "shuffled", made)
        return made


def _record_ids(done: PerturbationRecord, what: str, documents: Sequence[Document]) -> None:
    if documents:
        done[what] = done.get(what, []) + _ids(documents)


def _ids(documents: Sequence[Document]) -> list[str]:
    return [one.doc_id for one in documents]
