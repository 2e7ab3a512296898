"""Calibration of judges: their scores compared with human labels.

* ``scores``: scores by sample, of a stored run or of a file
* ``calibrate``: agreement of scores and labels, calibration error, corrected means, the register of verdicts
* ``report``: when a judge is usable; the report and its rendering
* ``earlier_labels``: labels predicted from those of earlier runs
* ``label_plans``: batches of labels for a judge or for two runs, and what they can decide
* ``panel_weights``: stacked weights of a panel, learned from human labels
* ``bias``: dependence of a judge on length, position and model family
"""
