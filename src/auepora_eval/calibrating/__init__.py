"""Calibration of a judge with human labels: agreement, calibration error, and the corrected mean score.

==================  ===========================================================================================
``measure``         ``calibrate``: compare one set of scores, or two, with labels
``sample_weights``  whether the labelled samples are a random draw, and the weight of each
``sample_scores``   ``SampleScores``: scores by sample, from a metric of a stored run or from a file
``conclusion``      whether the judge can be used
``report``          ``CalibrationReport``: the result
``rendering``       the report as text and as Markdown
==================  ===========================================================================================
"""
