"""Asking a system: many calls at once, each with a deadline, failures recorded, nothing lost.

======== ==========================================================================================
module   what it holds
======== ==========================================================================================
ask      ``ask``: tasks go out, answers are delivered as they arrive; ``Asked`` says how it ended
policy   ``Task``, ``Answer``, ``CallPolicy``: what is asked, what came back, and the rules
systems  ``as_system``: the shapes a system may have
split    a retriever and a generator as one system
parts    the other way round: a system and its retriever, to put another one in its place
stop     ``Stop``: ends an asking from another thread or a signal handler
retry    which failures may pass, and how long to wait
callers  the asking thread itself, or daemon threads
loops    an event loop for asynchronous systems
attempt  one call and what came of it
outcome  what is recorded of it
======== ==========================================================================================
"""
