"""Network access shared by judges, models and systems.

* ``urls``: URLs and headers, checked and shown without secrets; deadlines
* ``retry``: which errors are transient, the backoff, and the retry loop
"""
