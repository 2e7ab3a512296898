"""Statistics over arrays: pure functions that know nothing of samples, metrics or runs.

=======  ==================================================================================================
``roc``  ``auroc``, ``average_precision``, ``tpr_at_fpr``: how well scores tell two classes apart
=======  ==================================================================================================

These modules rest on numpy alone. scikit-learn is an oracle in the tests.
"""
