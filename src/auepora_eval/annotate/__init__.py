"""Annotation by people: labels of answers, pools of documents with grades, and the calibration of judges."""
