"""Objects of other frameworks as systems: LangChain, LlamaIndex and Haystack, none of which is imported here.

=========== =======================================================================================
module      what it holds
=========== =======================================================================================
recognise   ``adapted``: whatever may be asked, wrapped where it comes from one of the frameworks
versions    the frameworks, their packages, and the versions that were tested
documents   a framework's documents as ours: ids, parents, spans, scores, plain metadata
replies     what pipelines say besides: texts of messages, tokens, earlier turns
systems     the shapes that adapted objects take: retrievers and pipelines, plain or asynchronous
langchain   ``from_langchain``: retrievers, chains and other runnables, generators
inputs      what a LangChain runnable wants to be given
watching    what happens inside a LangChain chain: retrievals, model calls, tokens
llamaindex  ``from_llamaindex``: retrievers, query engines, chat engines, synthesizers
haystack    ``from_haystack``: pipelines and single components
wiring      where a Haystack pipeline takes the question, and which component says what
=========== =======================================================================================
"""

from .haystack import from_haystack
from .langchain import from_langchain
from .llamaindex import from_llamaindex

__all__ = ["from_haystack", "from_langchain", "from_llamaindex"]
