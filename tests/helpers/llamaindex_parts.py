"""LlamaIndex objects for tests, all in memory: an index over a fake embedding, engines over a fake model."""

import hashlib
import time
from typing import Any

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

TEXTS = {f"d{n}": f"text number {n}" for n in range(6)}


class HashEmbedding(BaseEmbedding):
    """The same text always has the same vector."""

    def _vector(self, text: str) -> list[float]:
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:8]]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)


class Listing(BaseRetriever):
    """Returns all its nodes for every query."""

    def __init__(self, nodes: list[Any]) -> None:
        super().__init__()
        self.nodes = nodes

    def _retrieve(self, query_bundle: QueryBundle) -> list[Any]:
        if query_bundle.query_str == "break":
            raise ValueError("the index is gone")
        return list(self.nodes)


class Shouting(CustomQueryEngine):
    """An engine that only answers."""

    def custom_query(self, query_str: str) -> str:
        return query_str.upper()


def nodes(count: int = 6) -> list[Any]:
    unseen = {"metadata": {"page": 1}, "excluded_embed_metadata_keys": ["page"]}
    return [TextNode(id_=name, text=text, **unseen) for name, text in list(TEXTS.items())[:count]]


def index() -> Any:
    return VectorStoreIndex(nodes(), embed_model=HashEmbedding())


def index_of_chunks(text: str) -> Any:
    """An index of one document, cut into chunks by the framework."""
    splitter = TokenTextSplitter(chunk_size=60, chunk_overlap=10)
    document = Document(text=text, id_="book")
    return VectorStoreIndex.from_documents([document], embed_model=HashEmbedding(), transformations=[splitter])


def scored(node: Any, score: float | None) -> Any:
    return NodeWithScore(node=node, score=score)


def chunk(name: str, text: str, parent: str, start: int) -> Any:
    node = TextNode(id_=name, text=text, start_char_idx=start, end_char_idx=start + len(text))
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=parent)
    return node


def model() -> Any:
    return MockLLM(max_tokens=3)


class CountingLLM(CustomLLM):
    """Answers "yes it is" and reports as many prompt tokens as the prompt has words; it chats by completing text."""

    form: str = "usage"

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="counting")

    def _reply(self, prompt: str, text: str, delta: str | None = None) -> CompletionResponse:
        words = len(prompt.split())
        if self.form == "usage":
            raw: Any = {"model": "counting", "usage": {"prompt_tokens": words, "completion_tokens": 3}}
            return CompletionResponse(text=text, raw=raw, delta=delta)
        if self.form == "usage_metadata":
            raw = {"usage_metadata": {"prompt_token_count": words, "candidates_token_count": 3}}
            return CompletionResponse(text=text, raw=raw, delta=delta)
        counts = {"prompt_tokens": words, "completion_tokens": 3}
        return CompletionResponse(text=text, raw={"id": 1}, additional_kwargs=counts, delta=delta)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if "break" in prompt:
            raise ValueError("the model is gone")
        return self._reply(prompt, "yes it is")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self._reply(prompt, "yes", "yes")
        time.sleep(0.05)
        yield self._reply(prompt, "yes it is", " it is")


def chat_engine(retriever: Any, llm: Any = None) -> Any:
    memory = ChatMemoryBuffer.from_defaults(token_limit=1_000)
    return ContextChatEngine.from_defaults(retriever=retriever, llm=llm or model(), memory=memory)


def synthesizer(llm: Any = None) -> Any:
    return get_response_synthesizer(llm=llm or model(), response_mode="compact")
