"""Cross-check of every metric: the fast path compared with the plain definition and with other tools.

* ``checks``: generated cases, and the comparison with plain definitions
* ``peers``: the comparison with other installed tools, and their known defects
"""
