"""Calibration at an earlier path (re-exports modules of ``calibration``)."""

from ..calibration.calibrate import calibrate
from ..calibration.earlier_labels import predict_labels
from ..calibration.scores import read_score_file

__all__ = ["calibrate", "predict_labels", "read_score_file"]
