"""Charts as Vega-Lite specs made from plain data, and our own drawing of them.

chart          Chart: a spec that draws itself
intervals      values with their intervals; one metric by slice
forest         differences with their intervals and verdicts; split into retrieval and generation
distributions  how scores and waiting times are spread
curves         metrics over k, over noise, over the rank of the first hit
queries        two runs query by query; wins and losses
causes         why answers were wrong
spec, theme, ticks, words   what specs are made of
svg            the drawing
"""

from .chart import Chart
from .intervals import interval_chart, slices_chart

__all__ = ["Chart", "interval_chart", "slices_chart"]
