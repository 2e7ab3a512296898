"""A toy RAG system in two parts: rank documents by shared words, answer with the best sentence.

``python -m auepora_eval.examples.simple_rag`` asks it a question. To evaluate it, see ``example_plan``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core.rag_interface import Generator, Retriever, SimpleRAGSystem
from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs

__all__ = ["FirstSentenceGenerator", "WordOverlapRetriever", "build", "main"]

_WORD = re.compile(r"\w+")
_COMMON = frozenset({
    "a", "an", "and", "are", "as", "by", "does", "for", "how", "in", "is", "it", "of", "on", "or", "that", "the", "to",
    "what", "when", "which", "who", "why", "with",
})  # fmt: skip


class WordOverlapRetriever(Retriever):
    """Ranks documents by how many words they share with the query.

    Your own retriever queries an index or a search engine instead. It returns at most ``top_k`` documents, best first,
    each with its id, and with its text if metrics need it.
    """

    def __init__(self, corpus: Sequence[Document]) -> None:
        self._corpus = [(document, _words(document.text)) for document in corpus]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        """The documents that share a word with the query, best first."""
        query_words = _words(query)
        scored = [(len(query_words & words), document) for document, words in self._corpus]
        # Ties by id, so that the same question always has the same answer.
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].doc_id))
        return [
            RetrievedDocument(document, float(score), rank) for rank, (score, document) in enumerate(best[:top_k], 1)
        ]


class FirstSentenceGenerator(Generator):
    """Answers with the sentence of the first document that shares most words with the query.

    Your own generator calls a model with the question and the documents instead. It receives the retrieved documents,
    best first, and returns its answer. It should decline if it cannot answer: there are metrics for that.
    """

    def generate(self, query: str, context_docs: list[Document]) -> Response:
        """The answer, or a refusal if there are no documents."""
        if not context_docs:
            return Response("I don't know.")
        sentences = re.split(r"(?<=[.!?])\s+", context_docs[0].text)
        query_words = _words(query)
        return Response(max(sentences, key=lambda sentence: len(query_words & _words(sentence))))


def build(corpus: Sequence[Document]) -> SimpleRAGSystem:
    """The two parts as one system: anything with ``run(sample, *, top_k)`` can be evaluated."""
    return SimpleRAGSystem(WordOverlapRetriever(corpus), FirstSentenceGenerator())


def main() -> SystemOutputs:
    """Ask one question and print the output that an evaluation would score."""
    corpus = [
        Document("rhine", "The Rhine is a river in Europe. It flows into the North Sea."),
        Document("danube", "The Danube is a river in Europe. It flows into the Black Sea."),
    ]
    output = build(corpus).run(EvaluationSample("q1", "Into which sea does the Danube flow?"), top_k=2)
    for found in output.retrieved:
        print(f"{found.rank}. {found.doc.doc_id} (score {found.score:g})")  # noqa: T201
    print(output.response.text if output.response else "")  # noqa: T201
    return output


def _words(text: str) -> set[str]:
    """The distinct words of a text without stop words."""
    return set(_WORD.findall(text.lower())) - _COMMON


if __name__ == "__main__":
    main()
