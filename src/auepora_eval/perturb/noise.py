"""Where noise comes from: documents out of which those are drawn that are not relevant to a sample."""

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
    """Documents by id, such as ``io.corpus.Corpus``: read when asked for."""

    def __iter__(self) -> Iterator[str]:
        """The ids."""
        ...

    def __getitem__(self, doc_id: str, /) -> Document:
        """The document of that id."""
        ...


class NoisePool:
    """Documents to draw noise from. The same seed draws the same for a sample, whoever else is asked before.

    Not drawn is what may be relevant: what the sample names, other parts of the same documents, and any text that holds
    an acceptable answer.
    """

    def __init__(self, ids: Iterable[str], document: Callable[[str], Document], said: str) -> None:
        self._ids = list(ids)
        self._document = document
        self.said = said
        """Where the documents are from, as runs and messages say it."""

    @classmethod
    def of(cls, source: CorpusLike | Iterable[Document], said: str = "the documents given") -> NoisePool:
        """A pool of documents, or of a corpus that has them by id."""
        if hasattr(source, "__getitem__") and not isinstance(source, (Sequence, str)):
            corpus: CorpusLike = source  # type: ignore[assignment]
            return cls(corpus, corpus.__getitem__, said)
        held: dict[str, Document] = {}
        for document in source if isinstance(source, Iterable) and not isinstance(source, (str, Mapping)) else [source]:
            if not isinstance(document, Document):
                raise BadTypeError(
                    f"noise is drawn from documents or from a corpus that has them by id, not from a "
                    f"{type(document).__name__}; open a file with auepora_eval.io.corpus.Corpus.open"
                )
            held.setdefault(document.doc_id, document)
        return cls(held, held.__getitem__, said)

    @classmethod
    def from_samples(cls, samples: Iterable[EvaluationSample]) -> NoisePool:
        """What samples name as relevant or as candidates, where the text is there: noise for the others."""
        documents = (
            doc for sample in samples for doc in [*(sample.relevant_docs or ()), *(sample.candidate_docs or ())]
        )
        return cls.of([doc for doc in documents if doc.text.strip()], "the samples' documents")

    def __len__(self) -> int:
        return len(self._ids)

    def draw(self, sample: EvaluationSample, seed: int, besides: Collection[str] = ()) -> Iterator[Document]:
        """Noise for a sample, one by one, none of it ``besides`` these ids; whoever takes more gets the same first."""
        keys, parents = gold_keys(sample), gold_parents(sample)
        answers = [text for text in (_padded_words(one) for one in sample.references) if text.strip()]
        for place in seeded_permutation(len(self._ids), seed, sample.sample_id, "noise"):
            if self._ids[place] in keys or self._ids[place] in besides:
                continue
            document = self._document(self._ids[place])
            if document.parent in parents or document.parent in keys:
                continue
            if any(answer in _padded_words(document.text) for answer in answers):
                continue
            yield document

    def require(
        self, sample: EvaluationSample, wanted: int, seed: int, besides: Collection[str] = (), *, hint: str = ""
    ) -> None:
        """Raise unless so much noise can be drawn for a sample."""
        found = sum(1 for _ in islice(self.draw(sample, seed, besides), wanted))
        if found < wanted:
            others = " and were not found for it anyway" if besides else ""
            raise BadValueError(
                f"there is too little noise for sample '{sample.sample_id}': it takes {wanted}, and of the {len(self)} "
                f"documents in {self.said} only {found} are sure not to be relevant to it{others}; "
                f"{hint or 'give a larger corpus'}"
            )


@lru_cache(maxsize=20_000)
def _padded_words(text: str) -> str:
    """The words of a text as answers are compared, between blanks: so that whole words are found in it."""
    return f" {' '.join(squad_words(text))} "
