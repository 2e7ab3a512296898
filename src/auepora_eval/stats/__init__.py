"""Statistics over arrays: pure functions that know nothing of samples, metrics or runs.

======================  ======================================================================================
``interval``            ``mean_interval``, ``wilson_interval``, ``Moments``: confidence intervals of a mean
``bootstrap``           ``bootstrap_interval``, ``bootstrap_interval_of``: intervals of other statistics
``quantile``            ``quantile_of``, ``quantile_interval``: quantiles and their intervals
``difference``          ``paired_differences``, ``paired_interval``, ``newcombe_interval``: differences of two means
``paired_bootstrap``    ``paired_bootstrap``, ``paired_bootstraps``, ``paired_bootstrap_of``: of other statistics
``sign_flips``          ``sign_flips``: paired permutation test of means
``permutation``         ``permutation_test``: paired permutation test of other statistics
``adjust``              ``max_t``, ``holm``: p-values adjusted for several metrics
``tukey``               ``tukey_hsd``: which of several runs differ, all pairs at once
``power``               ``mde``, ``required_n``, ``effect_size``, ``unit_sd``: power of a comparison
``integer_sums``        exact sums that do not depend on the order of summation
``distances``           mean cosines of vectors with each other, in time linear in the vectors
``student_t``           ``t_quantile``: quantiles of Student's t, with the standard library only
``roc``                 ``auroc``, ``average_precision``, ``tpr_at_fpr``: how well scores separate two classes
``estimate``            ``Estimate``: a value with its interval, or why it is undefined
``agreement``           ``krippendorff_alpha``, ``cohen_kappa``, ``agreement``: agreement of raters
``correlation``         ``pearson``, ``spearman``, ``kendall``: correlation of two columns
``raters``              ``raters_report``: agreement of each pair of raters, and of all together
``calibration``         ``expected_calibration_error``, ``brier_score``, ``confusion``: scores against labels
``association``         ``association_p_value``: whether higher scores go with higher labels
``prediction_powered``  ``corrected_mean``: scores of all samples, corrected by labels of some
======================  ======================================================================================

These modules rest on numpy. scikit-learn and scipy are oracles in the tests.
"""
