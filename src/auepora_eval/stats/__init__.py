"""Statistics over arrays: pure functions that know nothing of samples, metrics or runs.

=============  =============================================================================================
``interval``   ``mean_interval``, ``wilson_interval``, ``Moments``: how far a mean may be from the true one
``resample``   ``bootstrap_interval``, ``bootstrap_interval_of``, ``resampled``: the same for what is no mean
``quantile``   ``quantile_of``, ``quantile_interval``: the value that a share of all values do not exceed
``distances``  mean cosines of vectors with each other, in time that grows with the vectors, not the pairs
``student``    ``t_quantile``: of Student's t, by the standard library alone
``roc``        ``auroc``, ``average_precision``, ``tpr_at_fpr``: how well scores tell two classes apart
=============  =============================================================================================

These modules rest on numpy. scikit-learn and scipy are oracles in the tests.
"""
