"""Calling a system: many calls at once, each with a deadline, with retries and recorded failures.

=====================  =====================================================================================
``calls``              ``call_system``: calls the system for many tasks and delivers the outputs as they arrive
``policy``             ``Task``, ``TaskOutput``, ``CallPolicy``: calls to make, their outputs, and the limits
``systems``            ``as_system``: the supported forms of a system
``retrieve_generate``  a retriever and a generator combined into one system
``system_parts``       a system decomposed into its retriever and the rest
``stop``               ``Stop``: stops the calls from another thread or a signal handler
``retry``              which failures are transient, and the backoff
``callers``            calls in the calling thread, or in daemon threads
``loops``              calls in an event loop, for asynchronous systems
``attempt``            one call and its result
``outcome``            the recorded output of an attempt
=====================  =====================================================================================
"""
