"""Adapters that make objects of LangChain, LlamaIndex and Haystack usable as systems; none of them is imported here.

============== ====================================================================================
module         contents
============== ====================================================================================
auto_adapt     ``adapt``: wrap objects of a supported framework in their adapter
detection      which framework an object belongs to
versions       the frameworks, their packages, and the tested versions
documents      conversion of documents: ids, parents, spans, scores, plain metadata
replies        answers, token usage and earlier turns
systems        adapted retrievers and pipelines, synchronous or asynchronous
langchain      ``from_langchain``: retrievers, chains and other runnables, generators
inputs         the input format of a LangChain runnable
trace_callback a LangChain callback that records retrievals, model calls and tokens
llamaindex     ``from_llamaindex``: retrievers, query engines, chat engines, synthesizers
haystack       ``from_haystack``: pipelines and single components
wiring         the sockets of a Haystack pipeline that take the question and give documents and answers
============== ====================================================================================
"""

from .haystack import from_haystack
from .langchain import from_langchain
from .llamaindex import from_llamaindex

__all__ = ["from_haystack", "from_langchain", "from_llamaindex"]
