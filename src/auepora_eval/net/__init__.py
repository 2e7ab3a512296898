"""Network access shared by judges, models and systems.

* ``client``: the HTTP client; URLs and headers, checked and shown without secrets; proxies
* ``retry``: which errors are transient, the backoff, and the retry loop
"""
