"""The two bundled systems, as ``auepora_eval.examples.quickstart.systems:bm25`` and ``:baseline``, and their corpus."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from ...core.rag_interface import Generator, Retriever, SimpleRAGSystem
from ...core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ...text.tokenizers import STOP_WORDS, porter_stem

# --- the bundled data: paths of its files, and the handbook split into chunks ----------------------------------------

CHUNKER_VERSION = "handbook-1"
"""Version of the chunker; change it when the chunks change."""

_FOLDER = Path(__file__).parent
_PARAGRAPH = re.compile(r"^(?!#).+$", re.MULTILINE)  # a paragraph is one line; headings are not chunks


def dataset_path() -> Path:
    """The file of questions."""
    return _FOLDER / "questions.jsonl"


def plan_path(system: str) -> Path:
    """The plan for one of the systems, ``"bm25"`` or ``"baseline"``."""
    return _FOLDER / f"plan-{system}.yaml"


@cache
def chapters() -> dict[str, str]:
    """The text of each chapter by its name, in alphabetical order."""
    files = sorted((_FOLDER / "corpus").glob("*.md"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def corpus() -> list[Document]:
    """The handbook in chunks, one per paragraph: ``outcomes-3`` is the third paragraph of the chapter on outcomes."""
    return [
        Document(f"{chapter}-{number}", found.group(), parent_id=chapter, span=found.span())
        for chapter, text in chapters().items()
        for number, found in enumerate(_PARAGRAPH.finditer(text), 1)
    ]


# --- words, stems and sentences --------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


def plain_words(text: str) -> list[str]:
    """All words in lower case."""
    return _WORD.findall(text.lower())


def stems(text: str) -> list[str]:
    """The stems of the words without stop words, so that ``ranked`` matches ``ranking``."""
    return [porter_stem(word) for word in plain_words(text) if word not in STOP_WORDS]


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return _SENTENCE_END.split(text)


def weights(texts: Iterable[str]) -> dict[str, float]:
    """The inverse document frequency of each stem."""
    documents = [set(stems(text)) for text in texts]
    counts = Counter(chain.from_iterable(documents))
    return {stem: math.log(1 + len(documents) / count) for stem, count in counts.items()}


# --- generators that quote a sentence: the best match of the question, and the first one -----------------------------

REFUSAL = "I don't know: the handbook does not say."


class BestSentenceGenerator(Generator):
    """Quotes the sentence that matches the question best, and declines if even the best chunk matches too little.

    Words are weighted by how rare they are in the handbook. A word that the handbook lacks has the weight of its rarest
    word, so that questions about something else are declined.
    """

    def __init__(self, weights: Mapping[str, float], *, context: int = 3, evidence: float = 0.25) -> None:
        self._weights = weights
        self._unknown = max(weights.values(), default=1.0)
        self._context = context
        self._evidence = evidence

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The best sentence of the first chunks with its source, or a refusal without one."""
        query_stems = set(stems(query))
        chunks = context_docs[: self._context]
        if max((self._overlap(query_stems, chunk.text) for chunk in chunks), default=0.0) < self._evidence:
            return Response(REFUSAL, sentences=[])
        quotes = [(sentence, chunk, at) for at, chunk in enumerate(chunks) for sentence in sentences(chunk.text)]
        best, source, _ = max(quotes, key=lambda quote: self._match(query_stems, *quote))
        return Response(best, sentences=[{"text": best, "citations": [source.doc_id]}])

    def _match(self, query_stems: set[str], sentence: str, chunk: Document, rank: int) -> float:
        # The chunk counts too: its other sentences often name what "it" refers to.
        return self._overlap(query_stems, sentence) + self._overlap(query_stems, chunk.text) - 0.1 * rank

    def _overlap(self, query_stems: set[str], text: str) -> float:
        """The proportion of the weight of the question that a text contains."""
        text_stems = set(stems(text))
        total = sum(self._weight(stem) for stem in sorted(query_stems))
        return sum(self._weight(stem) for stem in sorted(query_stems & text_stems)) / total if total else 0.0

    def _weight(self, stem: str) -> float:
        return self._weights.get(stem, self._unknown)


class LeadSentenceGenerator(Generator):
    """Quotes the first sentence of the first chunk, whatever the question is."""

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """That sentence with its source; empty if there are no documents."""
        if not context_docs:
            return Response("", sentences=[])
        first = sentences(context_docs[0].text)[0]
        return Response(first, sentences=[{"text": first, "citations": [context_docs[0].doc_id]}])


