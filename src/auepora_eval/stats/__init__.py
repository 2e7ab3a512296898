"""Statistics over arrays: pure functions that know nothing of samples, metrics or runs.

======================  ======================================================================================
``interval``            ``mean_interval``, ``wilson_interval``, ``Moments``: how far a mean may be off
``resample``            ``bootstrap_interval``, ``bootstrap_interval_of``, ``resampled``: the same for what is no mean
``quantile``            ``quantile_of``, ``quantile_interval``: the value that a share of all values do not exceed
``difference``          ``paired_differences``, ``paired_interval``, ``newcombe_interval``: two means, and how far apart
``paired_bootstrap``    ``paired_bootstrap``, ``paired_bootstraps``, ``paired_bootstrap_of``: for what is no mean
``paired``              ``sign_flips``: how often chance alone would make two runs differ as much as they do
``swaps``               ``swap_flips``: the same for what is no mean
``adjust``              ``max_t``, ``holm``: p-values of several metrics at once
``tukey``               ``tukey_hsd``: which of several runs differ, all pairs at once
``power``               ``mde``, ``n_for``, ``effect_size``, ``unit_sd``: what a comparison of so many units can see
``whole``               sums of whole numbers, which no order of adding changes
``distances``           mean cosines of vectors with each other, in time that grows with the vectors, not the pairs
``student``             ``t_quantile``: of Student's t, by the standard library alone
``roc``                 ``auroc``, ``average_precision``, ``tpr_at_fpr``: how well scores tell two classes apart
``measured``            ``Measured``: a number with its interval, or why there is none
``agreement``           ``krippendorff_alpha``, ``cohen_kappa``, ``agreement``: how far raters say the same
``correlation``         ``pearson``, ``spearman``, ``kendall``: whether two columns of numbers rise together
``raters``              ``raters_report``: several raters at once, every pair of them and all together
``calibration``         ``expected_calibration_error``, ``brier_score``, ``confusion_rates``: scores against labels
``chance``              ``chance_p_value``: whether scores go with labels beyond chance
``prediction_powered``  ``corrected_mean``: scores of all samples, corrected by labels of some
======================  ======================================================================================

These modules rest on numpy. scikit-learn and scipy are oracles in the tests.
"""
