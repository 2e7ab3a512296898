"""Statistics over arrays: pure functions, independent of samples, metrics and runs.

* ``intervals``, ``bootstrap``: intervals of a mean and of other statistics, quantiles, exact sums
* ``difference``, ``skew``: intervals of differences between two runs, power, bounds that hold for skewed ones
* ``planning``: questions and repeats that a comparison needs
* ``permutation``: permutation tests, adjusted p-values, Tukey's HSD
* ``agreement``: agreement of raters, correlation
* ``calibration``: scores against labels: calibration, ROC measures, prediction-powered means
* ``stacking``: predicted labels: weights of judges, calibrators on cheap features
* ``partial_grades``: ranking measures from human grades of some pooled pairs and model grades of all
* ``groups``: terms whose samples fail more often, found on one half and tested on the other
* ``sampling``: which samples to label, and a forecast of the interval
* ``selection``: which of several configurations may be the best, the cheapest near it, elimination, main effects
* ``sequential``: designs that stop early: boundaries, repeated intervals and p-values, betting, futility

These modules rest on numpy. scikit-learn and scipy are oracles in the tests.
"""
