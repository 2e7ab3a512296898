"""The pool of noise documents: draws documents that are not relevant to a sample."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Protocol

from ..core.errors import BadTypeError, BadValueError
from ..core.types import Document, EvaluationSample
from ..text.tokenizers import squad_words
from .gold import gold_keys, gold_parents
from .seeded_random import seeded_permutation

__all__ = ["CorpusLike", "NoisePool"]


class CorpusLike(Protocol):
    """Documents by id, such as ``io.corpus.Corpus``; they are read on access."""

    def __iter__(self) -> Iterator[str]:
        """The ids."""
        ...

    def __getitem__(self, doc_id: str, /) -> Document:
        """The document of that id."""
        ...


class NoisePool:
    """Documents to draw noise from. A seed draws the same noise for a sample, independent of other samples.

    Documents that may be relevant are not drawn: the sample's gold, other chunks of the same documents, and any text
    that contains an acceptable answer.
    """

    def __init__(self, ids: Iterable[str], document: Callable[[str], Document], source_name: str) -> None:
        self._ids = list(ids)
        self._document = document
        self.source_name = source_name
        """Where the documents come from, for run plans and messages."""

    @classmethod
    def from_documents(
        cls, source: CorpusLike | Iterable[Document], source_name: str = "the documents given"
    ) -> NoisePool:
        """A pool of documents, or of a corpus that has them by id."""
        if hasattr(source, "__getitem__") and not isinstance(source, (Sequence, str)):
            corpus: CorpusLike = source  # type: ignore[assignment]
            return cls(corpus, corpus.__getitem__, source_name)
        by_id: dict[str, Document] = {}
        for document in source if isinstance(source, Iterable) and not isinstance(source, (str, Mapping)) else [source]:
            if not isinstance(document, Document):
                raise BadTypeError(
                    f"noise is drawn from documents or from a corpus that has them by id, not from a "
                    f"{type(document).__name__}; open a file with auepora_eval.io.corpus.Corpus.open"
                )
            by_id.setdefault(document.doc_id, document)
        return cls(by_id, by_id.__getitem__, source_name)

    @classmethod
    def from_samples(cls, samples: Iterable[EvaluationSample]) -> NoisePool:
        """A pool of the gold and candidate documents of samples that have a text."""
        documents = (
            doc for sample in samples for doc in [*(sample.relevant_docs or ()), *(sample.candidate_docs or ())]
        )
        return cls.from_documents([doc for doc in documents if doc.text.strip()], "the samples' documents")

    def __len__(self) -> int:
        return len(self._ids)

    def draw(self, sample: EvaluationSample, seed: int, exclude_ids: Collection[str] = ()) -> Iterator[Document]:
        """Yield noise documents for a sample, except these ids; a longer draw starts with the shorter one."""
        keys, parents = gold_keys(sample), gold_parents(sample)
        answers = [text for text in (_padded_words(one) for one in sample.references) if text.strip()]
        for position in seeded_permutation(len(self._ids), seed, sample.sample_id, "noise"):
            if self._ids[position] in keys or self._ids[position] in exclude_ids:
                continue
            document = self._document(self._ids[position])
            if document.parent in parents or document.parent in keys:
                continue
            if any(answer in _padded_words(document.text) for answer in answers):
                continue
            yield document

    def require(
        self, sample: EvaluationSample, needed: int, seed: int, exclude_ids: Collection[str] = (), *, hint: str = ""
    ) -> None:
        """Raise unless ``needed`` noise documents can be drawn for a sample."""
        found = sum(1 for _ in islice(self.draw(sample, seed, exclude_ids), needed))
        if found < needed:
            others = " and were not retrieved for it" if exclude_ids else ""
            raise BadValueError(
                f"there is too little noise for sample '{sample.sample_id}': it needs {needed}, and of the {len(self)} "
                f"documents in {self.source_name} only {found} are certainly not relevant to it{others}; "
                f"{hint or 'give a larger corpus'}"
            )


@lru_cache(maxsize=20_000)
def _padded_words(text: str) -> str:
    """The normalised words of a text with blanks around each, so that substring search finds whole words."""
    return f" {' '.join(squad_words(text))} "
