"""The bias of a judge at an earlier path (re-exports ``calibration.bias``)."""

from ..calibration.bias import measure_bias

__all__ = ["measure_bias"]
