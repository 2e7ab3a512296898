"""LangChain objects for tests, all in memory: vector stores, retrievers of several kinds, chains over a fake model."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models.fake_chat_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

TEXTS = {f"d{n}": f"text number {n}" for n in range(6)}


def vector_store() -> Any:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    store.add_documents([Document(text, id=name, metadata={"page": 1}) for name, text in TEXTS.items()])
    return store


class Listing(BaseRetriever):
    """Returns all its documents for every query; has no ``k``."""

    contents: list[Any]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Any]:
        if query == "break":
            raise ValueError("the index is gone")
        return list(self.contents)


class Replying(Listing):
    """Returns anything, be it documents or not."""

    reply: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
        return self.reply


class WithField(Listing):
    """Has a field ``k``, as BM25 and TF-IDF retrievers do."""

    k: int = 2

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Any]:
        return list(self.contents)[: self.k]


class WithParameter(Listing):
    """Takes how many as an argument."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, top_k: int = 2
    ) -> list[Any]:
        return list(self.contents)[:top_k]


class Asking(BaseRetriever):
    """Asks another retriever through a chain, as those that rewrite the query do."""

    inner: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Any]:
        chain = RunnableLambda(lambda text: f"{text} again") | self.inner
        return list(reversed(chain.invoke(query, config={"callbacks": run_manager.get_child()})))


def documents(count: int = 6) -> list[Any]:
    return [Document(text, id=name) for name, text in list(TEXTS.items())[:count]]


def model(answer: str = "yes", tokens: tuple[int, int] | None = None) -> Any:
    if tokens is None:
        return FakeListChatModel(responses=[answer])
    counted = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens)}
    return FakeMessagesListChatModel(responses=[AIMessage(answer, usage_metadata=counted)])


def prompt(*names: str) -> Any:
    return ChatPromptTemplate.from_template(" ".join(f"{{{name}}}" for name in names))


def text_chain(retriever: Any, answering: Any) -> Any:
    """The usual one: a question in, a text out, without the retrieved documents."""
    found = retriever | RunnableLambda(lambda docs: "\n".join(doc.page_content for doc in docs))
    return (
        {"context": found, "question": RunnablePassthrough()}
        | prompt("context", "question")
        | answering
        | StrOutputParser()
    )


def dict_chain(retriever: Any, answering: Any) -> Any:
    """A dict in, a dict out, with the documents and the answer in it."""
    found = RunnablePassthrough.assign(context=RunnableLambda(lambda given: given["input"]) | retriever)
    return found.assign(answer=prompt("context", "input") | answering | StrOutputParser())


def parallel_chain(retriever: Any, answering: Any) -> Any:
    """A text in, a dict out."""
    found = RunnableParallel(context=retriever, question=RunnablePassthrough())
    return found.assign(answer=prompt("context", "question") | answering | StrOutputParser())


def chat_chain(answering: Any) -> Runnable:
    """Takes earlier turns with the question."""
    messages = [MessagesPlaceholder("chat_history", optional=True), ("human", "{question}")]
    return ChatPromptTemplate.from_messages(messages) | answering


def function(body: Any) -> Any:
    return RunnableLambda(body)
