"""Annotation by people: labels of answers, pools of documents with grades, and the calibration of judges.

* ``draws``: random draws of samples for labelling, and designs of comparisons
* ``sample_weights``: which labels a statistic may use, and the weight of each sample
* ``session``: a labelling session: items, the form as a state machine, the label file, the form in a terminal
* ``batches``: batches of items to label, and the queue from which several annotators label them
* ``batch_plans``: the draw and the forecast of a batch, and its files
* ``agreement``: which labels count, and agreement between annotators
* ``pool``: the union of the top documents of several runs, draws of pairs to grade, and human grades
* ``relevance``: grading of pooled documents by a judge; metrics corrected by human grades for some of them
* ``corrections``: corrections of gold: proposals from a sample, their effect on all runs, rescoring with them
* ``calibration``: scores of a judge compared with human labels
* ``stacked_weights``: stacked weights of a panel, learned from human labels
* ``bias``: dependence of a judge on length, position and model family
* ``calibration_report``: the report of a calibration: conclusion, rendering
"""
