"""What is done to one list of retrieved documents, and a record of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..core.errors import BadValueError
from ..core.types import Document, EvaluationSample, RetrievedDocument
from .draws import chance, permuted, share_of
from .false_texts import Edit, edited_document
from .gold import gold_key, gold_keys
from .kinds import Perturbation
from .noise import NoisePool

__all__ = ["Done", "Perturber", "is_emptied", "none_relevant_left"]

Done = dict[str, Any]
"""What was done to a list, as an output's ``extra["perturbation"]`` holds it."""


def is_emptied(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether nothing at all is returned for this sample."""
    return chance(perturbation.seed, sample.sample_id, "empty") < perturbation.empty


def none_relevant_left(sample: EvaluationSample, perturbation: Perturbation) -> bool:
    """Whether, whatever a retriever finds, nothing that the sample names as relevant can be left of it."""
    if perturbation.noise == 1 or is_emptied(sample, perturbation):
        return True
    keys = gold_keys(sample)
    return bool(keys) and all(_is_hit(sample, "drop", key, perturbation) for key in keys)


def _is_hit(sample: EvaluationSample, kind: str, item: str, perturbation: Perturbation) -> bool:
    rate: float = getattr(perturbation, kind)
    return rate > 0 and chance(perturbation.seed, sample.sample_id, kind, item) < rate


@dataclass(frozen=True, slots=True)
class Perturber:
    """Perturbs lists of documents. Holds nothing that changes, so that any thread may ask it."""

    perturbation: Perturbation
    pool: NoisePool | None = None
    """Where noise is drawn from."""
    edit: Edit | None = None
    """Makes documents false; without it the wrong answer is put in place of the right one."""

    def __post_init__(self) -> None:
        if self.perturbation.noise > 0 and not self.pool:
            raise BadValueError(
                "noise must come from somewhere, and there is nothing to draw it from: give a corpus, or samples whose "
                "documents have texts"
            )

    def applied(self, sample: EvaluationSample, retrieved: Any) -> tuple[Any, Done]:
        """What becomes of a list, and what was done to it; what is no list of documents stays as it is.

        Places keep their scores, whichever document stands there now. A list to which nothing is done stays itself.
        """
        if not isinstance(retrieved, (list, tuple)) or not all(isinstance(one, RetrievedDocument) for one in retrieved):
            return retrieved, {}  # whoever called says what is wrong with it
        if is_emptied(sample, self.perturbation):
            return [], {"dropped": _ids([one.doc for one in retrieved])} if retrieved else {}
        done: Done = {}
        items = self._dropped(sample, retrieved, done)
        documents = [one.doc for one in items]
        documents = self._edited(sample, documents, done)
        documents = self._with_noise(sample, documents, {one.doc.doc_id for one in retrieved}, done)
        documents = self._doubled(sample, documents, done)
        documents = self._shuffled(sample, documents, done)
        if not done or not any(name in done for name in ("dropped", "edited", "injected", "duplicated", "shuffled")):
            return retrieved, done
        return [
            replace(item, doc=document, rank=rank)
            for rank, (item, document) in enumerate(zip(items, documents, strict=True), 1)
        ], done

    def _dropped(
        self, sample: EvaluationSample, items: Sequence[RetrievedDocument], done: Done
    ) -> Sequence[RetrievedDocument]:
        if not self.perturbation.drop:
            return items
        keys = gold_keys(sample)
        hit = [
            (key := gold_key(one.doc, keys)) is not None and _is_hit(sample, "drop", key, self.perturbation)
            for one in items
        ]
        _note(done, "dropped", [one.doc for one, gone in zip(items, hit, strict=True) if gone])
        return [one for one, gone in zip(items, hit, strict=True) if not gone]

    def _edited(self, sample: EvaluationSample, documents: list[Document], done: Done) -> list[Document]:
        if not self.perturbation.counterfactual:
            return documents
        keys = gold_keys(sample)
        made: list[Document] = []
        edited: list[Document] = []
        unedited: list[Document] = []
        for document in documents:
            key = gold_key(document, keys)
            if key is None or not _is_hit(sample, "counterfactual", key, self.perturbation):
                made.append(document)
                continue
            false = edited_document(sample, document, self.edit)
            (unedited if false is None else edited).append(document)
            made.append(false or document)
        _note(done, "edited", edited)
        _note(done, "unedited", unedited)
        return made

    def _with_noise(
        self, sample: EvaluationSample, documents: list[Document], besides: set[str], done: Done
    ) -> list[Document]:
        n = len(documents)
        wanted = share_of(self.perturbation.noise, n)
        if not wanted:
            return documents
        assert self.pool is not None
        seed = self.perturbation.seed
        noise = list(islice(self.pool.draw(sample, seed, besides), wanted))
        if len(noise) < wanted:
            done["too_few"] = wanted - len(noise)
        # The places follow one order too, so that a document injected at a low rate stands in its place at a high one.
        places = dict(zip(permuted(n, seed, sample.sample_id, "places"), noise, strict=False))
        kept = iter(documents)
        made = [places[place] if place in places else next(kept) for place in range(n)]
        _note(done, "injected", noise)
        _note(done, "displaced", list(kept))
        return made

    def _doubled(self, sample: EvaluationSample, documents: list[Document], done: Done) -> list[Document]:
        if not self.perturbation.duplicate:
            return documents
        n = len(documents)
        copies = [2 if _is_hit(sample, "duplicate", one.doc_id, self.perturbation) else 1 for one in documents]
        places = [place for place in range(n) for _ in range(copies[place])][:n]
        left = Counter(places)
        _note(done, "duplicated", [one for place, one in enumerate(documents) if left[place] > 1])
        _note(done, "displaced", [one for place, one in enumerate(documents) if not left[place]])
        return [documents[place] for place in places]

    def _shuffled(self, sample: EvaluationSample, documents: list[Document], done: Done) -> list[Document]:
        places = [
            place for place, one in enumerate(documents) if _is_hit(sample, "shuffle", one.doc_id, self.perturbation)
        ]
        seed = self.perturbation.seed
        order = sorted(places, key=lambda place: chance(seed, sample.sample_id, "order", documents[place].doc_id))
        made = list(documents)
        for place, source in zip(places, order, strict=True):
            made[place] = documents[source]
        if order != places:
            _note(done, "shuffled", made)
        return made


def _note(done: Done, what: str, documents: Sequence[Document]) -> None:
    if documents:
        done[what] = done.get(what, []) + _ids(documents)


def _ids(documents: Sequence[Document]) -> list[str]:
    return [one.doc_id for one in documents]
