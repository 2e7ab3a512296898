"""Systems under evaluation: how they are built, called and adapted.

* ``interfaces``: the supported forms of a system, one interface to call them, systems given by an import path
* ``calls``: calls with concurrency, timeouts and retries; ``AueporaEvaluator``: call a system, score the outputs
* ``policy``: how often and how long a system is called; whether its first calls all fail in the same way
* ``http``, ``command``: systems given by an endpoint or a command
* ``json_mapping``: request templates, and paths into replies
* ``adapters``, ``langchain``, ``llamaindex``, ``haystack``: objects of other frameworks
"""
