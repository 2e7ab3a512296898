"""Charts as Vega-Lite specs made from plain data, and the SVG renderer for them.

* ``chart``: ``Chart``, a spec that renders itself, and builders of specs
* ``layout``: labels, colours, axis ranges and ticks
* ``intervals``: values and differences with their intervals
* ``curves``: curves over k, over noise, over ranks, over runs and over the looks of a sequential test;
  histograms
* ``queries``: two runs query by query; causes of wrong answers
* ``svg``: the SVG renderer
"""

from .chart import Chart
from .curves import (
    curve_over_k,
    distribution_chart,
    latency_chart,
    looks_chart,
    noise_curve,
    quality_by_rank,
    trend_chart,
)
from .intervals import forest_chart, interval_chart, slices_chart, split_chart
from .queries import causes_chart, scatter_chart, wins_losses_chart

__all__ = [
    "Chart",
    "causes_chart",
    "curve_over_k",
    "distribution_chart",
    "forest_chart",
    "interval_chart",
    "latency_chart",
    "looks_chart",
    "noise_curve",
    "quality_by_rank",
    "scatter_chart",
    "slices_chart",
    "split_chart",
    "trend_chart",
    "wins_losses_chart",
]
