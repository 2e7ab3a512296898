"""The bundled BM25 retriever behind each framework's own interface, so that all return the same documents."""

from typing import Any

from auepora_eval.examples.quickstart.systems import BM25Retriever, corpus


def langchain() -> Any:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Handbook(BaseRetriever):
        bm25: Any
        k: int = 4

        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Any]:
            found = [item.doc for item in self.bm25.retrieve(query, top_k=self.k)]
            return [
                Document(
                    one.text, id=one.doc_id, metadata={"source": one.parent_id, "start_index": (one.span or (0, 0))[0]}
                )
                for one in found
            ]

    return Handbook(bm25=BM25Retriever(corpus()))


def llamaindex() -> Any:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

    class Handbook(BaseRetriever):
        def __init__(self, bm25: BM25Retriever) -> None:
            super().__init__()
            self.bm25, self.similarity_top_k = bm25, 2

        def _retrieve(self, query_bundle: QueryBundle) -> list[Any]:
            return [
                NodeWithScore(node=_node(item.doc), score=item.score)
                for item in self.bm25.retrieve(query_bundle.query_str, top_k=self.similarity_top_k)
            ]

    def _node(document: Any) -> Any:
        start, end = document.span
        node = TextNode(id_=document.doc_id, text=document.text, start_char_idx=start, end_char_idx=end)
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=document.parent_id)
        return node

    return Handbook(BM25Retriever(corpus()))


def haystack() -> Any:
    from haystack import Document, Pipeline, component

    @component
    class Handbook:
        def __init__(self, bm25: BM25Retriever) -> None:
            self.bm25 = bm25

        @component.output_types(documents=list[Document])
        def run(self, query: str, top_k: int = 10) -> dict[str, Any]:
            return {"documents": [_document(item) for item in self.bm25.retrieve(query, top_k=top_k)]}

    def _document(item: Any) -> Any:
        meta = {"source_id": item.doc.parent_id, "split_idx_start": item.doc.span[0]}
        return Document(id=item.doc.doc_id, content=item.doc.text, meta=meta, score=item.score)

    pipeline = Pipeline()
    pipeline.add_component("handbook", Handbook(BM25Retriever(corpus())))
    return pipeline
