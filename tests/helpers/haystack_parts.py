"""Haystack objects for tests, all in memory: a document store, pipelines over components that need no network."""

from typing import Any

import haystack
from haystack import Document, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.components.preprocessors import DocumentSplitter, RecursiveDocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

TEXTS = {f"d{n}": f"number {n} is about apples" + " and pears" * n for n in range(6)}


@component
class Answering:
    """A chat generator that answers with the number of its documents."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        if "break" in messages[-1].text:
            raise ValueError("the model is gone")
        usage = {"prompt_tokens": len(messages), "completion_tokens": 2}
        text = f"read {messages[-1].text.count('is about')}"
        return {"replies": [ChatMessage.from_assistant(text, meta={"usage": usage})]}


@component
class MetaGenerator:
    """A generator of the older kind: texts, and a separate list of metas."""

    @component.output_types(replies=list[str], meta=list[dict[str, Any]])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": [prompt.upper()], "meta": [{"usage": {"prompt_tokens": 3, "completion_tokens": 4}}]}


@component
class Silent:
    """A generator without a word."""

    @component.output_types(replies=list[str])
    def run(self, prompt: str) -> dict[str, Any]:
        return {"replies": []}


@component
class Listing:
    """A retriever that returns what it holds; it has no async form."""

    def __init__(self, documents: list[Any]) -> None:
        self.documents, self.warmed = documents, 0

    def warm_up(self) -> None:
        self.warmed += 1

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        return {"documents": list(self.documents)}


@component
class Reversing:
    """A ranker."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document], top_k: int = 3) -> dict[str, Any]:
        return {"documents": documents[::-1][:top_k]}


def document(name: str, text: str, score: float | None = None, **meta: Any) -> Any:
    return Document(id=name, content=text, meta=meta, score=score)


def documents(count: int = 6) -> list[Any]:
    return [document(name, text) for name, text in list(TEXTS.items())[:count]]


def bm25(top_k: int = 2) -> Any:
    store = InMemoryDocumentStore()
    store.write_documents(documents())
    return InMemoryBM25Retriever(store, top_k=top_k)


def pipeline(*connections: tuple[str, str], **components: Any) -> Any:
    # Before version 3 only another class could be awaited; it can also be called.
    made = getattr(haystack, "AsyncPipeline", haystack.Pipeline)()
    for name, one in components.items():
        made.add_component(name, one)
    for sender, receiver in connections:
        made.connect(sender, receiver)
    return made


def prompt_builder(template: str = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ question }}") -> Any:
    return ChatPromptBuilder(template=[ChatMessage.from_user(template)], required_variables="*")


def rag() -> Any:
    """Retriever, prompt, model."""
    return pipeline(
        ("retriever.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        retriever=bm25(),
        prompt=prompt_builder(),
        llm=Answering(),
    )


def rag_with_answers() -> Any:
    """The same with a ranker in between and an answer builder at the end."""
    return pipeline(
        ("retriever.documents", "ranker.documents"),
        ("ranker.documents", "prompt.documents"),
        ("prompt.prompt", "llm.messages"),
        ("llm.replies", "answers.replies"),
        ("ranker.documents", "answers.documents"),
        retriever=bm25(6),
        ranker=Reversing(),
        prompt=prompt_builder(),
        llm=Answering(),
        answers=AnswerBuilder(),
    )


def hybrid() -> Any:
    """Two retrievers, joined."""
    return pipeline(
        ("first.documents", "joined.documents"),
        ("second.documents", "joined.documents"),
        first=bm25(),
        second=Listing(documents(2)),
        joined=DocumentJoiner(),
    )


def cut(text: str, *, recursively: bool = False) -> list[Any]:
    """A document cut into chunks by the framework."""
    splitter: Any = (
        RecursiveDocumentSplitter(split_length=40, split_unit="char", separators=["\n", " "])
        if recursively
        else DocumentSplitter(split_by="word", split_length=5)
    )
    splitter.warm_up()
    chunks: list[Any] = splitter.run([document("book", text)])["documents"]
    return chunks