# --- retrievers: BM25, and one that counts shared words without weights ----------------------------------------------


class BM25Retriever(Retriever):
    """Ranks chunks by BM25 over the stems of their words."""

    def __init__(self, chunks: Sequence[Document]) -> None:
        import bm25s  # imported here, because it takes half a second

        self._chunks = list(chunks)
        # numpy, because compiling takes longer than scoring these few chunks.
        self._index: Any = bm25s.BM25(backend="numpy")
        self._index.index([stems(chunk.text) for chunk in self._chunks], show_progress=False)

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The chunks that share a stem with the query, best first."""
        known = [stem for stem in stems(query) if stem in self._index.vocab_dict]
        if not known:
            return []
        return _best(self._chunks, self._index.get_scores(known).tolist(), top_k)


class SharedWordsRetriever(Retriever):
    """Ranks chunks by the number of words they share with the query; "the" counts as much as "recall"."""

    def __init__(self, chunks: Sequence[Document]) -> None:
        self._chunks = list(chunks)
        self._words = [frozenset(plain_words(chunk.text)) for chunk in self._chunks]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The chunks that share a word with the query, best first."""
        query_words = frozenset(plain_words(query))
        return _best(self._chunks, [float(len(query_words & words)) for words in self._words], top_k)


def _best(chunks: Sequence[Document], scores: Sequence[float], top_k: int) -> list[RetrievedDocument]:
    """The chunks with the highest scores above 0; ties in the order of the handbook."""
    order = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])
    return [RetrievedDocument(chunks[at], scores[at], rank) for rank, at in enumerate(order[:top_k], 1)]


# --- the systems ``bm25`` and ``baseline`` ---------------------------------------------------------------------------


class QuotingSystem(SimpleRAGSystem):
    """A retriever and a generator that quotes; its outputs have citations and ``refused``."""

    def __init__(self, retriever: Retriever, generator: Generator, *, config: dict[str, Any]) -> None:
        super().__init__(retriever, generator)
        self.config = config
        """Configuration of the system; stored with every run."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve, quote, and name the source."""
        output = super().run(sample, top_k=top_k)
        assert output.response is not None
        quoted = output.response.sentences or []
        citations = list(chain.from_iterable(sentence["citations"] for sentence in quoted))
        return replace(output, citations=citations, refused=output.response.text == REFUSAL)


def bm25() -> QuotingSystem:
    """BM25 over stems; answers with the best sentence, or declines if there is too little evidence."""
    chunks = corpus()
    return QuotingSystem(
        BM25Retriever(chunks),
        BestSentenceGenerator(weights(chunk.text for chunk in chunks)),
        config={
            "chunker_version": CHUNKER_VERSION,
            "retriever": "bm25s, stems",
            "model": "best sentence",
            "prompt_version": "none",
        },
    )


def baseline() -> QuotingSystem:
    """Counts shared words; answers with the first sentence of the first chunk and never declines."""
    return QuotingSystem(
        SharedWordsRetriever(corpus()),
        LeadSentenceGenerator(),
        config={
            "chunker_version": CHUNKER_VERSION,
            "retriever": "shared words",
            "model": "first sentence",
            "prompt_version": "none",
        },
    )


# --- a system to sweep over: its retriever, its answer rule, and what an answer takes --------------------------------

RETRIEVERS = {"bm25": BM25Retriever, "shared words": SharedWordsRetriever}


class MeteredSystem(QuotingSystem):
    """A quoting system whose outputs have ``usage``: the words that are read and written, as if they were tokens."""

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        """Retrieve, quote, and count the words."""
        output = super().run(sample, top_k=top_k)
        assert output.response is not None
        texts = [sample.query, *(item.doc.text for item in output.retrieved)]
        words = sum(len(plain_words(text)) for text in texts)
        written = len(plain_words(output.response.text))
        return replace(output, usage={"model": "quoter", "prompt_tokens": words, "completion_tokens": written})


def configured(retriever: str = "bm25", answer: str = "best sentence") -> MeteredSystem:
    """A system by the name of its retriever and its answer rule: ``best sentence`` or ``first sentence``."""
    chunks = corpus()
    generator: Generator = LeadSentenceGenerator()
    if answer == "best sentence":
        generator = BestSentenceGenerator(weights(chunk.text for chunk in chunks), context=20)
    return MeteredSystem(RETRIEVERS[retriever](chunks), generator, config={"chunker_version": CHUNKER_VERSION})
