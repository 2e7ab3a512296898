"""Documents that a diagnosis gives to a system: gold with its texts, and gold among retrieved distractors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..core.conventions import Match
from ..core.types import Document, EvaluationSample
from ..errors import BadValueError
from ..features.matching import is_relevant_chunk
from ..features.texts import is_unanswerable
from ..io.corpus import Corpus
from .documents import contains_answer, gold_keys, gold_of, gold_parents, has_gold
from .edits import seeded_permutation


def diagnosable(samples: Iterable[EvaluationSample]) -> list[EvaluationSample]:
    """The samples with gold documents whose question has an answer."""
    return [sample for sample in samples if has_gold(sample) and is_unanswerable(sample) is not True]


class GoldTexts:
    """Gold documents with their texts: from the samples, a corpus, or what the system retrieved for any question.

    Where gold is not matched by id, the text may be joined from the retrieved chunks that are relevant by it.
    """

    def __init__(self, corpus: Corpus | None = None) -> None:
        self._corpus = corpus
        self._retrieved: dict[str, Document] = {}
        self.match: Match = "id"
        """How gold is found among retrieved documents."""
        self.joined: set[str] = set()
        """The ids of gold documents whose texts are joined from chunks."""

    def add_retrieved(self, documents: Iterable[Document]) -> None:
        """Documents that the system returned; they replace earlier ones of the same id."""
        for document in documents:
            if document.text.strip():
                self._retrieved[document.doc_id] = document

    def documents(self, sample: EvaluationSample) -> list[Document]:
        """The gold documents of a sample; one without a known text has an empty text."""
        keys = gold_keys(sample)
        listed = {doc.doc_id: doc for doc in sample.relevant_docs or () if doc.doc_id in keys}
        return [self._with_text(listed.get(key) or Document(key)) for key in [*listed, *sorted(keys - listed.keys())]]

    def _with_text(self, document: Document) -> Document:
        # The level of relevance is an annotation that the generator must not see.
        metadata = {key: value for key, value in document.metadata.items() if key != "relevance"}
        text = document.text
        if not text.strip() and self._corpus is not None:
            text = self._corpus_text(document)
        if not text.strip() and document.doc_id in self._retrieved:
            return self._retrieved[document.doc_id]
        if not text.strip() and self.match != "id":
            text = self._chunk_texts(document)
        return replace(document, text=text, metadata=metadata)

    def _chunk_texts(self, document: Document) -> str:
        chunks = [chunk for chunk in self._retrieved.values() if chunk.parent == document.parent]
        relevant = [chunk for chunk in chunks if is_relevant_chunk(chunk, [document], self.match)]
        if relevant:
            self.joined.add(document.doc_id)
        placed = sorted((chunk.span or (0, 0), chunk.text) for chunk in relevant)
        return "\n".join(text for _, text in placed)

    def _corpus_text(self, document: Document) -> str:
        assert self._corpus is not None
        found = self._corpus.get(document.doc_id)
        if found is not None:
            return found.text
        whole = None if document.parent_id is None else self._corpus.get(document.parent_id)
        return "" if whole is None or document.span is None else whole.text[document.span[0] : document.span[1]]

    def require(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise where the text of a gold document is not known."""
        missing = [
            (sample.sample_id, document.doc_id)
            for sample in samples
            for document in self.documents(sample)
            if not document.text.strip()
        ]
        if missing:
            raise BadValueError(
                f"the texts of {len(missing)} gold documents are not known (first: '{missing[0][1]}' of sample "
                f"'{missing[0][0]}'), so they cannot be given to the system; put them into the dataset, or name a "
                "corpus (--corpus FILE, or 'corpus' under 'dataset:'). Texts that the latest run of this name "
                "retrieved are known, too"
            )


def mixed_documents(
    sample: EvaluationSample,
    gold: Sequence[Document],
    retrieved: Sequence[Document],
    k: int,
    seed: int,
    *,
    match: Match = "id",
) -> list[Document]:
    """Up to ``k`` documents: gold at positions drawn from the seed, among the first retrieved distractors.

    A distractor is a retrieved document that is certainly not relevant: no gold, no other part of a gold document, and
    without an acceptable answer in its text.
    """
    parents = gold_parents(sample)
    others = [doc for doc in retrieved if doc.parent not in parents and not gold_of(sample, doc, match)]
    distractors = [doc for doc in others if not contains_answer(doc.text, sample)]
    kept = list(gold[:k])
    filling = distractors[: k - len(kept)]
    n = len(kept) + len(filling)
    order = seeded_permutation(n, seed, sample.sample_id, "gold")
    places = dict(zip(sorted(place for place, _ in zip(order, kept, strict=False)), kept, strict=True))
    rest = iter(filling)
    return [places[at] if at in places else next(rest) for at in range(n)]
