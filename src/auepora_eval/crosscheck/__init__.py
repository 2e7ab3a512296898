"""Cross-check: every value computed twice, by the fast path and by plain definitions, and by other tools.

cases               generated samples and outputs with edge cases
plain_definitions   the fast path against the plain definition of each registered metric
roc                 the ROC measures against their definitions
peers, text_peers   other installed tools, and their known defects
report              the results, and the verdict
"""
