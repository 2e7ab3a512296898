"""Cross-check: every number computed twice, by the fast path and by plain definitions, and against other tools.

cases    generated samples and outputs that are difficult on purpose
plain    the fast path against the plain definition of each registered metric
roc      the ROC measures against their definitions
peers    other tools where they are installed, and what is known to be wrong in them
report   the comparisons as rows, and the verdict
"""
