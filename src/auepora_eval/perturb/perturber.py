"""The perturbation of one ranking, and the record of what was changed."""

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
"""The changes made to a ranking, as stored in an output's ``extra["perturbation"]``."""


def is_emptied(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether the ranking of this sample is emptied."""
    return hash_uniform(perturbation.seed, sample.sample_id, "empty") < perturbation.empty


def removes_all_relevant(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether no gold document can be left in the ranking, whatever the retriever returns."""
    if perturbation.noise == 1 or is_emptied(sample, perturbation):
        return True
    keys = gold_keys(sample)
    return bool(keys) and all(_is_selected(sample, "drop", key, perturbation) for key in keys)


def _is_selected(sample: EvaluationSample, kind: str, item: str, perturbation: Perturbation) -> bool:
    rate: float = getattr(perturbation, kind)
    return rate > 0 and hash_uniform(perturbation.seed, sample.sample_id, kind, item) < rate


@dataclass(frozen=True, slots=True)
class Perturber:
    """Perturbs rankings. Immutable, so that threads may share it."""

    perturbation: Perturbation
    pool: NoisePool | None = None
    """Where noise is drawn from."""
    edit: DocumentEdit | None = None
    """Makes a counterfactual document; without it the wrong answer replaces the right one."""

    def __post_init__(self) -> None:
        if self.perturbation.noise > 0 and not self.pool:
            raise BadValueError(
                "there are no documents to draw noise from: give a corpus, or samples whose documents have texts"
            )

    def apply(self, sample: EvaluationSample, retrieved: Any) -> tuple[Any, PerturbationRecord]:
        """The perturbed ranking and the record of its changes; anything but a list of documents is returned unchanged.

        Positions keep their scores, whichever document is there now. An unchanged ranking is the same object.
        """
        if not isinstance(retrieved, (list, tuple)) or not all(isinstance(one, RetrievedDocument) for one in retrieved):
            return retrieved, {}  # the caller reports the error
        if is_emptied(sample, self.perturbation):
            return [], {"dropped": _ids([one.doc for one in retrieved])} if retrieved else {}
        record: PerturbationRecord = {}
        items = self._drop_relevant(sample, retrieved, record)
        documents = [one.doc for one in items]
        documents = self._edit_relevant(sample, documents, record)
        documents = self._inject_noise(sample, documents, {one.doc.doc_id for one in retrieved}, record)
        documents = self._duplicate(sample, documents, record)
        documents = self._shuffle(sample, documents, record)
        if not record or not any(
            name in record for name in ("dropped", "edited", "injected", "duplicated", "shuffled")
        ):
            return retrieved, record
        return [
            replace(item, doc=document, rank=rank)
            for rank, (item, document) in enumerate(zip(items, documents, strict=True), 1)
        ], record

    def _drop_relevant(
        self, sample: EvaluationSample, items: Sequence[RetrievedDocument], record: PerturbationRecord
    ) -> Sequence[RetrievedDocument]:
        if not self.perturbation.drop:
            return items
        keys = gold_keys(sample)
        hit = [
            (key := gold_key(one.doc, keys)) is not None and _is_selected(sample, "drop", key, self.perturbation)
            for one in items
        ]
        _record_ids(record, "dropped", [one.doc for one, gone in zip(items, hit, strict=True) if gone])
        return [one for one, gone in zip(items, hit, strict=True) if not gone]

    def _edit_relevant(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        if not self.perturbation.counterfactual:
            return documents
        keys = gold_keys(sample)
        documents_out: list[Document] = []
        edited: list[Document] = []
        unedited: list[Document] = []
        for document in documents:
            key = gold_key(document, keys)
            if key is None or not _is_selected(sample, "counterfactual", key, self.perturbation):
                documents_out.append(document)
                continue
            counterfactual = counterfactual_document(sample, document, self.edit)
            (unedited if counterfactual is None else edited).append(document)
            documents_out.append(counterfactual or document)
        _record_ids(record, "edited", edited)
        _record_ids(record, "unedited", unedited)
        return documents_out

    def _inject_noise(
        self, sample: EvaluationSample, documents: list[Document], exclude_ids: set[str], record: PerturbationRecord
    ) -> list[Document]:
        n = len(documents)
        needed = count_for_rate(self.perturbation.noise, n)
        if not needed:
            return documents
        assert self.pool is not None
        seed = self.perturbation.seed
        noise = list(islice(self.pool.draw(sample, seed, exclude_ids), needed))
        if len(noise) < needed:
            record["too_few"] = needed - len(noise)
        # Positions follow one order too: a document injected at a low rate is at the same position at a higher one.
        injected_at = dict(zip(seeded_permutation(n, seed, sample.sample_id, "places"), noise, strict=False))
        kept = iter(documents)
        mixed = [injected_at[position] if position in injected_at else next(kept) for position in range(n)]
        _record_ids(record, "injected", noise)
        _record_ids(record, "displaced", list(kept))
        return mixed

    def _duplicate(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        if not self.perturbation.duplicate:
            return documents
        n = len(documents)
        copies = [2 if _is_selected(sample, "duplicate", one.doc_id, self.perturbation) else 1 for one in documents]
        positions = [position for position in range(n) for _ in range(copies[position])][:n]
        left = Counter(positions)
        _record_ids(record, "duplicated", [one for position, one in enumerate(documents) if left[position] > 1])
        _record_ids(record, "displaced", [one for position, one in enumerate(documents) if not left[position]])
        return [documents[position] for position in positions]

    def _shuffle(
        self, sample: EvaluationSample, documents: list[Document], record: PerturbationRecord
    ) -> list[Document]:
        positions = [
            position
            for position, one in enumerate(documents)
            if _is_selected(sample, "shuffle", one.doc_id, self.perturbation)
        ]
        seed = self.perturbation.seed
        order = sorted(
            positions, key=lambda position: hash_uniform(seed, sample.sample_id, "order", documents[position].doc_id)
        )
        shuffled = list(documents)
        for position, source in zip(positions, order, strict=True):
            shuffled[position] = documents[source]
        if order != positions:
            _record_ids(record, "shuffled", shuffled)
        return shuffled


def _record_ids(record: PerturbationRecord, what: str, documents: Sequence[Document]) -> None:
    if documents:
        record[what] = record.get(what, []) + _ids(documents)


def _ids(documents: Sequence[Document]) -> list[str]:
    return [one.doc_id for one in documents]
