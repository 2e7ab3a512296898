"""Statistics over arrays: pure functions, independent of samples, metrics and runs.

* ``intervals``: intervals of a mean, quantiles of Student's t, exact sums
* ``bootstrap``: intervals of other statistics, quantiles
* ``difference``: intervals of differences between two runs, and power
* ``permutation``: permutation tests, adjusted p-values, Tukey's HSD
* ``agreement``: agreement of raters, correlation
* ``calibration``: calibration error, confusion matrix, means corrected by labels
* ``roc``: AUROC, average precision, TPR at a bounded FPR

These modules rest on numpy. scikit-learn and scipy are oracles in the tests.
"""
